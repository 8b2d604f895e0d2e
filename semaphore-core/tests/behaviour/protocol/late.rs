//! Late, lost and refused writes. A late write is one that Consul applies after its sender gave it up.

use crate::protocol::bench::*;
use crate::protocol::requests::*;
use crate::support::steps::{claims, destroys_session, enters, withdraws};
use crate::support::*;

/// Scene 14, S1.
#[test]
fn a_late_release_takes_no_slot_that_was_handed_over() {
    for (comes_before, passed) in [(true, 0), (true, 500), (false, 0), (false, 500)] {
        let mut s = Scene::new(1);
        let first = s.holder(P);
        let [q] = s.enters(Q, [1]);
        s.hold(P, withdraws);
        s.release(first);
        s.run();
        assert!(s.has(P, withdraws));
        let early = comes_before.then(|| s.acquire(P));
        s.time_out(P);
        s.run();
        let second = early.unwrap_or_else(|| s.acquire(P));
        s.pass(millis(passed));
        let is_over = s.was_granted(second) || s.was_granted(q);
        assert_eq!(s.arrives_late(P), !is_over);
        s.pass(secs(1));
        assert!(s.holds(q) != s.holds(second) && s.names().len() == 1);
        let [now, next] = if s.holds(q) { [q, second] } else { [second, q] };
        s.release(now);
        s.run();
        assert!(s.holds(next));
    }
}

/// Scene 15, L2.
#[test]
fn a_late_claim_of_who_has_left_is_refused() {
    for has_record in [true, false] {
        let mut s = Scene::new(1);
        if has_record {
            let r = s.holder(R);
            s.release(r);
            s.run();
        }
        s.hold(Q, claims);
        let [q] = s.enters(Q, [1]);
        assert!(s.has(Q, claims) && s.keys() == [Q]);
        s.time_out(Q);
        s.gives_up(q);
        s.pass_until(secs(1), |s| s.keys().is_empty());
        assert!(!s.arrives_late(Q));
        s.assert_gone(Q);
    }
}

/// Scene 16, L2.
#[test]
fn a_late_entry_leaves_nothing_whenever_it_arrives() {
    for moment in 0..3 {
        let mut s = Scene::new(1);
        let p = s.holder(P);
        s.release(p);
        s.run();
        s.hold(P, enters_and_claims);
        let [p] = s.enters(P, [1]);
        s.time_out(P);
        s.gives_up(p);
        s.hold(P, parks);
        s.pass_until(secs(2), |s| s.has(P, parks));
        assert_eq!(moment == 0 && s.arrives_late(P), moment == 0);
        s.let_through_until(P, destroys_session);
        assert!(moment != 1 || !s.arrives_late(P));
        s.let_through(P);
        s.pass(secs(2));
        assert!(moment != 2 || !s.arrives_late(P));
        s.assert_gone(P);
        assert!(!s.was_granted(p));
    }
}

/// Scene 17, L2.
#[test]
fn a_late_claim_after_a_lost_entry_leaves_nothing() {
    for is_before_park in [true, false] {
        let mut s = Scene::new(1);
        s.hold_answer(Q, enters);
        let [q] = s.enters(Q, [1]);
        s.time_out(Q);
        s.hold(Q, claims);
        s.pass_until(secs(1), |s| s.has(Q, claims));
        s.gives_up(q);
        s.time_out(Q);
        s.hold(Q, parks);
        s.pass_until(secs(2), |s| s.has(Q, parks));
        if is_before_park {
            assert!(s.arrives_late(Q));
            assert_eq!(s.names(), [Q]);
        }
        s.let_through_until(Q, destroys_session);
        assert!(is_before_park || !s.arrives_late(Q));
        s.let_through(Q);
        s.pass(secs(2));
        s.assert_gone(Q);
        assert!(!s.was_granted(q));
    }
}

/// Scene 18, L2.
#[test]
fn a_late_handover_brings_no_key_back() {
    let mut s = Scene::new(1);
    let first = s.holder(P);
    let [q] = s.enters(Q, [1]);
    let [second] = s.enters(P, [1]);
    s.hold(P, hands_over);
    s.release(first);
    s.run();
    assert!(s.has(P, hands_over));
    s.time_out(P);
    s.pass_until(secs(1), |s| s.holds(second));
    s.release(second);
    s.run();
    assert!(s.holds(q) && s.keys() == [Q]);
    assert_eq!(s.sessions(P), 2, "kept");
    assert!(!s.arrives_late(P));
    assert_eq!(s.keys(), [Q]);
    s.assert_gone(P);
}
