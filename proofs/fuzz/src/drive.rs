//! A mangled Consul for a machine: any answer in any order at any time, between any commands.
//!
//! Input: settings, and then one choice after the other of what happens next. Every request reaches
//! a Consul in memory or is lost. Its answer is delivered unchanged, mangled, made up, late, twice
//! or never. At the end everybody leaves and Consul works again. Then the machine must come to
//! rest.

use std::collections::BTreeMap;
use std::time::Duration;

use semaphore_core::sans_io::{
    CommandId, Event, Instant, Machine, Request, RequestId, Response, TransportError,
    TransportErrorKind,
};
use semaphore_core::{Error, SessionId};
use transport_mock::consul::{Consul, Exchange};

use crate::choices::Choices;
use crate::lease::Leases;
use crate::mangle;
use crate::oracle::check_text;
use crate::subject::{Subject, TOKEN, Told, Wait};

/// Plays the rest of the input. `seed` is for Consul.
pub(crate) fn drive<S: Subject>(subject: S, seed: u64, choices: &mut Choices<'_>) {
    let mut run = Run::new(subject, seed, choices);
    for _ in 0..MOST_STEPS {
        if choices.are_used_up() {
            break;
        }
        run.step(choices);
        run.drain(choices);
    }
    run.check_size();
    run.calm_down();
}

/// The most steps of one input.
const MOST_STEPS: usize = 600;

struct Run<S> {
    now: Instant,
    consul: Consul,
    subject: S,
    told: Told,
    leases: Leases,
    open: BTreeMap<RequestId, Open>,
    answered: Vec<(RequestId, Request, Response)>,
    commands: BTreeMap<CommandId, Command>,
    largest_answer: usize,
    /// Whether an answer has contained the token. That only happens if the fuzzer has found it out.
    was_told: bool,
}

/// A request without its answer.
struct Open {
    request: Request,
    sent_at: Instant,
    exchange: Option<Exchange>,
    answer: Option<Response>,
}

/// A request of a caller, and the sessions of its grant.
struct Command {
    stage: Stage,
    sessions: Vec<SessionId>,
}

/// The state of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    Granted,
    Lost,
    Released,
    /// A change of what is held.
    Changing,
    Over,
}

impl<S: Subject> Run<S> {
    fn new(subject: S, seed: u64, choices: &mut Choices<'_>) -> Self {
        Self {
            now: Instant::from_origin(Duration::from_secs(choices.number() & 0xff)),
            consul: Consul::new(seed),
            subject,
            told: Told::default(),
            leases: Leases::default(),
            open: BTreeMap::new(),
            answered: Vec::new(),
            commands: BTreeMap::new(),
            largest_answer: 0,
            was_told: false,
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

    /// Delivers an answer to any open request.
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
        self.deliver_first(id, open.sent_at, &open.request, result);
    }

    /// All later answers to the same request must have no effect.
    fn deliver_first(
        &mut self,
        id: RequestId,
        sent_at: Instant,
        request: &Request,
        result: Result<Response, TransportError>,
    ) {
        if let Ok(response) = &result {
            self.leases.answered(sent_at, request, response);
        }
        self.deliver(id, request, result);
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
            let body = String::from_utf8_lossy(response.body());
            self.largest_answer = self.largest_answer.max(body.len());
            self.was_told |= body.contains(TOKEN);
            self.told.show(request, response);
            self.subject.show(request, response);
        }
        self.subject
            .machine_mut()
            .handle_response(self.now, id, result);
    }

    fn let_time_pass(&mut self, choices: &mut Choices<'_>) {
        let due = self.subject.machine().poll_timeout();
        let by = match choices.below(8) {
            0..=2 => due.map_or(0, |due| {
                u64::try_from(due.saturating_since(self.now).as_millis()).unwrap_or(u64::MAX)
            }),
            3 => 0,
            4 => {
                // A call with an early time must do nothing.
                let early = self.now - Duration::from_secs(3);
                self.machine().handle_timeout(early);
                1
            }
            5 => choices.pick(&[1, 10, 100]),
            6 => choices.pick(&[1_000, 5_000, 13_600, 40_000]),
            _ => choices.pick(&[1, 3_600_000, 100_000_000, 1 << 40]),
        };
        self.now = self.now + Duration::from_millis(by);
        self.subject.machine_mut().handle_timeout(self.now);
        self.consul.handle_timeout(self.now);
    }

    /// Others change something in Consul.
    fn operate(&mut self, choices: &mut Choices<'_>) {
        let sessions: Vec<_> = self.consul.sessions().map(|s| s.id().to_owned()).collect();
        match choices.below(8) {
            way @ 0..=3 => S::disturb(way, self.now, &mut self.consul, choices),
            4 if !sessions.is_empty() => {
                let at = choices.below(sessions.len());
                self.consul.destroy_session(self.now, &sessions[at]);
            }
            5 => self.consul.reset_index(self.now),
            6 => self.consul.lose_leader(self.now),
            _ => self.consul.elect_leader(self.now),
        }
    }

    fn command(&mut self, choices: &mut Choices<'_>) {
        let known: Vec<_> = self.commands.keys().copied().collect();
        let which = choices.below(known.len().max(1));
        let known = known.get(which).copied();
        let permits = choices.pick(&[1, 2, 0, 4]);
        let now = self.now;
        let asked = match (choices.below(10), known) {
            (0 | 1, Some(known)) => {
                // A change has a result even if its caller gives up.
                if self.commands[&known].stage != Stage::Changing {
                    self.machine().cancel(now, known);
                    self.enter(known, Stage::Over);
                }
                return;
            }
            (2 | 3, Some(known)) => {
                if matches!(self.commands[&known].stage, Stage::Granted | Stage::Lost) {
                    self.machine().release(now, known);
                    self.enter(known, Stage::Released);
                }
                return;
            }
            (4, _) => {
                if let Some(change) = self.subject.change(now, choices, known) {
                    self.enter(change, Stage::Changing);
                }
                return;
            }
            (5, _) if choices.once_in(4) => return self.machine().close(now),
            (6, _) => self.subject.ask(now, permits, Wait::Not),
            (7, _) => {
                let deadline = now + Duration::from_millis(choices.number() & 0x7fff);
                self.subject.ask(now, permits, Wait::Until(deadline))
            }
            _ => self.subject.ask(now, permits, Wait::Forever),
        };
        if let Ok(command) = asked {
            self.enter(command, Stage::Waiting);
        }
        self.thin_out();
    }

    /// If too many wait, the first one gives up.
    fn thin_out(&mut self) {
        let is_waiting = |(_, it): &(&CommandId, &Command)| it.stage == Stage::Waiting;
        let mut waiting = self.commands.iter().filter(is_waiting);
        let oldest = waiting.next().map(|(command, _)| *command);
        if let Some(oldest) = oldest.filter(|_| waiting.count() >= MOST_WAITING) {
            self.subject.machine_mut().cancel(self.now, oldest);
            self.enter(oldest, Stage::Over);
        }
    }

    fn enter(&mut self, command: CommandId, stage: Stage) {
        let sessions = Vec::new();
        let it = self.commands.entry(command);
        it.or_insert(Command { stage, sessions }).stage = stage;
    }

    fn machine(&mut self) -> &mut S::Machine {
        self.subject.machine_mut()
    }

    /// Takes all output. It must come to an end, and nothing that was just done may be due again.
    fn drain(&mut self, choices: &mut Choices<'_>) {
        self.subject.machine_mut().handle_timeout(self.now);
        for polls in 0.. {
            assert!(polls < 100, "poll_transmit goes on for ever");
            let Some(transmit) = self.subject.machine_mut().poll_transmit(self.now) else {
                break;
            };
            let request = transmit.request;
            self.subject.check(self.now, &request);
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
            let Some(id) = self.machine().poll_abort() else {
                break;
            };
            self.open.remove(&id);
        }
        let open = self.open.values().map(|open| &open.request);
        self.told.check_open::<S>(open);
        self.take_outcomes();
        self.subject.machine_mut().handle_timeout(self.now);
        let due = self.subject.machine().poll_timeout();
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

    fn take_outcomes(&mut self) {
        let mut granted = Vec::new();
        for polls in 0.. {
            assert!(polls < 200, "poll_event goes on for ever");
            let Some(event) = self.machine().poll_event() else {
                break;
            };
            let (command, from, to) = match event {
                Event::Granted { command, grant } => {
                    granted.push(command);
                    let sessions = self.subject.granted(&grant);
                    if let Some(it) = self.commands.get_mut(&command) {
                        it.sessions = sessions;
                    }
                    (command, &[Stage::Waiting][..], Stage::Granted)
                }
                Event::NotAvailable { command, .. } => {
                    (command, &[Stage::Waiting][..], Stage::Over)
                }
                Event::Failed { command, error } => {
                    self.check_error(&error);
                    (command, &[Stage::Waiting][..], Stage::Over)
                }
                Event::Lost { command, reason } => {
                    granted.retain(|granted| *granted != command);
                    self.check_error(&Error::Lost(reason));
                    (command, &[Stage::Granted][..], Stage::Lost)
                }
                Event::Done { command, result } => {
                    result
                        .err()
                        .iter()
                        .for_each(|error| self.check_error(error));
                    let from = &[Stage::Released, Stage::Changing][..];
                    (command, from, Stage::Over)
                }
                event => unreachable!("an event that nobody knows: {event:?}"),
            };
            let stage = self.commands.get(&command).map(|it| it.stage);
            assert!(
                stage.is_some_and(|stage| from.contains(&stage)),
                "{stage:?} becomes {to:?}"
            );
            self.enter(command, to);
        }
        for command in granted {
            assert!(
                self.subject.machine().is_held(self.now, command),
                "granted, and not held"
            );
        }
        for (command, it) in &self.commands {
            let machine = self.subject.machine();
            if machine.is_held(self.now, *command) {
                assert_eq!(it.stage, Stage::Granted, "and held");
                let deadline = machine.deadline(*command);
                self.leases.check(self.now, deadline, &it.sessions);
            }
        }
    }

    /// An error must be one line of a log, and must not contain the token.
    fn check_error(&self, error: &Error) {
        let text = check_text(error);
        assert!(self.was_told || !text.contains(TOKEN), "{text}");
    }

    /// The state is bounded by the commands and the largest answer, not by the number of answers.
    fn check_size(&self) {
        let text = format!("{:?}", self.subject.machine());
        assert!(self.was_told || !text.contains(TOKEN), "{text}");
        let size = text.len();
        let bound = 100_000 + 16 * self.largest_answer;
        assert!(size < bound, "{size} bytes of state");
    }

    /// Everybody leaves, and Consul works again.
    fn calm_down(&mut self) {
        let nothing = &mut Choices::new(&[]);
        self.consul.elect_leader(self.now);
        S::tidy(self.now, &mut self.consul);
        let now = self.now;
        for (command, it) in &mut self.commands {
            // Changes under way still get a result.
            if it.stage != Stage::Changing {
                self.subject.machine_mut().cancel(now, *command);
                it.stage = Stage::Over;
            }
        }
        let end = self.now + CALM;
        for turns in 0.. {
            assert!(turns < 20_000, "it does not come to rest");
            self.drain(nothing);
            if self.subject.is_at_rest(&self.consul) {
                let mut stages = self.commands.values().map(|it| it.stage);
                assert!(
                    stages.all(|stage| stage == Stage::Over),
                    "a change was never told of"
                );
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
                let result = open.answer.ok_or(timeout);
                self.deliver_first(id, open.sent_at, &open.request, result);
                continue;
            }
            let timeouts = self
                .open
                .values()
                .map(|open| open.sent_at + open.request.timeout());
            let due = timeouts
                .chain(self.subject.machine().poll_timeout())
                .chain(self.consul.poll_timeout())
                .min();
            assert!(
                due.is_some_and(|due| due <= end),
                "something of it stays for ever: {:?}",
                self.subject.machine()
            );
            self.now = self.now.max(due.unwrap_or(end));
            self.consul.handle_timeout(self.now);
            self.collect();
        }
    }
}

/// The longest time for leaving if Consul answers.
const CALM: Duration = Duration::from_secs(600);

/// The most that wait at the same time.
const MOST_WAITING: usize = 20;
