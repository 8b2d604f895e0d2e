//! Callers who want several slots at once.

use crate::protocol::bench::*;
use crate::protocol::requests::*;
use crate::support::steps::{destroys_session, enters};
use crate::support::*;

/// The longest wait of a poll, with Consul's jitter.
const POLL: std::time::Duration = millis(5_000 + 5_000 / 16);
/// The longest patience.
const PATIENCE: std::time::Duration = secs(1);

/// Scene 26, L1.
#[test]
fn room_that_a_group_gathers_is_not_claimed_by_patience() {
    let mut s = Scene::new(2);
    let (q, r) = (s.holder(Q), s.holder(R));
    let [p] = s.enters(P, [2]);
    let ([next_q], [next_r]) = (s.enters(Q, [1]), s.enters(R, [1]));
    s.pass(millis(300));
    s.release(q);
    s.pass(secs(20));
    assert_eq!((s.names(), s.keys()), (vec![R], vec![R, P, P, Q, R]));
    s.release(r);
    s.run();
    assert!(s.holds(p) && s.names() == [P, P]);
    s.release(p);
    s.run();
    assert!(s.holds(next_q) && s.holds(next_r));
}

/// Scene 26, if R's next caller comes when the one before it is done.
#[test]
fn room_that_a_group_gathers_is_not_claimed_by_who_comes_later() {
    let mut s = Scene::new(2);
    let (q, r) = (s.holder(Q), s.holder(R));
    let [p] = s.enters(P, [2]);
    s.pass(millis(300));
    s.release(q);
    s.pass(secs(20));
    assert_eq!((s.names(), s.keys()), (vec![R], vec![R, P, P]));
    s.next_turn(r);
    assert!(s.holds(p) && s.names() == [P, P]);
}

/// Scene 27, L1.
#[test]
fn a_stuck_group_at_the_head_keeps_one_free_slot_and_not_two() {
    let mut s = Scene::new(2);
    let p = s.holder(P);
    s.somebody_enters(flags_of(2));
    let [q] = s.enters(Q, [1]);
    s.pass(secs(20));
    assert!(!s.holds(q) && s.names() == [P]);
    s.release(p);
    // It learns of the second slot with the end of its poll of the key ahead.
    s.pass_until(POLL, |s| s.holds(q));
}

/// Scene 27, L1: who comes later knows it at once.
#[test]
fn behind_a_stuck_group_of_one_key_a_second_slot_is_claimed_at_once() {
    let mut s = Scene::new(2);
    s.somebody_enters(flags_of(2));
    let [q] = s.enters(Q, [1]);
    assert!(s.holds(q));
}

/// Scene 27, L1.
#[test]
fn a_stuck_group_that_is_larger_than_the_limit_is_passed_after_patience() {
    let mut s = Scene::new(1);
    s.somebody_enters(flags_of(2));
    let [q] = s.enters(Q, [1]);
    s.pass_until(POLL + PATIENCE, |s| s.holds(q));
}

/// Scene 28, L2.
#[test]
fn a_group_that_gives_up_while_its_claim_is_unknown_leaves_nothing() {
    for moment in 0..3 {
        let mut s = Scene::new(2);
        let p = s.holder(P);
        s.release(p);
        s.run();
        s.hold(P, enters_and_claims);
        let [p] = s.enters(P, [2]);
        assert!(s.has(P, enters_and_claims));
        s.time_out(P);
        s.gives_up(p);
        s.hold(P, parks);
        s.pass_until(secs(2), |s| s.has(P, parks));
        if moment == 0 {
            assert!(s.arrives_late(P));
            assert_eq!(s.names(), [P, P]);
        }
        s.let_through_until(P, destroys_session);
        assert!(moment != 1 || !s.arrives_late(P));
        s.let_through(P);
        s.pass_until(secs(2), |s| s.keys().is_empty());
        assert!(moment != 2 || !s.arrives_late(P));
        let [q] = s.enters(Q, [2]);
        assert!(s.holds(q) && !s.was_granted(p), "{moment}");
        s.assert_gone(P);
    }
}

/// Scene 29, S1.
#[test]
fn a_group_that_loses_one_slot_has_lost_all_and_gives_the_other_one_on() {
    for has_next in [true, false] {
        let mut s = Scene::new(2);
        let [p] = s.enters(P, [2]);
        assert!(s.holds(p));
        let [q] = s.enters(Q, [1]);
        let next = has_next.then(|| s.enters(P, [1])[0]);
        s.pass(secs(2));
        s.end_session(P, 0);
        s.pass_until(secs(2), |s| s.was_lost(p));
        assert!(!s.holds(p));
        s.release(p);
        s.pass_until(secs(2), |s| s.holds(q) && next.is_none_or(|it| s.holds(it)));
        let names = if has_next { vec![P, Q] } else { vec![Q] };
        assert_eq!(s.names(), names);
    }
}

/// Scene 29, S1: nobody hears of the loss.
#[test]
fn a_slot_of_a_group_whose_session_ended_early_is_pruned_only_after_its_belief() {
    let mut s = Scene::new(2);
    let [p] = s.enters(P, [2]);
    let [q] = s.enters(Q, [1]);
    s.hold(P, all);
    s.end_session(P, 0);
    let waited = s.pass_until(secs(40), |s| {
        assert!(!(s.holds(p) && s.holds(q)));
        s.holds(q)
    });
    assert!(waited >= secs(15), "{waited:?}");
}

/// Scene 30, L1.
#[test]
fn a_waiting_group_that_lost_a_session_enters_again_and_is_in_nobodys_way() {
    let mut s = Scene::new(2);
    let r = s.holder(R);
    let [p] = s.enters(P, [2]);
    let [q] = s.enters(Q, [1]);
    assert_eq!(s.keys(), [R, P, P, Q]);
    s.end_session(P, 0);
    // Its renewal tells P, who deletes the other key at once.
    s.pass_until(secs(6), |s| s.keys() == [R, Q]);
    assert!(s.holds(q), "without patience");
    s.pass_until(secs(1), |s| s.keys() == [R, Q, P, P]);
    s.release(r);
    s.run();
    s.release(q);
    s.run();
    assert!(s.holds(p));
}

/// Scene 31, L1.
#[test]
fn a_group_of_which_a_list_shows_a_part_enters_again_as_a_whole() {
    for at in [0, 1] {
        let mut s = Scene::new(2);
        s.hold_answer(P, enters);
        let [p] = s.enters(P, [2]);
        assert_eq!(s.keys(), [P, P]);
        s.delete_key(P, at);
        s.time_out(P);
        s.pass_until(secs(5), |s| s.holds(p));
        assert_eq!((s.names(), s.keys()), (vec![P, P], vec![P, P]));
        assert!(s.sent(P, parks) >= 1 && s.sent(P, enters) <= 3);
        s.pass(KEPT);
        assert_eq!(s.sessions(P), 2, "the first two are destroyed");
        s.release(p);
        s.run();
        s.assert_gone(P);
    }
}

/// Scene 32, L2.
#[test]
fn a_late_handover_to_a_group_brings_no_key_back() {
    let mut s = Scene::new(3);
    let [first, second] = s.enters(P, [2, 2]);
    assert!(s.holds(first) && !s.holds(second));
    s.hold(P, hands_over);
    s.release(first);
    s.run();
    assert!(s.has(P, hands_over));
    s.time_out(P);
    s.pass_until(secs(1), |s| s.holds(second));
    s.release(second);
    s.run();
    assert_eq!((s.names(), s.keys()), (vec![], vec![]));
    assert!(!s.arrives_late(P));
    assert_eq!(s.keys(), [0; 0]);
    s.assert_gone(P);
}

/// Scene 33, L1.
#[test]
fn a_group_without_a_caller_is_in_nobodys_way() {
    let mut s = Scene::new(2);
    let r = s.holder(R);
    let [group] = s.enters(P, [2]);
    let [single] = s.enters(P, [1]);
    let [q] = s.enters(Q, [1]);
    assert_eq!(s.keys(), [R, P, P, P, Q]);
    s.gives_up(group);
    s.run();
    assert_eq!(s.keys(), [R, P, Q]);
    assert!(s.holds(single) && !s.holds(q));
    s.release(r);
    s.run();
    assert!(s.holds(q));
}
