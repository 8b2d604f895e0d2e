//! Who may hold.

use crate::protocol::bench::*;
use crate::protocol::requests::*;
use crate::support::steps::{claims, writes_record};
use crate::support::*;

/// The lock delay of every session, which Consul begins when the session ends.
const LOCK_DELAY: std::time::Duration = secs(15);

/// Lets time pass until Q holds. P and Q never hold at the same time.
#[track_caller]
fn until_only_q_holds(s: &mut Scene, p: Call, q: Call) -> std::time::Duration {
    s.pass_until(secs(60), |s| {
        assert!(!(s.holds(p) && s.holds(q)), "both hold");
        s.holds(q)
    })
}

/// Scene 19, S1 and S2.
#[test]
fn an_answer_that_comes_after_the_lock_delay_grants_nothing() {
    let mut s = Scene::new(1);
    s.hold_answer(P, claims);
    let [p] = s.enters(P, [1]);
    assert_eq!(s.names(), [P]);
    s.hold_answer(P, all);
    let [q] = s.enters(Q, [1]);
    s.end_session(P, 0);
    until_only_q_holds(&mut s, p, q);
    s.let_through(P);
    assert!(!s.was_granted(p));
    assert!(s.holds(q) && s.names() == [Q]);
}

/// Scene 20, S1 and S3.
#[test]
fn a_holder_whose_session_ended_early_is_pruned_only_after_its_belief() {
    let mut s = Scene::new(1);
    let p = s.holder(P);
    let [q] = s.enters(Q, [1]);
    s.hold(P, all);
    s.end_session(P, 0);
    let waited = until_only_q_holds(&mut s, p, q);
    assert!(waited >= LOCK_DELAY, "{waited:?}");
    assert!(s.sent(Q, prunes) >= 1 && s.names() == [Q]);
}

/// Scene 20, S3: who never saw the dead holder's key tries at once, and again.
#[test]
fn consul_refuses_to_prune_a_holder_before_its_lock_delay() {
    let mut s = Scene::new(1);
    let p = s.holder(P);
    s.hold(P, all);
    s.end_session(P, 0);
    let [q] = s.enters(Q, [1]);
    let waited = until_only_q_holds(&mut s, p, q);
    assert!(
        waited >= LOCK_DELAY && waited <= LOCK_DELAY + secs(1),
        "{waited:?}"
    );
    assert!(s.refusals(Q) >= 2 && s.names() == [Q]);
}

/// Scene 21, S1.
#[test]
fn who_saw_the_dead_holders_key_waits_by_its_own_clock() {
    let mut s = Scene::new(1);
    let p = s.holder(P);
    let [q] = s.enters(Q, [1]);
    s.hold(P, all);
    s.end_session(P, 0);
    s.forgets_lock_delays();
    let waited = until_only_q_holds(&mut s, p, q);
    assert!(waited >= LOCK_DELAY, "{waited:?}");
    assert_eq!(s.names(), [Q]);
}

/// Scene 22, S1 and S2.
#[test]
fn a_belief_that_only_a_former_leader_renews_ends_in_time() {
    let mut s = Scene::new(1);
    let p = s.holder(P);
    let [q] = s.enters(Q, [1]);
    s.pass(secs(3));
    s.is_cut_off(P);
    s.end_session(P, 0);
    until_only_q_holds(&mut s, p, q);
    assert!(s.was_lost(p) && s.names() == [Q]);
}

/// Scene 23, S1 and S2.
#[test]
fn a_handover_of_a_slot_whose_name_was_removed_grants_nothing() {
    let mut s = Scene::new(1);
    let first = s.holder(P);
    s.hold(P, hands_over);
    let second = s.next_turn(first);
    assert!(s.has(P, hands_over));
    s.remove_from_record(P);
    s.let_through_until(P, |it| writes_record(it) || polls(it));
    assert!(!s.was_granted(second));
    assert_eq!(s.names(), [0; 0]);
    s.let_through(P);
    s.pass(millis(200));
    assert!(s.holds(second), "by a claim");
    assert_eq!((s.names(), s.keys()), (vec![P], vec![P]));
}

/// Scene 24, L2 and S4.
#[test]
fn answers_that_are_older_than_an_own_write_change_nothing_for_a_waiter() {
    let mut s = Scene::new(1);
    let r = s.holder(R);
    s.reads_from_the_past(P);
    let [p] = s.enters(P, [1]);
    s.pass(secs(20));
    assert!(s.sent(P, lists_confirmed) >= 1);
    assert_eq!((s.keys(), s.refusals(P)), (vec![R, P], 0));
    s.release(r);
    s.pass_until(secs(6), |s| s.holds(p));
    assert_eq!((s.names(), s.refusals(P)), (vec![P], 0));
}

/// Scene 24, S4.
#[test]
fn answers_that_are_older_than_an_own_write_change_nothing_for_a_holder() {
    let mut s = Scene::new(2);
    s.holder(R);
    s.reads_from_the_past(P);
    let p = s.holder(P);
    s.pass(secs(100));
    assert!(s.holds(p));
    assert_eq!((s.names(), s.keys()), (vec![P, R], vec![R, P]));
    let reads = s.sent(P, reads_plainly);
    s.release(p);
    s.pass(secs(1));
    assert!(s.sent(P, reads_plainly) > reads, "a release reads first");
    assert!(s.was_released(p) && s.names() == [R]);
    s.assert_gone(P);
    assert_eq!(s.refusals(P), 0);
}

/// Scene 25, S5.
#[test]
fn tokens_rise_though_a_handover_writes_no_record() {
    let mut s = Scene::new(1);
    let mut p = s.holder(P);
    let [q] = s.enters(Q, [1]);
    let mut tokens = vec![s.token(p)];
    for _ in 0..3 {
        p = s.next_turn(p);
        assert!(s.holds(p));
        tokens.push(s.token(p));
    }
    assert_eq!(s.sent(P, hands_over), 3);
    s.release(p);
    s.run();
    assert!(s.holds(q));
    tokens.push(s.token(q));
    assert!(
        tokens.windows(2).all(|pair| pair[0] < pair[1]),
        "{tokens:?}"
    );
}
