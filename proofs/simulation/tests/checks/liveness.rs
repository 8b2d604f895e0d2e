//! What L1 to L4 and the queue's order forbid in a semaphore.

use std::time::Duration;

use semaphore_core::Lost;
use simulation::check::{Bounds, Invariant};
use simulation::history::{Asked, Change, Ending, Foreign, Happening, Waiting, Who, Why};

use crate::support::*;

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

/// A session that nobody needs any more may be forgotten where answers are slow, but is not renewed on and
/// on.
#[test]
fn l2_in_a_slow_world_a_session_ends_too_though_later() {
    let ends_after = |is_slow: bool, secs: u64| {
        let bounds = Bounds {
            is_slow,
            retry_cap: Duration::from_secs(2),
            ..bounds()
        };
        let (host, session) = (0, A.to_owned());
        let known = history_within(bounds).then(&Happening::Known { host, session });
        known.at(secs).then(&ended(A, Ending::Ttl)).verdict
    };
    assert_eq!(ends_after(false, 29), None);
    assert_eq!(ends_after(false, 31), Some(Invariant::L2));
    assert_eq!(ends_after(true, 61), Some(Invariant::L2));
    assert_eq!(ends_after(true, 59), None);
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
    // Its claim came late, and it was shown that there is no record.
    let began = || history().then(&booted(0, None));
    let blinded = || began().then(&Happening::Blinded { host: 0 });
    let sees_again = Happening::Whole { host: 0, prefix: 0 };
    let claims = |begin: History| begin.then(&admits(A)).then(&sees_again).then(&destroyed);
    assert_eq!(claims(blinded()).verdict, None);
    assert_eq!(claims(began()).verdict, Some(Invariant::L2));
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

/// A clock that has jumped by as much as a lease is as good as an outage of that length, on its host alone.
#[test]
fn l4_a_jump_of_the_clock_shortens_a_lease_on_its_host_alone() {
    let verdict = |host: usize, by: u64| {
        let by = Duration::from_secs(by);
        let history = history().then(&booted(0, Some(Duration::from_secs(15))));
        let history = history.at(30).then(&Happening::Jumped { host, by });
        history.then(&lost(lease_expired())).verdict
    };
    assert_eq!(verdict(0, 13), None);
    assert_eq!(verdict(0, 9), Some(Invariant::L4), "a short one");
    assert_eq!(verdict(1, 13), Some(Invariant::L4), "another host");
}

/// A suspended machine's clock may be ahead of what its sleep took.
#[test]
fn l4_a_jump_of_the_clock_adds_to_the_trouble_in_which_it_comes() {
    let verdict = |by: u64| {
        let by = Duration::from_secs(by);
        let suspended = Happening::Trouble {
            host: Some(0),
            until: at(31),
        };
        let history = history().then(&booted(0, Some(Duration::from_secs(15))));
        let history = history.at(23).then(&suspended).at(30);
        let history = history.then(&Happening::Jumped { host: 0, by });
        history.then(&lost(lease_expired())).verdict
    };
    assert_eq!(verdict(6), None);
    assert_eq!(verdict(1), Some(Invariant::L4), "a short one");
}

/// A leader that steps down was asked to since its term began.
#[test]
fn l4_a_leader_steps_down_only_if_it_was_asked_to() {
    let stepped_down = || lost(Lost::SteppedDown);
    let asked = |host| Happening::StepsDown { host, prefix: 0 };
    let held = || {
        history()
            .at(1)
            .then(&admits(A))
            .granted(&belief(1, 0, A), 10)
    };
    assert_eq!(held().then(&stepped_down()).verdict, Some(Invariant::L4));
    let was_asked = |host| held().at(2).then(&asked(host)).then(&stepped_down());
    assert_eq!(was_asked(0).verdict, None);
    assert_eq!(was_asked(1).verdict, Some(Invariant::L4), "another host");
    let before = history().then(&asked(0)).at(1).then(&admits(A));
    let before = before.granted(&belief(1, 0, A), 10);
    assert_eq!(
        before.then(&stepped_down()).verdict,
        Some(Invariant::L4),
        "an earlier term"
    );
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

    // Trouble that begins meanwhile keeps the host from hearing of the end. Later trouble excuses
    // nothing.
    let troubled = |from, until| {
        let trouble = Happening::Trouble {
            host: Some(0),
            until: at(until),
        };
        repaired().at(from).then(&trouble).at(until)
    };
    let heard_late = troubled(2, 40).then(&failed(0, Why::Foreign)).verdict;
    assert_eq!(heard_late, None);
    let much_later = troubled(30, 40).then(&failed(0, Why::Foreign)).verdict;
    assert_eq!(much_later, Some(Invariant::L4));

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

#[test]
fn l2_what_is_held_when_main_returns_does_not_run_out() {
    let holds = || history().then(&admits(A)).granted(&belief(1, 0, A), 10);
    let returns = Happening::Returns { host: 0 };
    let stopped = Happening::Stopped { host: 0 };
    let by_ttl = ended(A, Ending::Ttl);
    let ends = |begin: History| begin.at(31).then(&stopped).at(60).then(&by_ttl).verdict;
    let returned = || {
        let mut held = holds().at(30).then(&returns);
        held.held.clear();
        held
    };
    assert_eq!(ends(returned()), Some(Invariant::L2));
    let destroyed = ended(A, Ending::Destroyed(Who::Ours(0)));
    let release = written(record(1, &[A]), record(1, &[]), &[]);
    let given_back = returned().then(&release).then(&destroyed);
    assert_eq!(given_back.then(&stopped).verdict, None);
    let mut killed = holds().at(30);
    killed.held.clear();
    assert_eq!(ends(killed.then(&stopped)), None, "nothing runs any more");
    let trouble = Happening::Trouble {
        host: Some(0),
        until: at(30),
    };
    let troubled = |begin: History| begin.then(&trouble);
    assert_eq!(ends(troubled(returned())), None, "during the farewell");
    let mut before = troubled(holds().at(20)).at(31).then(&returns);
    before.held.clear();
    assert_eq!(ends(before), None, "requests wait for their repetition");
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
