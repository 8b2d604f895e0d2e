//! What happens while a claim is under way, and after its answer.

use semaphore_core::sans_io::Machine as _;
use semaphore_core::sans_io::{CommandId, TransportErrorKind};

use crate::support::bench::{Bench, is_read};
use crate::support::steps::claims;
use crate::support::*;

/// Two callers wait for one of two slots, each with its own session in the queue. The claim for the
/// first was sent but has not arrived.
fn with_a_claim_under_way() -> (Bench, [CommandId; 2]) {
    let mut bench = Bench::new(1, 2);
    let [holder, _] = [bench.acquire(), bench.acquire()];
    bench.run_for(secs(1));
    let acquires = [bench.acquire(), bench.acquire()];
    bench.run_for(secs(1));
    bench.participant.release(bench.now, holder);
    bench.keep(claims);
    bench.run_for(millis(100));
    assert_eq!(bench.kept.len(), 1);
    (bench, acquires)
}

fn sessions_made(bench: &Bench) -> usize {
    let create = |line: &&String| line.contains("/v1/session/create");
    bench.sent.iter().filter(create).count()
}

#[test]
fn the_answer_of_a_claim_is_a_grant_whatever_the_watch_shows() {
    let (mut bench, [first, _]) = with_a_claim_under_way();
    bench.feign_kept();
    assert!(bench.is_granted(first));
    assert!(bench.participant.is_held(bench.now, first));
}

#[test]
fn a_caller_that_leaves_behind_a_claim_does_not_touch_it() {
    let (mut bench, [first, second]) = with_a_claim_under_way();
    bench.participant.cancel(bench.now, second);
    bench.turn();
    bench.feign_kept();
    assert!(bench.is_granted(first));
    assert!(bench.participant.is_held(bench.now, first));
}

#[test]
fn a_claim_whose_caller_leaves_takes_nothing_from_the_next() {
    let (mut bench, [first, second]) = with_a_claim_under_way();
    let sessions = sessions_made(&bench);
    bench.participant.cancel(bench.now, first);
    bench.turn();
    bench.pass_on_kept();
    bench.run_for(secs(1));
    assert!(bench.participant.is_held(bench.now, second));
    assert!(!bench.is_granted(first));
    assert_eq!(sessions_made(&bench), sessions, "its own was in the queue");
}

#[test]
fn a_claim_whose_session_has_ended_leaves_its_caller_in_the_queue() {
    let (mut bench, [first, second]) = with_a_claim_under_way();
    let sessions = bench.consul.sessions().map(|it| it.id().to_owned());
    for session in sessions.collect::<Vec<_>>() {
        bench.consul.destroy_session(bench.now, &session);
    }
    bench.turn();
    bench.pass_on_kept();
    bench.run_for(secs(5));
    for acquire in [first, second] {
        assert!(bench.participant.is_held(bench.now, acquire));
    }
}

#[test]
fn a_claim_that_may_have_been_applied_is_not_repeated_before_a_read() {
    let (mut bench, [first, _]) = with_a_claim_under_way();
    bench.lose_poll();
    bench.keep(|request| claims(request) || is_read(request));
    bench.fail_kept(TransportErrorKind::Unknown);
    bench.run_for(secs(5));
    let kept = &bench.kept;
    assert!(
        !kept.is_empty() && kept.iter().all(|(_, it)| is_read(it)),
        "{kept:?}"
    );
    bench.pass_on_kept();
    bench.run_for(secs(1));
    assert!(bench.participant.is_held(bench.now, first));
}

#[test]
fn a_claim_that_was_certainly_not_applied_is_repeated_without_a_read() {
    let (mut bench, [first, _]) = with_a_claim_under_way();
    bench.lose_poll();
    bench.keep(|request| claims(request) || is_read(request));
    bench.fail_kept(TransportErrorKind::NotSent);
    bench.run_for(secs(1));
    let kept = &bench.kept;
    assert!(kept.len() == 1 && claims(&kept[0].1), "{kept:?}");
    bench.pass_on_kept();
    bench.run_for(secs(1));
    assert!(bench.participant.is_held(bench.now, first));
}
