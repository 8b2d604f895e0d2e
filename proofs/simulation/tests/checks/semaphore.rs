//! What S1 to S5 forbid in a semaphore, and what observers may be told.

use std::time::Duration;

use semaphore_core::FencingToken;
use semaphore_core::sans_io::Instant;
use simulation::check::{Bounds, Invariant};
use simulation::history::{BeliefNo, Change, Ending, Foreign, Happening, Noticed, Removed, Who};

use crate::support::*;

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

#[test]
fn s1_a_lost_slot_that_is_kept_is_taken_away_by_nobody_of_its_own_side() {
    let keeps = || Happening::Keeps {
        host: 0,
        prefix: 0,
        sessions: vec![A.to_owned()],
        lock_delay: Duration::from_secs(15),
    };
    let kept = || {
        let gone = ended(A, Ending::Ttl);
        history().then(&admits(A)).then(&gone).at(1).then(&keeps())
    };
    let removes = |by| removes(by, Some(at(0)), false);
    let early = |by| kept().at(14).then(&removes(by)).verdict;
    assert_eq!(early(Who::Ours(0)), Some(Invariant::S1));
    assert_eq!(early(Who::Ours(1)), None, "others ask Consul themselves");
    assert_eq!(early(Who::Operator), None);
    let late = kept().at(15).then(&removes(Who::Ours(0)));
    assert_eq!(late.verdict, None, "the lock delay is over");
    let given_back = Happening::KeepsNoMore {
        host: 0,
        prefix: 0,
        sessions: vec![A.to_owned()],
    };
    let back = kept().then(&given_back);
    assert_eq!(back.then(&removes(Who::Ours(0))).verdict, None);
    // What has changed in Consul is told before what the users of that step have done.
    let both = kept().in_one_step([&removes(Who::Ours(0)), &given_back]);
    assert_eq!(both.verdict, None, "given back in the same step");
    let stopped = kept().then(&Happening::Stopped { host: 0 });
    assert_eq!(stopped.then(&removes(Who::Ours(0))).verdict, None);
}
