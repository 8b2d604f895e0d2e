mod batch;
mod turn;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::api::ListKeys;
use crate::http::Response;
use crate::input::Prefix;
use crate::machine::fixture::{A, B, C, Shown, session};
use crate::machine::semaphore::admission::*;

static NOBODY: BTreeSet<SessionId> = BTreeSet::new();

/// None of ours is there, and nobody wants anything.
fn idle(view: &View) -> Situation<'_> {
    Situation {
        view,
        limit: 2,
        other_limit: OtherLimit::Refused,
        wanted: &[],
        room: 62,
        first_write: FirstWrite::Admits,
        admissible: &[],
        newcomers: &[],
        leaving: &[],
        patience_is_over: false,
        sees_ours: true,
        overtaken: &NOBODY,
        dead: &NOBODY,
        withheld: &NOBODY,
        suspected: &NOBODY,
    }
}

/// Why this number of slots is not available for a newcomer.
fn refusal(situation: &Situation<'_>, permits: u32) -> Option<Refusal> {
    situation.room()?.refusal(permits)
}

/// One of ours that may be admitted. Its letter gives its number.
fn ours(id: &str) -> (ContenderNo, SessionId) {
    (no(id), session(id))
}

fn no(id: &str) -> ContenderNo {
    ContenderNo(u64::from(id.as_bytes()[0] - b'a'))
}

fn leaving(id: &str, presence: Presence) -> (ContenderNo, SessionId, Presence) {
    (no(id), session(id), presence)
}

/// A record at index 50.
fn shown<'a>(record: &'a str, keys: &'a [(&'a str, &'a str)]) -> Shown<'a> {
    Shown {
        lock: Some((50, record)),
        keys,
        filtered: false,
    }
}

/// Three contenders, in the order in which they came.
fn queue<'a>() -> [(&'a str, &'a str); 3] {
    [(A, A), (B, B), (C, C)]
}

fn record(limit: u32, holders: &[&str]) -> String {
    format!(r#"{{"Limit":{limit},"Holders":{holders:?}}}"#)
}

fn holders(write: Option<&Write>) -> Vec<&str> {
    write.unwrap().record.holders().collect()
}

#[test]
fn where_no_answer_tells_its_index_a_record_is_created_without_holders() {
    let view = Shown {
        keys: &[(A, A)],
        ..Shown::default()
    }
    .view();
    let situation = Situation {
        wanted: &[1],
        first_write: FirstWrite::Creates,
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
fn the_write_that_creates_the_record_admits_all_that_it_may() {
    let view = Shown {
        keys: &queue(),
        ..Shown::default()
    }
    .view();
    // Two slots, and a waiter ahead who may take one of them.
    let situation = Situation {
        wanted: &[1, 1],
        admissible: &[ours(B), ours(C)],
        ..idle(&view)
    };
    let (write, turn) = situation.plan();
    assert_eq!(holders(write.as_ref()), [B]);
    assert_eq!(write.unwrap().base, Index::ZERO);
    assert_eq!(turn, Turn::Now);
}

#[test]
fn newcomers_create_the_record_with_themselves_where_nobody_waits_for_their_slots() {
    let view = Shown::default().view();
    let newcomers = &[ours(A), ours(B), ours(C)];
    let situation = Situation {
        wanted: &[1, 1, 1],
        newcomers,
        ..idle(&view)
    };
    assert_eq!(holders(situation.plan().0.as_ref()), [A, B]);
    let view = Shown {
        keys: &[(C, C)],
        ..Shown::default()
    }
    .view();
    for (limit, expected) in [(1, vec![]), (2, vec![no(A)])] {
        let situation = Situation {
            limit,
            wanted: &[1],
            newcomers: &newcomers[..1],
            ..idle(&view)
        };
        let admitted = situation.plan().0.map(|write| write.admit);
        assert_eq!(admitted.unwrap_or_default(), expected, "{limit}");
    }
}

#[test]
fn one_that_leaves_and_may_yet_be_admitted_by_a_first_write_is_fenced_by_another() {
    let view = Shown {
        keys: &[(A, A)],
        ..Shown::default()
    }
    .view();
    let situation = Situation {
        leaving: &[leaving(A, Presence::Maybe(Index::ZERO))],
        ..idle(&view)
    };
    let write = Write {
        record: Record::new(2),
        base: Index::ZERO,
        admit: vec![],
        withdraw: vec![no(A)],
    };
    assert_eq!(situation.plan(), (Some(write), Turn::NotYet));
}

/// If many come at once, the others would only cause refused writes.
#[test]
fn a_record_is_created_by_the_first_few_and_by_others_when_their_patience_is_over() {
    let id = |no: usize| format!("{no:08}-0000-0000-0000-000000000000");
    let ids: Vec<String> = (1..=CREATORS + 1).map(id).collect();
    for (rank, us) in ids.iter().enumerate() {
        let keys: Vec<_> = ids.iter().map(|id| (id.as_str(), id.as_str())).collect();
        let view = Shown {
            keys: &keys,
            ..Shown::default()
        }
        .view();
        for patience_is_over in [false, true] {
            let situation = Situation {
                wanted: &[1],
                admissible: &[(ContenderNo(1), session(us))],
                patience_is_over,
                ..idle(&view)
            };
            let (write, turn) = situation.plan();
            let creates = rank < CREATORS || patience_is_over;
            assert_eq!(write.is_some(), creates, "{rank} {patience_is_over}");
            let is_behind = turn == Turn::BehindOthers;
            assert_eq!(is_behind, !creates, "{rank} {patience_is_over}");
        }
    }
}

#[test]
fn a_record_is_created_only_for_somebody_who_waits_in_the_queue() {
    let view = Shown::default().view();
    for situation in [
        Situation {
            wanted: &[1],
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
        wanted: &[1],
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
        wanted: &[1],
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
        wanted: &[1],
        admissible: &[ours(B)],
        ..idle(&view)
    };
    assert_eq!(refusal(&situation, 1), None);
    let (write, _) = situation.plan();
    assert_eq!(holders(write.as_ref()), [B]);
    let value = write.unwrap().record.encode();
    let found = Record::decode(found.as_bytes(), 0).unwrap().encode();
    assert_ne!(value, found, "Consul ignores a write of the same value");
}

#[test]
fn whoever_claims_prunes_those_who_are_certainly_dead() {
    let dead = BTreeSet::from([session(C)]);
    // No key; a key without a session; a key tied to another session; a name that is not a
    // session's.
    for (holder, keys, dead) in [
        (C, &[(A, A)][..], &dead),
        (C, &[(A, A), (C, "")], &dead),
        (C, &[(A, A), (C, A)], &dead),
        ("node-1", &[(A, A)], &NOBODY),
    ] {
        let found = record(1, &[holder]);
        let view = shown(&found, keys).view();
        let situation = Situation {
            wanted: &[1],
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
fn a_holder_whose_key_is_not_tied_to_it_stays_until_it_is_known_to_be_dead() {
    for keys in [&[(A, A)][..], &[(A, A), (C, "")], &[(A, A), (C, A)]] {
        let found = record(1, &[C]);
        let view = shown(&found, keys).view();
        let situation = Situation {
            wanted: &[1],
            admissible: &[ours(A)],
            patience_is_over: true,
            ..idle(&view)
        };
        assert_eq!(situation.plan(), (None, Turn::NotYet), "{keys:?}");
        assert_eq!(situation.suspects(), BTreeSet::from([session(C)]));
    }
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

/// A transaction leaves out what the token may not read without saying so.
#[test]
fn whoever_seems_dead_in_a_transaction_is_suspected_by_a_list_only() {
    let value = STANDARD.encode(record(2, &[A, C]));
    let lock = format!(
        r#"[{{"Key":"jobs/.lock","Flags":0,"Value":"{value}","ModifyIndex":50}},
            {{"Key":"jobs/{A}","Session":"{A}","Flags":0,"ModifyIndex":9,"Value":null}}]"#
    );
    let entries = Response::new(200, lock).with_header("X-Consul-Index", "50");
    let list = ListKeys::parse(&entries).unwrap();
    let view = View::of_tree(
        &Prefix::new("jobs").unwrap(),
        Index(50),
        list.entries,
        false,
    );
    assert_eq!(idle(&view).suspects(), NOBODY);
    assert!(idle(&view).needs_list());
    let known = Situation {
        suspected: &BTreeSet::from([session(C)]),
        ..idle(&view)
    };
    assert!(!known.needs_list());
    let listed = shown(&record(2, &[A, C]), &[(A, A)]).view();
    assert!(!idle(&listed).needs_list());
}

#[test]
fn nobody_is_pruned_or_suspected_while_no_key_of_ours_is_in_view() {
    let found = record(1, &[C]);
    let view = shown(&found, &[(C, "")]).view();
    let situation = Situation {
        wanted: &[1],
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
        wanted: &[1],
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
        wanted: &[1],
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
