//! Following a leader: one answer of the watch shows each change, whatever goes wrong in between.

use futures_util::StreamExt as _;
use semaphore_core::sans_io::api::LOCK_FLAGS;
use semaphore_core::sans_io::{Method, Response};
use semaphore_core::{
    Conflict, Discovery, Error, Follower, LeaderEvent, LeaderStatus, RequestError, Scope, Token,
    blocking,
};
use transport_mock::consul::{Access, Policy};
use transport_mock::{Fault, MockConsul, RequestKind, Rule, Task};

use crate::support::candidate::{Candidate, LEADER};
use crate::support::spy::Spy;
use crate::support::stranger::operate;
use crate::support::*;

type Item = Option<Result<LeaderEvent, Error>>;

fn follower(world: &MockConsul) -> Follower {
    let client = world.client("follower");
    let discovery = Discovery::builder(LEADER).connect(client).expect("a key");
    discovery.follow()
}

/// A follower that knows the present leader.
fn following(world: &MockConsul) -> Follower {
    let mut follower = follower(world);
    let first = world.run(follower.next());
    assert!(matches!(first, Some(Ok(_))), "{first:?}");
    follower
}

/// Waits for the next event in the background, so a poll is open.
fn waiting(world: &MockConsul, mut follower: Follower) -> Task<(Follower, Item)> {
    let task = world.start(async move {
        let item = follower.next().await;
        (follower, item)
    });
    world.advance(secs(1));
    task
}

/// Returns the event that follows the change. One answer of the open poll must show it.
#[track_caller]
fn after(world: &MockConsul, follower: Follower, change: impl FnOnce()) -> (Follower, LeaderEvent) {
    let spy = Spy::on_host(world, "follower");
    let mut task = waiting(world, follower);
    let polls = spy.of(RequestKind::KvWatch).len();
    assert_eq!((polls, spy.requests().len()), (1, 1), "one poll is open");
    assert!(task.try_take().is_none(), "nothing has changed");
    change();
    let (follower, item) = world.run(task);
    assert_eq!(spy.requests().len(), 1, "{}", world.trace());
    (follower, event(item))
}

#[track_caller]
fn event(item: Item) -> LeaderEvent {
    item.expect("an item").expect("an event")
}

#[track_caller]
fn next(world: &MockConsul, follower: &mut Follower) -> LeaderEvent {
    event(world.run(follower.next()))
}

#[track_caller]
fn assert_elected(event: &LeaderEvent, value: &str) {
    let LeaderEvent::Elected(leader) = event else {
        panic!("{event:?}");
    };
    assert_eq!(leader.text(), Some(value));
}

#[track_caller]
fn assert_leaderless(event: &LeaderEvent, value: Option<&str>) {
    let LeaderEvent::Leaderless { last_value } = event else {
        panic!("{event:?}");
    };
    assert_eq!(last_value.as_deref(), value.map(str::as_bytes));
}

#[test]
fn the_first_item_is_the_present_whatever_it_is() {
    let world = MockConsul::new(1);
    let mut nobody = follower(&world);
    assert_eq!(nobody.current(), None);
    assert_eq!(world.stats().total_requests(), 0, "nothing before");
    assert_leaderless(&next(&world, &mut nobody), None);
    Candidate::leading(&world, "node-1");
    let mut somebody = follower(&world);
    assert_elected(&next(&world, &mut somebody), "node-1");
    let current = somebody.current().and_then(LeaderStatus::leader);
    assert_eq!(current.expect("a leader").text(), Some("node-1"));
}

#[test]
fn each_change_is_seen_with_one_answer_of_the_watch() {
    let world = MockConsul::new(1);
    let follower = following(&world);
    let first = Candidate::new(&world);
    let second = Candidate::new(&world);

    let (follower, event) = after(&world, follower, || first.leads(&world, "node-1"));
    assert_elected(&event, "node-1");
    let (follower, event) = after(&world, follower, || first.leads(&world, "moved"));
    let LeaderEvent::ValueChanged(leader) = event else {
        panic!("{event:?}");
    };
    assert_eq!(leader.text(), Some("moved"));
    let (follower, event) = after(&world, follower, || first.resigns(&world, "bye"));
    assert_leaderless(&event, Some("bye"));
    let (follower, event) = after(&world, follower, || second.leads(&world, "node-2"));
    assert_elected(&event, "node-2");
    let (follower, event) = after(&world, follower, || second.dies(&world));
    assert_leaderless(&event, Some("node-2"));
    let (follower, event) = after(&world, follower, || {
        operate(&world, Method::Delete, &format!("/v1/kv/{LEADER}"), "");
    });
    assert_leaderless(&event, None);
    assert_eq!(
        follower.current(),
        Some(&LeaderStatus::Leaderless { last_value: None })
    );
}

#[test]
fn the_same_leader_in_a_new_term_is_elected_anew() {
    let world = MockConsul::new(1);
    let leader = Candidate::leading(&world, "node-1");
    let mut follower = following(&world);
    leader.resigns(&world, "");
    leader.leads(&world, "node-1");
    assert_elected(&next(&world, &mut follower), "node-1");
    let current = follower.current().and_then(LeaderStatus::leader);
    assert_eq!(current.expect("a leader").lock_index, 2);
}

#[test]
fn of_what_changes_while_nobody_asks_the_last_is_seen() {
    let world = MockConsul::new(1);
    let mut follower = following(&world);
    for number in 1..=5 {
        let candidate = Candidate::leading(&world, &format!("node-{number}"));
        if number < 5 {
            candidate.resigns(&world, "");
        }
    }
    assert_elected(&next(&world, &mut follower), "node-5");
}

#[test]
fn while_nothing_changes_it_costs_twelve_requests_a_minute() {
    let world = MockConsul::new(1);
    Candidate::leading(&world, "node-1");
    let follower = following(&world);
    let before = world.stats_of("follower").total_requests();
    let mut task = waiting(&world, follower);
    world.advance(secs(600));
    assert!(task.try_take().is_none());
    let requests = world.stats_of("follower").total_requests() - before;
    assert!((112..=121).contains(&requests), "{requests}");
}

#[test]
fn a_value_that_changes_each_millisecond_costs_no_more_than_the_ceiling() {
    let world = MockConsul::new(1);
    let leader = Candidate::leading(&world, "0");
    let mut follower = follower(&world);
    let seen = world.start(async move {
        let mut seen = Vec::new();
        while seen.last().is_none_or(|text| text != "last") {
            let event = event(follower.next().await);
            let (LeaderEvent::Elected(leader) | LeaderEvent::ValueChanged(leader)) = event else {
                panic!("{event:?}");
            };
            seen.push(leader.text().expect("text").to_owned());
        }
        seen
    });
    let start = world.now();
    // Each write takes 2 ms of the world's time.
    for number in 1..=5_000 {
        leader.leads(&world, &number.to_string());
    }
    let passed = world.now().saturating_since(start);
    assert_eq!(passed, secs(10));
    let requests = world.stats_of("follower").total_requests();
    assert!(requests <= 10 + 10 * 10 + 1, "{requests} in {passed:?}");
    leader.leads(&world, "last");
    let written = world.now();
    let seen = world.run(seen);
    let delay = world.now().saturating_since(written);
    assert!(delay <= millis(150), "{delay:?}");
    assert!(seen.len() > 90, "{}", seen.len());
}

#[test]
fn a_call_that_is_dropped_loses_nothing_and_its_poll_goes_on() {
    let world = MockConsul::new(1);
    let candidate = Candidate::new(&world);
    let mut follower = following(&world);
    let spy = Spy::on_host(&world, "follower");
    for _ in 0..20 {
        world.run(async {
            let given_up = futures_util::future::select(
                Box::pin(follower.next()),
                Box::pin(world.sleep(millis(100))),
            );
            let is_over = matches!(given_up.await, futures_util::future::Either::Right(_));
            assert!(is_over, "nothing has changed");
        });
    }
    assert_eq!(spy.requests().len(), 1, "{}", world.trace());
    // The answer comes while nobody calls `next`.
    candidate.leads(&world, "node-1");
    world.advance(secs(1));
    assert_elected(&next(&world, &mut follower), "node-1");
    assert_eq!(spy.requests().len(), 1, "{}", world.trace());
}

#[test]
fn an_answer_that_lay_there_for_long_is_not_taken_for_the_present() {
    let world = MockConsul::new(1);
    let former = Candidate::new(&world);
    let mut follower = following(&world);
    let patience = Box::pin(world.sleep(secs(1)));
    world.run(async {
        futures_util::future::select(Box::pin(follower.next()), patience).await;
    });
    former.leads(&world, "node-1");
    world.advance(secs(3_600));
    former.resigns(&world, "");
    Candidate::leading(&world, "node-2");
    assert_elected(&next(&world, &mut follower), "node-2");
}

#[test]
fn what_passes_is_told_once_and_ends_nothing() {
    let world = MockConsul::new(1);
    let leader = Candidate::leading(&world, "node-1");
    let mut follower = following(&world);
    world.lose_leader();
    // The poll that was open before runs to its end.
    let interrupted = next(&world, &mut follower);
    assert!(
        matches!(
            interrupted,
            LeaderEvent::Interrupted(RequestError::Unavailable { .. })
        ),
        "{interrupted:?}"
    );
    assert!(follower.is_interrupted());
    assert!(follower.current().and_then(LeaderStatus::leader).is_some());
    let mut task = waiting(&world, follower);
    let before = world.stats_of("follower").total_requests();
    world.advance(secs(60));
    assert!(task.try_take().is_none(), "told once");
    let tries = world.stats_of("follower").total_requests() - before;
    assert!((12..=30).contains(&tries), "{tries} in a minute");
    world.elect_leader();
    leader.leads(&world, "moved");
    let (mut follower, item) = world.run(task);
    let resumed = event(item);
    assert!(matches!(resumed, LeaderEvent::Resumed), "{resumed:?}");
    assert!(!follower.is_interrupted());
    let changed = next(&world, &mut follower);
    assert!(
        matches!(changed, LeaderEvent::ValueChanged(_)),
        "{changed:?}"
    );
}

#[test]
fn every_failure_of_the_network_passes() {
    for fault in [
        Fault::Refuse,
        Fault::LoseRequest,
        Fault::LoseAnswer,
        Fault::ResetBefore,
        Fault::ResetAfter,
        Fault::BadAnswer,
        Fault::too_many_requests(),
        Fault::unavailable(),
        Fault::AnswerAfter(Response::new(504, "<html>")),
        Fault::Answer(Response::new(200, "<html>")),
        Fault::Answer(Response::new(404, "<html>")),
    ] {
        let world = MockConsul::new(1);
        let candidate = Candidate::new(&world);
        let follower = following(&world);
        world.inject(Rule::new(fault.clone()).host("follower").times(2));
        let mut task = waiting(&world, follower);
        world.advance(secs(60));
        let (follower, item) = task.try_take().expect("an item");
        let interrupted = event(item);
        assert!(
            matches!(interrupted, LeaderEvent::Interrupted(_)),
            "{fault}: {interrupted:?}"
        );
        candidate.leads(&world, "node-1");
        let (mut follower, item) = world.run(waiting(&world, follower));
        let resumed = event(item);
        assert!(
            matches!(resumed, LeaderEvent::Resumed),
            "{fault}: {resumed:?}"
        );
        assert_elected(&next(&world, &mut follower), "node-1");
        assert_eq!(world.pending_rules(), 0, "{fault}");
    }
}

#[test]
fn what_consul_refuses_is_told_once_and_ends_nothing() {
    let world = MockConsul::new(1);
    Candidate::leading(&world, "node-1");
    world.consul(|consul, _| {
        consul.set_acl_default_deny();
        consul.add_token("5ecret", Policy::new().with_key(LEADER, Access::Read));
    });
    let scope = Scope::new().with_token(Token::new("5ecret").expect("a token"));
    let client = world.client("follower");
    let discovery = Discovery::builder(LEADER)
        .scope(scope)
        .connect(client)
        .expect("a key");
    let mut follower = discovery.follow();
    assert_elected(&next(&world, &mut follower), "node-1");
    world.consul(|consul, _| consul.add_token("5ecret", Policy::new()));
    // The refusal may be temporary.
    let interrupted = event(world.run(follower.next()));
    assert!(matches!(interrupted, LeaderEvent::Interrupted(_)));
    let before = world.now();
    let error = world.run(follower.next()).expect("an item");
    let error = error.expect_err("denied");
    assert!(world.now().saturating_since(before) >= secs(55));
    assert!(
        matches!(error, Error::Request(RequestError::Denied { .. })),
        "{error:?}"
    );
    assert!(follower.is_interrupted());
    let task = waiting(&world, follower);
    let before = world.stats_of("follower").total_requests();
    world.advance(secs(60));
    let tries = world.stats_of("follower").total_requests() - before;
    assert!((12..=30).contains(&tries), "{tries} in a minute");
    let policy = Policy::new().with_key(LEADER, Access::Read);
    world.consul(|consul, _| consul.add_token("5ecret", policy));
    let (follower, item) = world.run(task);
    assert!(matches!(event(item), LeaderEvent::Resumed));
    assert!(!follower.is_interrupted());
    assert!(!format!("{follower:?} {error:?} {error}").contains("5ecret"));
    assert!(!world.trace().contains("5ecret"));
}

#[test]
fn a_key_that_becomes_something_elses_has_no_leader_until_it_is_an_elections_again() {
    for (written, expected) in [
        (r#"{"Limit":3,"Holders":[]}"#, Conflict::Semaphore),
        ("somebody's", Conflict::ElectionFlags { flags: 0 }),
    ] {
        let world = MockConsul::new(1);
        let task = waiting(&world, following(&world));
        let target = format!("/v1/kv/{LEADER}");
        operate(&world, Method::Put, &target, written);
        let (follower, item) = world.run(task);
        let Some(Err(Error::NotAnElection { key, conflict, .. })) = item else {
            panic!("{item:?}");
        };
        assert_eq!((key.as_str(), conflict), (LEADER, expected));
        assert!(follower.is_interrupted());
        assert_eq!(follower.current(), None);
        let mut task = waiting(&world, follower);
        world.advance(secs(60));
        assert!(task.try_take().is_none(), "told once");
        operate(&world, Method::Delete, &target, "");
        let (mut follower, item) = world.run(task);
        assert!(matches!(event(item), LeaderEvent::Resumed));
        assert_leaderless(&next(&world, &mut follower), None);
        Candidate::leading(&world, "node-1");
        assert_elected(&next(&world, &mut follower), "node-1");
    }
}

#[test]
fn whoever_writes_the_key_of_a_leader_is_never_told_of_as_the_leader() {
    for flags in [0, LOCK_FLAGS] {
        let world = MockConsul::new(1);
        let leader = Candidate::leading(&world, "node-1");
        let task = waiting(&world, following(&world));
        let target = format!("/v1/kv/{LEADER}?flags={flags}");
        operate(&world, Method::Put, &target, "a stranger");
        let (follower, item) = world.run(task);
        let Some(Err(Error::NotAnElection { conflict, .. })) = item else {
            panic!("{item:?}");
        };
        assert_eq!(conflict, Conflict::Overwritten);
        let task = waiting(&world, follower);
        leader.resigns(&world, "");
        let (mut follower, item) = world.run(task);
        assert!(matches!(event(item), LeaderEvent::Resumed));
        assert_leaderless(&next(&world, &mut follower), Some(""));
    }
}

#[test]
fn it_is_a_stream_and_ends_with_its_drop() {
    let world = MockConsul::new(1);
    Candidate::leading(&world, "node-1");
    let events = follower(&world).take(1).collect::<Vec<_>>();
    let [Ok(event)] = &world.run(events)[..] else {
        panic!("one event");
    };
    assert_elected(event, "node-1");
    let task = waiting(&world, following(&world));
    let requests = world.stats_of("follower").total_requests();
    task.abort();
    world.advance(secs(60));
    let stats = world.stats_of("follower");
    assert_eq!(stats.total_requests(), requests, "{stats:?}");
}

#[test]
fn a_thread_follows_as_an_iterator_and_waits_no_longer_than_it_likes() {
    let world = MockConsul::new(1);
    let candidate = Candidate::new(&world);
    let client = world.client("follower");
    let discovery = blocking::Discovery::builder(LEADER)
        .connect(client)
        .expect("a key");
    let mut follower = discovery.follow();
    assert_leaderless(&event(follower.next()), None);
    let start = world.now();
    assert!(follower.next_timeout(secs(40)).is_none());
    assert_eq!(world.now().saturating_since(start), secs(40));
    assert!(!follower.has_ended());
    candidate.leads(&world, "node-1");
    assert_elected(&event(follower.next_timeout(secs(1))), "node-1");
    assert!(follower.current().is_some());
    let target = format!("/v1/kv/{LEADER}?flags=7");
    operate(&world, Method::Put, &target, "another tool's");
    let item = follower.next();
    assert!(matches!(item, Some(Err(Error::NotAnElection { .. }))));
    assert!(!follower.has_ended());
    assert!(follower.next_timeout(secs(1)).is_none());
}
