//! Asking once who leads.

use semaphore_core::sans_io::api::{LOCK_FLAGS, SEMAPHORE_FLAGS};
use semaphore_core::sans_io::{Method, Response};
use semaphore_core::{
    Behavior, Conflict, Discovery, Error, InvalidInput, LeaderStatus, RequestError, Scope, Token,
    blocking,
};
use transport_mock::consul::{Access, Policy};
use transport_mock::{Fault, MockConsul, RequestKind, Rule};

use crate::support::candidate::{Candidate, LEADER};
use crate::support::election::{builder_for, elect_with};
use crate::support::stranger::operate;
use crate::support::*;

fn discovery(world: &MockConsul) -> Discovery {
    discovery_of(world, LEADER, Scope::new())
}

fn discovery_of(world: &MockConsul, key: &str, scope: Scope) -> Discovery {
    Discovery::builder(key)
        .scope(scope)
        .connect(world.client("looker"))
        .expect("a key")
}

fn with_token(token: &str) -> Scope {
    Scope::new().with_token(Token::new(token).expect("a token"))
}

#[test]
fn the_leader_is_found_with_one_read_and_no_session() {
    let world = MockConsul::new(1);
    let candidate = Candidate::leading(&world, "10.0.0.7:8080");
    let leader = world.run(discovery(&world).leader()).expect("an answer");
    let leader = leader.expect("a leader");
    assert_eq!(leader.text(), Some("10.0.0.7:8080"));
    assert_eq!(leader.session, candidate.session);
    assert_eq!(
        leader.sequencer().to_string(),
        format!("1:{}:{LEADER}", candidate.session)
    );
    let stats = world.stats_of("looker");
    assert_eq!(stats.total_requests(), 1, "{stats:?}");
    assert_eq!(stats.requests_of(RequestKind::KvRead), 1, "{stats:?}");
}

#[test]
fn who_holds_is_told_by_a_second_read() {
    let world = MockConsul::new(1);
    let candidate = Candidate::leading(&world, "node-1");
    let discovery = discovery(&world);
    let leader = world.run(discovery.leader()).expect("an answer");
    let leader = leader.expect("a leader");
    let holder = world.run(discovery.holder(&leader)).expect("an answer");
    let holder = holder.expect("a session");
    assert_eq!(holder.name, "candidate");
    assert!(!holder.node.is_empty());
    assert_eq!(holder.ttl, Some(secs(86_400)));
    assert_eq!(holder.behavior, Some(Behavior::Release));
    assert_eq!(holder.lock_delay, Some(secs(0)));
    assert_eq!(holder.checks, [""; 0]);
    candidate.dies(&world);
    let holder = world.run(discovery.holder(&leader)).expect("an answer");
    assert_eq!(holder, None);
    assert_eq!(world.stats_of("looker").total_requests(), 3);
}

#[test]
fn the_checks_that_end_a_leaders_session_are_told() {
    let world = MockConsul::new(1);
    let created = operate(&world, Method::Put, "/v1/session/create", "");
    let created: serde_json::Value = serde_json::from_slice(created.body()).expect("JSON");
    let session = created["ID"].as_str().expect("an id");
    let target = format!("/v1/kv/{LEADER}?acquire={session}");
    operate(&world, Method::Put, &target, "by hand");
    let discovery = discovery(&world);
    let leader = world.run(discovery.leader()).expect("an answer");
    let leader = leader.expect("a leader");
    let holder = world.run(discovery.holder(&leader)).expect("an answer");
    let holder = holder.expect("a session");
    assert_eq!(holder.checks, ["serfHealth"]);
    assert_eq!(holder.ttl, None);
}

#[test]
fn a_key_that_was_never_there_has_no_leader_and_no_value() {
    let world = MockConsul::new(1);
    let discovery = discovery(&world);
    let status = world.run(discovery.status()).expect("an answer");
    assert_eq!(status, LeaderStatus::Leaderless { last_value: None });
    assert_eq!(world.run(discovery.leader()).expect("an answer"), None);
}

#[test]
fn what_a_former_leader_said_is_no_leaders() {
    let world = MockConsul::new(1);
    let candidate = Candidate::leading(&world, "node-1");
    candidate.dies(&world);
    let discovery = discovery(&world);
    let status = world.run(discovery.status()).expect("an answer");
    let last_value = Some(b"node-1".to_vec());
    assert_eq!(status, LeaderStatus::Leaderless { last_value });
    assert_eq!(status.leader(), None);
    assert_eq!(world.run(discovery.leader()).expect("an answer"), None);
}

#[test]
fn a_semaphores_keys_are_refused_as_an_elections() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a slot");
    let guide = r#"{"Limit":1,"Holders":[]}"#;
    operate(&world, Method::Put, "/v1/kv/guide/.lock", guide);
    let keys = [
        format!("{PREFIX}/.lock"),
        permit.sequencers()[0].key.clone(),
        "guide/.lock".to_owned(),
    ];
    for wanted in keys {
        let discovery = discovery_of(&world, &wanted, Scope::new());
        let error = world.run(discovery.leader()).expect_err("a conflict");
        let Error::NotAnElection { key, conflict, .. } = error else {
            panic!("{wanted}: {error:?}");
        };
        assert_eq!((key, conflict), (wanted, Conflict::Semaphore));
    }
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}

#[test]
fn whoever_asks_and_whoever_campaigns_agree_on_whose_key_it_is() {
    for (value, is_free) in [("configuration", false), ("", true)] {
        let world = MockConsul::new(1);
        let target = format!("/v1/kv/{LEADER}");
        operate(&world, Method::Put, &target, value);
        let asked = world.run(discovery(&world).leader());
        let election = elect_with(builder_for(LEADER), &world.client("a"));
        let campaigned = world.run(election.campaign());
        assert_eq!(asked.is_ok(), is_free, "{asked:?}");
        assert_eq!(campaigned.is_ok(), is_free, "{campaigned:?}");
        let conflicts = [asked.err(), campaigned.map(drop).err()];
        for error in conflicts.into_iter().flatten() {
            let Error::NotAnElection { conflict, .. } = error else {
                panic!("{error:?}");
            };
            assert_eq!(conflict, Conflict::ElectionFlags { flags: 0 });
        }
    }
}

#[test]
fn a_key_of_another_tool_is_a_conflict_and_those_of_go_and_of_the_guide_are_none() {
    for (flags, is_election) in [
        (0, true),
        (LOCK_FLAGS, true),
        (1, false),
        (LOCK_FLAGS + 1, false),
        (SEMAPHORE_FLAGS, false),
    ] {
        let world = MockConsul::new(1);
        let candidate = Candidate::new(&world);
        assert!(candidate.acquires(&world, LEADER, "node-1", flags));
        let found = world.run(discovery(&world).leader());
        if is_election {
            let leader = found.expect("an answer").expect("a leader");
            assert_eq!(leader.text(), Some("node-1"));
        } else {
            assert!(
                matches!(found, Err(Error::NotAnElection { .. })),
                "{found:?}"
            );
            assert_eq!(world.stats_of("looker").total_requests(), 1, "no retry");
        }
    }
}

#[test]
fn a_key_that_consul_would_read_as_another_is_refused_before_anything_is_sent() {
    let world = MockConsul::new(1);
    for key in ["", "a//b", "a/../b", "a\nb"] {
        let refused = Discovery::builder(key).connect(world.client("looker"));
        assert!(
            matches!(
                refused,
                Err(Error::InvalidInput {
                    input: InvalidInput::Key { .. },
                    ..
                })
            ),
            "{refused:?}"
        );
    }
    assert_eq!(world.stats().total_requests(), 0);
}

#[test]
fn a_lagging_agent_does_not_name_a_former_leader() {
    let world = MockConsul::new(1);
    let former = Candidate::leading(&world, "node-1");
    world.lag("looker");
    former.resigns(&world, "");
    Candidate::leading(&world, "node-2");
    let leader = world.run(discovery(&world).leader()).expect("an answer");
    assert_eq!(leader.expect("a leader").text(), Some("node-2"));
}

#[test]
fn a_failure_that_passes_is_waited_out_and_one_that_does_not_is_told() {
    let world = MockConsul::new(1);
    Candidate::leading(&world, "node-1");
    let faults = [
        Fault::too_many_requests(),
        Fault::no_leader(),
        Fault::BadAnswer,
        Fault::Answer(Response::new(200, "<html>")),
    ];
    for fault in faults {
        world.inject(Rule::new(fault).host("looker"));
        let leader = world.run(discovery(&world).leader()).expect("an answer");
        assert_eq!(leader.expect("a leader").text(), Some("node-1"));
        assert_eq!(world.pending_rules(), 0);
    }
    world.lose_leader();
    let error = world
        .run(discovery(&world).leader())
        .expect_err("no leader");
    assert!(
        matches!(error, Error::Request(RequestError::Unavailable { .. })),
        "{error:?}"
    );
}

#[test]
fn a_token_without_permission_is_denied_and_never_shown() {
    let world = MockConsul::new(1);
    Candidate::leading(&world, "node-1");
    world.consul(|consul, _| {
        consul.set_acl_default_deny();
        let reader = Policy::new().with_key(LEADER, Access::Read);
        consul.add_token("5ecret-reader", reader);
        consul.add_token("5ecret-nobody", Policy::new());
    });
    let reader = discovery_of(&world, LEADER, with_token("5ecret-reader"));
    let leader = world.run(reader.leader()).expect("an answer");
    let leader = leader.expect("a leader");
    // Without the permission to read sessions, the session is hidden.
    assert_eq!(world.run(reader.holder(&leader)).expect("an answer"), None);

    let nobody = discovery_of(&world, LEADER, with_token("5ecret-nobody"));
    let error = world.run(nobody.leader()).expect_err("denied");
    assert!(
        matches!(error, Error::Request(RequestError::Denied { .. })),
        "{error:?}"
    );
    let follower = reader.follow();
    let shown = format!("{reader:?} {follower:?} {error:?} {error} {leader:?}");
    assert!(!shown.contains("5ecret"), "{shown}");
    assert!(!world.trace().contains("5ecret"));
}

#[test]
fn a_thread_finds_the_leader_by_the_same_words() {
    let world = MockConsul::new(1);
    Candidate::leading(&world, "node-1");
    let client = world.client("looker");
    let discovery = blocking::Discovery::builder(LEADER)
        .connect(client)
        .expect("a key");
    assert_eq!(discovery.key().as_str(), LEADER);
    let leader = discovery.leader().expect("an answer").expect("a leader");
    assert_eq!(leader.text(), Some("node-1"));
    assert!(discovery.status().expect("an answer").leader().is_some());
    let holder = discovery.holder(&leader).expect("an answer");
    assert_eq!(holder.expect("a session").name, "candidate");
    let status = discovery.verify(&leader.sequencer()).expect("an answer");
    assert!(status.is_current());
}
