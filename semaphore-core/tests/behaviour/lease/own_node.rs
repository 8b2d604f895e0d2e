//! Sessions on a node without an agent. Whatever happens to agents and servers, no hold ends.

use semaphore_core::{Election, Error, InvalidInput, RequestError, Scope};
use transport_mock::consul::{Access, Policy};
use transport_mock::{MockConsul, RequestKind};

use crate::support::election::{KEY, builder_for, elect_with, election};
use crate::support::spy::{Spy, json};
use crate::support::*;

const OWN: &str = "semaphores";
const SECRET: &str = "5ecret";

/// The nodes that sessions belong to.
fn nodes(world: &MockConsul) -> Vec<String> {
    world.consul(|consul, _| consul.sessions().map(|it| it.node().to_owned()).collect())
}

/// A semaphore of one slot and an election on the host `a`. Its agent has a node with its name.
fn both(world: &MockConsul) -> (semaphore_core::Semaphore, Election) {
    world.set_agent("a", "agent-a");
    let semaphore = connect(builder(1).own_node(OWN), &world.client("a"));
    let election = elect_with(builder_for(KEY).own_node(OWN), &world.client("a"));
    (semaphore, election)
}

fn allow(world: &MockConsul, policy: Policy) {
    let policy = policy
        .with_key_prefix("", Access::Write)
        .with_session_prefix("", Access::Write);
    world.consul(|consul, _| {
        consul.set_acl_default_deny();
        consul.add_token(SECRET, policy);
    });
}

#[test]
fn holds_and_terms_outlive_an_agent_that_leaves_and_a_server_that_is_reaped() {
    let world = MockConsul::new(1);
    let (semaphore, election) = both(&world);
    let permit = world.run(semaphore.acquire()).expect("a slot");
    let leadership = world.run(election.campaign()).expect("elected");
    assert_eq!(nodes(&world), [OWN, OWN]);
    for node in ["agent-a", transport_mock::consul::NODE] {
        world.deregister_node(node);
        world.advance(secs(60));
        world.register_node(node);
        world.advance(secs(60));
    }
    assert!(permit.is_held());
    assert!(leadership.is_leader());
    world.run(permit.release()).expect("released");
    world.run(leadership.resign()).expect("resigned");
}

/// The same on the agent's node: these faults do end holds there.
#[test]
fn on_the_agents_node_both_are_lost() {
    let world = MockConsul::new(1);
    world.set_agent("a", "agent-a");
    let semaphore = semaphore(&world, "a", 1);
    let election = election(&world, "a");
    let permit = world.run(semaphore.acquire()).expect("a slot");
    let leadership = world.run(election.campaign()).expect("elected");
    world.deregister_node("agent-a");
    world.advance(secs(2));
    assert!(!permit.is_held());
    assert!(!leadership.is_leader());
}

#[test]
fn a_missing_node_is_registered_once_and_described_for_others() {
    let world = MockConsul::new(1);
    let spy = Spy::on(&world);
    let (semaphore, election) = both(&world);
    let permit = world.run(semaphore.acquire()).expect("a slot");
    let leadership = world.run(election.campaign()).expect("elected");
    let registrations: Vec<_> = spy
        .of(RequestKind::Txn)
        .iter()
        .map(json)
        .filter(|body| body[0].get("Node").is_some())
        .collect();
    let expected = serde_json::json!([{"Node": {"Verb": "cas", "Node": {
        "Node": OWN,
        "Address": "192.0.2.1",
        "Meta": {"external-node": "true", "external-probe": "false"},
        "ModifyIndex": 0,
    }}}]);
    assert_eq!(registrations, [expected]);
    let [create, ..] = &spy.of(RequestKind::SessionCreate)[..] else {
        panic!("a session");
    };
    assert_eq!(json(create)["Node"], OWN);
    assert_eq!(json(create)["NodeChecks"], serde_json::json!([]));
    drop((permit, leadership));
}

#[test]
fn many_that_find_it_missing_at_once_all_get_their_sessions() {
    let world = MockConsul::new(1);
    let waiters: Vec<_> = (0..20)
        .map(|number| {
            let semaphore = connect(
                builder(20).own_node(OWN),
                &world.client(format!("h{number}")),
            );
            world.start(async move { semaphore.acquire().await })
        })
        .collect();
    let permits: Vec<_> = waiters
        .into_iter()
        .map(|waiter| world.run(waiter).expect("a slot"))
        .collect();
    assert_eq!(nodes(&world), vec![OWN; 20]);
    drop(permits);
}

#[test]
fn a_node_that_somebody_describes_otherwise_is_used_as_it_is() {
    let world = MockConsul::new(1);
    world.consul(|consul, now| consul.register_node(now, OWN));
    let spy = Spy::on(&world);
    let (semaphore, _election) = both(&world);
    let permit = world.run(semaphore.acquire()).expect("a slot");
    let is_registration = |body: &serde_json::Value| body[0].get("Node").is_some();
    assert!(
        !spy.of(RequestKind::Txn)
            .iter()
            .map(json)
            .any(|it| is_registration(&it))
    );
    assert_eq!(nodes(&world), [OWN]);
    drop(permit);
}

#[test]
fn a_token_that_may_not_register_uses_what_an_operator_has_registered() {
    let world = MockConsul::new(1);
    allow(&world, Policy::new());
    world.consul(|consul, now| consul.register_node(now, OWN));
    let semaphore = connect(builder(1).token(SECRET).own_node(OWN), &world.client("a"));
    let permit = world.run(semaphore.acquire()).expect("a slot");
    world.advance(secs(30));
    assert!(permit.is_held());
    world.run(permit.release()).expect("released");
}

#[test]
fn a_token_that_may_not_register_a_missing_one_is_told_what_it_lacks_at_once() {
    let world = MockConsul::new(1);
    allow(&world, Policy::new().with_node(OWN, Access::Read));
    let semaphore = connect(builder(1).token(SECRET).own_node(OWN), &world.client("a"));
    let election = elect_with(
        builder_for(KEY).token(SECRET).own_node(OWN),
        &world.client("a"),
    );
    let before = world.now();
    let refused = [
        world.run(semaphore.acquire()).expect_err("denied"),
        world.run(election.campaign()).expect_err("denied"),
    ];
    assert!(world.now().saturating_since(before) < secs(2));
    for error in refused {
        let Error::Request(RequestError::Denied { text, .. }) = &error else {
            panic!("{error:?}");
        };
        assert!(text.contains("node:write"), "{text}");
        assert!(text.contains(r#""semaphores""#), "{text}");
        assert!(!text.contains(SECRET), "{text}");
    }
}

#[test]
fn a_token_with_the_permission_registers_it() {
    let world = MockConsul::new(1);
    allow(&world, Policy::new().with_node(OWN, Access::Write));
    let semaphore = connect(builder(1).token(SECRET).own_node(OWN), &world.client("a"));
    let permit = world.run(semaphore.acquire()).expect("a slot");
    assert_eq!(nodes(&world), [OWN]);
    drop(permit);
}

#[test]
fn when_the_node_is_taken_away_holds_are_lost_and_who_waits_makes_it_again() {
    let world = MockConsul::new(1);
    let (semaphore, election) = both(&world);
    let permit = world.run(semaphore.acquire()).expect("a slot");
    let leadership = world.run(election.campaign()).expect("elected");
    let next = connect(builder(1).own_node(OWN), &world.client("b"));
    let waiter = world.start(async move { next.acquire().await });
    let candidate = elect_with(builder_for(KEY).own_node(OWN), &world.client("b"));
    let candidate = world.start(async move { candidate.campaign().await });
    world.advance(secs(20));
    world.deregister_node(OWN);
    world.run(permit.lost());
    world.run(leadership.lost());
    drop((permit, leadership));
    let held = world.run(waiter).expect("the slot");
    let led = world.run(candidate).expect("elected");
    assert!(held.is_held() && led.is_leader());
    assert_eq!(nodes(&world), [OWN, OWN]);
}

#[test]
fn without_a_leader_the_registration_is_repeated() {
    let world = MockConsul::new(1);
    world.lose_leader();
    let (semaphore, _election) = both(&world);
    let waiter = world.start(async move { semaphore.acquire().await });
    world.advance(secs(5));
    world.elect_leader();
    let permit = world.run(waiter).expect("a slot");
    assert_eq!(nodes(&world), [OWN]);
    drop(permit);
}

#[test]
fn a_node_that_is_missing_again_and_again_is_not_asked_for_without_a_pause() {
    let world = MockConsul::new(1);
    let spy = Spy::on(&world);
    let semaphore = connect(builder(1).own_node(OWN), &world.client("a"));
    let waiter = world.start(async move { semaphore.acquire_timeout(secs(20)).await });
    for _ in 0..20_000 {
        world.deregister_node(OWN);
        world.advance(millis(1));
    }
    let creations = spy.of(RequestKind::SessionCreate).len();
    assert!((2..=60).contains(&creations), "{creations}");
    world
        .run(waiter)
        .expect_err("there was no node for long enough, or no time");
}

#[test]
fn it_goes_with_no_other_node_and_with_no_checks() {
    let world = MockConsul::new(1);
    let client = world.client("a");
    for builder in [
        builder(1).own_node(OWN).node("db-1"),
        builder(1).node("db-1").own_node(OWN),
        builder(1).own_node(OWN).node_checks(["serfHealth"]),
        builder(1).own_node(OWN).service_checks(["web"]),
    ] {
        let error = builder.connect(client.clone()).expect_err("refused");
        let is_named = matches!(
            error,
            Error::InvalidInput {
                input: InvalidInput::OwnNode { .. },
                ..
            }
        );
        assert!(is_named, "{error:?}");
    }
    let error = builder(1)
        .own_node("")
        .connect(client)
        .expect_err("refused");
    assert!(
        matches!(
            error,
            Error::InvalidInput {
                input: InvalidInput::Name { .. },
                ..
            }
        ),
        "{error:?}"
    );
}

#[test]
fn in_another_datacenter_the_error_names_the_option() {
    let world = MockConsul::new(1);
    world.deregister_node(transport_mock::consul::NODE);
    let scope = Scope::new().with_datacenter("dc1").expect("a name");
    let semaphore = connect(builder(1).scope(scope), &world.client("a"));
    let error = world.run(semaphore.acquire()).expect_err("no node");
    let Error::Request(RequestError::Rejected { text, .. }) = &error else {
        panic!("{error:?}");
    };
    assert!(text.contains("own_node"), "{text}");
}
