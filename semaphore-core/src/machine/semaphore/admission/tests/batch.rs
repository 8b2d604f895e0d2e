//! How many acquisitions one write admits.

use crate::machine::semaphore::admission::tests::*;

/// Whom the write admits, if callers want `wanted` permits each, and the state of the first.
fn admitted(situation: &Situation<'_>) -> (Vec<ContenderNo>, Turn) {
    let (write, turn) = situation.plan();
    (write.map(|write| write.admit).unwrap_or_default(), turn)
}

#[test]
fn one_write_admits_all_whose_turn_it_is() {
    let us = [ours(A), ours(B), ours(C)];
    for (limit, wanted, expected) in [
        (3, &[1][..], vec![no(A)]),
        (3, &[1, 1], vec![no(A), no(B)]),
        (3, &[1, 1, 1, 1], vec![no(A), no(B), no(C)]),
        (2, &[1, 1, 1], vec![no(A), no(B)]),
        (3, &[1, 2], vec![no(A), no(B), no(C)]),
        (3, &[2, 2], vec![no(A), no(B)]),
        (2, &[1, 2, 1], vec![no(A)]),
    ] {
        let found = record(limit, &[]);
        let view = shown(&found, &queue()).view();
        let situation = Situation {
            wanted,
            admissible: &us,
            ..idle(&view)
        };
        assert_eq!(
            admitted(&situation),
            (expected, Turn::Now),
            "{wanted:?} of {limit}"
        );
    }
}

#[test]
fn who_waits_between_two_of_ours_has_a_slot_left_for_it() {
    for (limit, expected) in [(1, vec![no(A)]), (2, vec![no(A)]), (3, vec![no(A), no(C)])] {
        let found = record(limit, &[]);
        let view = shown(&found, &queue()).view();
        let situation = Situation {
            wanted: &[1, 1],
            admissible: &[ours(A), ours(C)],
            ..idle(&view)
        };
        assert_eq!(admitted(&situation), (expected, Turn::Now), "{limit}");
    }
}

#[test]
fn out_of_turn_goes_the_first_alone() {
    // A waits ahead of ours.
    for (limit, is_patient, expected) in [
        (1, false, (vec![], Turn::BehindOthers)),
        (1, true, (vec![no(B)], Turn::Now)),
        (2, false, (vec![no(B)], Turn::Now)),
        (2, true, (vec![no(B)], Turn::Now)),
    ] {
        let found = record(limit, &[]);
        let view = shown(&found, &queue()).view();
        let situation = Situation {
            wanted: &[1, 1],
            admissible: &[ours(B), ours(C)],
            patience_is_over: is_patient,
            ..idle(&view)
        };
        assert_eq!(admitted(&situation), expected, "{limit} {is_patient}");
    }
}

#[test]
fn no_more_are_admitted_than_a_transaction_has_room_for_but_the_first() {
    let found = record(3, &[]);
    let view = shown(&found, &queue()).view();
    let us = [ours(A), ours(B), ours(C)];
    for (steps, leavers, expected) in [
        (6, 0, 3),
        (5, 0, 2),
        (4, 0, 2),
        (6, 1, 2),
        (6, 3, 1),
        (1, 0, 0),
        (2, 9, 1),
    ] {
        let leavers: Vec<_> = (0..leavers)
            .map(|number| {
                let id = format!("{number:08}-0000-0000-0000-000000000000");
                (
                    ContenderNo(100 + number),
                    session(&id),
                    Presence::Maybe(Index(50)),
                )
            })
            .collect();
        let situation = Situation {
            wanted: &[1, 1, 1],
            room: steps,
            admissible: &us,
            leaving: &leavers,
            ..idle(&view)
        };
        let (admitted, _) = admitted(&situation);
        assert_eq!(admitted.len(), expected, "{steps} {}", leavers.len());
    }
}

#[test]
fn those_who_find_free_slots_and_nobody_who_waits_enter_together() {
    let found = record(3, &[]);
    let view = shown(&found, &[]).view();
    let newcomers = [ours(A), ours(B), ours(C)];
    for (wanted, steps, expected) in [
        (&[1][..], 62, vec![no(A)]),
        (&[1, 1], 62, vec![no(A), no(B)]),
        (&[1, 1, 1, 1], 62, vec![no(A), no(B), no(C)]),
        (&[1, 1, 1], 2, vec![no(A), no(B)]),
        // If somebody wants several permits, each needs its own contender.
        (&[1, 2, 1], 62, vec![no(A)]),
    ] {
        let situation = Situation {
            wanted,
            room: steps,
            newcomers: &newcomers,
            ..idle(&view)
        };
        assert_eq!(admitted(&situation), (expected, Turn::Now), "{wanted:?}");
    }
}

#[test]
fn newcomers_leave_a_slot_for_each_who_waits() {
    let [d, e] = ["d", "e"].map(|letter| letter.repeat(8) + "-0000-0000-0000-000000000000");
    let newcomers = [ours(&d), ours(&e)];
    // Three wait, of whom none or the last is ours.
    let queue = queue();
    let last = [ours(C)];
    for (limit, admissible, steps, expected) in [
        (3, &[][..], 62, vec![]),
        (4, &[], 62, vec![no(&d)]),
        (5, &[], 62, vec![no(&d), no(&e)]),
        (5, &[], 2, vec![no(&d), no(&e)]),
        (5, &[], 3, vec![no(&d), no(&e)]),
        (3, &last, 62, vec![no(C)]),
        (4, &last, 62, vec![no(C), no(&d)]),
    ] {
        let found = record(limit, &[]);
        let view = shown(&found, &queue).view();
        let situation = Situation {
            wanted: &[1, 1, 1],
            room: steps,
            admissible,
            newcomers: &newcomers,
            ..idle(&view)
        };
        let context = format!("{limit} {} {steps}", admissible.len());
        assert_eq!(admitted(&situation).0, expected, "{context}");
    }
}
