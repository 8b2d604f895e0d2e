//! A client and its handles: requested twice, dropped, closed, ended with the runtime.

use semaphore_core::{Client, Error, blocking};
use transport_mock::consul::{Policy, Session};
use transport_mock::{MockConsul, RequestKind};

use super::{client, hold_each, numbered};
use crate::support::*;

#[test]
fn a_semaphore_that_is_asked_for_with_each_request_is_one_participant() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let client = client.clone();
            world.start(async move {
                let semaphore = client.semaphore("service/db", 3)?;
                let permit = semaphore.acquire().await?;
                permit.release().await
            })
        })
        .collect();
    for task in tasks {
        world.run(task).expect("a turn");
    }
    let polls = world.stats_of("a").peak_open;
    assert!(polls <= 10, "{polls} requests at once");
    world.run(client.shutdown());
    assert_nothing_left(&world);
}

#[test]
fn hundreds_that_are_made_and_dropped_leave_nothing() {
    are_made_and_dropped(300);
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn thousands_that_are_made_and_dropped_leave_nothing() {
    are_made_and_dropped(2_000);
}

fn are_made_and_dropped(semaphores: usize) {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    for number in 0..semaphores {
        let permit = world.run(numbered(&client, number).acquire());
        world
            .run(permit.expect("a slot").release())
            .expect("released");
    }
    world.advance(KEPT);
    assert_eq!(session_count(&world), 0);
    let stats = world.stats();
    world.advance(secs(600));
    assert_eq!(world.stats(), stats, "nothing is sent any more");
}

#[test]
fn a_semaphore_goes_on_when_its_client_is_dropped() {
    let world = MockConsul::new(1);
    let semaphore = numbered(&client(&world, "a"), 0);
    let permit = world.run(semaphore.acquire()).expect("a slot");
    world.advance(secs(60));
    assert!(permit.is_held());
    world.run(permit.release()).expect("released");
    drop(semaphore);
    world.advance(millis(100));
    assert_eq!(session_count(&world), 0, "{}", world.trace());
}

#[test]
fn a_shutdown_waits_until_nothing_of_anybody_is_left() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let permits = hold_each(&world, &client, 3);
    let mut down = {
        let client = client.clone();
        world.start(async move { client.shutdown().await })
    };
    world.advance(secs(30));
    assert!(down.try_take().is_none(), "all of them are held");
    assert!(permits.iter().all(semaphore_core::Permit::is_held));
    drop(permits);
    world.run(down);
    assert_eq!(session_count(&world), 0, "{}", world.trace());
    let late = client.semaphore("service/late", 3);
    assert!(matches!(late, Err(Error::Closed { .. })), "{late:?}");
}

#[test]
fn one_that_was_closed_does_not_close_what_is_asked_for_after_it() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let first = numbered(&client, 0);
    first.close();
    assert!(first.is_closed());
    let again = numbered(&client, 0);
    assert!(!again.is_closed());
    let permit = world.run(again.acquire()).expect("a slot");
    world.run(permit.release()).expect("released");
}

#[test]
fn other_options_make_another_participant_that_stands_on_other_sessions() {
    let world = MockConsul::new(1);
    let client = client(&world, "a");
    let [first, second] = ["one", "two"].map(|value| {
        let builder = builder_of("service/db", 2).value(value);
        builder.connect(client.clone()).expect("valid settings")
    });
    let [first, second] = [first, second].map(|it| world.run(it.acquire()).expect("a slot"));
    assert_ne!(super::session_of(&first), super::session_of(&second));
    world.advance(secs(60));
    assert!(first.is_held() && second.is_held());
}

#[test]
fn what_the_client_is_told_holds_for_all_unless_they_are_told_otherwise() {
    let world = MockConsul::new(1);
    world.consul(|consul, _| {
        consul.set_acl_default_deny();
        consul.add_token("secret", Policy::management());
    });
    let builder = Client::builder()
        .value("told")
        .token("secret")
        .ttl(secs(30));
    let client = builder.connect(world.client("a"));
    let client = client.expect("valid options");
    let semaphore = client.semaphore("service/db", 3).expect("valid settings");
    let permit = world.run(semaphore.acquire()).expect("a slot");
    let snapshot = world.run(semaphore.inspect()).expect("a semaphore");
    assert_eq!(snapshot.holders[0].value, b"told");
    let ttl = world.consul(|consul, _| consul.sessions().next().and_then(Session::ttl));
    assert_eq!(ttl, Some(secs(30)));
    world.run(permit.release()).expect("released");
}

#[test]
fn a_blocking_client_shares_as_the_other_does() {
    let world = MockConsul::new(1);
    let builder = blocking::Client::builder();
    let client = builder.connect(world.client("a")).expect("valid options");
    let permits: Vec<_> = (0..20)
        .map(|number| {
            let semaphore = client.semaphore(format!("service/{number}"), 3);
            semaphore
                .expect("valid settings")
                .acquire()
                .expect("a slot")
        })
        .collect();
    assert_eq!(session_count(&world), 1);
    let creations = world.stats().requests_of(RequestKind::SessionCreate);
    assert_eq!(creations, 1);
    for permit in permits {
        permit.release().expect("released");
    }
    client.shutdown();
    assert_eq!(session_count(&world), 0);
}

#[test]
fn what_one_is_told_of_its_sessions_comes_on_top_of_what_the_client_says() {
    let world = MockConsul::new(1);
    let builder = Client::builder().ttl(secs(30)).session_name("shared");
    let client = builder.connect(world.client("a"));
    let client = client.expect("valid options");
    let builder = builder_of("service/db", 3).session_name("alone");
    let semaphore = builder.connect(client).expect("valid settings");
    let _permit = world.run(semaphore.acquire()).expect("a slot");
    let made = world.consul(|consul, _| {
        let mut sessions = consul.sessions();
        sessions.next().map(|it| (it.ttl(), it.name().to_owned()))
    });
    assert_eq!(made, Some((Some(secs(30)), "alone".to_owned())));
}
