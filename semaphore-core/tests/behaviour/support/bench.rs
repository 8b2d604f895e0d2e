//! A participant without its driver, and its Consul.

use std::collections::BTreeMap;
use std::time::Duration;

use semaphore_core::Prefix;
use semaphore_core::sans_io::Machine as _;
use semaphore_core::sans_io::{
    CommandId, Event, Grant, Instant, Method, Participant, Request, RequestId, Response,
    TransportError, TransportErrorKind,
};
use transport_mock::consul::{Consul, Exchange};

use crate::support::steps::line;
use crate::support::*;

/// One participant and its Consul, with only the test in between. The test may keep requests back.
pub(crate) struct Bench {
    pub(crate) now: Instant,
    pub(crate) participant: Participant,
    pub(crate) consul: Consul,
    pub(crate) asked: BTreeMap<Exchange, RequestId>,
    pub(crate) answers: Vec<(RequestId, Response)>,
    pub(crate) events: Vec<Event<Grant>>,
    pub(crate) sent: Vec<String>,
    keeps: fn(&Request) -> bool,
    /// Requests that were kept back.
    pub(crate) kept: Vec<(RequestId, Request)>,
}

impl Bench {
    pub(crate) fn new(seed: u64, limit: u32) -> Self {
        Self {
            now: Instant::from_origin(secs(1)),
            participant: Participant::new(settings(PREFIX, limit), seed),
            consul: Consul::new(seed),
            asked: BTreeMap::new(),
            answers: Vec::new(),
            events: Vec::new(),
            sent: Vec::new(),
            keeps: |_| false,
            kept: Vec::new(),
        }
    }

    pub(crate) fn acquire(&mut self) -> CommandId {
        self.participant
            .acquire(self.now, 1, None)
            .expect("accepted")
    }

    /// Runs everything that can happen now, in the driver's order.
    pub(crate) fn turn(&mut self) {
        loop {
            self.participant.handle_timeout(self.now);
            let mut busy = self.transmit();
            while let Some(id) = self.participant.poll_abort() {
                self.abort(id);
            }
            while let Some(event) = self.participant.poll_event() {
                self.events.push(event);
            }
            self.collect();
            for (id, response) in std::mem::take(&mut self.answers) {
                self.participant.handle_response(self.now, id, Ok(response));
                busy = true;
            }
            if !busy {
                return;
            }
        }
    }

    /// Moves to the next due time, but not beyond `end`. Returns whether there was one.
    pub(crate) fn step(&mut self, end: Instant) -> bool {
        let due = [self.participant.poll_timeout(), self.consul.poll_timeout()]
            .into_iter()
            .flatten()
            .min();
        let at = due.unwrap_or(end).min(end);
        assert!(at > self.now || at == end, "due at {at}, which is handled");
        self.now = self.now.max(at);
        self.consul.handle_timeout(self.now);
        self.turn();
        due.is_some_and(|due| due < end)
    }

    /// Runs until `end`, and returns the number of steps.
    pub(crate) fn run_until(&mut self, end: Instant) -> usize {
        self.turn();
        let mut steps = 0;
        while self.step(end) {
            steps += 1;
        }
        steps
    }

    pub(crate) fn run_for(&mut self, duration: Duration) -> usize {
        self.run_until(self.now + duration)
    }

    pub(crate) fn transmit(&mut self) -> bool {
        let mut any = false;
        while let Some(transmit) = self.participant.poll_transmit(self.now) {
            self.submit(transmit.id, &transmit.request);
            any = true;
        }
        any
    }

    pub(crate) fn submit(&mut self, id: RequestId, request: &Request) {
        self.sent.push(format!("{} {}", self.now, line(request)));
        if (self.keeps)(request) {
            self.kept.push((id, request.clone()));
        } else {
            self.pass_on(id, request);
        }
    }

    fn pass_on(&mut self, id: RequestId, request: &Request) {
        let exchange = self.consul.submit(self.now, request);
        self.asked.insert(exchange, id);
    }

    /// From now on, keeps back the requests for which `keeps` is true.
    pub(crate) fn keep(&mut self, keeps: fn(&Request) -> bool) {
        self.keeps = keeps;
    }

    /// Passes on the requests that were kept back, and keeps back no more.
    pub(crate) fn pass_on_kept(&mut self) {
        self.keep(|_| false);
        for (id, request) in std::mem::take(&mut self.kept) {
            self.pass_on(id, &request);
        }
        self.turn();
    }

    /// The one request that was kept back.
    #[track_caller]
    pub(crate) fn take_kept(&mut self) -> RequestId {
        self.take_kept_request().0
    }

    #[track_caller]
    pub(crate) fn take_kept_request(&mut self) -> (RequestId, Request) {
        let kept = std::mem::take(&mut self.kept);
        assert_eq!(kept.len(), 1, "{kept:?}");
        kept[0].clone()
    }

    /// Answers the one request that was kept back as if it had been applied. It was not.
    #[track_caller]
    pub(crate) fn feign_kept(&mut self) {
        let (id, request) = self.take_kept_request();
        let mut consul = self.consul.clone();
        let asked = consul.submit(self.now, &request);
        let answers = std::iter::from_fn(|| consul.poll_answer());
        let mut answers = answers.filter(|(exchange, _)| *exchange == asked);
        let (_, answer) = answers.next().expect("an answer at once");
        assert_eq!(answer.status(), 200, "it would not be applied");
        assert_ne!(answer.body().trim_ascii(), b"false");
        self.answer(id, Ok(answer));
    }

    /// Consul's answer to the poll under way will not arrive. The test may answer it.
    #[track_caller]
    pub(crate) fn lose_poll(&mut self) -> RequestId {
        let asked = Vec::from_iter(std::mem::take(&mut self.asked));
        assert_eq!(asked.len(), 1, "only the poll is under way");
        asked[0].1
    }

    /// Reads the prefix now.
    pub(crate) fn read(&mut self) -> Response {
        let prefix = Prefix::new(PREFIX).expect("a prefix");
        let target = format!("/v1/kv/{}?recurse", prefix.directory());
        let asked = self
            .consul
            .submit(self.now, &Request::new(Method::Get, target));
        let mut found = None;
        while let Some((exchange, response)) = self.consul.poll_answer() {
            if exchange == asked {
                found = Some(response);
            } else if let Some(id) = self.asked.remove(&exchange) {
                self.answers.push((id, response));
            }
        }
        found.expect("an answer at once")
    }

    /// Gives the participant an answer, and runs what follows.
    pub(crate) fn answer(&mut self, id: RequestId, result: Result<Response, TransportError>) {
        self.participant.handle_response(self.now, id, result);
        self.turn();
    }

    /// Fails every request that was kept back.
    pub(crate) fn fail_kept(&mut self, kind: TransportErrorKind) {
        for (id, _) in std::mem::take(&mut self.kept) {
            self.answer(id, Err(TransportError::new(kind)));
        }
    }

    pub(crate) fn abort(&mut self, id: RequestId) {
        self.asked.retain(|_, asked| *asked != id);
        self.kept.retain(|(kept, _)| *kept != id);
    }

    pub(crate) fn collect(&mut self) {
        while let Some((exchange, response)) = self.consul.poll_answer() {
            if let Some(id) = self.asked.remove(&exchange) {
                self.answers.push((id, response));
            }
        }
    }

    pub(crate) fn is_granted(&self, acquire: CommandId) -> bool {
        self.events
            .iter()
            .any(|event| matches!(event, Event::Granted { command, .. } if *command == acquire))
    }

    pub(crate) fn released(&self, acquire: CommandId) -> usize {
        self.events
            .iter()
            .filter(|event| matches!(event, Event::Done { command, result: Ok(()) } if *command == acquire))
            .count()
    }

    #[track_caller]
    pub(crate) fn assert_nothing_left(&self) {
        let prefix = Prefix::new(PREFIX).expect("a prefix");
        assert_eq!(self.consul.sessions().count(), 0);
        let keys: Vec<_> = self
            .consul
            .entries("")
            .map(transport_mock::consul::Entry::key)
            .filter(|key| *key != prefix.record_key())
            .collect();
        assert_eq!(keys, [""; 0]);
        let lock = self.consul.entry(&prefix.record_key());
        let holders = lock.map(|entry| {
            let record = semaphore_core::sans_io::Record::decode(entry.value(), entry.flags());
            record.expect("a record").holders().count()
        });
        assert_eq!(holders.unwrap_or(0), 0);
        assert!(self.participant.is_idle());
        assert_eq!(self.participant.poll_timeout(), None);
    }
}

/// Whether a request reads the prefix.
pub(crate) fn is_read(request: &Request) -> bool {
    request.method() == Method::Get && request.target().starts_with("/v1/kv/")
}
