use crate::api::ListKeys;
use crate::input::SessionOptions;
use crate::machine::Settings;
use crate::machine::fixture::{A, B, at, session, settings};
use crate::machine::semaphore::key::*;
use crate::transport::{TransportError, TransportErrorKind};

const TRUE: (u16, &str) = (200, "true");
const FALSE: (u16, &str) = (200, "false");
/// The same for a transaction that may show nothing.
const APPLIED: (u16, &str) = (200, r#"{"Results":[],"Errors":null}"#);
const HELD: (u16, &str) = (
    409,
    r#"{"Results":null,"Errors":[{"OpIndex":0,"What":"failed to lock key \"x\", lock is already held"}]}"#,
);
/// For a session with a lock delay of half a minute.
const FLAGS: ContenderFlags = ContenderFlags::entering(Duration::from_secs(30));
const NO_LEADER: (u16, &str) = (500, "No cluster leader");

/// The key of the session [`A`].
struct Bench {
    key: ContenderKey,
    settings: Settings,
    rng: fastrand::Rng,
}

impl Bench {
    /// With a separate session.
    fn ours() -> Self {
        Self::new(settings())
    }

    /// With a session that serves others, too.
    fn shared() -> Self {
        Self::new(settings().with_shared_sessions(SessionOptions::default()))
    }

    fn new(settings: Settings) -> Self {
        let rng = fastrand::Rng::with_seed(1);
        let mut key = ContenderKey::new(&settings);
        key.enter();
        Self { key, settings, rng }
    }

    /// Acquired at 100 ms.
    fn there(mut self) -> Self {
        self.exchange(100, APPLIED);
        self
    }

    fn send(&mut self, now: u64) -> Option<String> {
        let request =
            self.key
                .transmit(at(now), &session(A), FLAGS, Along::Prefix, &self.settings)?;
        Some(format!("{} {}", request.method(), request.target()))
    }

    fn answer(&mut self, now: u64, answer: (u16, &str)) -> Option<KeyEvent> {
        let response = Response::new(answer.0, answer.1);
        self.key.handle(
            at(now),
            Moment(now),
            Ok(&response),
            &session(A),
            &self.settings,
            &mut self.rng,
        )
    }

    fn fail(&mut self, now: u64, kind: TransportErrorKind) -> Option<KeyEvent> {
        let error = RequestError::Transport(TransportError::new(kind));
        self.key.handle(
            at(now),
            Moment(now),
            Err(error),
            &session(A),
            &self.settings,
            &mut self.rng,
        )
    }

    #[track_caller]
    fn exchange(&mut self, now: u64, answer: (u16, &str)) -> (String, Option<KeyEvent>) {
        let sent = self.send(now).expect("a request");
        (sent, self.answer(now, answer))
    }

    /// A view that was requested at `sent` and shows only this key, if it exists.
    fn observe(&mut self, sent: u64, key: Option<(&str, u64)>) -> Option<KeyEvent> {
        self.look(sent, key, "false")
    }

    fn look(&mut self, sent: u64, key: Option<(&str, u64)>, filtered: &str) -> Option<KeyEvent> {
        let key = key.map_or_else(String::new, |(session, flags)| {
            format!(
                r#"{{"Key":"jobs/{A}","Session":"{session}","Flags":{flags},"CreateIndex":8,"ModifyIndex":9,"LockIndex":1,"Value":null}}"#
            )
        });
        let response = Response::new(200, format!("[{key}]"))
            .with_header("X-Consul-Index", "9")
            .with_header("X-Consul-Results-Filtered-By-ACLs", filtered);
        let view = View::new(&self.settings.prefix, &ListKeys::parse(&response).unwrap());
        self.key.observe(&view, Moment(sent), &session(A))
    }

    fn timeout(&self) -> Option<Instant> {
        self.key.timeout()
    }

    fn needs_read(&self, view_sent: u64) -> bool {
        self.key.needs_read(Moment(view_sent))
    }

    /// It tries again, but not at once.
    #[track_caller]
    fn assert_waits(&self, now: u64) {
        let due = self.timeout().expect("another attempt");
        assert!(due >= at(now + 50) && due <= at(now + 100), "{due}");
    }
}

#[test]
fn a_view_that_overtakes_the_answer_shows_that_the_key_is_there() {
    type Answer = fn(&mut Bench) -> Option<KeyEvent>;
    let late: Answer = |bench| bench.answer(3, APPLIED);
    let lost: Answer = |bench| bench.fail(3, TransportErrorKind::Timeout);
    for answer in [late, lost] {
        let mut bench = Bench::ours();
        assert!(bench.send(1).is_some());
        assert_eq!(bench.observe(0, Some((A, 0))), None);
        assert!(bench.key.is_there());
        assert_eq!(bench.key.seen().unwrap().create_index, Index(8));
        assert_eq!(answer(&mut bench), None, "too late to matter");
        assert!(bench.key.is_there());
        assert!(bench.key.failure().is_none());
        assert_eq!(bench.timeout(), None);
    }
}

#[test]
fn it_is_acquired_at_once() {
    let mut bench = Bench::ours();
    let (sent, event) = bench.exchange(100, APPLIED);
    assert_eq!(sent, "PUT /v1/txn");
    assert_eq!(event, Some(KeyEvent::Entered));
}

#[test]
fn an_acquisition_that_failed_is_tried_again_later() {
    let mut bench = Bench::ours();
    bench.exchange(100, NO_LEADER);
    assert!(!bench.key.is_there());
    assert!(bench.key.failure().is_some());
    bench.assert_waits(100);
}

#[test]
fn a_key_that_is_not_seen_is_missed_only_in_a_view_that_must_show_it() {
    for key in [None, Some(("", 0))] {
        let mut bench = Bench::ours().there();
        assert_eq!(bench.observe(100, key), None);
        assert_eq!(bench.observe(101, key), Some(KeyEvent::Unseen));
    }
    let mut bench = Bench::ours().there();
    assert_eq!(bench.look(101, None, "true"), None, "it may be hidden");
}

#[test]
fn a_key_that_was_seen_and_is_no_more_tells_what_happened() {
    for (key, event) in [
        (None, KeyEvent::Gone),
        (Some(("", 0)), KeyEvent::Freed),
        (Some((B, 0)), KeyEvent::Taken),
    ] {
        let mut bench = Bench::ours().there();
        bench.observe(101, Some((A, 0)));
        assert_eq!(bench.observe(101, key), Some(event));
    }
    let mut bench = Bench::ours().there();
    bench.observe(101, Some((A, 0)));
    assert_eq!(bench.look(101, None, "true"), None, "it may be hidden");
}

#[test]
fn the_key_of_a_session_of_its_own_is_deleted_until_that_is_answered() {
    let mut bench = Bench::ours().there();
    bench.key.leave(Moment(200));
    assert!(!bench.needs_read(0));
    let (sent, _) = bench.exchange(200, NO_LEADER);
    assert_eq!(sent, format!("DELETE /v1/kv/jobs/{A}"));
    bench.assert_waits(200);
    bench.exchange(1_000, TRUE);
    assert!(bench.key.is_deleted());
}

#[test]
fn the_key_of_a_session_that_lives_on_is_deleted_at_the_index_where_a_newer_view_shows_it() {
    let mut bench = Bench::shared().there();
    bench.key.leave(Moment(200));
    assert_eq!(bench.timeout(), None);
    assert!(bench.needs_read(200));
    assert!(!bench.needs_read(201));
    bench.observe(200, Some((A, 0)));
    assert_eq!(bench.timeout(), None, "too old to tell");
    bench.observe(201, Some((A, 0)));
    assert!(!bench.needs_read(200));
    let sent = bench.send(200);
    assert_eq!(sent.unwrap(), format!("DELETE /v1/kv/jobs/{A}?cas=9"));
    bench.observe(202, None);
    assert!(!bench.key.is_deleted(), "the answer is still to come");
    bench.answer(201, TRUE);
    assert!(bench.key.is_deleted());
}

#[test]
fn a_deletion_that_met_a_change_looks_again() {
    let mut bench = Bench::shared().there();
    bench.key.leave(Moment(200));
    bench.observe(201, Some((A, 0)));
    bench.send(200).unwrap();
    assert!(!bench.needs_read(0), "it is under way");
    bench.answer(300, FALSE);
    assert!(bench.needs_read(300));
    assert_eq!(bench.timeout(), None);
    bench.observe(300, Some((A, 0)));
    assert_eq!(bench.timeout(), None, "too old to tell");
    bench.observe(301, Some((A, 0)));
    bench.assert_waits(300);
}

#[test]
fn a_key_that_is_left_while_its_answer_is_to_come_is_not_looked_for_before() {
    let mut bench = Bench::shared();
    bench.send(100).unwrap();
    bench.key.leave(Moment(200));
    assert!(!bench.needs_read(0));
    bench.observe(201, None);
    assert!(!bench.key.is_deleted());
    bench.answer(300, APPLIED);
    assert!(bench.needs_read(0));
}

/// A given-up write may be applied when the present owner of the key has released it.
#[test]
fn a_key_that_somebody_else_has_is_looked_for_while_a_write_may_come() {
    let late = 100 + 25_000;
    let mut bench = Bench::shared();
    bench.send(100).unwrap();
    bench.fail(100, TransportErrorKind::Timeout);
    bench.exchange(1_000, HELD);
    bench.key.leave(Moment(2_000));
    assert!(!bench.key.is_deleted());
    assert_eq!(bench.key.settles_at(), Some(at(late)));
    bench.observe(2_001, None);
    assert!(!bench.key.is_deleted());
    bench.observe(3_000, Some((A, 0)));
    let (sent, _) = bench.exchange(3_000, TRUE);
    assert_eq!(sent, format!("DELETE /v1/kv/jobs/{A}?cas=9"));
    assert!(!bench.key.is_deleted(), "another one may come");
    bench.key.settled(Moment(late));
    assert!(bench.needs_read(late));
    bench.observe(late + 1, None);
    assert!(bench.key.is_deleted());
}

#[test]
fn a_key_that_may_be_hidden_is_not_taken_for_deleted() {
    let mut bench = Bench::shared().there();
    bench.key.leave(Moment(200));
    bench.look(201, None, "true");
    assert!(!bench.key.is_deleted());
    bench.observe(201, None);
    assert!(bench.key.is_deleted());
}
