//! What an election's invariants forbid.

use std::time::Duration;

use semaphore_core::{Lost, SessionId};
use simulation::check::Invariant;
use simulation::history::{
    Asked, BeliefNo, Change, Ending, Followed, Happening, KeyState, Removed, Subject, Who,
};
use simulation::plan::{HostBounds, Place};

use crate::support::*;

/// The flags of a lock of Go's client.
const LOCK: u64 = 3_304_740_253_564_472_344;

const OURS: Who = Who::Ours(0);

/// A key with this value that this session holds.
#[expect(clippy::unnecessary_wraps, reason = "there may be no key")]
fn key(session: Option<&str>, value: &str) -> Option<KeyState> {
    Some(KeyState {
        session: session.map(str::to_owned),
        value: value.into(),
        flags: LOCK,
        lock_index: 1,
    })
}

/// The same with foreign data.
fn garbled(session: Option<&str>) -> Option<KeyState> {
    key(session, "maintenance").map(|key| KeyState {
        flags: 0,
        lock_index: 0,
        ..key
    })
}

fn change(by: Who, before: Option<KeyState>, after: Option<KeyState>) -> Change {
    let session = |key: &Option<KeyState>| key.as_ref().and_then(|key| key.session.clone());
    let (had, has) = (session(&before), session(&after));
    Change {
        prefix: 0,
        by,
        sent_at: Some(at(0)),
        is_bound: true,
        added: has.filter(|_| had != session(&after)).into_iter().collect(),
        passed: Vec::new(),
        may_have_passed: Vec::new(),
        removed: Vec::new(),
        ahead: Vec::new(),
        waiting: 0,
        of: Subject::Key { before, after },
    }
}

fn changed(by: Who, before: Option<KeyState>, after: Option<KeyState>) -> Happening {
    Happening::Changed(change(by, before, after))
}

/// Host 0 is elected with the session A.
fn elected() -> Happening {
    changed(OURS, key(None, ""), key(Some(A), "node-0"))
}

/// A world in which host 0 has created A and host 1 has created B.
fn world() -> History {
    history().then(&began(A, 0)).then(&began(B, 1))
}

fn verdict(
    history: History,
    by: Who,
    before: Option<KeyState>,
    after: Option<KeyState>,
) -> Option<Invariant> {
    history.then(&changed(by, before, after)).verdict
}

#[test]
fn s1_one_leads_whatever_the_limit_of_records_is() {
    let lead = |first: &Happening| {
        let bounds = simulation::check::Bounds {
            limit: 3,
            ..bounds()
        };
        let one = history_within(bounds)
            .then(&began(A, 0))
            .then(&began(B, 1))
            .then(first)
            .granted(&belief(1, 0, A), 10);
        assert_eq!(one.verdict, None);
        let by = Who::Ours(1);
        one.then(&changed(by, key(None, ""), key(Some(B), "node-1")))
            .granted(&belief(2, 1, B), 11)
            .verdict
    };
    assert_eq!(lead(&elected()), Some(Invariant::S1));
}

#[test]
fn s1_nobody_acquires_a_key_during_its_lock_delay() {
    let expired = || {
        let untied = changed(Who::Operator, key(Some(A), ""), key(None, ""));
        world()
            .then(&elected())
            .at(20)
            .then(&ended(A, Ending::Ttl))
            .then(&untied)
    };
    let acquires = |history: History| {
        let by = Who::Ours(1);
        verdict(history, by, key(None, ""), key(Some(B), "node-1"))
    };
    assert_eq!(acquires(expired().at(34)), Some(Invariant::S1));
    assert_eq!(acquires(expired().at(35)), None);
    assert_eq!(acquires(expired().then(&Happening::NewEpoch).at(21)), None);
    // A leader that has released the key leaves no lock delay.
    let released = changed(OURS, key(Some(A), "node-0"), key(None, "node-0"));
    let resigned = world()
        .then(&elected())
        .then(&released)
        .then(&ended(A, Ending::Destroyed(OURS)));
    assert_eq!(acquires(resigned), None);
}

#[test]
fn s4_a_key_is_changed_by_whom_it_is_tied_to() {
    let leads = || world().then(&elected());
    let own = || key(Some(A), "node-0");
    for (after, expected) in [
        (key(Some(A), "another value"), None),
        (key(None, "node-0"), None),
        (key(None, "something else"), Some(Invariant::S4)),
        (None, Some(Invariant::S4)),
        (garbled(Some(A)), Some(Invariant::S4)),
    ] {
        assert_eq!(
            verdict(leads(), OURS, own(), after.clone()),
            expected,
            "{after:?}"
        );
    }
    let of_another = || key(Some(B), "node-1");
    let over = verdict(world(), OURS, of_another(), key(Some(B), "node-0"));
    assert_eq!(over, Some(Invariant::S4));
    let plainly = Change {
        is_bound: false,
        ..change(OURS, own(), key(Some(A), "another value"))
    };
    let plainly = leads().then(&Happening::Changed(plainly));
    assert_eq!(plainly.verdict, Some(Invariant::S4));
    let by_operator = verdict(leads(), Who::Operator, own(), garbled(Some(A)));
    assert_eq!(by_operator, None);
}

#[test]
fn s4_a_leader_that_resigns_leaves_what_it_has_said_or_found() {
    let changed_twice = || {
        world().then(&elected()).then(&changed(
            OURS,
            key(Some(A), "node-0"),
            key(Some(A), "second"),
        ))
    };
    let leaves = |value| {
        let before = key(Some(A), "second");
        verdict(changed_twice(), OURS, before, key(None, value))
    };
    assert_eq!(leaves("second"), None);
    assert_eq!(leaves("node-0"), None);
    assert_eq!(leaves(""), Some(Invariant::S4));
}

#[test]
fn s4_what_is_no_elections_is_left_alone_by_whoever_can_know_it() {
    let garbles = changed(Who::Operator, key(None, ""), garbled(None));
    let informed = |of| Happening::Informed {
        host: 0,
        prefix: 0,
        of: at(of),
    };
    let acquires = |history: History, sent| {
        let change = Change {
            sent_at: Some(at(sent)),
            ..change(OURS, garbled(None), key(Some(A), "node-0"))
        };
        history.then(&Happening::Changed(change)).verdict
    };
    let known = || world().at(10).then(&garbles).at(12).then(&informed(11));
    assert_eq!(acquires(known().at(13), 13), Some(Invariant::S4));
    assert_eq!(acquires(known().at(13), 11), None, "it was under way");
    let unknown = || world().at(10).then(&garbles).at(12).then(&informed(9));
    assert_eq!(acquires(unknown().at(13), 13), None);
}

#[test]
fn s4_a_value_that_is_said_to_be_set_was_shown() {
    let leads = world().then(&elected()).granted(&belief(1, 0, A), 10);
    let told = |value: &str| Happening::ValueSet {
        belief: BeliefNo(1),
        value: value.to_owned(),
    };
    let shown = leads.then(&told("node-0"));
    assert_eq!(shown.verdict, None);
    assert_eq!(shown.then(&told("another")).verdict, Some(Invariant::S4));
}

#[test]
fn s5_tokens_rise_with_every_change_of_leader() {
    let terms = |first, second| {
        let mut one = world().then(&elected()).granted(&belief(1, 0, A), first);
        one.held.clear();
        one.then(&changed(OURS, key(Some(A), "node-0"), key(None, "node-0")))
            .then(&changed(
                Who::Ours(1),
                key(None, "node-0"),
                key(Some(B), "node-1"),
            ))
            .granted(&belief(2, 1, B), second)
            .verdict
    };
    assert_eq!(terms(10, 11), None);
    assert_eq!(terms(10, 10), Some(Invariant::S5));
    assert_eq!(terms(10, 3), Some(Invariant::S5));
    let before = world().then(&elected()).then(&Happening::NewEpoch);
    let read_anew = before.granted(&belief(1, 0, A), 3);
    assert_eq!(read_anew.verdict, None);
    let unelected = world().granted(&belief(1, 0, A), 10);
    assert_eq!(unelected.verdict, Some(Invariant::S5));
}

#[test]
fn l1_a_key_that_can_be_had_is_acquired_in_quiet() {
    let untied = Change {
        removed: vec![Removed {
            session: A.to_owned(),
            is_alive: false,
            owner: Some(OURS),
        }],
        ..change(Who::Operator, key(Some(A), "node-0"), key(None, "node-0"))
    };
    let untied = Happening::Changed(untied);
    let campaigns = Happening::Campaigns { prefix: 0 };
    let campaign = || {
        let led = world().then(&elected()).then(&Happening::Quiet);
        led.at(30).then(&campaigns)
    };
    let vacant = || campaign().then(&untied);
    assert_eq!(vacant().at(32).verdict, None);
    assert_eq!(vacant().at(33).verdict, Some(Invariant::L1));
    let delayed = || campaign().then(&ended(A, Ending::Ttl)).then(&untied);
    assert_eq!(delayed().at(47).verdict, None);
    assert_eq!(delayed().at(48).verdict, Some(Invariant::L1));
    let led = vacant().then(&elected());
    assert_eq!(led.at(60).verdict, None);
    let got_in = Happening::GotIn { host: 0, prefix: 0 };
    assert_eq!(vacant().then(&got_in).at(60).verdict, None);
}

/// A poll that was lost just before is only given up after its whole time.
#[test]
fn l1_whoever_may_still_wait_for_a_lost_poll_is_not_late() {
    let vacant = |lost_poll: u64| {
        let bounds = simulation::check::Bounds {
            lost_poll: std::time::Duration::from_secs(lost_poll),
            ..bounds()
        };
        let quiet = history_within(bounds).then(&Happening::Quiet);
        quiet.then(&Happening::Campaigns { prefix: 0 })
    };
    assert_eq!(vacant(22).at(24).verdict, None);
    assert_eq!(vacant(22).at(25).verdict, Some(Invariant::L1));
    assert_eq!(vacant(38).at(40).verdict, None);
    assert_eq!(vacant(38).at(41).verdict, Some(Invariant::L1));
}

#[test]
fn l1_whoever_follows_knows_the_leader_in_quiet() {
    let follows = |what| {
        let (host, prefix) = (1, 0);
        Happening::Follows { host, prefix, what }
    };
    let quiet = |what| {
        world()
            .then(&follows(what))
            .then(&elected())
            .then(&Happening::Quiet)
    };
    let right = || Followed::Leader(A.to_owned());
    assert_eq!(quiet(right()).at(60).verdict, None);
    for wrong in [
        Followed::Nothing,
        Followed::Nobody,
        Followed::Leader(B.to_owned()),
    ] {
        assert_eq!(quiet(wrong.clone()).at(36).verdict, None);
        assert_eq!(quiet(wrong).at(37).verdict, Some(Invariant::L1));
    }
    let resigns = changed(OURS, key(Some(A), "node-0"), key(None, "node-0"));
    let later = || quiet(right()).at(60).then(&resigns);
    assert_eq!(
        later().then(&follows(Followed::Nobody)).at(61).verdict,
        None
    );
    assert_eq!(later().at(61).verdict, Some(Invariant::L1));
    assert_eq!(
        later().then(&follows(Followed::NoMore)).at(61).verdict,
        None
    );
}

#[test]
fn l1_whoever_follows_does_not_go_back_to_a_former_leader() {
    let sees = |session: &str| Happening::Follows {
        host: 1,
        prefix: 0,
        what: Followed::Leader(session.to_owned()),
    };
    let followed = || {
        let resigns = changed(OURS, key(Some(A), "node-0"), key(None, "node-0"));
        let next = changed(Who::Ours(1), key(None, "node-0"), key(Some(B), "node-1"));
        let first = world().then(&elected()).then(&sees(A)).then(&resigns);
        first.then(&next).then(&sees(B))
    };
    assert_eq!(followed().verdict, None);
    assert_eq!(followed().then(&sees(A)).verdict, Some(Invariant::L1));
    let (host, prefix, what) = (1, 0, Followed::Nothing);
    let anew = Happening::Follows { host, prefix, what };
    assert_eq!(followed().then(&anew).then(&sees(A)).verdict, None);
}

#[test]
fn l2_whoever_leaves_has_released_the_key_unless_it_was_late() {
    let destroyed = ended(A, Ending::Destroyed(OURS));
    let locked = world().then(&elected()).at(1).then(&destroyed);
    assert_eq!(locked.verdict, Some(Invariant::L2));
    // A host that destroys it at the same moment could not know.
    let just_tied = world().then(&elected()).then(&destroyed);
    assert_eq!(just_tied.verdict, None);
    let late = world().at(2).then(&elected()).then(&destroyed);
    assert_eq!(late.verdict, None, "acquired 2 s after it was asked for");
}

/// Host 0 takes part in an election.
fn booted() -> Happening {
    Happening::Booted {
        host: 0,
        prefix: 0,
        place: Place::Election {
            lock_delay: Some(Duration::ZERO),
        },
        bounds: HostBounds::default(),
    }
}

/// Host 0 sends this many requests at the same time.
fn asked(begin: History, what: &Asked, count: usize) -> History {
    let sent = Happening::Sent {
        host: 0,
        prefix: 0,
        what: what.clone(),
    };
    (0..count).fold(begin, |history, _| history.then(&sent))
}

#[test]
fn l3_an_attempt_more_is_allowed_for_each_that_somebody_else_won() {
    let attempt = Asked::Attempt(A.to_owned());
    let free = || key(None, "");
    for (change, more) in [
        (changed(Who::Ours(1), free(), key(Some(B), "node-1")), 1),
        (changed(Who::Operator, free(), None), 1),
        // It begins another term, in which values may follow.
        (changed(OURS, free(), key(Some(A), "node-0")), 11),
        (changed(Who::Operator, key(Some(B), "node-1"), free()), 0),
    ] {
        let begin = || world().then(&booted());
        let many = || asked(begin(), &attempt, 12).then(&change);
        assert_eq!(asked(many(), &attempt, more).verdict, None);
        assert_eq!(
            asked(many(), &attempt, more + 1).verdict,
            Some(Invariant::L3)
        );
    }
}

#[test]
fn l3_an_election_has_ceilings_for_reads_attempts_and_writes() {
    let ask = |what: &Asked, count| asked(history().then(&booted()), what, count).verdict;
    let attempt = Asked::Attempt(A.to_owned());
    for (what, allowed) in [(Asked::Read, 80), (attempt, 12), (Asked::Write, 150)] {
        assert_eq!(ask(&what, allowed), None, "{what:?}");
        assert_eq!(ask(&what, allowed + 1), Some(Invariant::L3), "{what:?}");
    }
}

#[expect(clippy::expect_used, reason = "a test's own constant")]
fn key_lost() -> [Lost; 4] {
    let by = SessionId::new(B).expect("a session");
    let session = session;
    [
        Lost::KeyDeleted {
            session: session(),
            on: semaphore_core::error::Subject::default(),
        },
        Lost::KeyReleased {
            session: session(),
            on: semaphore_core::error::Subject::default(),
        },
        Lost::KeyOverwritten {
            session: session(),
            on: semaphore_core::error::Subject::default(),
        },
        Lost::KeyTaken {
            session: session(),
            by,
            on: semaphore_core::error::Subject::default(),
        },
    ]
}

#[test]
fn l4_a_leadership_is_lost_to_whoever_took_it_or_to_indexes_counted_anew() {
    let leads = || world().then(&elected()).granted(&belief(1, 0, A), 10);
    for reason in key_lost() {
        let told = lost(reason.clone());
        assert_eq!(leads().then(&told).verdict, Some(Invariant::L4), "{reason}");
        assert_eq!(
            leads().then(&taken(A)).then(&told).verdict,
            None,
            "{reason}"
        );
        let renumbered = leads().then(&Happening::NewEpoch).then(&told).verdict;
        let is_excused = !matches!(reason, Lost::KeyTaken { .. });
        let expected = (!is_excused).then_some(Invariant::L4);
        assert_eq!(renumbered, expected, "{reason}");
    }
    let before = world().then(&Happening::NewEpoch).then(&elected());
    let [deleted, ..] = key_lost();
    let told = before.granted(&belief(1, 0, A), 10).then(&lost(deleted));
    assert_eq!(told.verdict, Some(Invariant::L4), "elected afterwards");
}
