//! The rules for a session that is used at several prefixes, as with a client.

use judge::Record;
use semaphore_core::Lost;
use simulation::check::Invariant;
use simulation::history::{Belief, Change, Ending, Happening, Subject, Who};

use crate::support::*;

/// A write by host 0 that admits this session at a prefix, or removes it.
fn written(prefix: usize, session: &str, is_admitted: bool) -> Happening {
    let empty = Record::new(1);
    let mut full = empty.clone();
    full.add(session);
    let (before, after) = if is_admitted {
        (empty, full)
    } else {
        (full, empty)
    };
    let added = is_admitted.then(|| session.to_owned());
    Happening::Changed(Change {
        prefix,
        by: Who::Ours(0),
        sent_at: None,
        is_bound: true,
        added: added.into_iter().collect(),
        passed: Vec::new(),
        may_have_passed: Vec::new(),
        removed: Vec::new(),
        ahead: Vec::new(),
        waiting: 0,
        of: Subject::Record {
            before: Some(Ok(before)),
            after: Some(Ok(after)),
        },
    })
}

fn belief_at(prefix: usize, no: u32, host: usize, session: &str) -> Belief {
    Belief {
        prefix,
        ..belief(no, host, session)
    }
}

/// One session that holds at two prefixes.
fn both() -> History {
    let history = history()
        .then(&written(0, A, true))
        .then(&written(1, A, true));
    history
        .granted(&belief(1, 0, A), 10)
        .granted(&belief_at(1, 2, 0, A), 11)
}

#[test]
fn s1_what_was_taken_at_one_prefix_counts_at_another() {
    let second = |prefix| {
        let after = both().then(&taken(A)).then(&written(prefix, B, true));
        after.granted(&belief_at(prefix, 3, 1, B), 12).verdict
    };
    assert_eq!(second(0), None);
    assert_eq!(second(1), Some(Invariant::S1));
}

#[test]
fn s1_what_was_taken_at_one_prefix_need_not_be_noticed_at_another() {
    let mut quiet = both().then(&taken(A)).then(&Happening::Quiet);
    quiet.held.retain(|it| it.prefix == 1);
    assert_eq!(quiet.at(60).verdict, None);
}

#[test]
fn s5_a_session_is_admitted_at_each_prefix_by_a_write_of_its_own() {
    assert_eq!(both().verdict, None);
    let others = history()
        .then(&written(0, A, true))
        .then(&written(1, A, true));
    let out_of_order = others
        .granted(&belief_at(1, 1, 0, A), 10)
        .granted(&belief(2, 0, A), 11);
    assert_eq!(
        out_of_order.verdict, None,
        "tokens of two prefixes have no order"
    );
}

#[test]
fn l2_a_session_is_given_back_with_the_last_that_stands_on_it() {
    let released = |no| Happening::Released {
        belief: belief(no, 0, A).no,
    };
    let by_ttl = ended(A, Ending::Ttl);
    let mut first = both().then(&released(1));
    first.held.clear();
    assert_eq!(first.at(60).then(&by_ttl).verdict, None);
    let mut all = both().then(&released(1)).then(&released(2));
    all.held.clear();
    assert_eq!(all.at(60).then(&by_ttl).verdict, Some(Invariant::L2));
}

#[test]
fn l2_whoever_destroys_a_session_has_taken_it_out_of_every_record() {
    let destroyed = ended(A, Ending::Destroyed(Who::Ours(0)));
    let out_of = |prefixes: &[usize]| {
        let history = history()
            .then(&written(0, A, true))
            .then(&written(1, A, true));
        let out = prefixes.iter().map(|it| written(*it, A, false));
        out.fold(history, |history, it| history.then(&it))
    };
    assert_eq!(out_of(&[0, 1]).then(&destroyed).verdict, None);
    assert_eq!(out_of(&[0]).then(&destroyed).verdict, Some(Invariant::L2));
    let here = out_of(&[1]).then(&taken(A)).then(&destroyed);
    assert_eq!(here.verdict, None, "taken where it stays");
    let elsewhere = out_of(&[0]).then(&taken(A)).then(&destroyed);
    assert_eq!(elsewhere.verdict, Some(Invariant::L2));
}

#[test]
fn l4_what_took_one_hold_excuses_no_other_by_the_same_session() {
    let lost_at = |prefix| Happening::Lost {
        belief: belief_at(prefix, 1, 0, A),
        reason: Lost::RemovedFromHolders {
            session: session(),
            on: semaphore_core::error::Subject::default(),
        },
    };
    let evicted = || history().then(&taken(A));
    assert_eq!(evicted().then(&lost_at(0)).verdict, None);
    assert_eq!(evicted().then(&lost_at(1)).verdict, Some(Invariant::L4));
}
