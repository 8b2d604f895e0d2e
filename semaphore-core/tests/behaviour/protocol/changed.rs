//! Grants by age, limits, keys by hand.

use semaphore_core::sans_io::Record;

use crate::protocol::bench::*;
use crate::support::steps::{claims, deletes_key, destroys_session};
use crate::support::*;

const DEAD: [&str; 2] = [
    "4f0e1b62-6f6c-4c6e-9c1f-2f0a4a1d0001",
    "4f0e1b62-6f6c-4c6e-9c1f-2f0a4a1d0002",
];

fn with_two_dead_holders(record_limit: u32, limit: u32) -> Scene {
    let mut s = Scene::new(limit);
    let mut record = Record::new(record_limit);
    for name in DEAD {
        record.add(name);
    }
    s.write_record(&String::from_utf8(record.encode()).expect("JSON"));
    s
}

/// Scene 34, S5.
#[test]
fn a_slot_whose_caller_gave_up_is_handed_over_to_one_that_came_later() {
    let mut s = Scene::new(2);
    s.hold_answer(P, claims);
    let [gone] = s.enters(P, [1]);
    assert_eq!(s.names(), [P]);
    s.gives_up(gone);
    let q = s.holder(Q);
    let later = s.acquire(P);
    s.run();
    s.let_through(P);
    assert!(s.holds(q) && s.holds(later));
    assert!(s.token(later) > s.token(q));
}

/// Scene 35, S1.
#[test]
fn a_claim_leaves_no_more_names_than_a_limit_that_was_lowered() {
    let mut s = with_two_dead_holders(1, 1);
    let [p] = s.enters(P, [1]);
    s.pass(secs(2));
    assert!(s.holds(p));
    assert_eq!(s.names(), [P]);
}

/// Scene 36, S1 and L1.
#[test]
fn all_keys_deleted_by_hand_are_noticed() {
    let mut s = Scene::new(1);
    let p = s.holder(P);
    let q = s.waits_with_a_list(Q);
    s.let_through(Q);
    s.delete_key(P, 0);
    s.pass(secs(40));
    assert!(s.was_lost(p) && s.holds(q));
    assert_eq!(s.names(), [Q]);
}

/// Scene 36, L1.
#[test]
fn a_key_deleted_by_hand_before_there_is_a_record_is_entered_again() {
    let mut s = Scene::new(1);
    s.hold(P, claims);
    let [p] = s.enters(P, [1]);
    s.delete_key(P, 0);
    s.let_through(P);
    s.pass(secs(2));
    assert!(s.holds(p));
}

/// Scene 37, the queue.
#[test]
fn a_slot_that_is_given_up_is_not_taken_past_a_waiter() {
    let mut s = Scene::new(1);
    let p = s.holder(P);
    s.release(p);
    s.run();
    let p = s.holder(P);
    s.pass(millis(300));
    let [q] = s.enters(Q, [1]);
    let next = s.acquire(P);
    s.release(p);
    s.run();
    assert!(s.holds(q) && !s.holds(next));
}

/// Scene 38, L1.
#[test]
fn two_dead_holders_need_one_list() {
    let mut s = with_two_dead_holders(2, 2);
    let calls = s.enters(P, [1, 1]);
    assert!(calls.iter().all(|call| s.holds(*call)));
}

/// Scene 39, L2.
#[test]
fn a_late_claim_of_one_whose_key_may_not_be_deleted_leaves_no_name() {
    let mut s = Scene::new(1);
    s.hold(P, claims);
    let [p] = s.enters(P, [1]);
    assert!(s.has(P, claims) && s.keys() == [P]);
    s.time_out(P);
    s.gives_up(p);
    s.hold(P, deletes_key);
    s.hold(P, destroys_session);
    s.pass_until(secs(2), |s| s.has(P, deletes_key));
    s.denies(P);
    assert!(s.arrives_late(P));
    s.let_through(P);
    s.pass(secs(30));
    s.assert_gone(P);
}
