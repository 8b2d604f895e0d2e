//! What the invariants of a semaphore forbid, and what every invariant forbids for both.

use std::time::Duration;

use judge::Record;
use semaphore_core::sans_io::Instant;
use semaphore_core::{FencingToken, Lost};
use simulation::check::{Bounds, Invariant};
use simulation::history::{
    Asked, BeliefNo, Change, Ending, Foreign, Found, Happening, Noticed, Removed, Subject, Waiting,
    Who, Why,
};

use crate::support::*;

#[expect(
    clippy::unnecessary_wraps,
    reason = "what is found in its place may be none"
)]
fn record(limit: u32, holders: &[&str]) -> Found {
    let mut record = Record::new(limit);
    for holder in holders {
        record.add(holder);
    }
    Some(Ok(record))
}

/// A write by host 0 that removes nobody.
fn written(before: Found, after: Found, added: &[&str]) -> Happening {
    Happening::Changed(change(Who::Ours(0), before, after, added))
}

fn change(by: Who, before: Found, after: Found, added: &[&str]) -> Change {
    Change {
        prefix: 0,
        by,
        sent_at: None,
        is_bound: true,
        added: added.iter().map(|it| (*it).to_owned()).collect(),
        passed: Vec::new(),
        may_have_passed: Vec::new(),
        removed: Vec::new(),
        ahead: Vec::new(),
        waiting: 0,
        of: Subject::Record { before, after },
    }
}

fn admits(session: &str) -> Happening {
    written(record(1, &[]), record(1, &[session]), &[session])
}

#[test]
fn s1_more_than_the_limit_may_not_be_held() {
    let one = history().then(&admits(A)).granted(&belief(1, 0, A), 10);
    assert_eq!(one.verdict, None);
    let two = one.then(&admits(B)).granted(&belief(2, 1, B), 11);
    assert_eq!(two.verdict, Some(Invariant::S1));
}

#[test]
fn s1_what_an_operator_took_does_not_count_until_it_is_shown() {
    let two = history()
        .then(&admits(A))
        .granted(&belief(1, 0, A), 10)
        .then(&taken(A))
        .then(&admits(B))
        .granted(&belief(2, 1, B), 11);
    assert_eq!(two.verdict, None);
    let gone = vec![A.to_owned()];
    let shown = two.then(&Happening::Shown {
        host: 0,
        prefix: 0,
        gone,
    });
    assert_eq!(shown.verdict, Some(Invariant::S1));
}

/// A holder whose session has ended believes on, since it does not know.
fn one_is_cut_off() -> History {
    history()
        .then(&admits(A))
        .granted(&belief(1, 0, A), 10)
        .then(&ended(A, Ending::Destroyed(Who::Operator)))
        .then(&guarded(A))
}

#[test]
fn s1_whose_session_has_ended_counts_until_belief_is_over() {
    let mut one = one_is_cut_off();
    assert_eq!(one.verdict, None);
    let two = one_is_cut_off()
        .then(&removes(Who::Ours(1), None, false))
        .then(&admits(B))
        .granted(&belief(2, 1, B), 11);
    assert_eq!(two.verdict, Some(Invariant::S1));
    one.held.clear();
    let later = one.then(&admits(B)).granted(&belief(2, 1, B), 11);
    assert_eq!(later.verdict, None);
}

#[test]
fn s1_whose_session_has_ended_does_not_count_when_a_stranger_or_an_operator_took_the_rest() {
    let second = |taken: &Happening| {
        let two = one_is_cut_off().then(taken).then(&admits(B));
        two.granted(&belief(2, 1, B), 11).verdict
    };
    assert_eq!(second(&removes(Who::Stranger(0), None, false)), None);
    assert_eq!(second(&taken(A)), None);
}

#[test]
fn s1_whose_session_has_ended_learns_of_it() {
    let gone = vec![A.to_owned()];
    let shown = one_is_cut_off().then(&Happening::Shown {
        host: 0,
        prefix: 0,
        gone,
    });
    assert_eq!(shown.verdict, Some(Invariant::S1));
    let quiet = one_is_cut_off().then(&Happening::Quiet);
    assert_eq!(quiet.verdict, None);
    assert_eq!(quiet.at(60).verdict, Some(Invariant::S1));
}

#[test]
fn s1_what_an_operator_took_is_noticed_in_quiet() {
    let quiet = history()
        .then(&admits(A))
        .granted(&belief(1, 0, A), 10)
        .then(&taken(A))
        .then(&Happening::Quiet);
    assert_eq!(quiet.verdict, None);
    assert_eq!(quiet.at(60).verdict, Some(Invariant::S1));
}

#[test]
fn s1_a_limit_that_is_lowered_binds_those_who_come_later() {
    let by_operator = |before, after| {
        let change = change(Who::Operator, before, after, &[]);
        let is_bound = false;
        Happening::Changed(Change { is_bound, ..change })
    };
    let lowered = history()
        .then(&written(None, record(2, &[]), &[]))
        .then(&written(record(2, &[]), record(2, &[A]), &[A]))
        .granted(&belief(1, 0, A), 10)
        .then(&written(record(2, &[A]), record(2, &[A, B]), &[B]))
        .granted(&belief(2, 1, B), 11)
        .then(&by_operator(record(2, &[A, B]), record(1, &[A, B])));
    assert_eq!(lowered.verdict, None);
    let left = lowered.then(&written(record(1, &[A, B]), record(1, &[A]), &[]));
    assert_eq!(
        left.verdict,
        Some(Invariant::S1),
        "one of them has left the record"
    );
}

#[test]
fn s2_belief_ends_before_its_session_does() {
    let held = history().then(&admits(A)).granted(&belief(1, 0, A), 10);
    let destroyed = Ending::Destroyed(Who::Operator);
    let by_ttl = held.then(&ended(A, Ending::Ttl));
    assert_eq!(by_ttl.verdict, Some(Invariant::S2));
    let held = history().then(&admits(A)).granted(&belief(1, 0, A), 10);
    assert_eq!(held.then(&ended(A, destroyed)).verdict, None);
}

/// A write, sent at `sent_at`, that removes a session of host 0.
fn removes(by: Who, sent_at: Option<Instant>, is_alive: bool) -> Happening {
    Happening::Changed(Change {
        sent_at,
        removed: vec![Removed {
            session: A.to_owned(),
            is_alive,
            owner: Some(Who::Ours(0)),
        }],
        ..change(by, record(1, &[A]), record(1, &[]), &[])
    })
}

#[test]
fn s3_a_live_holder_is_only_removed_by_its_owner() {
    let verdict = |by, is_alive| {
        let removed = removes(by, Some(at(0)), is_alive);
        history().then(&removed).verdict
    };
    assert_eq!(verdict(Who::Ours(0), true), None);
    assert_eq!(verdict(Who::Ours(1), false), None);
    assert_eq!(verdict(Who::Operator, true), None);
    assert_eq!(verdict(Who::Ours(1), true), Some(Invariant::S3));
}

#[test]
fn s3_who_a_snapshot_brought_back_may_be_removed_by_who_could_not_know_it() {
    let revived = |session: &str| Happening::Revived {
        session: session.to_owned(),
    };
    let informed = |host, of| Happening::Informed {
        host,
        prefix: 0,
        of: at(of),
    };
    let removes = |sent| removes(Who::Ours(1), Some(at(sent)), true);
    let restored = || history().at(10).then(&revived(A));

    for sent in [9, 11] {
        let late = restored().at(20).then(&removes(sent));
        assert_eq!(late.verdict, None, "sent at {sent}, knowing nothing of it");
    }
    let by_old_answer = restored().at(12).then(&informed(1, 9)).then(&removes(12));
    assert_eq!(by_old_answer.verdict, None);
    let was_under_way = restored().at(12).then(&informed(1, 11)).then(&removes(11));
    assert_eq!(was_under_way.verdict, None);
    let by_older_agent = restored()
        .at(12)
        .then(&informed(1, 11))
        .then(&informed(1, 9))
        .then(&removes(12));
    assert_eq!(by_older_agent.verdict, None);

    let informed_before = restored().at(12).then(&informed(1, 11)).then(&removes(12));
    assert_eq!(informed_before.verdict, Some(Invariant::S3));
    let another_informed = restored().at(12).then(&informed(0, 11)).then(&removes(12));
    assert_eq!(another_informed.verdict, None);
    let another_revived = history().at(10).then(&revived(B)).then(&removes(9));
    assert_eq!(another_revived.verdict, Some(Invariant::S3));
}

#[test]
fn s3_a_session_is_only_destroyed_by_its_owner() {
    let by = |host| {
        let destroyed = ended(A, Ending::Destroyed(Who::Ours(host)));
        history().then(&began(A, 0)).then(&destroyed).verdict
    };
    assert_eq!(by(0), None);
    assert_eq!(by(1), Some(Invariant::S3));
}

#[test]
fn s4_the_record_is_written_by_check_and_set_and_never_over_what_is_none() {
    let garbled = || Some(Err(Foreign));
    let verdict = |what| history().then(&what).verdict;
    assert_eq!(verdict(written(None, record(1, &[]), &[])), None);
    for wrong in [
        written(garbled(), record(1, &[]), &[]),
        written(record(1, &[]), garbled(), &[]),
        written(record(1, &[]), None, &[]),
        written(record(1, &[]), record(2, &[]), &[]),
    ] {
        assert_eq!(verdict(wrong), Some(Invariant::S4));
    }
    let blind = Happening::Changed(Change {
        is_bound: false,
        ..change(Who::Ours(0), record(1, &[]), record(1, &[A]), &[A])
    });
    assert_eq!(verdict(blind), Some(Invariant::S4));
}

#[test]
fn s4_a_limit_that_is_to_be_another_one_changes_where_nobody_holds() {
    let all = Bounds {
        changes_limits: true,
        ..bounds()
    };
    let verdict = |what| history_within(all).then(&what).verdict;
    assert_eq!(verdict(written(record(1, &[]), record(2, &[]), &[])), None);
    let admits = written(record(1, &[]), record(2, &[A]), &[A]);
    assert_eq!(verdict(admits), None);
    let stays = written(record(1, &[A]), record(2, &[A]), &[]);
    assert_eq!(verdict(stays), Some(Invariant::S4));
}

/// Two grants one after the other, with these tokens.
fn grants(first: u64, second: u64, epoch: bool) -> Option<Invariant> {
    let mut history = history().then(&admits(A)).granted(&belief(1, 0, A), first);
    history.held.clear();
    if epoch {
        history = history.then(&Happening::NewEpoch);
    }
    let second = history.then(&admits(B)).granted(&belief(2, 1, B), second);
    second.verdict
}

#[test]
fn s5_tokens_strictly_increase_while_indexes_do() {
    assert_eq!(grants(10, 11, false), None);
    assert_eq!(grants(10, 10, false), Some(Invariant::S5));
    assert_eq!(grants(10, 9, false), Some(Invariant::S5));
    assert_eq!(grants(10, 9, true), None);
    let without_a_write = history().granted(&belief(1, 0, A), 10);
    assert_eq!(without_a_write.verdict, Some(Invariant::S5));
}

/// A session that was left in the record enters again. Any write that keeps it may admit it, and
/// each of its grants has its own token.
#[test]
fn s5_whoever_stays_in_the_record_is_admitted_by_one_of_the_writes_that_keep_it() {
    let both = || record(2, &[A, B]);
    let keeps = |passed: &[&str]| {
        let passed = passed.iter().map(|it| (*it).to_owned()).collect();
        let change = change(Who::Ours(0), both(), both(), &[]);
        Happening::Changed(Change { passed, ..change })
    };
    let first = || {
        let admitted = written(record(2, &[]), both(), &[A, B]);
        let history = history().then(&admitted).then(&keeps(&[A, B]));
        history.granted(&belief(1, 0, A), 10)
    };
    assert_eq!(first().verdict, None);
    let second = |history: History, token| history.granted(&belief(2, 0, B), token).verdict;
    assert_eq!(second(first().then(&keeps(&[])), 11), None);
    assert_eq!(second(first().then(&keeps(&[])), 10), Some(Invariant::S5));
    assert_eq!(second(first(), 11), None, "by the same write");
    assert_eq!(second(first(), 10), Some(Invariant::S5));
}

/// A slot passes within its host by a separate request, which also admits another one.
#[test]
fn s5_whoever_stays_while_another_is_admitted_may_be_admitted_anew() {
    const C: &str = "cccccccc-0000-0000-0000-000000000000";
    let second_turn = |possibly: &[&str]| {
        let first = written(record(3, &[]), record(3, &[A]), &[A]);
        let next = written(record(3, &[A]), record(3, &[A, B]), &[B]);
        let last = change(
            Who::Ours(0),
            record(3, &[A, B]),
            record(3, &[A, B, C]),
            &[C],
        );
        let may_have_passed = possibly.iter().map(|it| (*it).to_owned()).collect();
        let last = Happening::Changed(Change {
            may_have_passed,
            ..last
        });
        let history = history().then(&first).granted(&belief(1, 0, A), 10);
        let history = history.then(&next).granted(&belief(2, 0, B), 11);
        history.then(&last).granted(&belief(3, 0, A), 12).verdict
    };
    assert_eq!(second_turn(&[A]), None);
    assert_eq!(second_turn(&[]), Some(Invariant::S5));
}

#[test]
fn l1_whoever_waits_gets_in_in_time() {
    let round = || {
        let within = Duration::from_secs(30);
        history().then(&Happening::Round { users: 1, within })
    };
    assert_eq!(round().at(30).verdict, Some(Invariant::L1));
    let in_time = round()
        .at(29)
        .then(&Happening::GotIn { host: 0, prefix: 0 });
    assert_eq!(in_time.at(31).verdict, None);
}

#[test]
fn l2_nothing_is_left() {
    let what = "a key".to_owned();
    assert_eq!(
        history().then(&Happening::Left { what }).verdict,
        Some(Invariant::L2)
    );
}

#[test]
fn l2_whoever_destroys_their_session_is_out_of_the_record_and_stays_so() {
    let destroyed = ended(A, Ending::Destroyed(Who::Ours(0)));
    let out = || written(record(1, &[A]), record(1, &[]), &[]);
    let left = || history().then(&admits(A)).then(&out()).then(&destroyed);
    assert_eq!(left().verdict, None);
    assert_eq!(left().then(&admits(A)).verdict, Some(Invariant::L2));
    let early = history().then(&admits(A)).then(&destroyed);
    assert_eq!(early.verdict, Some(Invariant::L2));
    let by_force = history().then(&admits(A)).then(&taken(A)).then(&destroyed);
    assert_eq!(by_force.verdict, None);
}

#[test]
fn l3_requests_stay_under_the_ceiling() {
    for (what, allowed) in [(Asked::Read, 50), (Asked::Write, 100)] {
        let sent = Happening::Sent {
            host: 0,
            prefix: 0,
            what,
        };
        let burst = (0..allowed).fold(history(), |history, _| history.then(&sent));
        assert_eq!(burst.verdict, None, "a burst");
        let more = (0..200).fold(burst, |history, _| history.then(&sent));
        assert_eq!(more.verdict, Some(Invariant::L3));
    }
    let second = |history: History, now| {
        let sent = Happening::Sent {
            host: 0,
            prefix: 0,
            what: Asked::Read,
        };
        (0..90).fold(history.at(now), |history, _| history.then(&sent))
    };
    // Ninety at the same moment are more than a burst. Spread over a second they are not.
    assert_eq!(second(history(), 1).verdict, Some(Invariant::L3));
}

#[test]
fn l4_a_lease_runs_out_only_while_nothing_works() {
    let trouble = |host, secs| Happening::Trouble {
        host,
        until: at(secs),
    };
    let verdict = |history: History| history.at(30).then(&lost(lease_expired())).verdict;
    assert_eq!(verdict(history()), Some(Invariant::L4));
    assert_eq!(verdict(history().then(&trouble(Some(0), 29))), None);
    assert_eq!(verdict(history().then(&trouble(None, 29))), None);
    let early = history().then(&trouble(Some(0), 20));
    assert_eq!(verdict(early), Some(Invariant::L4));
    let elsewhere = history().then(&trouble(Some(1), 29));
    assert_eq!(verdict(elsewhere), Some(Invariant::L4));
}

/// With a TTL of 15 s, a lease lasts at least 11 s from the beginning of an outage.
#[test]
fn l4_a_lease_outlasts_what_is_left_of_it_whenever_an_outage_begins() {
    let verdict = |from: u64, until: u64| {
        let host = Some(0);
        let until = at(until);
        let outage = Happening::Trouble { host, until };
        let history = history().then(&booted(0, Some(Duration::from_secs(15))));
        let history = history.at(from);
        let history = history.then(&outage).at(30);
        history.then(&lost(lease_expired())).verdict
    };
    assert_eq!(verdict(21, 30), Some(Invariant::L4), "a short one");
    assert_eq!(verdict(17, 30), None, "a long one");
    assert_eq!(verdict(17, 27), Some(Invariant::L4), "it was over in time");
    assert_eq!(verdict(1, 29), None, "nearly all of the time");
}

#[test]
fn l4_a_loss_has_somebody_who_took_it() {
    let gone = || {
        lost(Lost::SessionGone {
            session: session(),
            key_alone: false,
            on: semaphore_core::error::Subject::default(),
        })
    };
    assert_eq!(history().then(&gone()).verdict, Some(Invariant::L4));
    assert_eq!(history().then(&taken(A)).then(&gone()).verdict, None);
    let running = || history().then(&booted(0, None));
    let blinded = || running().then(&Happening::Blinded { host: 0 });
    assert_eq!(blinded().then(&gone()).verdict, None);
    // The excuse ends with the first whole answer after it about this prefix.
    let served = || blinded().at(5).then(&Happening::Served { host: 0 });
    assert_eq!(served().then(&gone()).verdict, None);
    let elsewhere = Happening::Whole { host: 0, prefix: 1 };
    assert_eq!(served().then(&elsewhere).then(&gone()).verdict, None);
    let seen = served()
        .then(&Happening::Whole { host: 0, prefix: 0 })
        .then(&gone());
    assert_eq!(seen.verdict, Some(Invariant::L4));
}

/// An eviction excuses the loss that it asked for, and no other.
#[test]
fn l4_who_is_evicted_was_asked_to_leave() {
    let evicted = || {
        lost(Lost::Evicted {
            session: session(),
            reason: "maintenance".into(),
            on: semaphore_core::error::Subject::default(),
        })
    };
    let asked = |prefix| Happening::Evicted {
        session: A.to_owned(),
        prefix,
    };
    let gone = || {
        lost(Lost::SessionGone {
            session: session(),
            key_alone: false,
            on: semaphore_core::error::Subject::default(),
        })
    };
    assert_eq!(history().then(&evicted()).verdict, Some(Invariant::L4));
    assert_eq!(history().then(&asked(0)).then(&evicted()).verdict, None);
    let elsewhere = history().then(&asked(1)).then(&evicted()).verdict;
    assert_eq!(elsewhere, Some(Invariant::L4));
    let otherwise = history().then(&asked(0)).then(&gone()).verdict;
    assert_eq!(otherwise, Some(Invariant::L4));
}

fn failed(host: usize, why: Why) -> Happening {
    Happening::Failed {
        host,
        prefix: 0,
        why,
        error: "an error".to_owned(),
    }
}

#[test]
fn l4_an_acquisition_fails_for_permanent_reasons_only() {
    for why in [Why::Foreign, Why::Limit, Why::Refused, Why::Other] {
        let verdict = history().then(&failed(0, why)).verdict;
        assert_eq!(verdict, Some(Invariant::L4), "{why:?}");
    }
}

#[test]
fn l4_a_reason_to_fail_excuses_its_host_and_prefix_while_it_lasts_and_nobody_else() {
    let foreign = || {
        let what = Some(Err(Foreign));
        history().then(&Happening::Changed(change(
            Who::Operator,
            record(1, &[]),
            what,
            &[],
        )))
    };
    assert_eq!(foreign().then(&failed(0, Why::Foreign)).verdict, None);
    let other = foreign().then(&failed(0, Why::Refused)).verdict;
    assert_eq!(other, Some(Invariant::L4));
    let repaired = || foreign().at(1).then(&written(None, record(1, &[]), &[]));
    assert_eq!(repaired().then(&failed(0, Why::Foreign)).verdict, None);
    let later = repaired().at(10).then(&failed(0, Why::Foreign)).verdict;
    assert_eq!(later, Some(Invariant::L4));

    let running = || history().then(&booted(0, None));
    let denied = || running().then(&Happening::Denied { host: 0 });
    assert_eq!(denied().then(&failed(0, Why::Refused)).verdict, None);
    let anothers = denied().then(&failed(1, Why::Refused)).verdict;
    assert_eq!(anothers, Some(Invariant::L4));
    let served = denied().at(1).then(&Happening::Served { host: 0 });
    let later = served.at(30).then(&failed(0, Why::Refused)).verdict;
    assert_eq!(later, Some(Invariant::L4));
}

#[test]
fn s3_a_client_does_not_withdraw_what_it_still_holds() {
    let removed = Removed {
        session: A.to_owned(),
        is_alive: true,
        owner: Some(Who::Ours(0)),
    };
    let withdraws = Happening::Changed(Change {
        removed: vec![removed],
        ..change(Who::Ours(0), record(1, &[A]), record(1, &[]), &[])
    });
    let held = || history().then(&admits(A)).granted(&belief(1, 0, A), 10);
    assert_eq!(held().then(&withdraws).verdict, Some(Invariant::S3));
    let released = Happening::Released {
        belief: BeliefNo(1),
    };
    let mut given_back = held().then(&released);
    given_back.held.clear();
    assert_eq!(given_back.then(&withdraws).verdict, None);
}

#[test]
fn s3_a_client_does_not_end_the_session_of_what_it_still_holds() {
    let destroyed = ended(A, Ending::Destroyed(Who::Ours(0)));
    let held = history().then(&began(A, 0)).then(&admits(A));
    let held = held.granted(&belief(1, 0, A), 10);
    let out = written(record(1, &[A]), record(1, &[]), &[]);
    let out = held.then(&out).then(&destroyed);
    assert_eq!(out.verdict, Some(Invariant::S3));
}

#[test]
fn l2_a_session_that_nobody_needs_any_more_does_not_run_out() {
    let known = || {
        let session = A.to_owned();
        history().then(&Happening::Known { host: 0, session })
    };
    let gave_up = Happening::GaveUp {
        host: 0,
        prefix: 0,
        permits: 1,
    };
    let by_ttl = ended(A, Ending::Ttl);
    let cancelled = || known().at(5).then(&gave_up);
    let soon = cancelled().at(20).then(&by_ttl).verdict;
    assert_eq!(soon, None);
    let late = cancelled().at(40).then(&by_ttl).verdict;
    assert_eq!(late, Some(Invariant::L2));
    let trouble = Happening::Trouble {
        host: Some(0),
        until: at(30),
    };
    let troubled = cancelled().then(&trouble).at(40).then(&by_ttl).verdict;
    assert_eq!(troubled, None);
    let unknown = history().then(&gave_up).at(60).then(&by_ttl).verdict;
    assert_eq!(unknown, None, "its creation was never answered");
}

/// Host 0 takes the only slot while this waiter of host 1 stands ahead of it. The slot has been free
/// since 30 s, and host 0 has known the state of this second since then.
fn passes(known: u64, sent_at: u64, waiting: Waiting, begin: History) -> Option<Invariant> {
    let waits = |host| Happening::Waits {
        host,
        prefix: 0,
        permits: 1,
    };
    let history = begin.then(&waits(0)).then(&waits(1)).at(30);
    let history = history.then(&written(record(1, &[B]), record(1, &[]), &[]));
    let informed = Happening::Informed {
        host: 0,
        prefix: 0,
        of: at(known),
    };
    let history = history.then(&informed).at(sent_at);
    let passing = Change {
        ahead: vec![waiting],
        waiting: 1,
        sent_at: Some(at(sent_at)),
        ..change(Who::Ours(0), record(1, &[]), record(1, &[A]), &[A])
    };
    history.then(&Happening::Changed(passing)).verdict
}

fn waiter(since: u64) -> Waiting {
    Waiting {
        session: B.to_owned(),
        owner: Who::Ours(1),
        since: at(since),
    }
}

#[test]
fn queue_whoever_came_first_is_admitted_first() {
    simulation::check::be_strict();
    let begin = || history().then(&booted(0, None)).then(&booted(1, None));
    let verdict = passes(29, 30, waiter(10), begin());
    assert_eq!(verdict, Some(Invariant::Queue));
    assert_eq!(passes(9, 30, waiter(10), begin()), None, "not known yet");
    assert_eq!(passes(29, 31, waiter(10), begin()), None, "left unused");
    let cut_off = begin().then(&Happening::Hindered {
        host: 1,
        until: at(31),
    });
    assert_eq!(passes(29, 30, waiter(10), cut_off), None, "could not act");
}

#[test]
fn l1_a_free_slot_is_filled_in_the_storm_too() {
    let waits = || {
        let begin = history().then(&booted(0, None)).at(1);
        begin
            .then(&written(record(1, &[A]), record(1, &[]), &[]))
            .then(&Happening::Waits {
                host: 0,
                prefix: 0,
                permits: 1,
            })
    };
    assert_eq!(waits().at(20).verdict, None);
    assert_eq!(waits().at(60).verdict, Some(Invariant::L1));
    let hindered = Happening::Hindered {
        host: 0,
        until: at(50),
    };
    assert_eq!(waits().then(&hindered).at(60).verdict, None);
}

#[test]
fn whoever_looks_on_is_told_of_each_grant_and_loss_and_of_no_other() {
    let told = |what| Happening::Noticed {
        host: 0,
        prefix: 0,
        token: FencingToken(10),
        what,
    };
    let held = || {
        let told = history().then(&told(Noticed::Granted));
        told.then(&admits(A)).granted(&belief(1, 0, A), 10)
    };
    assert_eq!(held().verdict, None);
    let untold = history().then(&told(Noticed::Granted));
    let untold = untold.then(&admits(A)).granted(&belief(1, 0, A), 11);
    assert_eq!(untold.verdict, Some(Invariant::Soundness));
    let ended = held().then(&told(Noticed::Released));
    assert_eq!(ended.verdict, Some(Invariant::Soundness));
    let is_lost = |mut history: History| {
        history.held.clear();
        history.then(&lost(lease_expired())).verdict
    };
    let unnoticed = held().then(&taken(A));
    assert_eq!(is_lost(unnoticed), Some(Invariant::Soundness));
    let mut noticed = held().then(&taken(A));
    noticed.held.clear();
    let noticed = noticed.then(&told(Noticed::lost(&lease_expired())));
    assert_eq!(is_lost(noticed), None);
}
