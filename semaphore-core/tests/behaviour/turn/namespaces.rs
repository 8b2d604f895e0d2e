//! Namespaces and partitions of Consul Enterprise. Sessions, keys, lists and the record are all in
//! the handle's namespace, and nothing is elsewhere.

use semaphore_core::{Builder, Error};
use transport_mock::MockConsul;
use transport_mock::consul::{Edition, Profile, Tenancy, Version};

use crate::support::election::*;
use crate::support::*;

/// Every Enterprise release with partitions.
fn worlds() -> impl Iterator<Item = MockConsul> {
    let profiles = Profile::all().filter(|it| it.edition == Edition::Enterprise);
    let profiles = profiles.filter(|it| it.version != Version::V1_8);
    profiles.map(|profile| MockConsul::with_profile(1, profile))
}

fn west() -> Tenancy {
    Tenancy::of_namespace("team").in_partition("west")
}

fn in_west(builder: Builder) -> Builder {
    builder.namespace("team").partition("west")
}

/// The contents of each namespace: its keys, and its number of sessions. Empty ones are left out.
fn contents(world: &MockConsul) -> Vec<(Tenancy, Vec<String>, usize)> {
    world.consul(|consul, _| {
        let tenancies: Vec<_> = consul.tenancies().cloned().collect();
        let contents = tenancies.into_iter().map(|tenancy| {
            let keys = consul.entries_in(&tenancy, "");
            let keys: Vec<_> = keys.map(transport_mock::consul::Entry::key).collect();
            let sessions = consul.sessions_in(&tenancy).count();
            (tenancy, keys, sessions)
        });
        let is_empty =
            |(_, keys, sessions): &(_, Vec<String>, usize)| keys.is_empty() && *sessions == 0;
        contents.filter(|it| !is_empty(it)).collect()
    })
}

#[test]
fn an_agent_without_namespaces_refuses_at_once_and_the_error_names_which() {
    let world = MockConsul::new(1);
    let semaphore = connect(builder(1).namespace("team"), &world.client("a"));
    let election = elect_with(builder_for(KEY).namespace("team"), &world.client("b"));
    let before = world.now();
    let errors = [
        world.run(semaphore.acquire()).expect_err("no namespaces"),
        world.run(semaphore.inspect()).expect_err("no namespaces"),
        world.run(election.campaign()).expect_err("no namespaces"),
    ];
    for error in errors {
        let Error::Request(error) = error else {
            panic!("{error:?}");
        };
        assert!(error.to_string().contains("namespace \"team\""), "{error}");
    }
    assert!(world.now().saturating_since(before) < millis(100));
}

#[test]
fn the_record_its_keys_and_the_sessions_are_in_one_namespace() {
    for world in worlds() {
        let first = connect(in_west(builder(1)), &world.client("a"));
        let second = connect(in_west(builder(1)), &world.client("b"));
        let permit = world.run(first.acquire()).expect("a permit");
        let waiting = world.start(async move { second.acquire().await.expect("a permit") });
        world.advance(secs(30));

        let held = contents(&world);
        let [(tenancy, keys, sessions)] = held.as_slice() else {
            panic!("{held:?}");
        };
        assert_eq!((tenancy, *sessions), (&west(), 2));
        assert_eq!(keys.len(), 3, "the record and two contenders: {keys:?}");
        assert!(keys.contains(&format!("{PREFIX}/.lock")), "{keys:?}");

        world.run(permit.release()).expect("released");
        let next = world.run(waiting);
        world.run(next.release()).expect("released");
        world.advance(KEPT);
        let left = contents(&world);
        let record = vec![format!("{PREFIX}/.lock")];
        assert_eq!(left, [(west(), record, 0)], "{}", world.trace());
    }
}

#[test]
fn one_prefix_in_two_namespaces_is_two_semaphores() {
    for world in worlds() {
        let here = connect(builder(1), &world.client("a"));
        let team = connect(builder(1).namespace("team"), &world.client("b"));
        let there = connect(in_west(builder(1)), &world.client("c"));
        let permits = [&here, &team, &there].map(|it| world.run(it.acquire()).expect("a permit"));
        let held: Vec<_> = contents(&world).into_iter().map(|(it, ..)| it).collect();
        assert_eq!(held.len(), 3, "{held:?}");
        let another = world.run(here.try_acquire()).expect("asked");
        assert!(another.is_err(), "its only slot is taken");
        for permit in permits {
            world.run(permit.release()).expect("released");
        }
    }
}

#[test]
fn who_names_the_default_namespace_meets_who_names_none() {
    for world in worlds() {
        let named = builder(1).namespace("default").partition("default");
        let named = connect(named, &world.client("a"));
        let unnamed = connect(builder(1), &world.client("b"));
        let permit = world.run(named.acquire()).expect("a permit");
        let another = world.run(unnamed.try_acquire()).expect("asked");
        assert!(another.is_err(), "its only slot is taken");
        world.run(permit.release()).expect("released");
        let again = world.run(unnamed.acquire()).expect("free again");
        world.run(again.release()).expect("released");
        assert_eq!(contents(&world).len(), 1);
    }
}

#[test]
fn an_election_is_in_one_namespace() {
    for world in worlds() {
        let builder = builder_for(KEY).namespace("team").partition("west");
        let election = elect_with(builder.value("a"), &world.client("a"));
        let leadership = world.run(election.campaign()).expect("elected");
        world.run(leadership.set_value("b")).expect("set");
        world.advance(secs(30));
        assert_eq!(contents(&world), [(west(), vec![KEY.to_owned()], 1)]);
        world.run(leadership.resign()).expect("resigned");
        world.advance(KEPT);
        let sessions: usize = contents(&world).iter().map(|(.., sessions)| sessions).sum();
        assert_eq!(sessions, 0, "{}", world.trace());
    }
}
