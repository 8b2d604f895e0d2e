use super::*;
use crate::machine::fixture::{A, B, C, Shown, session};

static NOBODY: BTreeSet<SessionId> = BTreeSet::new();

/// Nobody of ours is there and nobody wants anything.
fn idle(view: &View) -> Situation<'_> {
    Situation {
        view,
        limit: 2,
        wanted: None,
        admissible: &[],
        leaving: &[],
        patience_is_over: false,
        sees_ours: true,
        overtaken: &NOBODY,
        dead: &NOBODY,
    }
}

/// One of ours that may be admitted, by the number of its letter.
fn ours(id: &str) -> (ContenderNo, SessionId) {
    (no(id), session(id))
}

fn no(id: &str) -> ContenderNo {
    ContenderNo(u64::from(id.as_bytes()[0] - b'a'))
}

fn leaving(id: &str, presence: Presence) -> (ContenderNo, SessionId, Presence) {
    (no(id), session(id), presence)
}

fn queue<'a>() -> [(&'a str, &'a str); 3] {
    [(A, A), (B, B), (C, C)]
}

/// A record at index 50.
fn shown<'a>(record: &'a str, keys: &'a [(&'a str, &'a str)]) -> Shown<'a> {
    Shown {
        lock: Some((50, record)),
        keys,
        filtered: false,
    }
}

fn record(limit: u32, holders: &[&str]) -> String {
    format!(r#"{{"Limit":{limit},"Holders":{holders:?}}}"#)
}

fn holders(write: Option<&Write>) -> Vec<&str> {
    write.unwrap().record.holders().collect()
}

#[test]
fn a_record_that_is_not_there_is_created_without_holders() {
    let view = Shown {
        keys: &[(A, A)],
        ..Shown::default()
    }
    .view();
    let situation = Situation {
        wanted: Some(1),
        admissible: &[ours(A)],
        ..idle(&view)
    };
    let write = Write {
        record: Record::new(2),
        base: Index::ZERO,
        admit: vec![],
        withdraw: vec![],
    };
    assert_eq!(situation.plan(), (Some(write), Turn::NotYet));
}

#[test]
fn a_record_is_created_only_for_somebody_who_waits_in_the_queue() {
    let view = Shown::default().view();
    for situation in [
        Situation {
            wanted: Some(1),
            ..idle(&view)
        },
        Situation {
            admissible: &[ours(A)],
            ..idle(&view)
        },
        Situation {
            leaving: &[leaving(A, Presence::Yes(Index(50)))],
            ..idle(&view)
        },
    ] {
        assert_eq!(situation.plan(), (None, Turn::NotYet));
    }
}

#[test]
fn what_is_no_record_is_left_alone() {
    let view = shown("another's", &[(A, A)]).view();
    let situation = Situation {
        wanted: Some(1),
        admissible: &[ours(A)],
        leaving: &[leaving(B, Presence::Maybe(Index(50)))],
        patience_is_over: true,
        ..idle(&view)
    };
    assert_eq!(situation.plan(), (None, Turn::NotYet));
}

#[test]
fn a_claim_replaces_the_record_that_it_was_decided_from() {
    let found = record(2, &[B]);
    let view = shown(&found, &[(A, A), (B, B)]).view();
    let situation = Situation {
        wanted: Some(1),
        admissible: &[ours(A)],
        ..idle(&view)
    };
    let (write, turn) = situation.plan();
    assert_eq!(turn, Turn::Now);
    assert_eq!(holders(write.as_ref()), [B, A]);
    let write = write.unwrap();
    assert_eq!(write.base, Index(50));
    let changed = format!(r#"{{"Holders":["{B}","{A}"],"Limit":2}}"#);
    assert_eq!(write.record.encode(), changed.as_bytes());
    assert_eq!((write.admit, write.withdraw), (vec![no(A)], vec![]));
}

#[test]
fn a_session_that_is_in_the_record_already_claims_the_slot_that_it_has_there() {
    let found = record(1, &[B]);
    let view = shown(&found, &[(B, B)]).view();
    let situation = Situation {
        wanted: Some(1),
        admissible: &[ours(B)],
        ..idle(&view)
    };
    assert!(situation.has_room_for(1));
    let (write, _) = situation.plan();
    assert_eq!(holders(write.as_ref()), [B]);
    let value = write.unwrap().record.encode();
    let found = Record::decode(found.as_bytes(), 0).unwrap().encode();
    assert_ne!(value, found, "Consul ignores a write of the same value");
}

#[test]
fn whoever_claims_prunes_those_who_are_certainly_dead() {
    let dead = BTreeSet::from([session(C)]);
    // No key, and found dead; a key that is tied to no session; one that is tied to another's; a
    // name that is no session's.
    for (holder, keys, dead) in [
        (C, &[(A, A)][..], &dead),
        (C, &[(A, A), (C, "")], &NOBODY),
        (C, &[(A, A), (C, A)], &NOBODY),
        ("node-1", &[(A, A)], &NOBODY),
    ] {
        let found = record(1, &[holder]);
        let view = shown(&found, keys).view();
        let situation = Situation {
            wanted: Some(1),
            admissible: &[ours(A)],
            dead,
            ..idle(&view)
        };
        assert_eq!(holders(situation.plan().0.as_ref()), [A], "{keys:?}");
        assert_eq!(situation.suspects(), NOBODY);
    }
}

#[test]
fn whoever_leaves_prunes_those_who_are_certainly_dead() {
    let found = record(2, &[A, C]);
    let view = shown(&found, &[(A, A)]).view();
    let situation = Situation {
        leaving: &[leaving(A, Presence::Yes(Index(40)))],
        dead: &BTreeSet::from([session(C)]),
        ..idle(&view)
    };
    assert_eq!(holders(situation.plan().0.as_ref()), [""; 0]);
}

#[test]
fn a_holder_without_a_key_is_suspected_and_stays() {
    let found = record(2, &[A, C]);
    let view = shown(&found, &[(B, B)]).view();
    let leaving = [leaving(A, Presence::Yes(Index(40)))];
    let situation = Situation {
        leaving: &leaving,
        ..idle(&view)
    };
    assert_eq!(holders(situation.plan().0.as_ref()), [C]);
    let suspects = BTreeSet::from([session(C)]);
    assert_eq!(situation.suspects(), suspects, "not ours, who leaves");
    let alive = shown(&found, &[(A, A), ("node-1", C)]).view();
    assert_eq!(idle(&alive).suspects(), NOBODY);
}

#[test]
fn nobody_is_pruned_or_suspected_while_no_key_of_ours_is_in_view() {
    let found = record(1, &[C]);
    let view = shown(&found, &[(C, "")]).view();
    let situation = Situation {
        wanted: Some(1),
        admissible: &[ours(A)],
        patience_is_over: true,
        sees_ours: false,
        dead: &BTreeSet::from([session(C)]),
        ..idle(&view)
    };
    assert_eq!(situation.plan(), (None, Turn::NotYet));
    let missing = shown(&found, &[]).view();
    let situation = Situation {
        sees_ours: false,
        ..idle(&missing)
    };
    assert_eq!(situation.suspects(), NOBODY);
}

#[test]
fn nobody_is_pruned_or_suspected_when_the_server_says_that_it_left_keys_out() {
    let found = record(2, &[A, C]);
    let view = Shown {
        filtered: true,
        ..shown(&found, &[(A, A), (B, B)])
    }
    .view();
    assert_eq!(idle(&view).suspects(), NOBODY);
    let dead = BTreeSet::from([session(C)]);
    let claim = Situation {
        wanted: Some(1),
        admissible: &[ours(B)],
        dead: &dead,
        ..idle(&view)
    };
    assert_eq!(claim.plan(), (None, Turn::NotYet));
    let withdrawal = Situation {
        leaving: &[leaving(A, Presence::Yes(Index(40)))],
        dead: &dead,
        ..idle(&view)
    };
    assert_eq!(holders(withdrawal.plan().0.as_ref()), [C]);
}

#[test]
fn the_dead_alone_are_no_reason_to_write() {
    let found = record(2, &[B, C]);
    let view = shown(&found, &[(A, A)]).view();
    let situation = Situation {
        admissible: &[ours(A)],
        dead: &BTreeSet::from([session(B), session(C)]),
        ..idle(&view)
    };
    assert_eq!(situation.plan(), (None, Turn::NotYet));
}

#[test]
fn whoever_leaves_is_taken_out_of_the_record() {
    let found = record(2, &[A, B]);
    let view = shown(&found, &[(A, A), (B, B)]).view();
    for presence in [Presence::Yes(Index(40)), Presence::Maybe(Index(40))] {
        let situation = Situation {
            leaving: &[leaving(A, presence)],
            ..idle(&view)
        };
        let (write, _) = situation.plan();
        assert_eq!(holders(write.as_ref()), [B]);
        assert_eq!(write.unwrap().withdraw, [no(A)]);
    }
}

#[test]
fn a_claim_that_may_still_be_applied_is_fenced_by_a_write_from_the_same_index() {
    let found = record(2, &[B]);
    let view = shown(&found, &[(A, A), (B, B)]).view();
    let situation = Situation {
        leaving: &[leaving(A, Presence::Maybe(Index(50)))],
        ..idle(&view)
    };
    let (write, _) = situation.plan();
    assert_eq!(holders(write.as_ref()), [B], "it changes nothing else");
    let write = write.unwrap();
    assert_eq!((write.base, write.withdraw), (Index(50), vec![no(A)]));
    let value = write.record.encode();
    let found = Record::decode(found.as_bytes(), 0).unwrap().encode();
    assert_ne!(value, found, "Consul ignores a write of the same value");
}

#[test]
fn a_claim_that_can_no_longer_be_applied_needs_no_fence() {
    let found = record(2, &[B]);
    let view = shown(&found, &[(A, A), (B, B)]).view();
    for presence in [Presence::Maybe(Index(49)), Presence::Yes(Index(50))] {
        let situation = Situation {
            leaving: &[leaving(A, presence)],
            ..idle(&view)
        };
        assert_eq!(situation.plan(), (None, Turn::NotYet), "{presence:?}");
    }
}

#[test]
fn a_slot_that_we_give_back_goes_to_our_next_in_the_same_write() {
    let found = record(1, &[A]);
    let view = shown(&found, &[(A, A), (B, B)]).view();
    let situation = Situation {
        wanted: Some(1),
        admissible: &[ours(B)],
        leaving: &[leaving(A, Presence::Yes(Index(40)))],
        ..idle(&view)
    };
    let (write, turn) = situation.plan();
    assert_eq!(turn, Turn::Now);
    assert_eq!(holders(write.as_ref()), [B]);
    let write = write.unwrap();
    assert_eq!((write.admit, write.withdraw), (vec![no(B)], vec![no(A)]));
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
            wanted: Some(1),
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
        wanted: Some(1),
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
            wanted: Some(1),
            admissible: &[ours(B)],
            ..idle(&view)
        };
        assert_eq!(situation.plan().1, turn);
    }
}

#[test]
fn everybody_is_ahead_of_one_whose_key_is_not_in_view_yet() {
    let found = record(2, &[]);
    let view = shown(&found, &[(A, A), (B, B)]).view();
    let situation = Situation {
        wanted: Some(1),
        admissible: &[ours(C)],
        ..idle(&view)
    };
    assert_eq!(situation.plan(), (None, Turn::BehindOthers));
    assert_eq!(situation.ahead().count(), 2);
}

#[test]
fn one_whose_patience_is_over_claims_out_of_turn() {
    let found = record(1, &[]);
    let view = shown(&found, &queue()).view();
    let situation = Situation {
        wanted: Some(1),
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
        wanted: Some(1),
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
            wanted: Some(1),
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
            wanted: Some(1),
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
            wanted: Some(2),
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
            wanted: Some(2),
            admissible: &[ours(B), ours(C)],
            ..idle(&view)
        };
        assert_eq!(situation.plan().1, turn, "{limit}");
    }
}

#[test]
fn one_write_admits_one_acquisition() {
    let found = record(3, &[]);
    let view = shown(&found, &queue()).view();
    let situation = Situation {
        wanted: Some(1),
        admissible: &[ours(A), ours(B), ours(C)],
        ..idle(&view)
    };
    assert_eq!(holders(situation.plan().0.as_ref()), [A]);
}

#[test]
fn nobody_is_admitted_to_a_record_with_more_holders_than_slots() {
    let found = record(1, &[A, B]);
    let view = shown(&found, &queue()).view();
    let claim = Situation {
        wanted: Some(1),
        admissible: &[ours(C)],
        patience_is_over: true,
        ..idle(&view)
    };
    assert_eq!(claim.plan(), (None, Turn::NotYet));
    assert!(!claim.has_room_for(1));
    // One of the two too many goes: still nothing is free.
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
fn a_newcomer_has_room_beyond_those_who_hold_and_wait() {
    for (limit, holders, permits, has_room) in [
        (3, &[A][..], 1, false),
        (4, &[A], 1, true),
        (4, &[A], 2, false),
        (3, &[], 1, false),
        (3, &[A, B, C], 1, false),
        (4, &[A, B, C], 1, true),
    ] {
        let found = record(limit, holders);
        let view = shown(&found, &queue()).view();
        let room = idle(&view).has_room_for(permits);
        assert_eq!(room, has_room, "{permits} of {limit} beside {holders:?}");
    }
}

#[test]
fn a_newcomer_has_room_where_there_is_no_record_yet() {
    assert!(idle(&Shown::default().view()).has_room_for(1));
}

#[test]
fn a_newcomer_counts_on_the_places_of_the_dead_and_of_ours_who_leave() {
    let found = record(1, &[C]);
    let dead = shown(&found, &[]);
    assert!(idle(&dead.view()).has_room_for(1));
    let hidden = Shown {
        filtered: true,
        ..dead
    };
    assert!(!idle(&hidden.view()).has_room_for(1));
    let view = shown(&found, &[(C, C)]).view();
    let situation = Situation {
        leaving: &[leaving(C, Presence::Yes(Index(40)))],
        ..idle(&view)
    };
    assert!(situation.has_room_for(1));
}
