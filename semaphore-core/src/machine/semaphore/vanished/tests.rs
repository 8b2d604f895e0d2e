use crate::machine::fixture::{A, B, C, Shown, at, session, settings};
use crate::machine::semaphore::vanished::*;

const CHECK: &str = "key \"jobs/x\" exists";
const HELD: &str = "failed to lock key \"jobs/x\", lock is already held";
const DELAYED: &str = "failed to lock key \"jobs/x\" due to lock delay";
const NO_LEADER: (u16, &str) = (500, "No cluster leader");
const DENIED: (u16, &str) = (403, "Permission denied");

/// `C` waits for the holders in the record: first `A`, or `A` and `B`.
struct Bench {
    vanished: Vanished,
    settings: Settings,
    rng: fastrand::Rng,
}

impl Bench {
    fn new() -> Self {
        let settings = settings();
        Self {
            vanished: Vanished::new(&settings),
            settings,
            rng: fastrand::Rng::with_seed(1),
        }
    }

    /// After ten seconds a view without the key of `A` follows one with it.
    fn witness() -> Self {
        let mut bench = Self::new();
        let before = view(&[A], &[(A, A)]);
        bench.observe(0, None, &before);
        bench.observe(10_000, Some(&before), &view(&[A], &[]));
        bench.suspect(&[A]);
        bench
    }

    /// After ten seconds the first view already lacks the key of `A`.
    fn latecomer() -> Self {
        let mut bench = Self::new();
        bench.observe(10_000, None, &view(&[A], &[]));
        bench.suspect(&[A]);
        bench
    }

    fn observe(&mut self, now: u64, before: Option<&View>, view: &View) {
        self.vanished.observe(at(now), before, view);
    }

    fn suspect(&mut self, sessions: &[&str]) {
        self.vanished.suspect(set(sessions));
    }

    /// The question that is asked now, if there is one.
    fn asks(&mut self, now: u64) -> Option<String> {
        let own = session(C);
        let request = self
            .vanished
            .transmit(at(now), Some(&own), &self.settings)?;
        Some(format!("{} {}", request.method(), request.target()))
    }

    fn answer(&mut self, now: u64, (status, body): (u16, &str)) -> Finding {
        let response = Response::new(status, body).with_header("X-Consul-Index", "9");
        self.vanished
            .handle(at(now), Ok(&response), 0, &mut self.rng)
    }

    fn answer_faults(&mut self, now: u64, faults: &[(usize, &str)]) -> Finding {
        self.answer(now, (409, &rolled_back(faults)))
    }

    #[track_caller]
    fn exchange(&mut self, now: u64, answer: (u16, &str)) -> Finding {
        assert!(self.asks(now).is_some(), "nothing is asked");
        self.answer(now, answer)
    }

    fn timeout(&self) -> Option<Instant> {
        let asks_at = self.vanished.asks_at().into_iter();
        asks_at.chain(self.vanished.lock_delay_until()).min()
    }

    fn dead(&self, now: u64) -> BTreeSet<SessionId> {
        self.vanished.dead(at(now))
    }

    fn withheld(&self, now: u64) -> BTreeSet<SessionId> {
        self.vanished.withheld(at(now))
    }
}

fn set(sessions: &[&str]) -> BTreeSet<SessionId> {
    sessions.iter().map(|id| session(id)).collect()
}

/// `C` contends, and these keys also exist.
fn view(holders: &[&str], keys: &[(&str, &str)]) -> View {
    let record = format!(r#"{{"Limit":2,"Holders":{holders:?}}}"#);
    Shown {
        lock: Some((50, &record)),
        keys: &[keys, &[(C, C)]].concat(),
        filtered: false,
    }
    .view()
}

fn rolled_back(faults: &[(usize, &str)]) -> String {
    let fault = |(at, what): &(usize, &str)| format!(r#"{{"OpIndex":{at},"What":{what:?}}}"#);
    let faults: Vec<_> = faults.iter().map(fault).collect();
    format!(r#"{{"Results":null,"Errors":[{}]}}"#, faults.join(","))
}

#[test]
fn who_has_seen_the_key_asks_when_the_lock_delay_is_over_by_its_own_clock() {
    let mut bench = Bench::witness();
    assert_eq!(
        bench.timeout(),
        Some(at(25_000)),
        "15 s, as plain flags say"
    );
    assert_eq!(bench.asks(24_999), None);
    assert_eq!(bench.withheld(24_999), set(&[A]));
    assert_eq!(bench.withheld(25_000), set(&[]));
    assert_eq!(bench.asks(25_000).as_deref(), Some("PUT /v1/txn"));
    assert_eq!(bench.asks(25_000), None, "one question at a time");
    assert_eq!(bench.timeout(), None);
}

#[test]
fn whoever_comes_later_asks_at_once() {
    let mut bench = Bench::latecomer();
    assert_eq!(bench.withheld(10_000), set(&[]), "nothing is known yet");
    assert_eq!(bench.asks(10_000).as_deref(), Some("PUT /v1/txn"));
}

#[test]
fn in_a_view_that_may_hide_keys_only_those_that_others_have_acquired_are_missing() {
    let mut bench = Bench::new();
    let mut before = view(&[A, B], &[(A, A), (B, B)]);
    before.set_filtered();
    let mut hidden = view(&[A, B], &[(B, C)]);
    hidden.set_filtered();
    bench.observe(10_000, Some(&before), &hidden);
    assert_eq!(bench.withheld(10_000), set(&[B]));
    assert_eq!(bench.dead(24_999), set(&[]));
    assert_eq!(bench.dead(25_000), set(&[B]));
}

#[test]
fn from_the_moment_when_another_session_has_acquired_the_key_the_whole_wait_begins_once() {
    let mut bench = Bench::witness();
    let taken = view(&[A], &[(A, B)]);
    bench.observe(20_000, None, &taken);
    bench.observe(30_000, None, &taken);
    assert_eq!(bench.dead(34_999), set(&[]));
    assert_eq!(bench.dead(35_000), set(&[A]));
}

#[test]
fn the_wait_is_what_the_flags_of_the_key_said() {
    let flags = ContenderFlags::entering(Duration::from_secs(40)).encode();
    let with_flags = |holders: &[&str], id: &str| {
        let record = format!(r#"{{"Limit":2,"Holders":{holders:?}}}"#);
        let keys = [(id, id)];
        let keys = keys.map(|(name, session)| (name, session, flags));
        Shown {
            lock: Some((50, &record)),
            ..Shown::default()
        }
        .view_with_flags(&keys)
    };
    let mut bench = Bench::new();
    bench.observe(10_000, Some(&with_flags(&[A], A)), &view(&[A], &[]));
    bench.suspect(&[A]);
    assert_eq!(bench.timeout(), Some(at(50_000)));
}

#[test]
fn whose_key_is_back_is_not_missing_any_more_and_waits_anew_when_it_is_gone_again() {
    let mut bench = Bench::witness();
    let back = view(&[A], &[(A, A)]);
    bench.observe(20_000, None, &back);
    assert_eq!(bench.timeout(), None);
    bench.observe(30_000, Some(&back), &view(&[A], &[]));
    assert_eq!(bench.timeout(), Some(at(45_000)));
}

#[test]
fn only_those_whom_a_list_lacks_are_asked_for() {
    let mut bench = Bench::witness();
    bench.suspect(&[]);
    assert_eq!(bench.timeout(), None);
    assert_eq!(bench.asks(60_000), None);
    bench.suspect(&[A]);
    assert_eq!(bench.timeout(), Some(at(25_000)), "it has waited since");
}

#[test]
fn nobody_is_asked_for_without_a_session_to_ask_with() {
    let mut bench = Bench::latecomer();
    let asked = bench.vanished.transmit(at(10_000), None, &bench.settings);
    assert!(asked.is_none());
    assert!(bench.asks(10_000).is_some());
}

#[test]
fn whose_key_could_be_acquired_is_dead() {
    let mut bench = Bench::latecomer();
    bench.asks(10_000);
    let finding = bench.answer_faults(10_001, &[(1, CHECK)]);
    assert!(matches!(finding, Finding::Settled));
    assert_eq!(bench.dead(10_001), set(&[A]));
    assert_eq!(bench.withheld(10_001), set(&[]));
    assert_eq!(bench.timeout(), None);
}

#[test]
fn in_its_lock_delay_it_is_withheld_and_asked_for_again_within_a_second() {
    for fault in [HELD, DELAYED] {
        let mut bench = Bench::latecomer();
        bench.asks(10_000);
        bench.answer_faults(10_000, &[(0, fault)]);
        assert_eq!(bench.dead(10_000), set(&[]));
        assert_eq!(bench.withheld(10_000), set(&[A]));
        let again = bench.timeout().unwrap();
        assert!(again >= at(10_500) && again <= at(11_000), "{again}");
        assert_eq!(bench.withheld(11_000), set(&[]), "it may be free by now");
        assert!(bench.asks(11_000).is_some());
        bench.answer_faults(11_000, &[(1, CHECK)]);
        assert_eq!(bench.dead(11_000), set(&[A]));
    }
}

#[test]
fn whoever_is_behind_others_asks_again_later_and_at_last_within_half_a_minute() {
    for (ahead, least, most) in [
        (0, 500, 1_000),
        (9, 5_000, 10_000),
        (u32::MAX, 30_000, 30_000),
    ] {
        let mut bench = Bench::latecomer();
        bench.asks(10_000);
        let response = Response::new(409, rolled_back(&[(0, DELAYED)]));
        bench
            .vanished
            .handle(at(10_000), Ok(&response), ahead, &mut bench.rng);
        let again = bench.timeout().unwrap();
        assert!(
            again >= at(10_000 + least) && again <= at(10_000 + most),
            "{again}"
        );
    }
}

#[test]
fn many_are_asked_for_at_once_and_each_has_its_answer() {
    let mut bench = Bench::new();
    bench.observe(10_000, None, &view(&[A, B], &[]));
    bench.suspect(&[A, B]);
    bench.asks(10_000);
    // The agent stops checking at the first lock delay.
    bench.answer_faults(10_000, &[(0, DELAYED)]);
    assert_eq!(bench.dead(10_000), set(&[]));
    assert_eq!(bench.withheld(10_000), set(&[A]));
    assert!(
        bench.asks(10_000).is_some(),
        "of the other nothing is known yet"
    );
    bench.answer_faults(10_000, &[(1, CHECK)]);
    assert_eq!(bench.dead(10_000), set(&[B]));
}

#[test]
fn who_may_not_be_seen_is_hidden_and_not_dead() {
    for mut bench in [Bench::latecomer(), Bench::witness()] {
        let finding = bench.exchange(25_000, DENIED);
        assert!(matches!(finding, Finding::Hidden));
        assert_eq!(bench.dead(25_000), set(&[]));
        // The next view lacks it, too.
        bench.observe(25_000, None, &view(&[A], &[]));
        bench.suspect(&[A]);
        let again = bench.timeout().unwrap();
        assert!(again > at(25_000) && again <= at(25_100), "{again}");
    }
    let mut bench = Bench::latecomer();
    bench.asks(25_000);
    let finding = bench.answer_faults(25_000, &[(0, "Permission denied")]);
    assert!(matches!(finding, Finding::Hidden));
}

#[test]
fn a_failure_decides_nothing_and_is_tried_again_at_its_time_and_not_before() {
    for answer in [NO_LEADER, (404, "<html>"), (200, "true")] {
        let mut bench = Bench::latecomer();
        let finding = bench.exchange(10_000, answer);
        assert!(matches!(finding, Finding::Failed(_)), "{answer:?}");
        assert_eq!(bench.dead(10_000), set(&[]));
        let due = bench.timeout().unwrap();
        assert!(due > at(10_000) && due <= at(10_100), "{due}");
        let early = due - Duration::from_nanos(1);
        let own = session(C);
        let (vanished, settings) = (&mut bench.vanished, &bench.settings);
        assert!(vanished.transmit(early, Some(&own), settings).is_none());
        assert!(vanished.transmit(due, Some(&own), settings).is_some());
    }
}

#[test]
fn a_session_of_ours_that_ended_under_a_question_is_no_failure_to_tell() {
    let mut bench = Bench::latecomer();
    bench.asks(10_000);
    let finding = bench.answer_faults(10_000, &[(0, "invalid session \"x\"")]);
    assert!(matches!(finding, Finding::Settled));
    assert_eq!(bench.dead(10_000), set(&[]));
    assert!(bench.timeout().is_some_and(|due| due > at(10_000)));
}

#[test]
fn whose_key_another_session_has_acquired_is_dead_when_its_wait_is_over_and_not_asked_for() {
    let mut bench = Bench::new();
    bench.observe(10_000, None, &view(&[A], &[(A, B)]));
    bench.suspect(&[A]);
    assert_eq!(bench.asks(60_000), None);
    assert_eq!(bench.timeout(), Some(at(70_000)));
    assert_eq!(bench.dead(69_999), set(&[]));
    assert_eq!(bench.withheld(69_999), set(&[A]));
    assert_eq!(bench.dead(70_000), set(&[A]));
    assert_eq!(bench.withheld(70_000), set(&[]));
}

#[test]
fn an_interrupted_poll_makes_the_dead_suspects_again_and_an_answer_under_way_worthless() {
    let mut bench = Bench::latecomer();
    bench.asks(10_000);
    bench.answer_faults(10_000, &[(1, CHECK)]);
    bench.vanished.forget();
    assert_eq!(bench.dead(10_000), set(&[]));
    bench.suspect(&[A]);
    bench.asks(10_000);
    bench.vanished.forget();
    bench.answer_faults(10_000, &[(1, CHECK)]);
    assert_eq!(bench.dead(10_000), set(&[]));
    assert!(bench.asks(10_000).is_some(), "it is asked again at once");
    bench.answer_faults(10_000, &[(1, CHECK)]);
    assert_eq!(bench.dead(10_000), set(&[A]));
}

#[test]
fn the_missing_and_the_dead_are_forgotten_with_their_place_in_the_record() {
    let mut bench = Bench::latecomer();
    bench.asks(10_000);
    bench.answer_faults(10_000, &[(1, CHECK)]);
    let mut record = Record::new(1);
    record.add(&A.to_ascii_uppercase());
    bench.vanished.forget_the_removed(&record);
    assert_eq!(bench.dead(10_000), set(&[A]));
    bench.vanished.forget_the_removed(&Record::new(1));
    assert_eq!(bench.dead(10_000), set(&[]));
    assert!(bench.vanished.missing.is_empty());
}
