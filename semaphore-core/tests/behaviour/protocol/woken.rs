//! Being woken, and order.

use std::time::Duration;

use crate::protocol::bench::*;
use crate::protocol::requests::*;
use crate::support::steps::{claims, enters};
use crate::support::*;

const STAY: Duration = millis(200);

/// Scene 1, L1.
#[test]
fn a_waiter_behind_a_key_that_was_deleted_and_entered_again_claims_at_once() {
    let mut s = Scene::new(1);
    let r = s.holder(R);
    let [q] = s.enters(Q, [1]);
    let p = s.waits_with_a_list(P);
    s.release(r);
    s.run();
    assert!(s.holds(q));
    s.release(q);
    s.run();
    let [q] = s.enters(Q, [1]);
    assert_eq!(s.sessions_created(Q), 1, "the kept session");
    assert_eq!(s.keys(), [P, Q]);
    assert!(s.has(P, polls));
    s.let_through(P);
    assert!(s.holds(p));
    s.release(p);
    s.run();
    assert!(s.holds(q));
}

/// Scene 2, L1.
#[test]
fn a_waiter_behind_a_key_that_left_and_came_back_needs_no_write_of_the_record() {
    let mut s = Scene::new(1);
    let r = s.holder(R);
    let [q] = s.enters(Q, [1]);
    s.pass(secs(4));
    // Q lists, and does not hear of the release.
    s.hold(Q, polls);
    let [p] = s.enters(P, [1]);
    s.pass_until(secs(2), |s| s.has(Q, polls));
    s.release(r);
    // P lists after the release.
    s.pass(secs(3));
    s.hold(P, polls);
    s.pass_until(secs(2), |s| s.has(P, polls));
    s.gives_up(q);
    s.let_through(Q);
    assert_eq!(s.keys(), [P]);
    let [q] = s.enters(Q, [1]);
    assert_eq!(s.sessions_created(Q), 1, "the kept session");
    assert_eq!(s.keys(), [P, Q]);
    assert!(s.has(P, polls));
    s.let_through(P);
    assert!(s.holds(p));
    s.release(p);
    s.run();
    assert!(s.holds(q));
}

/// Scene 3, L1.
#[test]
fn a_waiter_behind_a_key_that_was_handed_over_claims_what_became_free_before() {
    let mut s = Scene::new(2);
    let [r, last] = s.enters(R, [1, 1]);
    let [first] = s.enters(P, [1]);
    let q = s.waits_with_a_list(Q);
    s.release(r);
    s.run();
    assert!(s.holds(first));
    s.release(last);
    s.run();
    let second = s.next_turn(first);
    assert!(s.holds(second) && s.sent(P, hands_over) == 1);
    s.let_through(Q);
    assert!(s.holds(q) && s.holds(second));
}

/// Scene 4, L1.
#[test]
fn a_waiter_behind_two_of_one_process_claims_when_both_are_gone() {
    for moment in 0..3 {
        let mut s = Scene::new(1);
        let r = s.holder(R);
        let [first, second] = s.enters(P, [1, 1]);
        let q = s.waits_with_a_list(Q);
        assert_eq!(s.keys(), [R, P, P, Q]);
        for (at, call) in [r, first, second].into_iter().enumerate() {
            s.release(call);
            s.run();
            if at == moment {
                s.let_through(Q);
            }
        }
        assert!(s.was_granted(first) && s.was_granted(second), "{moment}");
        assert!(s.holds(q), "{moment}");
    }
}

/// Scene 5, L1.
#[test]
fn a_waiter_behind_a_key_that_holds_by_now_claims_the_next_slot() {
    let mut s = Scene::new(2);
    let r = s.holder(R);
    s.hold_answer(P, enters);
    let [p] = s.enters(P, [1]);
    let [q] = s.enters(Q, [1]);
    s.let_through(P);
    assert!(s.holds(p) && !s.holds(q));
    s.release(r);
    s.run();
    assert!(s.holds(q) && s.holds(p));
}

/// Scene 6, L1.
#[test]
fn a_second_caller_is_woken_after_the_claim_for_the_first() {
    let mut s = Scene::new(2);
    let r = s.holder(R);
    let [first, second] = s.enters(P, [1, 1]);
    assert!(s.holds(first) && !s.holds(second));
    s.release(r);
    s.run();
    assert!(s.holds(first) && s.holds(second));
}

/// Scene 7, L1.
#[test]
fn a_refused_claim_is_sent_again_though_nothing_changes_any_more() {
    for is_freed_before in [true, false] {
        let mut s = Scene::new(1);
        let r = s.holder(R);
        s.release(r);
        s.run();
        s.hold(Q, claims);
        let [q] = s.enters(Q, [1]);
        assert!(s.has(Q, claims));
        let r = s.holder(R);
        if !is_freed_before {
            s.reaches_consul(Q);
        }
        s.release(r);
        s.run();
        assert_eq!(s.names(), [0; 0]);
        s.let_through(Q);
        assert_eq!(s.refusals(Q), 1, "{is_freed_before}");
        assert!(s.holds(q), "{is_freed_before}");
    }
}

/// Scene 8, L1.
#[test]
fn a_waiter_whose_caller_gave_up_is_in_nobodys_way() {
    let mut s = Scene::new(1);
    let r = s.holder(R);
    let [p] = s.enters(P, [1]);
    let [q] = s.enters(Q, [1]);
    s.gives_up(p);
    s.run();
    assert_eq!(s.keys(), [R, Q]);
    s.release(r);
    s.run();
    assert!(s.holds(q));
    s.assert_gone(P);
}

/// Scene 9, L1 and L2.
#[test]
fn a_place_without_a_caller_is_kept_for_the_next_one_while_others_wait_here() {
    let mut s = Scene::new(1);
    let r = s.holder(R);
    let [gone, first] = s.enters(P, [1, 1]);
    let [q] = s.enters(Q, [1]);
    s.gives_up(gone);
    s.run();
    let [second] = s.enters(P, [1]);
    assert_eq!(s.keys(), [R, P, P, Q]);
    assert_eq!(s.sent(P, enters), 1, "nobody enters again");
    s.release(r);
    s.run();
    assert!(s.holds(first));
    s.release(first);
    s.run();
    assert!(s.holds(second));
    assert_eq!(s.keys(), [P, Q]);
    s.release(second);
    s.run();
    assert!(s.holds(q));
    s.assert_gone(P);
}

/// Scene 10, L1.
#[test]
fn a_waiter_behind_another_program_claims_as_soon_as_its_key_is_gone() {
    let mut s = Scene::new(1);
    let go = s.somebody_enters(flags_of_go());
    s.hold(P, polls);
    let [p] = s.enters(P, [1]);
    assert_eq!(s.keys(), [OTHER, P]);
    for holders in [format!(r#"{{"{go}":true}}"#), "{}".to_owned()] {
        s.write_record(&format!(r#"{{"Limit":1,"Holders":{holders}}}"#));
    }
    s.let_through(P);
    assert_eq!((s.names(), s.keys()), (vec![], vec![OTHER, P]));
    s.delete_key(OTHER, 0);
    s.run();
    assert!(s.holds(p));
}

/// Scene 10, if the other program keeps its slot: its key does not tell that it was served.
#[test]
fn a_waiter_behind_another_program_that_holds_claims_the_next_slot() {
    let mut s = Scene::new(2);
    let r = s.holder(R);
    let go = s.somebody_enters(flags_of_go());
    s.hold(P, claims);
    let [p] = s.enters(P, [1]);
    assert!(s.keys() == [R, OTHER, P] && !s.has(P, claims));
    s.let_through(P);
    s.adds_to_record(&go);
    s.run();
    assert_eq!(s.names(), [R, OTHER]);
    s.release(r);
    s.run();
    assert!(s.holds(p));
}

/// Scene 11, L1.
#[test]
fn a_newcomer_that_lost_a_race_enters_and_is_served_after_the_others_stay() {
    let mut s = Scene::new(1);
    let q = s.holder(Q);
    s.release(q);
    s.run();
    s.hold(Q, claims);
    let [q] = s.enters(Q, [1]);
    assert!(s.has(Q, enters_and_claims));
    let mut p = s.holder(P);
    s.let_through(Q);
    assert_eq!((s.refusals(Q), s.keys()), (1, vec![P, Q]));
    let [mut next] = s.enters(P, [1]);
    let since = s.now;
    while !s.holds(q) {
        s.pass(millis(10));
        (p, next) = (next, s.next_turn(p));
    }
    assert!(s.now <= since + STAY + millis(10));
    assert_eq!(s.refusals(Q), 1, "nobody can refuse it");
}

/// Scene 11, if each caller of P comes when the one before it is done.
#[test]
fn a_newcomer_that_lost_a_race_is_not_passed_by_who_comes_later() {
    let mut s = Scene::new(1);
    let q = s.holder(Q);
    s.release(q);
    s.run();
    s.hold(Q, claims);
    let [q] = s.enters(Q, [1]);
    let mut p = s.holder(P);
    s.let_through(Q);
    assert_eq!((s.refusals(Q), s.keys()), (1, vec![P, Q]));
    let since = s.now;
    while !s.holds(q) {
        s.pass(millis(10));
        p = s.next_turn(p);
    }
    assert!(s.now <= since + STAY + millis(10));
}

/// Scene 12, L1.
#[test]
fn a_slot_that_stayed_long_enough_is_given_to_who_waits_elsewhere() {
    let mut s = Scene::new(1);
    let mut p = s.holder(P);
    let [q] = s.enters(Q, [1]);
    let [mut next] = s.enters(P, [1]);
    let mut turns = 0;
    while !s.holds(q) {
        s.pass(millis(10));
        (p, next) = (next, s.next_turn(p));
        turns += 1;
    }
    assert_eq!(turns, 20, "of 10 ms each");
    assert_eq!(s.names(), [Q]);
    s.release(q);
    s.run();
    assert!(s.holds(p) && !s.was_granted(next));
}

/// Scene 13, L1.
#[test]
fn a_stuck_waiter_and_a_dead_holder_cost_their_time_and_no_more() {
    let mut s = Scene::new(1);
    s.somebody_enters(flags_of(1));
    let [p] = s.enters(P, [1]);
    let poll = secs(5) * 17 / 16;
    s.pass_until(poll + secs(1), |s| s.holds(p));
    s.hold(P, all);
    let [q] = s.enters(Q, [1]);
    s.pass_until(secs(30 + 15) + 2 * poll + secs(1), |s| {
        assert!(!(s.holds(p) && s.holds(q)));
        s.holds(q)
    });
    assert_eq!(s.names(), [Q]);
}
