use crate::machine::fixture::{A, B, at, session, settings};
use crate::machine::semaphore::admission::ContenderNo;
use crate::machine::semaphore::ledger::*;
use crate::record::Record;

const SENT: Index = Index(50);

/// When a write ends.
const END: Moment = Moment(100);

struct Bench {
    ledger: Ledger,
    settings: Settings,
    rng: fastrand::Rng,
}

impl Bench {
    fn new() -> Self {
        let settings = settings();
        Self {
            ledger: Ledger::new(&settings),
            settings,
            rng: fastrand::Rng::with_seed(1),
        }
    }

    fn plan(&mut self, now: Instant, turn: Turn) {
        let write = (turn == Turn::Now).then(write);
        self.ledger.plan(now, write, turn, None, &mut self.rng);
    }

    /// A write from the record at [`SENT`] is under way.
    fn sending() -> Self {
        let mut bench = Self::new();
        bench.send();
        bench
    }

    fn send(&mut self) {
        self.plan(at(0), Turn::Now);
        assert!(
            self.ledger
                .transmit(Rest::default(), &self.settings)
                .is_some()
        );
    }
}

fn write() -> Write {
    Write {
        record: Record::new(1),
        base: SENT,
        admit: vec![ContenderNo(7)],
        withdraw: vec![],
    }
}

#[test]
fn a_write_is_sent_once_and_names_the_index_that_it_was_decided_from() {
    let mut bench = Bench::new();
    bench.plan(at(0), Turn::Now);
    let (sent, request) = bench
        .ledger
        .transmit(Rest::default(), &bench.settings)
        .unwrap();
    assert_eq!(*sent, write());
    let body = String::from_utf8_lossy(request.body());
    assert!(
        body.contains(r#""Verb":"cas","Key":"jobs/.lock""#),
        "{body}"
    );
    assert!(body.contains(r#""Index":50"#), "{body}");
    assert!(
        bench
            .ledger
            .transmit(Rest::default(), &bench.settings)
            .is_none()
    );
}

#[test]
fn the_newest_plan_counts() {
    let mut bench = Bench::new();
    bench.plan(at(0), Turn::Now);
    bench.plan(at(0), Turn::NotYet);
    assert!(
        bench
            .ledger
            .transmit(Rest::default(), &bench.settings)
            .is_none()
    );
    bench.plan(at(0), Turn::Now);
    bench.ledger.unplan();
    assert!(
        bench
            .ledger
            .transmit(Rest::default(), &bench.settings)
            .is_none()
    );
}

#[test]
fn nothing_is_decided_while_a_write_is_under_way() {
    let bench = Bench::sending();
    assert!(!bench.ledger.may_plan(at(9_000), Index(99), Moment(9)));
    assert!(!bench.ledger.ended_before(Moment(9)));
    assert!(!bench.ledger.needs_read(Some(SENT), Moment::START));
}

#[test]
fn the_next_decision_needs_a_view_newer_than_the_last_write() {
    let applied = |bench: &mut Bench| bench.ledger.applied(END);
    let refused = |bench: &mut Bench| bench.ledger.refused(at(100), END, &mut bench.rng);
    let unknown = |bench: &mut Bench| bench.ledger.failed(at(100), END, true, &mut bench.rng);
    for end in [applied, refused, unknown] {
        let mut bench = Bench::sending();
        assert_eq!(end(&mut bench).map(|sent| sent.write), Some(write()));
        let may_plan = |index, sent| bench.ledger.may_plan(at(1_000), index, Moment(sent));
        assert!(!may_plan(SENT, 100), "the view that it was decided from");
        assert!(may_plan(SENT, 101), "the record is still the same after it");
        assert!(may_plan(Index(51), 0), "the record has changed");
        assert!(may_plan(Index::ZERO, 0), "the record was removed");
        assert!(!bench.ledger.ended_before(END));
        assert!(bench.ledger.ended_before(Moment(101)));
    }
}

#[test]
fn a_write_that_certainly_was_not_applied_is_decided_again_from_the_same_view() {
    let mut bench = Bench::sending();
    let failed = bench.ledger.failed(at(100), END, false, &mut bench.rng);
    assert_eq!(failed.map(|sent| sent.write), Some(write()));
    assert!(bench.ledger.may_plan(at(1_000), SENT, Moment::START));
    assert!(bench.ledger.ended_before(Moment::START));
}

#[test]
fn a_write_is_a_repetition_after_one_from_the_same_record_that_may_yet_be_applied() {
    for (is_unknown, base, is_repeated) in [
        (true, SENT, true),
        (false, SENT, false),
        (true, Index(51), false),
    ] {
        let mut bench = Bench::sending();
        let (now, again) = (at(9_000), Write { base, ..write() });
        bench
            .ledger
            .failed(at(100), END, is_unknown, &mut bench.rng);
        bench
            .ledger
            .plan(now, Some(again), Turn::Now, None, &mut bench.rng);
        let again = bench.ledger.transmit(Rest::default(), &bench.settings);
        assert!(again.is_some());
        let sent = bench.ledger.applied(END).unwrap();
        assert_eq!(sent.is_repeated, is_repeated, "{is_unknown} {base:?}");
    }
}

#[test]
fn only_what_became_of_an_unknown_write_has_to_be_read() {
    let mut bench = Bench::sending();
    assert!(!bench.ledger.needs_read(Some(SENT), Moment::START));
    bench.ledger.failed(at(100), END, true, &mut bench.rng);
    assert!(bench.ledger.needs_read(Some(SENT), END));
    assert!(!bench.ledger.needs_read(Some(SENT), Moment(101)));
    assert!(!bench.ledger.needs_read(Some(Index(51)), END));
    assert!(!bench.ledger.needs_read(None, Moment::START));
    bench.send();
    bench.ledger.refused(at(200), Moment(200), &mut bench.rng);
    assert!(!bench.ledger.needs_read(Some(SENT), Moment::START));
}

#[test]
fn an_answer_to_no_write_changes_nothing() {
    let mut bench = Bench::new();
    assert!(bench.ledger.applied(END).is_none());
    assert!(bench.ledger.may_plan(at(100), SENT, Moment::START));
    assert_eq!(bench.ledger.timeout(), None);
}

/// The least time after `now` that the next write must wait.
fn wait(bench: &Bench, now: Instant) -> Duration {
    let retry_at = bench.ledger.timeout().unwrap();
    let just_before = retry_at - Duration::from_nanos(1);
    assert!(!bench.ledger.may_plan(just_before, Index(99), END));
    assert!(bench.ledger.may_plan(retry_at, Index(99), END));
    retry_at.saturating_since(now)
}

#[test]
fn conflicts_are_retried_with_backoff_until_a_write_is_applied() {
    let ms = Duration::from_millis;
    let mut bench = Bench::new();
    for _ in 0..2 {
        for step in [1, 2, 4, 8, 16, 32, 32] {
            bench.send();
            assert_eq!(bench.ledger.timeout(), None, "the wait is over");
            bench.ledger.refused(at(100), END, &mut bench.rng);
            let wait = wait(&bench, at(100));
            assert!(wait >= ms(step) / 2 && wait <= ms(step), "{wait:?}");
        }
        bench.send();
        bench.ledger.applied(END);
    }
}

#[test]
fn failures_are_retried_with_backoff_until_a_write_is_applied() {
    let ms = Duration::from_millis;
    for is_unknown in [false, true] {
        let mut bench = Bench::new();
        for _ in 0..2 {
            // The cap is a tenth of the TTL.
            for step in [100, 200, 400, 800, 1_500, 1_500] {
                bench.send();
                bench
                    .ledger
                    .failed(at(100), END, is_unknown, &mut bench.rng);
                let wait = wait(&bench, at(100));
                assert!(wait >= ms(step) / 2 && wait <= ms(step), "{wait:?}");
            }
            bench.send();
            bench.ledger.applied(END);
        }
    }
}

#[test]
fn patience_runs_from_when_others_were_first_seen_ahead() {
    let mut bench = Bench::new();
    assert!(!bench.ledger.patience_is_over(at(9_000)));
    bench.plan(at(1_000), Turn::BehindOthers);
    let end = bench.ledger.timeout().unwrap();
    assert!(end >= at(1_500) && end <= at(2_000), "{end}");
    bench.plan(at(1_400), Turn::BehindOthers);
    assert_eq!(bench.ledger.timeout(), Some(end));
    assert!(!bench.ledger.patience_is_over(end - Duration::from_nanos(1)));
    assert!(bench.ledger.patience_is_over(end));
}

#[test]
fn patience_starts_anew_when_no_slot_was_free_or_one_was_taken() {
    let mut bench = Bench::new();
    bench.plan(at(0), Turn::BehindOthers);
    bench.plan(at(0), Turn::NotYet);
    assert!(!bench.ledger.patience_is_over(at(9_000)));
    bench.plan(at(0), Turn::BehindOthers);
    bench.send();
    assert!(bench.ledger.patience_is_over(at(9_000)), "not applied yet");
    bench.ledger.refused(at(100), END, &mut bench.rng);
    assert!(bench.ledger.patience_is_over(at(9_000)));
    bench.send();
    bench.ledger.applied(END);
    assert!(!bench.ledger.patience_is_over(at(9_000)));
    assert_eq!(bench.ledger.timeout(), None);
}

#[test]
fn it_is_being_patient_when_a_slot_has_been_left_to_others_for_a_while() {
    let mut bench = Bench::new();
    assert!(!bench.ledger.is_being_patient(at(9_000)));
    bench.plan(at(1_000), Turn::BehindOthers);
    assert!(!bench.ledger.is_being_patient(at(1_249)));
    assert!(bench.ledger.is_being_patient(at(1_250)));
    bench.plan(at(1_300), Turn::NotYet);
    assert!(!bench.ledger.is_being_patient(at(9_000)));
}

#[test]
fn it_is_due_at_the_first_of_retry_and_end_of_patience() {
    let mut bench = Bench::sending();
    bench.ledger.failed(at(100), END, false, &mut bench.rng);
    let retry_at = bench.ledger.timeout().unwrap();
    bench.plan(at(100), Turn::BehindOthers);
    assert_eq!(bench.ledger.timeout(), Some(retry_at));
    bench.plan(at(100), Turn::NotYet);
    assert_eq!(bench.ledger.timeout(), Some(retry_at));
}

#[test]
fn those_who_were_overtaken_are_waited_for_again_after_a_while() {
    let mut ledger = Bench::new().ledger;
    assert!(ledger.overtaken(at(0)).is_empty());
    ledger.overtake(at(0), vec![session(A), session(B)]);
    ledger.overtake(at(1_000), vec![session(B)]);
    let both = BTreeSet::from([session(A), session(B)]);
    assert_eq!(ledger.overtaken(at(4_999)), both);
    assert_eq!(ledger.overtaken(at(5_000)), BTreeSet::from([session(B)]));
    assert!(ledger.overtaken(at(6_000)).is_empty());
}

#[test]
fn those_who_are_waited_for_again_are_forgotten() {
    let mut ledger = Bench::new().ledger;
    ledger.overtake(at(0), vec![session(A)]);
    ledger.overtake(at(1_000), vec![session(B)]);
    ledger.forget_overtaken(at(4_999));
    assert_eq!(ledger.overtaken.len(), 2);
    ledger.forget_overtaken(at(5_000));
    assert_eq!(ledger.overtaken.len(), 1);
    assert_eq!(ledger.overtaken(at(5_000)), BTreeSet::from([session(B)]));
}

#[test]
fn who_leaves_a_slot_unused_is_looked_for_once_its_time_is_over() {
    let mut bench = Bench::new();
    let (first, next) = (session(A), session(B));
    let grace = Duration::from_millis(20);
    let mut is_stuck = |now, first| bench.ledger.is_stuck_behind(at(now), first, grace);
    assert!(!is_stuck(0, Some(&first)));
    assert!(!is_stuck(19, Some(&first)));
    assert!(is_stuck(20, Some(&first)));
    assert!(!is_stuck(40, Some(&first)), "it is looked for already");
    assert!(!is_stuck(40, Some(&next)), "somebody else is first");
    assert!(is_stuck(60, Some(&next)));
    assert!(
        is_stuck(61, None),
        "nobody who is known has to be waited for"
    );
    assert!(is_stuck(61, None));
    bench.ledger.is_stuck_behind(at(70), Some(&first), grace);
    assert_eq!(bench.ledger.timeout(), Some(at(90)));
    bench.ledger.is_behind_nobody();
    assert_eq!(bench.ledger.timeout(), None);
}

#[test]
fn a_refused_write_shows_for_a_second_that_others_write_as_well() {
    let mut bench = Bench::sending();
    assert!(!bench.ledger.is_contended(at(0)));
    bench.ledger.refused(at(100), END, &mut bench.rng);
    assert!(bench.ledger.is_contended(at(1_099)));
    assert!(!bench.ledger.is_contended(at(1_100)));
}
