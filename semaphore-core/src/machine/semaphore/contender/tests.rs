use core::time::Duration;

mod leaving;

use crate::asked::Asked;
use crate::machine::fixture::{A, B, Shown, at, session, settings};
use crate::machine::semaphore::contender::*;

const ACQUIRE: CommandId = CommandId(7);
const BASE: Index = Index(50);
const DENIED: (u16, &str) = (403, "Permission denied");
/// A transaction, of which nothing may be shown.
const APPLIED: (u16, &str) = (200, r#"{"Results":[],"Errors":null}"#);

/// A contender with the session [`A`], and what its methods need.
struct Bench {
    contender: Contender,
    settings: Settings,
    rng: fastrand::Rng,
}

impl Bench {
    fn new() -> Self {
        Self::with(settings())
    }

    fn with(settings: Settings) -> Self {
        Self {
            contender: Contender::new(&settings),
            settings,
            rng: fastrand::Rng::with_seed(1),
        }
    }

    /// In the queue, as a view has shown.
    fn waiting() -> Self {
        Self::new().into_waiting()
    }

    fn into_waiting(mut self) -> Self {
        self.exchange(
            0,
            "/v1/session/create",
            (200, &format!(r#"{{"ID":"{A}"}}"#)),
        );
        self.exchange(0, "/v1/txn", APPLIED);
        assert!(self.observe(0, unheld(BASE), false).is_none());
        self
    }

    fn claiming() -> Self {
        let mut bench = Self::waiting();
        bench.contender.claim(BASE);
        bench
    }

    fn held() -> Self {
        Self::claiming().into_held()
    }

    fn into_held(mut self) -> Self {
        self.contender.admitted(BASE);
        self.contender.hold(at(0), ACQUIRE, Among::Few);
        self
    }

    fn leave(&mut self, now: u64) {
        self.contender.leave(at(now), Moment(now), &self.settings);
    }

    fn withdrawn(&mut self, now: u64) {
        self.contender.withdrawn(Moment(now));
    }

    fn skip(&mut self, now: u64) {
        let failure = RequestError::Denied {
            asked: Asked::default(),
            text: format!("at {now}"),
        };
        self.contender.skip(Moment(now), failure);
    }

    /// The part and target of the next request.
    fn send(&mut self, now: u64) -> Option<(Part, String)> {
        let (part, request) = self
            .contender
            .transmit(at(now), Along::Prefix, &self.settings)?;
        Some((part, request.target().to_owned()))
    }

    fn answer(&mut self, now: u64, part: Part, answer: (u16, &str)) -> Option<ContenderEvent> {
        let response = Response::new(answer.0, answer.1);
        let (now, moment, answer) = (at(now), Moment(now), Ok(&response));
        let (settings, rng) = (&self.settings, &mut self.rng);
        self.contender
            .handle(now, moment, part, answer, settings, rng)
    }

    #[track_caller]
    fn exchange(&mut self, now: u64, target: &str, answer: (u16, &str)) -> Option<ContenderEvent> {
        let (part, sent) = self.send(now).expect("a request");
        assert!(sent.starts_with(target), "{sent}");
        self.answer(now, part, answer)
    }

    fn observe(&mut self, now: u64, shown: Shown<'_>, confirmed: bool) -> Option<ContenderEvent> {
        let view = shown.view();
        let (now, moment, sent) = (at(now), Moment(now), Moment(now + 1));
        self.contender.observe(now, moment, &view, sent, confirmed)
    }

    fn handle_timeout(&mut self, now: u64, last: Option<&RequestError>) -> Option<ContenderEvent> {
        self.contender.handle_timeout(at(now), Moment::START, last)
    }

    /// The key is deleted, then the session destroyed, then nothing is left.
    #[track_caller]
    fn assert_goes(&mut self, now: u64) {
        self.exchange(now, &format!("/v1/kv/jobs/{A}"), (200, "true"));
        self.assert_destroys(now);
    }

    #[track_caller]
    fn assert_destroys(&mut self, now: u64) {
        self.exchange(now, &format!("/v1/session/destroy/{A}"), (200, "true"));
        self.assert_gone(now);
        assert!(self.contender.leave_failure().is_none());
    }

    fn is_due(&self, now: Instant) -> bool {
        self.contender.due_at().is_some_and(|due| due <= now)
    }

    /// When something is due next.
    fn timeout(&self) -> Option<Instant> {
        let times = [self.contender.due_at(), self.contender.ends_at()];
        times.into_iter().flatten().min()
    }

    #[track_caller]
    fn assert_gone(&mut self, now: u64) {
        assert!(self.contender.is_gone());
        assert_eq!(self.send(now + 60_000), None);
        assert_eq!(self.timeout(), None);
    }
}

const KEY: [(&str, &str); 1] = [(A, A)];

fn unheld(index: Index) -> Shown<'static> {
    Shown {
        lock: Some((index.0, r#"{"Limit":1,"Holders":[]}"#)),
        keys: &KEY,
        filtered: false,
    }
}

fn held_by_us(index: Index) -> Shown<'static> {
    Shown {
        lock: Some((
            index.0,
            r#"{"Limit":1,"Holders":["aaaaaaaa-0000-0000-0000-000000000000"]}"#,
        )),
        ..unheld(index)
    }
}

fn without_our_key() -> Shown<'static> {
    Shown {
        keys: &[],
        ..held_by_us(BASE)
    }
}

fn with_our_key_tied_to(session: &'static str) -> Shown<'static> {
    Shown {
        keys: match session {
            B => &[(A, B)],
            _ => &[(A, "")],
        },
        ..held_by_us(BASE)
    }
}

#[test]
fn it_enters_by_a_session_and_then_a_key() {
    let mut bench = Bench::new();
    assert!(bench.contender.is_wanting());
    assert_eq!(bench.contender.session_id(), None);
    bench.exchange(
        0,
        "/v1/session/create",
        (200, &format!(r#"{{"ID":"{A}"}}"#)),
    );
    assert_eq!(bench.contender.session_id(), Some(&session(A)));
    assert!(bench.contender.is_entering());
    bench.exchange(0, "/v1/txn", APPLIED);
    assert!(bench.contender.is_queued());
    assert_eq!(bench.contender.presence(), Presence::No);
}

/// It may be held back until the next write admits it, and a write may take long.
#[test]
fn one_that_is_held_back_before_it_enters_still_renews_its_session() {
    let mut bench = Bench::new();
    bench.exchange(
        0,
        "/v1/session/create",
        (200, &format!(r#"{{"ID":"{A}"}}"#)),
    );
    assert!(bench.contender.enters_next(at(0)));
    assert!(bench.contender.enters_next(at(3_700)));
    assert!(!bench.contender.enters_next(at(5_000)), "a renewal is due");
    bench.exchange(
        5_000,
        &format!("/v1/session/renew/{A}"),
        (200, r#"[{"TTL":"15s"}]"#),
    );
    assert!(bench.contender.enters_next(at(5_000)));
}

#[test]
fn it_may_be_admitted_when_its_place_is_seen_and_its_lease_holds() {
    let mut bench = Bench::new();
    bench.exchange(
        0,
        "/v1/session/create",
        (200, &format!(r#"{{"ID":"{A}"}}"#)),
    );
    bench.exchange(0, "/v1/txn", APPLIED);
    assert!(
        !bench.contender.is_admissible(at(0)),
        "its place is unknown"
    );
    assert_eq!(bench.contender.create_index(), None);
    bench.observe(0, unheld(BASE), false);
    assert_eq!(bench.contender.create_index(), Some(Index(1)));
    // The TTL of 15 s, minus a tenth.
    assert!(bench.contender.is_admissible(at(13_499)));
    assert!(!bench.contender.is_admissible(at(13_500)));
    bench.contender.claim(BASE);
    assert!(bench.contender.is_admissible(at(0)), "it may claim again");
    let mut bench = bench.into_held();
    assert!(!bench.contender.is_admissible(at(0)));
    bench.leave(0);
    assert!(!bench.contender.is_admissible(at(0)));
}

#[test]
fn only_one_whose_slot_is_not_taken_yet_is_wanting() {
    assert!(Bench::waiting().contender.is_wanting());
    assert!(Bench::claiming().contender.is_wanting());
    let mut bench = Bench::held();
    assert!(!bench.contender.is_wanting());
    bench.leave(0);
    assert!(!bench.contender.is_wanting());
}

#[test]
fn a_view_settles_what_became_of_a_write() {
    let same = unheld(BASE).view();
    let newer = unheld(Index(51)).view();
    let none = Shown::default().view();
    for (presence, view, confirmed, settled) in [
        (Presence::No, &newer, true, false),
        // It may still be applied, whatever the source.
        (Presence::Maybe(BASE), &same, false, false),
        (Presence::Maybe(BASE), &same, true, false),
        (Presence::Maybe(BASE), &newer, false, true),
        (Presence::Maybe(BASE), &none, false, true),
        // It was applied: only an older view shows its base, or a restored snapshot.
        (Presence::Yes(BASE), &same, false, false),
        (Presence::Yes(BASE), &same, true, true),
        (Presence::Yes(BASE), &newer, false, true),
        (Presence::Yes(BASE), &none, false, true),
    ] {
        let base = settled.then_some(BASE);
        assert_eq!(presence.settled_by(view, confirmed), base, "{presence:?}");
    }
}

#[test]
fn a_claim_is_settled_by_the_record_that_comes_after_it() {
    let mut bench = Bench::claiming();
    bench.observe(0, unheld(BASE), true);
    assert!(bench.contender.is_claiming());
    assert_eq!(bench.contender.presence(), Presence::Maybe(BASE));
    bench.observe(0, held_by_us(Index(51)), false);
    assert!(bench.contender.is_claiming());
    assert_eq!(bench.contender.presence(), Presence::Yes(BASE));

    let mut bench = Bench::claiming();
    bench.observe(0, unheld(Index(51)), false);
    assert!(bench.contender.is_queued());
    assert_eq!(bench.contender.presence(), Presence::No);
}

#[test]
fn a_claim_that_was_refused_for_certain_leaves_nothing_in_the_record() {
    let mut bench = Bench::claiming();
    bench.contender.claim_refused(Moment(0), BASE);
    assert!(bench.contender.is_queued());
    assert_eq!(bench.contender.presence(), Presence::No);
    assert!(bench.contender.is_admissible(at(0)), "it may claim again");
    bench.leave(0);
    assert!(!bench.contender.must_withdraw());
}

#[test]
fn it_loses_its_slot_when_the_record_no_longer_names_it() {
    let mut bench = Bench::held();
    assert!(bench.observe(0, unheld(BASE), false).is_none(), "too old");
    assert!(bench.observe(0, held_by_us(Index(51)), false).is_none());
    for (shown, confirmed) in [(unheld(Index(52)), false), (unheld(BASE), true)] {
        let mut bench = Bench::held();
        let lost = bench.observe(0, shown, confirmed);
        assert!(matches!(
            lost,
            Some(ContenderEvent::Lost(ACQUIRE, Lost::RemovedFromHolders { session: id, .. })) if id == session(A)
        ));
        assert_eq!(bench.contender.presence(), Presence::No);
    }
}

#[test]
fn it_loses_its_slot_when_its_lease_is_over() {
    let mut bench = Bench::held();
    assert_eq!(bench.contender.deadline(), Some(at(13_500)));
    assert!(bench.handle_timeout(13_499, None).is_none());
    let no_leader = (500, "No cluster leader");
    bench.exchange(5_000, &format!("/v1/session/renew/{A}"), no_leader);
    assert!(matches!(
        bench.handle_timeout(13_500, None),
        Some(ContenderEvent::Lost(
            ACQUIRE,
            Lost::LeaseExpired {
                last_failure: Some(RequestError::Unavailable { status: 500, .. }),
                ..
            }
        ))
    ));
}

#[test]
fn a_slot_stays_longer_where_there_are_many() {
    let contender = Bench::held().contender;
    for (slots, stay) in [
        (1, 70),
        (23, 70),
        (24, 72),
        (100, 300),
        (10_000, 300),
        (u32::MAX, 300),
    ] {
        let stays = |now| contender.has_slot_for_more(at(now), slots);
        assert!(stays(stay - 1) && !stays(stay), "{slots}");
    }
    assert!(!Bench::waiting().contender.has_slot_for_more(at(0), 100));
}

#[test]
fn a_waiter_does_not_lose_what_it_does_not_have() {
    for mut bench in [Bench::waiting(), Bench::claiming()] {
        let was_queued = bench.contender.is_queued();
        assert!(bench.handle_timeout(60_000, None).is_none());
        assert_eq!(bench.contender.is_queued(), was_queued);
        assert!(bench.contender.is_wanting());
    }
}

#[test]
fn a_session_that_is_gone_ends_a_hold_or_a_wait() {
    let gone = (404, "Session id 'x' not found");
    let renewal = format!("/v1/session/renew/{A}");
    let inquiry = format!("/v1/session/info/{A}?consistent");
    let end = |mut bench: Bench| {
        let event = bench.exchange(5_000, &renewal, gone);
        assert!(event.is_none(), "a new leader may not know it yet");
        bench.exchange(5_000, &inquiry, (200, "[]"))
    };
    assert!(matches!(
        end(Bench::held()),
        Some(ContenderEvent::Lost(ACQUIRE, Lost::SessionGone { .. }))
    ));
    let event = end(Bench::waiting());
    assert!(matches!(event, Some(ContenderEvent::SessionGone)));
}

#[test]
fn a_key_that_vanished_means_that_its_session_is_gone() {
    let event = Bench::held().observe(1, without_our_key(), false);
    assert!(matches!(
        event,
        Some(ContenderEvent::Lost(ACQUIRE, Lost::SessionGone { .. }))
    ));
    let event = Bench::waiting().observe(1, without_our_key(), false);
    assert!(matches!(event, Some(ContenderEvent::SessionGone)));
}

#[test]
fn a_key_that_is_tied_to_another_session_was_taken() {
    let event = Bench::held().observe(1, with_our_key_tied_to(B), false);
    assert!(matches!(
        event,
        Some(ContenderEvent::Lost(
            ACQUIRE,
            Lost::ContenderKeyTaken { .. }
        ))
    ));
    let event = Bench::waiting().observe(1, with_our_key_tied_to(B), false);
    assert!(matches!(event, Some(ContenderEvent::KeyTaken)));
}

#[test]
fn a_key_that_is_tied_to_no_session_was_taken() {
    let event = Bench::waiting().observe(1, with_our_key_tied_to(""), false);
    assert!(matches!(event, Some(ContenderEvent::KeyTaken)));
}

#[test]
fn a_key_that_was_never_seen_is_reported_unless_the_lease_explains_it() {
    for (now, is_gone) in [(13_499, false), (13_500, true)] {
        let mut bench = Bench::new();
        bench.exchange(
            0,
            "/v1/session/create",
            (200, &format!(r#"{{"ID":"{A}"}}"#)),
        );
        bench.exchange(0, "/v1/txn", APPLIED);
        match bench.observe(now, without_our_key(), false) {
            Some(ContenderEvent::Unseen) => assert!(!is_gone),
            Some(ContenderEvent::SessionGone) => assert!(is_gone),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_refusal_for_good_is_reported_while_it_wants_a_slot() {
    let mut bench = Bench::new();
    let event = bench.exchange(0, "/v1/session/create", DENIED);
    assert!(matches!(
        event,
        Some(ContenderEvent::Refused(RequestError::Denied { .. }))
    ));
    let renewal = format!("/v1/session/renew/{A}");
    let event = Bench::waiting().exchange(5_000, &renewal, DENIED);
    assert!(matches!(event, Some(ContenderEvent::Refused(_))));
    // A holder continues as long as its lease.
    let mut bench = Bench::held();
    assert!(bench.exchange(5_000, &renewal, DENIED).is_none());
    assert_eq!(bench.contender.held_for(), Some(ACQUIRE));
}

#[test]
fn it_is_due_when_its_parts_are_and_when_its_lease_or_its_way_out_ends() {
    let mut bench = Bench::waiting();
    let renewal = bench.timeout().unwrap();
    assert!(renewal <= at(5_000));
    let before = renewal - Duration::from_nanos(1);
    assert!(!bench.is_due(before));
    assert!(bench.is_due(renewal));
    // The next renewal does not wait for the answer, unless six are under way.
    bench.send(5_000).unwrap();
    let due = bench.timeout();
    assert!(due.is_some_and(|due| due >= at(8_750)), "{due:?}");
    let mut bench = bench.into_held();
    let mut sent = Vec::new();
    for now in [7_000, 8_500, 10_000, 11_500, 13_000, 13_400] {
        while let Some((_, request)) = bench.send(now) {
            sent.push(request.contains("/renew/"));
        }
    }
    assert_eq!(sent, [true; 5]);
    assert_eq!(bench.timeout(), Some(at(13_500)));
}

#[test]
fn its_sequencer_is_the_one_of_its_key() {
    let bench = Bench::held();
    let sequencer = bench.contender.sequencer(&bench.settings).unwrap();
    assert_eq!(sequencer.key, format!("jobs/{A}"));
    assert_eq!(sequencer.session, session(A));
    assert_eq!(sequencer.lock_index, 1);
    assert!(Bench::new().contender.sequencer(&bench.settings).is_none());
}
