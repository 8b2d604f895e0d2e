//! A mangled Consul, to a [`Participant`]: any answer in any order at any time, between any commands.
//!
//! Input: settings, then one choice after the other of what happens next. Every request goes to a Consul in
//! memory or is lost; its answer is delivered as it is, mangled, made up, late, twice or never. In the
//! end everybody leaves, Consul is sane again, and the participant has to become idle.

use std::collections::BTreeMap;
use std::time::Duration;

use semaphore_core::{
    AcquireId, Encoding, Event, Instant, Method, Participant, Prefix, Request, RequestId, Response,
    SessionId, SessionOptions, Settings, TransportError, TransportErrorKind, Value,
};
use transport_mock::consul::{Consul, Exchange};

use crate::choices::Choices;
use crate::oracle::Oracle;
use crate::{PREFIX, mangle};

/// Plays the input.
pub fn run(input: &[u8]) {
    let mut choices = Choices::new(input);
    let mut run = Run::new(&mut choices);
    for _ in 0..MOST_STEPS {
        if choices.are_used_up() {
            break;
        }
        run.step(&mut choices);
        run.drain(&mut choices);
    }
    run.check_size();
    run.calm_down();
}

/// How long one input may go on.
const MOST_STEPS: usize = 600;

/// Short requests, renewals and one poll.
pub(crate) const MOST_OPEN: usize = 13;

struct Run {
    now: Instant,
    consul: Consul,
    participant: Participant,
    oracle: Oracle,
    open: BTreeMap<RequestId, Open>,
    answered: Vec<(RequestId, Request, Response)>,
    acquisitions: BTreeMap<AcquireId, Stage>,
    largest_answer: usize,
}

/// A request without its answer.
struct Open {
    request: Request,
    sent_at: Instant,
    exchange: Option<Exchange>,
    answer: Option<Response>,
}

/// How far the events of an acquisition are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    Granted,
    Lost,
    Released,
    Over,
}

impl Run {
    fn new(choices: &mut Choices<'_>) -> Self {
        let prefix = Prefix::new(PREFIX).expect("a prefix");
        let (limit, encoding) = choices.pick(&LIMITS);
        let mut settings = Settings::new(prefix, limit)
            .expect("a limit")
            .with_encoding(encoding)
            .with_limit_adopted(choices.flag())
            .with_value(Value::new("node-1").expect("a small value"));
        let callers = choices
            .once_in(4)
            .then(|| SessionId::new(mangle::SESSIONS[0]).expect("a session"));
        if let Some(session) = &callers {
            settings = settings.with_session(session.clone());
        } else if choices.once_in(4) {
            let options = SessionOptions::new().with_ttl(SessionOptions::MAX_TTL);
            settings = settings.with_session_options(options.expect("a TTL"));
        }
        let seed = choices.number() & 0xff;
        Self {
            now: Instant::from_origin(Duration::from_secs(choices.number() & 0xff)),
            consul: Consul::new(seed),
            participant: Participant::new(settings, seed),
            oracle: Oracle::new(callers),
            open: BTreeMap::new(),
            answered: Vec::new(),
            acquisitions: BTreeMap::new(),
            largest_answer: 0,
        }
    }

    fn step(&mut self, choices: &mut Choices<'_>) {
        match choices.below(16) {
            0..=4 => self.answer(choices, |answer, _| Ok(answer.clone())),
            5..=7 => self.answer(choices, |answer, choices| {
                Ok(mangle::mangle(answer, choices))
            }),
            8 => self.answer(choices, |_, choices| Ok(mangle::invent(choices))),
            9 => self.answer(choices, |_, choices| {
                Err(TransportError::new(choices.pick(mangle::FAILURES)))
            }),
            10 => self.answer_again(choices),
            11 | 12 => self.let_time_pass(choices),
            13 => self.operate(choices),
            _ => self.command(choices),
        }
    }

    /// Delivers something for a request that is open, in any order.
    fn answer<'c>(
        &mut self,
        choices: &mut Choices<'c>,
        make: impl FnOnce(&Response, &mut Choices<'c>) -> Result<Response, TransportError>,
    ) {
        let ids: Vec<_> = self.open.keys().copied().collect();
        if ids.is_empty() {
            return;
        }
        let id = choices.pick(&ids);
        let Some(open) = self.open.remove(&id) else {
            return;
        };
        let honest = open.answer.unwrap_or_else(|| Response::new(504, ""));
        let result = make(&honest, choices);
        if let Ok(response) = &result {
            self.answered
                .push((id, open.request.clone(), response.clone()));
        }
        if let Some(exchange) = open.exchange {
            self.consul.abandon(exchange);
        }
        self.deliver(id, &open.request, result);
    }

    fn answer_again(&mut self, choices: &mut Choices<'_>) {
        if self.answered.is_empty() {
            return;
        }
        let at = choices.below(self.answered.len());
        let (id, request, mut response) = self.answered[at].clone();
        if choices.flag() {
            response = mangle::mangle(&response, choices);
        }
        self.deliver(id, &request, Ok(response));
    }

    fn deliver(
        &mut self,
        id: RequestId,
        request: &Request,
        result: Result<Response, TransportError>,
    ) {
        if let Ok(response) = &result {
            self.largest_answer = self.largest_answer.max(response.body().len());
            self.oracle.show(request, response);
        }
        self.participant.handle_response(self.now, id, result);
    }

    fn let_time_pass(&mut self, choices: &mut Choices<'_>) {
        let due = self.participant.poll_timeout();
        let by = match choices.below(8) {
            0..=2 => due.map_or(0, |due| {
                u64::try_from(due.saturating_since(self.now).as_millis()).unwrap_or(u64::MAX)
            }),
            3 => 0,
            4 => {
                // A call that comes early does nothing.
                self.participant
                    .handle_timeout(self.now - Duration::from_secs(3));
                1
            }
            5 => choices.pick(&[1, 10, 100]),
            6 => choices.pick(&[1_000, 5_000, 13_600, 40_000]),
            _ => choices.pick(&[1, 3_600_000, 100_000_000, 1 << 40]),
        };
        self.now = self.now + Duration::from_millis(by);
        self.participant.handle_timeout(self.now);
        self.consul.handle_timeout(self.now);
    }

    /// What others do to Consul.
    fn operate(&mut self, choices: &mut Choices<'_>) {
        let sessions: Vec<_> = self.consul.sessions().map(|s| s.id().to_owned()).collect();
        match choices.below(8) {
            0 => {
                let value = mangle::record(choices);
                let flags = choices.pick(&[semaphore_core::api::SEMAPHORE_FLAGS, 0, 1]);
                self.put(&format!(".lock?flags={flags}"), value);
            }
            1 => self.put(".lock", choices.bytes(64).to_vec()),
            2 => self.submit(&Request::new(Method::Delete, KEYS.to_owned() + ".lock")),
            3 => self.put(choices.pick(mangle::SESSIONS), Vec::new()),
            4 if !sessions.is_empty() => {
                let at = choices.below(sessions.len());
                self.consul.destroy_session(self.now, &sessions[at]);
            }
            5 => self.consul.reset_index(self.now),
            6 => self.consul.lose_leader(self.now),
            _ => self.consul.elect_leader(self.now),
        }
    }

    fn put(&mut self, name: &str, body: Vec<u8>) {
        let name = name.replace(' ', "%20");
        self.submit(&Request::new(Method::Put, KEYS.to_owned() + &name).with_body(body));
    }

    fn submit(&mut self, request: &Request) {
        self.consul.submit(self.now, request);
    }

    fn command(&mut self, choices: &mut Choices<'_>) {
        let known: Vec<_> = self.acquisitions.keys().copied().collect();
        let which = choices.below(known.len().max(1));
        let known = known.get(which).copied();
        let permits = choices.pick(&[1, 2, 0, 4]);
        let started = match (choices.below(10), known) {
            (0 | 1, Some(known)) => {
                self.participant.cancel(self.now, known);
                self.acquisitions.insert(known, Stage::Over);
                return;
            }
            (2 | 3, Some(known)) => {
                if matches!(self.acquisitions[&known], Stage::Granted | Stage::Lost) {
                    self.participant.release(self.now, known);
                    self.acquisitions.insert(known, Stage::Released);
                }
                return;
            }
            (4, _) => {
                let limit = choices.pick(&[1, 2, 5, 0, u32::MAX]);
                let _ = self.participant.set_limit(self.now, limit);
                return;
            }
            (5, _) if choices.once_in(4) => return self.participant.close(self.now),
            (6, _) => self.participant.try_acquire(self.now, permits),
            (7, _) => {
                let deadline = self.now + Duration::from_millis(choices.number() & 0x7fff);
                self.participant.acquire(self.now, permits, Some(deadline))
            }
            _ => self.participant.acquire(self.now, permits, None),
        };
        if let Ok(acquire) = started {
            self.acquisitions.insert(acquire, Stage::Waiting);
        }
        let waiting = |stage: &Stage| *stage == Stage::Waiting;
        if self
            .acquisitions
            .values()
            .filter(|stage| waiting(stage))
            .count()
            > 20
            && let Some((oldest, _)) = self.acquisitions.iter().find(|(_, stage)| waiting(stage))
        {
            let oldest = *oldest;
            self.participant.cancel(self.now, oldest);
            self.acquisitions.insert(oldest, Stage::Over);
        }
    }

    /// Takes all output. None of it may go on for ever, and nothing be due that was just done.
    fn drain(&mut self, choices: &mut Choices<'_>) {
        self.participant.handle_timeout(self.now);
        for polls in 0.. {
            assert!(polls < 100, "poll_transmit goes on for ever");
            let Some(transmit) = self.participant.poll_transmit(self.now) else {
                break;
            };
            let request = transmit.request;
            self.oracle.check_participant(&request);
            assert!(!request.timeout().is_zero(), "{request:?}");
            let exchange = (!choices.once_in(16)).then(|| self.consul.submit(self.now, &request));
            let open = Open {
                request,
                sent_at: self.now,
                exchange,
                answer: None,
            };
            assert!(self.open.insert(transmit.id, open).is_none(), "an id twice");
        }
        self.collect();
        for polls in 0.. {
            assert!(polls < 100, "poll_abort goes on for ever");
            let Some(id) = self.participant.poll_abort() else {
                break;
            };
            self.open.remove(&id);
        }
        assert!(self.open.len() <= MOST_OPEN, "{} open", self.open.len());
        self.take_events();
        self.participant.handle_timeout(self.now);
        let due = self.participant.poll_timeout();
        assert!(
            due.is_none_or(|due| due > self.now),
            "due at {due:?}, now {}",
            self.now
        );
    }

    fn collect(&mut self) {
        while let Some((exchange, response)) = self.consul.poll_answer() {
            let open = self.open.values_mut();
            if let Some(open) = open
                .into_iter()
                .find(|open| open.exchange == Some(exchange))
            {
                open.answer = Some(response);
                open.exchange = None;
            }
        }
    }

    fn take_events(&mut self) {
        let mut granted = Vec::new();
        for polls in 0.. {
            assert!(polls < 200, "poll_event goes on for ever");
            let Some(event) = self.participant.poll_event() else {
                break;
            };
            let (acquire, from, to) = match event {
                Event::Granted { acquire, .. } => {
                    granted.push(acquire);
                    (acquire, &[Stage::Waiting][..], Stage::Granted)
                }
                Event::NotAvailable { acquire } | Event::Failed { acquire, .. } => {
                    (acquire, &[Stage::Waiting][..], Stage::Over)
                }
                Event::Lost { acquire, .. } => {
                    granted.retain(|granted| *granted != acquire);
                    (acquire, &[Stage::Granted][..], Stage::Lost)
                }
                Event::Released { acquire, .. } => (acquire, &[Stage::Released][..], Stage::Over),
                _ => continue,
            };
            let stage = self.acquisitions.insert(acquire, to);
            assert!(
                stage.is_some_and(|stage| from.contains(&stage)),
                "{stage:?} becomes {to:?}"
            );
        }
        for acquire in granted {
            assert!(
                self.participant.is_held(self.now, acquire),
                "granted, and not held"
            );
        }
        for (acquire, stage) in &self.acquisitions {
            let is_held = self.participant.is_held(self.now, *acquire);
            assert!(!is_held || *stage == Stage::Granted, "{stage:?} and held");
        }
    }

    /// What is kept is bounded by what is asked for and by the largest answer, not by how many came.
    fn check_size(&self) {
        let size = format!("{:?}", self.participant).len();
        let bound = 100_000 + 16 * self.largest_answer;
        assert!(size < bound, "{size} bytes of state");
    }

    /// Everybody leaves and Consul is sane again.
    fn calm_down(&mut self) {
        let nothing = &mut Choices::new(&[]);
        self.consul.elect_leader(self.now);
        self.submit(&Request::new(Method::Delete, KEYS.to_owned() + ".lock"));
        for acquire in self.acquisitions.keys().copied().collect::<Vec<_>>() {
            self.participant.cancel(self.now, acquire);
            self.acquisitions.insert(acquire, Stage::Over);
        }
        let end = self.now + CALM;
        for turns in 0.. {
            assert!(turns < 20_000, "it does not come to rest");
            self.drain(nothing);
            if self.participant.is_idle() {
                return;
            }
            let ready = |open: &Open| {
                open.answer.is_some() || self.now >= open.sent_at + open.request.timeout()
            };
            let ready = self.open.iter().find(|(_, open)| ready(open));
            if let Some(id) = ready.map(|(id, _)| *id)
                && let Some(open) = self.open.remove(&id)
            {
                let timeout = TransportError::new(TransportErrorKind::Timeout);
                self.deliver(id, &open.request, open.answer.ok_or(timeout));
                continue;
            }
            let timeouts = self
                .open
                .values()
                .map(|open| open.sent_at + open.request.timeout());
            let due = timeouts
                .chain(self.participant.poll_timeout())
                .chain(self.consul.poll_timeout())
                .min();
            assert!(
                due.is_some_and(|due| due <= end),
                "something of it stays for ever: {:?}",
                self.participant
            );
            self.now = self.now.max(due.unwrap_or(end));
            self.consul.handle_timeout(self.now);
            self.collect();
        }
    }
}

/// With each encoding.
const LIMITS: [(u32, Encoding); 8] = [
    (1, Encoding::Requests),
    (2, Encoding::Requests),
    (3, Encoding::Requests),
    (1_000, Encoding::Requests),
    (1, Encoding::Transactions),
    (2, Encoding::Transactions),
    (3, Encoding::Transactions),
    (1_000, Encoding::Transactions),
];

const KEYS: &str = "/v1/kv/service/db/";

/// How long leaving takes at most, where Consul answers.
const CALM: Duration = Duration::from_secs(600);
