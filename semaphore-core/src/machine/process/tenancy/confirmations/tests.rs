use serde_json::json;

use crate::input::SessionOptions;
use crate::machine::fixture::at;
use crate::machine::process::tenancy::confirmations::*;
use crate::transport::{TransportError, TransportErrorKind};

struct Bench {
    confirmations: Confirmations<usize>,
    waiting: BTreeSet<usize>,
    rng: fastrand::Rng,
}

fn session(no: usize) -> SessionId {
    SessionId::new(format!("{no:08x}-0000-0000-0000-000000000000")).unwrap()
}

fn key(no: usize) -> String {
    format!("jobs/{}", session(no))
}

/// The answer if these keys are tied to these sessions.
fn tied(keys: impl IntoIterator<Item = (usize, usize)>) -> Response {
    let entry = |(key_of, of): (usize, usize)| {
        json!({ "KV": {
            "Key": key(key_of), "Session": session(of), "Value": null, "Flags": 0,
            "LockIndex": 1, "CreateIndex": 5, "ModifyIndex": 6,
        }})
    };
    let results: Vec<_> = keys.into_iter().map(entry).collect();
    let body = json!({ "Results": results, "Errors": null });
    Response::new(200, body.to_string())
}

fn fault(operation: usize, what: &str) -> Response {
    let errors = json!([{ "OpIndex": operation, "What": what }]);
    let body = json!({ "Results": null, "Errors": errors });
    Response::new(409, body.to_string())
}

impl Bench {
    fn with(waiting: core::ops::Range<usize>) -> Self {
        let settings = SessionSettings::new(SessionOptions::default());
        Self {
            confirmations: Confirmations::new(&settings),
            waiting: waiting.collect(),
            rng: fastrand::Rng::with_seed(1),
        }
    }

    /// The number of the question that is due, and how many it asks about.
    fn ask(&mut self, now: Instant) -> Option<(QuestionNo, usize)> {
        let due = self.confirmations.due_at(self.waiting.len());
        due.filter(|at| *at <= now)?;
        let waiting = self.waiting.iter().map(|no| Tied {
            no: *no,
            session: session(*no),
            key: key(*no),
        });
        let scope = Scope::default();
        let (no, request) = self.confirmations.ask(now, waiting, &scope)?;
        assert_eq!(request.target(), "/v1/txn?consistent");
        let operations: Vec<serde_json::Value> = serde_json::from_slice(request.body()).unwrap();
        Some((no, operations.len()))
    }

    fn hear(&mut self, now: Instant, no: QuestionNo, answer: &Response) -> Confirmed<usize> {
        self.confirmations.hear(now, no, Ok(answer), &mut self.rng)
    }

    fn fail(&mut self, now: Instant, no: QuestionNo) {
        let error = TransportError::new(TransportErrorKind::Timeout);
        let error = RequestError::Transport(error);
        let heard = self.confirmations.hear(now, no, Err(error), &mut self.rng);
        assert_eq!(heard, Confirmed::Nothing);
    }
}

#[test]
fn up_to_sixty_four_sessions_are_asked_about_at_once_and_each_once_at_a_time() {
    let mut bench = Bench::with(0..150);
    let asked: Vec<_> = core::iter::from_fn(|| bench.ask(at(1))).collect();
    let sizes: Vec<_> = asked.iter().map(|(_, size)| *size).collect();
    assert_eq!(sizes, [64, 64, 22]);
    assert_eq!(bench.confirmations.due_at(150), None);
    let (first, _) = asked[0];
    let heard = bench.hear(at(2), first, &tied((0..64).map(|no| (no, no))));
    assert_eq!(heard, Confirmed::All((0..64).collect()));
    bench.waiting.retain(|no| *no >= 64);
    assert_eq!(bench.confirmations.due_at(bench.waiting.len()), None);
}

#[test]
fn those_that_come_soon_after_a_question_wait_for_one_another() {
    let mut bench = Bench::with(0..1);
    let ms = |ms| at(1) + Duration::from_millis(ms);
    assert!(bench.ask(ms(0)).is_some());
    bench.waiting.extend(1..6);
    assert!(bench.ask(ms(99)).is_none());
    assert_eq!(bench.ask(ms(100)).map(|(_, size)| size), Some(5));
}

#[test]
fn if_a_key_is_not_tied_to_its_session_nothing_is_known_of_the_others() {
    for what in [
        "failed session check for key \"jobs/1\", current session \"\" != \"1\"",
        "failed to check session, key \"jobs/1\" doesn't exist",
    ] {
        let mut bench = Bench::with(0..3);
        let (no, _) = bench.ask(at(1)).unwrap();
        let heard = bench.hear(at(2), no, &fault(1, what));
        assert_eq!(heard, Confirmed::Without(vec![1]), "{what}");
        bench.waiting.remove(&1);
        assert_eq!(bench.ask(at(200)).map(|(_, size)| size), Some(2));
    }
}

/// An agent leaves out of its answer what a token may not read.
#[test]
fn where_a_key_may_not_be_read_nothing_is_known_and_they_rest() {
    for answer in [
        tied([(0, 0), (2, 2)]),
        tied([(0, 0), (1, 2), (2, 2)]),
        tied([(0, 0), (2, 1), (2, 2)]),
        fault(1, "Permission denied"),
        Response::new(403, "Permission denied"),
    ] {
        let mut bench = Bench::with(0..3);
        let (no, _) = bench.ask(at(1)).unwrap();
        assert_eq!(bench.hear(at(2), no, &answer), Confirmed::Nothing);
        assert_eq!(bench.ask(at(2)), None);
    }
}

#[test]
fn after_a_failure_they_are_asked_about_again_with_growing_pauses() {
    let mut bench = Bench::with(0..3);
    let mut now = at(1);
    let mut pauses = Vec::new();
    for _ in 0..4 {
        let (no, size) = bench.ask(now).unwrap();
        assert_eq!(size, 3);
        bench.fail(now, no);
        let again = bench.confirmations.due_at(3).unwrap();
        pauses.push(again.saturating_since(now));
        now = again;
    }
    assert!(pauses[0] >= Duration::from_millis(50), "{pauses:?}");
    assert!(pauses[3] > pauses[0] * 2, "{pauses:?}");
    assert!(pauses[3] <= Duration::from_secs(1), "{pauses:?}");
}

/// A garbled answer could name an operation that was not sent.
#[test]
fn an_answer_that_says_nothing_is_no_reason_to_hurry() {
    let mut bench = Bench::with(0..3);
    let (no, _) = bench.ask(at(1)).unwrap();
    let what = "failed to check session, key \"jobs/1\" doesn't exist";
    assert_eq!(bench.hear(at(2), no, &fault(9, what)), Confirmed::Nothing);
    assert_eq!(bench.ask(at(2)), None);
}
