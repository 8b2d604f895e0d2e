//! The two classes of failures: temporary ones are waited out, permanent ones are reported at once.

use semaphore_core::sans_io::{Method, Response};
use semaphore_core::{Error, RequestError};
use transport_mock::{Fault, MockConsul, RequestKind, Rule};

use crate::election::unknown::ACQUISITION;
use crate::support::election::*;
use crate::support::steps::ties_key;
use crate::support::stranger::operate;
use crate::support::*;

#[test]
fn a_permanent_failure_ends_a_campaign_at_once_and_leaves_nothing() {
    for kind in [RequestKind::SessionCreate, RequestKind::KvRead, ACQUISITION] {
        let world = MockConsul::new(1);
        let (_a, first) = leader(&world);
        world.advance(secs(1));
        let denied = Fault::Answer(Response::new(403, "Permission denied"));
        world.inject(Rule::new(denied).kind(kind).host("b").always());
        let b = election(&world, "b");
        let waiting = world.start(async move { b.campaign().await });
        world.advance(secs(1));
        world.run(first.resign()).expect("resigned");
        let before = world.now();
        let outcome = world.run(waiting);
        let denied = matches!(outcome, Err(Error::Request(RequestError::Denied { .. })));
        assert!(denied, "{kind}: {outcome:?}");
        assert!(world.now().saturating_since(before) <= millis(50), "{kind}");
        world.advance(KEPT);
        assert_eq!(session_count(&world), 0, "{kind}");
    }
}

#[test]
fn a_transient_failure_is_waited_out_within_a_stated_rate() {
    let world = MockConsul::new(1);
    world.lose_leader();
    let a = election(&world, "a");
    let mut waiting = world.start(async move { a.campaign().await.map(|it| (a, it)) });
    world.advance(secs(60));
    assert!(waiting.try_take().is_none());
    let requests = world.stats().total_requests();
    assert!(requests <= 180, "{requests} requests in a minute");
    world.elect_leader();
    let (_a, leadership) = world.run(waiting).expect("elected");
    assert!(leadership.is_leader());
}

#[test]
fn an_instant_try_gives_up_at_the_first_failure() {
    let world = MockConsul::new(1);
    world.lose_leader();
    let a = election(&world, "a");
    let outcome = world.run(a.try_campaign());
    assert!(matches!(outcome, Err(Error::Request(_))), "{outcome:?}");
}

#[test]
fn an_attempt_that_comes_after_the_key_has_become_something_else_leaves_it_alone() {
    let world = MockConsul::new(1);
    let a = election(&world, "a");
    let late = Rule::new(Fault::Delay(secs(1))).host("a");
    world.inject(late.kind(ACQUISITION));
    let campaigning = world.start(async move { a.campaign_timeout(secs(10)).await });
    world.advance(millis(500));
    operate(
        &world,
        Method::Put,
        &format!("/v1/kv/{KEY}"),
        "an operator's",
    );
    let outcome = world.run(campaigning);
    let key = found(&world).expect("a key");
    assert!(
        matches!(outcome, Err(Error::NotAnElection { .. })),
        "{outcome:?}"
    );
    assert_eq!((key.flags, key.value.as_str()), (0, "an operator's"));
    world.advance(secs(2));
    assert_eq!(session_count(&world), 0);
    assert_eq!(found(&world).expect("a key").session, "");
}

/// The simulator found this: the caller got the error of a failed request.
#[test]
fn an_instant_try_whose_session_ends_under_it_goes_on_with_another() {
    let world = MockConsul::new(1);
    let a = election(&world, "a");
    world.inject(Rule::new(Fault::Delay(secs(1))).kind(ACQUISITION));
    let trying = world.start(async move { a.try_campaign().await.map(|it| (a, it)) });
    world.advance(millis(500));
    world.consul(|consul, now| {
        let ids: Vec<_> = consul.sessions().map(|it| it.id().to_owned()).collect();
        assert_eq!(ids.len(), 1);
        consul.destroy_session(now, &ids[0]);
    });
    let (_a, leadership) = world.run(trying).expect("no failure");
    assert!(leadership.expect("free").is_leader());
}

#[test]
fn a_campaign_that_times_out_tells_the_last_failure() {
    let world = MockConsul::new(1);
    world.lose_leader();
    let a = election(&world, "a");
    let outcome = world.run(a.campaign_timeout(secs(10)));
    let told = matches!(
        &outcome,
        Err(Error::Timeout {
            last_failure: Some(_),
            ..
        })
    );
    assert!(told, "{outcome:?}");
}

#[test]
fn a_session_that_ends_while_one_waits_is_replaced() {
    let world = MockConsul::new(1);
    let (_a, first) = leader(&world);
    let own = first.sequencer().session.to_string();
    let b = election(&world, "b");
    let waiting = world.start(async move { b.campaign().await.map(|it| (b, it)) });
    for _ in 0..3 {
        world.advance(secs(20));
        let waiters: Vec<_> = world.consul(|consul, _| {
            let ids = consul.sessions().map(|it| it.id().to_owned());
            ids.filter(|id| *id != own).collect()
        });
        assert_eq!(waiters.len(), 1);
        world.consul(|consul, now| consul.destroy_session(now, &waiters[0]));
    }
    world.advance(secs(20));
    world.run(first.resign()).expect("resigned");
    let (_b, second) = world.run(waiting).expect("elected");
    assert_eq!(second.term(), 2);
}

#[test]
fn sessions_that_consul_does_not_know_are_replaced_within_a_stated_rate() {
    let world = MockConsul::new(1);
    let unknown = Fault::Answer(Response::new(500, "invalid session \"x\""));
    world.inject(Rule::new(unknown).kind(ACQUISITION).always());
    let a = election(&world, "a");
    let mut waiting = world.start(async move { a.campaign().await.map(|it| (a, it)) });
    world.advance(secs(60));
    assert!(waiting.try_take().is_none());
    let sessions = world.stats().requests_of(RequestKind::SessionCreate);
    assert!((40..=85).contains(&sessions), "{sessions} in a minute");
    world.clear_faults();
    let (_a, leadership) = world.run(waiting).expect("elected");
    assert!(leadership.is_leader());
}

#[test]
fn reads_that_fail_again_and_again_are_repeated_within_a_stated_rate() {
    let world = MockConsul::new(1);
    let (_a, leadership) = leader(&world);
    world.advance(secs(1));
    for kind in [RequestKind::KvRead, RequestKind::KvWatch] {
        world.inject(Rule::new(Fault::unavailable()).kind(kind).always());
    }
    // Only a read can tell what became of the change.
    world.inject(Rule::new(Fault::LoseAnswer).kind(ACQUISITION));
    let change = async move { leadership.set_value("b").await.map(|()| leadership) };
    let mut change = world.start(change);
    world.advance(secs(60));
    assert!(change.try_take().is_none());
    let reads = world.stats().requests_of(RequestKind::KvRead);
    assert!((80..=180).contains(&reads), "{reads} in a minute");
    world.clear_faults();
    let leadership = world.run(change).expect("set");
    assert!(leadership.is_leader());
    assert_eq!(found(&world).expect("a key").value, "b");
}

#[test]
fn a_session_is_not_renewed_while_its_key_is_given_back() {
    let world = MockConsul::new(1);
    let (_a, leadership) = leader(&world);
    world.inject(Rule::new(Fault::unavailable()).matching(resigns).always());
    let resigning = world.start(async move { leadership.resign().await });
    world.advance(secs(20));
    assert_eq!(world.stats().requests_of(RequestKind::SessionRenew), 0);
    world.clear_faults();
    world.run(resigning).expect("resigned");
    assert_only_key_left(&world);
}

#[test]
fn a_resignation_that_is_refused_for_good_is_told_at_once_and_ends_the_session() {
    let world = MockConsul::new(1);
    let (_a, leadership) = leader(&world);
    let denied = Fault::Answer(Response::new(403, "Permission denied"));
    world.inject(Rule::new(denied).matching(resigns).always());
    let before = world.now();
    let resigned = world.run(leadership.resign());
    let denied = matches!(resigned, Err(Error::Request(RequestError::Denied { .. })));
    assert!(denied, "{resigned:?}");
    assert!(world.now().saturating_since(before) <= millis(20));
    // The refusal may be temporary. If it lasts as long as a lease, the session ends and releases
    // the key.
    world.advance(secs(20));
    assert_only_key_left(&world);
}

#[test]
fn a_resignation_that_can_not_reach_consul_ends_with_the_ttl() {
    let world = MockConsul::new(1);
    let (_a, first) = leader(&world);
    world.partition("a");
    let before = world.now();
    let resigned = world.run(first.resign());
    assert!(matches!(resigned, Err(Error::Request(_))), "{resigned:?}");
    assert!(world.now().saturating_since(before) <= secs(31));
    world.heal("a");
    world.advance(secs(40));
    assert_only_key_left(&world);
}

/// The fuzzer found this: it gave its session back.
#[test]
fn a_leader_whose_read_is_refused_leads_on() {
    let world = MockConsul::new(1);
    let (_a, leadership) = leader(&world);
    world.inject(Rule::new(Fault::LoseAnswer).matching(ties_key));
    let denied = Fault::Answer(Response::new(403, "Permission denied"));
    world.inject(Rule::new(denied).kind(RequestKind::KvRead).times(2));
    world.run(leadership.set_value("b")).expect("set");
    world.advance(secs(30));
    assert!(leadership.is_leader());
}

/// For example, a token is missing while it is replaced, or a gateway's backend is away.
#[test]
fn a_leader_and_whoever_waits_live_through_refusals_of_what_was_served_before() {
    for answer in passing_refusals() {
        let world = MockConsul::new(1);
        let (_a, first) = leader(&world);
        let b = election(&world, "b");
        let waiting = world.start(async move { b.campaign().await });
        world.advance(secs(20));
        world.inject(Rule::new(Fault::Answer(answer.clone())).always());
        world.advance(secs(6));
        world.clear_faults();
        assert!(first.is_leader(), "{answer:?}");
        world.run(first.resign()).expect("resigned");
        let second = world.run(waiting).expect("a term");
        world.run(second.resign()).expect("resigned");
        assert_only_key_left(&world);
    }
}

#[test]
fn a_resignation_that_a_gateway_refuses_is_told_at_once_and_goes_on() {
    for answer in passing_refusals() {
        let world = MockConsul::new(1);
        let (_a, first) = leader(&world);
        let b = election(&world, "b");
        let waiting = world.start(async move { b.campaign().await });
        world.advance(secs(20));
        world.inject(Rule::new(Fault::Answer(answer.clone())).host("a").always());
        let before = world.now();
        let resigned = world.run(first.resign());
        assert!(matches!(resigned, Err(Error::Request(_))), "{resigned:?}");
        assert!(
            world.now().saturating_since(before) <= millis(20),
            "{answer:?}"
        );
        world.advance(secs(4));
        world.clear_faults();
        let recovered = world.now();
        let second = world.run(waiting).expect("a term");
        assert!(
            world.now().saturating_since(recovered) <= secs(5),
            "{answer:?}"
        );
        world.run(second.resign()).expect("resigned");
        assert_only_key_left(&world);
    }
}
