//! Whose turn it is, and who has room.

use crate::machine::semaphore::admission::tests::*;

const ENTERED: Index = Index(1_000);

fn entered(id: &str) -> Contender {
    Contender {
        session: session(id),
        create_index: ENTERED,
        modify_index: ENTERED,
        lock_index: 1,
        flags: 0,
        eviction: None,
        value: None,
    }
}

#[test]
fn as_many_of_the_queue_may_claim_as_there_are_free_slots() {
    let keys = queue();
    for (limit, first, turn) in [
        (1, A, Turn::Now),
        (1, B, Turn::BehindOthers),
        (2, B, Turn::Now),
        (2, C, Turn::BehindOthers),
        (3, C, Turn::Now),
    ] {
        let found = record(limit, &[]);
        let view = shown(&found, &keys).view();
        let situation = Situation {
            wanted: &[1],
            admissible: &[ours(first)],
            ..idle(&view)
        };
        let (write, found) = situation.plan();
        assert_eq!(found, turn, "{first} of {limit}");
        assert_eq!(write.is_some(), turn == Turn::Now);
    }
}

#[test]
fn holders_do_not_wait_and_nobody_waits_for_them() {
    let found = record(2, &[A]);
    let view = shown(&found, &queue()).view();
    let situation = Situation {
        wanted: &[1],
        admissible: &[ours(B)],
        ..idle(&view)
    };
    assert_eq!(situation.plan().1, Turn::Now);
    assert_eq!(situation.ahead().count(), 0);
}

#[test]
fn a_session_that_is_in_the_record_already_has_its_place_in_the_queue() {
    for (limit, turn) in [(1, Turn::BehindOthers), (2, Turn::Now)] {
        let found = record(limit, &[B]);
        let view = shown(&found, &queue()).view();
        let situation = Situation {
            wanted: &[1],
            admissible: &[ours(B)],
            ..idle(&view)
        };
        assert_eq!(situation.plan().1, turn);
    }
}

#[test]
fn a_slot_that_the_record_shows_as_ours_is_taken_before_a_free_one() {
    // C should pass to the next caller in our queue, but B entered before it and waits for a slot.
    let found = record(2, &[A, C]);
    let view = shown(&found, &[(A, A), (B, B), (C, C)]).view();
    let situation = Situation {
        wanted: &[1],
        admissible: &[ours(B), ours(C)],
        ..idle(&view)
    };
    let (write, turn) = situation.plan();
    assert_eq!(turn, Turn::Now);
    assert_eq!(holders(write.as_ref()), [A, C], "two slots");
    assert_eq!(write.unwrap().admit, [no(C)]);
}

#[test]
fn everybody_is_ahead_of_one_whose_key_is_not_in_view_yet() {
    let found = record(2, &[]);
    let view = shown(&found, &[(A, A), (B, B)]).view();
    let situation = Situation {
        wanted: &[1],
        admissible: &[ours(C)],
        ..idle(&view)
    };
    assert_eq!(situation.plan(), (None, Turn::BehindOthers));
    assert_eq!(situation.ahead().count(), 2);
}

/// `C` enters after the prefix was read: somebody may have come before it since then.
#[test]
fn one_that_does_not_know_its_place_leaves_a_slot_to_somebody_unknown() {
    for (limit, turn) in [(1, Turn::BehindOthers), (2, Turn::Now)] {
        let found = record(limit, &[]);
        let mut view = shown(&found, &[]).view();
        assert!(view.index() < ENTERED);
        view.enter(entered(C));
        let situation = Situation {
            wanted: &[1],
            admissible: &[ours(C)],
            ..idle(&view)
        };
        assert_eq!(situation.place(0), Place::Unknown);
        assert_eq!(situation.plan().1, turn, "{limit}");
    }
    let found = record(1, &[]);
    let view = shown(&found, &[(C, C)]).view();
    let situation = Situation {
        wanted: &[1],
        admissible: &[ours(C)],
        ..idle(&view)
    };
    assert_eq!(situation.place(0), Place::Known, "a list shows everybody");
    assert_eq!(situation.plan().1, Turn::Now);
}

#[test]
fn one_whose_patience_is_over_claims_out_of_turn() {
    let found = record(1, &[]);
    let view = shown(&found, &queue()).view();
    let situation = Situation {
        wanted: &[1],
        admissible: &[ours(C)],
        patience_is_over: true,
        ..idle(&view)
    };
    let (write, turn) = situation.plan();
    assert_eq!(turn, Turn::Now);
    assert_eq!(holders(write.as_ref()), [C]);
    let ahead: Vec<_> = situation.ahead().map(SessionId::as_str).collect();
    assert_eq!(ahead, [A, B], "these are overtaken");
}

#[test]
fn patience_gives_nobody_a_slot_that_is_not_free() {
    let found = record(1, &[A]);
    let view = shown(&found, &queue()).view();
    let situation = Situation {
        wanted: &[1],
        admissible: &[ours(B)],
        patience_is_over: true,
        ..idle(&view)
    };
    assert_eq!(situation.plan(), (None, Turn::NotYet));
}

#[test]
fn those_who_were_overtaken_are_not_waited_for() {
    let found = record(1, &[]);
    let view = shown(&found, &queue()).view();
    for (overtaken, turn) in [
        (&[A][..], Turn::BehindOthers),
        (&[B], Turn::BehindOthers),
        (&[A, B], Turn::Now),
    ] {
        let overtaken = overtaken.iter().map(|id| session(id)).collect();
        let situation = Situation {
            wanted: &[1],
            admissible: &[ours(C)],
            overtaken: &overtaken,
            ..idle(&view)
        };
        assert_eq!(situation.plan().1, turn, "{overtaken:?}");
    }
}

#[test]
fn those_of_ours_who_leave_are_not_waited_for() {
    let found = record(1, &[]);
    let view = shown(&found, &queue()).view();
    for (leaver, turn) in [(A, Turn::Now), (C, Turn::BehindOthers)] {
        let situation = Situation {
            wanted: &[1],
            admissible: &[ours(B)],
            leaving: &[leaving(leaver, Presence::Maybe(Index(50)))],
            ..idle(&view)
        };
        assert_eq!(situation.plan().1, turn, "{leaver}");
    }
}

#[test]
fn several_permits_are_admitted_in_one_write_or_not_at_all() {
    let us = [ours(A), ours(B)];
    let full = (vec![no(A), no(B)], Turn::Now);
    for (holders, admissible, expected) in [
        (&[][..], &us[..], full),
        (&[C], &us, (vec![], Turn::NotYet)),
        (&[], &us[..1], (vec![], Turn::NotYet)),
        (&[], &[], (vec![], Turn::NotYet)),
    ] {
        let found = record(2, holders);
        let view = shown(&found, &queue()).view();
        let situation = Situation {
            wanted: &[2],
            admissible,
            ..idle(&view)
        };
        let (write, turn) = situation.plan();
        let admitted = write.map(|write| write.admit).unwrap_or_default();
        assert_eq!((admitted, turn), expected);
    }
}

#[test]
fn several_permits_leave_enough_for_those_ahead() {
    for (limit, turn) in [(2, Turn::BehindOthers), (3, Turn::Now)] {
        let found = record(limit, &[]);
        let view = shown(&found, &queue()).view();
        let situation = Situation {
            wanted: &[2],
            admissible: &[ours(B), ours(C)],
            ..idle(&view)
        };
        assert_eq!(situation.plan().1, turn, "{limit}");
    }
}

#[test]
fn nobody_is_admitted_to_a_record_with_more_holders_than_slots() {
    let found = record(1, &[A, B]);
    let view = shown(&found, &queue()).view();
    let claim = Situation {
        wanted: &[1],
        admissible: &[ours(C)],
        patience_is_over: true,
        ..idle(&view)
    };
    assert_eq!(claim.plan(), (None, Turn::NotYet));
    let reached = Refusal::LimitReached { free: 0, limit: 1 };
    assert_eq!(refusal(&claim, 1), Some(reached));
    // One of two surplus holders leaves: still no slot is free.
    let leaving = [leaving(A, Presence::Yes(Index(40)))];
    let handover = Situation {
        leaving: &leaving,
        ..claim
    };
    let (write, turn) = handover.plan();
    assert_eq!(turn, Turn::NotYet);
    assert_eq!(holders(write.as_ref()), [B]);
}

#[test]
fn a_newcomer_has_room_beyond_those_who_hold_and_wait_and_is_told_why_not() {
    let others_wait = |waiters, free| Some(Refusal::OthersWait { waiters, free });
    let limit_reached = |free, limit| Some(Refusal::LimitReached { free, limit });
    for (limit, holders, permits, expected) in [
        (3, &[A][..], 1, others_wait(2, 2)),
        (4, &[A], 1, None),
        (4, &[A], 2, others_wait(2, 3)),
        (4, &[A], 4, limit_reached(3, 4)),
        (3, &[], 1, others_wait(3, 3)),
        (3, &[A, B, C], 1, limit_reached(0, 3)),
        (4, &[A, B, C], 1, None),
        (4, &[A, B, C], 2, limit_reached(1, 4)),
    ] {
        let found = record(limit, holders);
        let view = shown(&found, &queue()).view();
        let refused = refusal(&idle(&view), permits);
        assert_eq!(refused, expected, "{permits} of {limit} beside {holders:?}");
    }
}

#[test]
fn a_newcomer_has_room_where_there_is_no_record_yet() {
    assert_eq!(refusal(&idle(&Shown::default().view()), 1), None);
}

#[test]
fn a_newcomer_counts_on_the_places_of_the_dead_and_of_ours_who_leave() {
    let found = record(1, &[C]);
    let dead = shown(&found, &[]);
    let view = dead.view();
    assert_eq!(refusal(&idle(&view), 1), None);
    let withheld = BTreeSet::from([session(C)]);
    let situation = Situation {
        withheld: &withheld,
        ..idle(&view)
    };
    assert_eq!(
        refusal(&situation, 1),
        Some(Refusal::LockDelay { withheld: 1 }),
        "not yet to be pruned"
    );
    let reached = Refusal::LimitReached { free: 0, limit: 1 };
    assert_eq!(refusal(&situation, 2), Some(reached));
    let hidden = Shown {
        filtered: true,
        ..dead
    };
    let reached = Refusal::LimitReached { free: 0, limit: 1 };
    assert_eq!(refusal(&idle(&hidden.view()), 1), Some(reached));
    let view = shown(&found, &[(C, C)]).view();
    let situation = Situation {
        leaving: &[leaving(C, Presence::Yes(Index(40)))],
        ..idle(&view)
    };
    assert_eq!(refusal(&situation, 1), None);
}
