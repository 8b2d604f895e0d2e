//! Following a leader while indexes go backwards: agents lag behind, snapshots are restored, data
//! moves to another cluster. A former leader is never shown as the present one.

use semaphore_core::sans_io::Method;
use semaphore_core::sans_io::api::LOCK_FLAGS;
use semaphore_core::{Conflict, Discovery, Error, Follower, LeaderEvent, LeaderStatus};
use transport_mock::{Fault, MockConsul, RequestKind, Rule};

use crate::support::candidate::{Candidate, LEADER};
use crate::support::stranger::operate;
use crate::support::*;

fn follower(world: &MockConsul) -> Follower {
    let client = world.client("follower");
    let discovery = Discovery::builder(LEADER).connect(client).expect("a key");
    discovery.follow()
}

/// The leaders in the follower's events within the next `seconds`, one after the other.
fn seen(world: &MockConsul, follower: &mut Follower, seconds: u64) -> Vec<String> {
    let mut seen = Vec::new();
    let end = world.now() + secs(seconds);
    world.run(async {
        let mut over = Box::pin(world.sleep(end.saturating_since(world.now())));
        loop {
            let next = Box::pin(follower.next());
            match futures_util::future::select(next, &mut over).await {
                futures_util::future::Either::Left((item, _)) => {
                    seen.push(shown(item.expect("an item").expect("an event")));
                }
                futures_util::future::Either::Right(_) => break,
            }
        }
    });
    seen
}

fn shown(event: LeaderEvent) -> String {
    match event {
        LeaderEvent::Elected(leader) => leader.text().expect("text").to_owned(),
        LeaderEvent::ValueChanged(leader) => format!("={}", leader.text().expect("text")),
        LeaderEvent::Leaderless { .. } => "nobody".to_owned(),
        LeaderEvent::Interrupted(_) => "?".to_owned(),
        LeaderEvent::Resumed => "!".to_owned(),
        other => panic!("{other:?}"),
    }
}

/// One candidate leads, then another, and the follower has seen both.
fn scene() -> (MockConsul, Follower) {
    let world = MockConsul::new(3);
    let mut follower = follower(&world);
    assert_eq!(seen(&world, &mut follower, 1), ["nobody"]);
    let first = Candidate::leading(&world, "first");
    assert_eq!(seen(&world, &mut follower, 1), ["first"]);
    first.resigns(&world, "");
    assert_eq!(seen(&world, &mut follower, 1), ["nobody"]);
    Candidate::leading(&world, "second");
    assert_eq!(seen(&world, &mut follower, 1), ["second"]);
    (world, follower)
}

#[test]
fn a_restored_snapshot_is_seen_at_once() {
    let world = MockConsul::new(3);
    let first = Candidate::leading(&world, "first");
    let snapshot = world.consul(|consul, _| consul.snapshot());
    first.resigns(&world, "");
    Candidate::leading(&world, "second");
    let mut follower = follower(&world);
    assert_eq!(seen(&world, &mut follower, 1), ["second"]);
    world.consul(|consul, now| consul.restore(now, &snapshot));
    assert_eq!(seen(&world, &mut follower, 1), ["first"]);
    // Later changes are shown, too.
    first.leads(&world, "moved");
    assert_eq!(seen(&world, &mut follower, 1), ["=moved"]);
    first.dies(&world);
    assert_eq!(seen(&world, &mut follower, 1), ["nobody"]);
}

#[test]
fn indexes_that_are_counted_anew_change_nobody() {
    let (world, mut follower) = scene();
    world.consul(transport_mock::consul::Consul::reset_index);
    assert_eq!(seen(&world, &mut follower, 60), [""; 0]);
    let before = world.stats_of("follower").total_requests();
    assert_eq!(seen(&world, &mut follower, 60), [""; 0]);
    let requests = world.stats_of("follower").total_requests() - before;
    assert!(requests <= 13, "{requests} in a minute");
    world.consul(|consul, now| {
        let sessions: Vec<_> = consul.sessions().map(|it| it.id().to_owned()).collect();
        for session in sessions {
            consul.destroy_session(now, &session);
        }
    });
    assert_eq!(seen(&world, &mut follower, 1), ["nobody"]);
}

/// A restored snapshot brings a session back whose owner has given it up. Then somebody writes the
/// key without acquiring it, so nobody leads until that session ends.
#[test]
fn a_key_without_a_leader_to_show_is_asked_about_no_more_often_than_any_other() {
    let world = MockConsul::new(3);
    let first = Candidate::leading(&world, "first");
    let snapshot = world.consul(|consul, _| consul.snapshot());
    world.consul(|consul, now| consul.destroy_session(now, first.session.as_str()));
    let mut follower = follower(&world);
    assert_eq!(seen(&world, &mut follower, 1), ["nobody"]);
    world.consul(|consul, now| consul.restore(now, &snapshot));
    assert_eq!(seen(&world, &mut follower, 8), ["first"]);
    let target = format!("/v1/kv/{LEADER}?flags={LOCK_FLAGS}");
    operate(&world, Method::Put, &target, "by hand");
    let overwritten = world.run(follower.next()).expect("an item");
    let conflict = |error: &Error| {
        let conflict = Conflict::Overwritten;
        matches!(error, Error::NotAnElection { conflict: found, .. } if *found == conflict)
    };
    assert!(overwritten.as_ref().is_err_and(conflict), "{overwritten:?}");
    let before = world.stats_of("follower").total_requests();
    assert_eq!(seen(&world, &mut follower, 120), [""; 0]);
    let requests = world.stats_of("follower").total_requests() - before;
    assert!(requests <= 26, "{requests} in two minutes");
    first.dies(&world);
    assert_eq!(seen(&world, &mut follower, 1), ["!", "nobody"]);
}

#[test]
fn an_agent_that_lags_behind_brings_no_former_leader_back() {
    let world = MockConsul::new(3);
    let first = Candidate::leading(&world, "first");
    let mut follower = follower(&world);
    assert_eq!(seen(&world, &mut follower, 1), ["first"]);
    // The open poll shows the next change. Later polls reach a server that only knows the past.
    world.lag("follower");
    first.resigns(&world, "");
    Candidate::leading(&world, "second");
    assert_eq!(seen(&world, &mut follower, 20), ["nobody", "second"]);
    assert_eq!(seen(&world, &mut follower, 120), [""; 0]);
    let mut newcomer = self::follower(&world);
    assert_eq!(seen(&world, &mut newcomer, 120), ["second"]);
    Candidate::new(&world);
    world.catch_up("follower");
    for follower in [&mut newcomer, &mut follower] {
        let mut seen = seen(&world, follower, 60);
        // A poll that waited at the agent may be given up. The follower then waits again from the
        // caught-up state.
        seen.retain(|it| !matches!(it.as_str(), "?" | "!"));
        assert_eq!(seen, [""; 0]);
        let current = follower.current().and_then(LeaderStatus::leader);
        assert_eq!(current.expect("a leader").text(), Some("second"));
    }
}

#[test]
fn an_older_answer_is_not_shown_and_the_leaders_word_is() {
    let (world, mut follower) = scene();
    // Another agent at the same address gives one very old answer.
    let old = format!(
        r#"[{{"Key":"{LEADER}","Value":"Zmlyc3Q=","LockIndex":1,"ModifyIndex":2,
            "Session":"aaaaaaaa-0000-0000-0000-000000000000"}}]"#
    );
    for index in ["2", "0"] {
        let old = semaphore_core::sans_io::Response::new(200, old.as_str());
        let old = old.with_header("X-Consul-Index", index);
        let rule = Rule::new(Fault::Answer(old)).host("follower");
        world.inject(rule.kind(RequestKind::KvWatch));
        let before = world.stats_of("follower").total_requests();
        assert_eq!(seen(&world, &mut follower, 40), [""; 0], "{index}");
        assert_eq!(world.pending_rules(), 0, "it was answered");
        let requests = world.stats_of("follower").total_requests() - before;
        assert!(requests <= 11, "{requests}");
    }
    let current = follower.current().and_then(LeaderStatus::leader);
    assert_eq!(current.expect("a leader").text(), Some("second"));
}

#[test]
fn an_index_that_is_wrong_once_delays_a_change_by_one_poll_at_most() {
    for index in [0, 1, u64::MAX] {
        for kind in [RequestKind::KvRead, RequestKind::KvWatch] {
            let world = MockConsul::new(3);
            world.inject(Rule::new(Fault::Index(index)).kind(kind).host("follower"));
            let first = Candidate::leading(&world, "first");
            let mut follower = follower(&world);
            assert_eq!(seen(&world, &mut follower, 40), ["first"], "{index} {kind}");
            assert_eq!(world.pending_rules(), 0, "{index} {kind}");
            first.dies(&world);
            let what = format!("{index} {kind}");
            assert_eq!(seen(&world, &mut follower, 17), ["nobody"], "{what}");
            Candidate::leading(&world, "second");
            assert_eq!(seen(&world, &mut follower, 17), ["second"], "{what}");
        }
    }
}

#[test]
fn a_leader_of_consul_behind_its_log_brings_nobody_back() {
    let world = MockConsul::new(3);
    let first = Candidate::leading(&world, "first");
    let before = world.consul(|consul, _| consul.snapshot());
    first.resigns(&world, "");
    Candidate::leading(&world, "second");
    let mut follower = follower(&world);
    assert_eq!(seen(&world, &mut follower, 1), ["second"]);
    world.elect_leader_behind(&before);
    assert_eq!(seen(&world, &mut follower, 5), [""; 0]);
    world.catch_up_leader();
    assert_eq!(seen(&world, &mut follower, 60), [""; 0]);
    let current = follower.current().and_then(LeaderStatus::leader);
    assert_eq!(current.expect("a leader").text(), Some("second"));
}
