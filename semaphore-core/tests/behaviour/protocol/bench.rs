//! Three participants and one Consul, with only the test in between.
//!
//! Requests and answers take no time. What the test holds back stays with it, until it lets it through or lets
//! the sender give it up. What was given up may still reach Consul later.

mod state;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::Duration;

use semaphore_core::sans_io::Machine as _;
use semaphore_core::sans_io::{
    CommandId, Event, Grant, Instant, Participant, Request, RequestId, Response, TransportError,
    TransportErrorKind,
};

use transport_mock::consul::{Consul, Exchange};

use super::requests::{polls, reads_plainly};
use crate::support::steps::{self, Is, line};
use crate::support::*;

/// The participants of every scene.
pub(crate) const P: usize = 0;
pub(crate) const Q: usize = 1;
pub(crate) const R: usize = 2;
/// Somebody else.
pub(crate) const OTHER: usize = 3;

/// One acquisition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    who: usize,
    command: CommandId,
}

pub(crate) struct Scene {
    pub(crate) now: Instant,
    pub(crate) consul: Consul,
    parties: [Party; 3],
    trace: Vec<String>,
}

struct Party {
    participant: Participant,
    sessions: Vec<String>,
    events: Vec<Event<Grant>>,
    asked: BTreeMap<(Server, Exchange), (RequestId, Request)>,
    answers: Vec<(RequestId, Request, Response)>,
    held: Vec<(Place, Is)>,
    /// Before Consul: what its sender still waits for, and what it gave up.
    kept: Vec<(RequestId, Request)>,
    late: Vec<(RequestId, Request)>,
    sent: Vec<Request>,
    refusals: usize,
    /// A server that knows what Consul knew once.
    behind: Option<(Behind, Consul)>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Server {
    Leader,
    Behind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Behind {
    /// A leader that was cut off, and goes on. No majority confirms anything to it.
    Former,
    /// It answers the reads that nobody confirms.
    Lagging,
}

/// Where something is held back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    BeforeConsul,
    AfterConsul,
}

impl Scene {
    pub(crate) fn new(limit: u32) -> Self {
        let party = |seed| Party {
            participant: Participant::new(settings(PREFIX, limit), seed),
            sessions: Vec::new(),
            events: Vec::new(),
            asked: BTreeMap::new(),
            answers: Vec::new(),
            held: Vec::new(),
            kept: Vec::new(),
            late: Vec::new(),
            sent: Vec::new(),
            refusals: 0,
            behind: None,
        };
        Self {
            now: Instant::from_origin(secs(1)),
            consul: Consul::new(1),
            parties: [party(1), party(2), party(3)],
            trace: Vec::new(),
        }
    }

    // What callers do.

    pub(crate) fn acquire(&mut self, who: usize) -> Call {
        self.acquire_many(who, 1)
    }

    pub(crate) fn acquire_many(&mut self, who: usize, permits: u32) -> Call {
        let participant = &mut self.parties[who].participant;
        let command = participant.acquire(self.now, permits, None);
        let command = command.expect("accepted");
        self.note(who, "", &format!("acquires {permits}"));
        Call { who, command }
    }

    /// Acquires, and what follows happens.
    pub(crate) fn enters<const N: usize>(&mut self, who: usize, permits: [u32; N]) -> [Call; N] {
        let calls = permits.map(|permits| self.acquire_many(who, permits));
        self.run();
        calls
    }

    /// The next caller of the same participant comes when this one releases.
    pub(crate) fn next_turn(&mut self, call: Call) -> Call {
        let next = self.acquire(call.who);
        self.release(call);
        self.run();
        next
    }

    /// One caller who waits, and has listed. Only what the key ahead says tells it more: its poll stays with the test.
    pub(crate) fn waits_with_a_list(&mut self, who: usize) -> Call {
        let [call] = self.enters(who, [1]);
        self.pass(secs(4));
        self.hold(who, polls);
        self.pass_until(secs(2), |s| s.has(who, polls));
        call
    }

    /// One caller who holds.
    #[track_caller]
    pub(crate) fn holder(&mut self, who: usize) -> Call {
        let [call] = self.enters(who, [1]);
        assert!(self.holds(call), "the first of all holds at once");
        call
    }

    pub(crate) fn release(&mut self, call: Call) {
        self.note(call.who, "", "releases");
        let participant = &mut self.parties[call.who].participant;
        participant.release(self.now, call.command);
    }

    pub(crate) fn gives_up(&mut self, call: Call) {
        self.note(call.who, "", "its caller gives up");
        let participant = &mut self.parties[call.who].participant;
        participant.cancel(self.now, call.command);
    }

    // What happens on the way.

    /// Requests like this stay with the test, before Consul.
    pub(crate) fn hold(&mut self, who: usize, is: Is) {
        self.parties[who].held.push((Place::BeforeConsul, is));
    }

    /// Consul gets requests like this. Their answers stay with the test.
    pub(crate) fn hold_answer(&mut self, who: usize, is: Is) {
        self.parties[who].held.push((Place::AfterConsul, is));
    }

    /// Whether the test has a request or an answer like this.
    pub(crate) fn has(&self, who: usize, is: Is) -> bool {
        let party = &self.parties[who];
        let kept = party.kept.iter().map(|(_, request)| request);
        let answers = party.answers.iter().map(|(_, request, _)| request);
        kept.chain(answers).any(is)
    }

    /// What is held back before Consul gets there. The answers stay with the test.
    pub(crate) fn reaches_consul(&mut self, who: usize) {
        for (place, _) in &mut self.parties[who].held {
            *place = Place::AfterConsul;
        }
        self.go_on(who);
    }

    /// Nothing of it is held back any more: what was goes on, and what follows happens.
    pub(crate) fn let_through(&mut self, who: usize) {
        self.parties[who].held.clear();
        self.go_on(who);
    }

    /// The same, up to the next request like this.
    pub(crate) fn let_through_until(&mut self, who: usize, is: Is) {
        let party = &mut self.parties[who];
        party.held = vec![(Place::BeforeConsul, is)];
        self.go_on(who);
    }

    fn go_on(&mut self, who: usize) {
        let party = &mut self.parties[who];
        for (id, request) in std::mem::take(&mut party.kept) {
            self.pass_on(who, id, request);
        }
        self.run();
    }

    /// The sender's time-out for all that is held back. Consul may get it later. From now on nothing is held back.
    #[track_caller]
    pub(crate) fn time_out(&mut self, who: usize) {
        let party = &mut self.parties[who];
        party.held.clear();
        let mut given_up: Vec<RequestId> = party.kept.iter().map(|(id, _)| *id).collect();
        party.late.append(&mut party.kept);
        let answers = std::mem::take(&mut party.answers);
        given_up.extend(answers.into_iter().map(|(id, ..)| id));
        assert!(!given_up.is_empty(), "nothing is held back");
        for id in given_up {
            self.note(who, "<-", "time-out");
            let error = TransportError::new(TransportErrorKind::Timeout);
            let participant = &mut self.parties[who].participant;
            participant.handle_response(self.now, id, Err(error));
        }
    }

    /// Consul denies what is held back before it.
    pub(crate) fn denies(&mut self, who: usize) {
        let party = &mut self.parties[who];
        for (id, request) in std::mem::take(&mut party.kept) {
            self.note(who, "<-", &format!("denied: {}", line(&request)));
            let faults = r#"{"Results":null,"Errors":[{"OpIndex":1,"What":"Permission denied"}]}"#;
            let answer = Response::new(409, faults);
            let participant = &mut self.parties[who].participant;
            participant.handle_response(self.now, id, Ok(answer));
        }
        self.run();
    }

    /// Consul gets what was given up. Its answers come, too. Returns whether all of it was applied.
    #[track_caller]
    pub(crate) fn arrives_late(&mut self, who: usize) -> bool {
        let late = std::mem::take(&mut self.parties[who].late);
        assert!(!late.is_empty(), "nothing was given up");
        let mut is_applied = true;
        for (id, request) in late {
            self.note(who, "late ->", &line(&request));
            let exchange = self.consul.submit(self.now, &request);
            let asked = (Server::Leader, exchange);
            self.parties[who].asked.insert(asked, (id, request));
            self.collect();
            let answers = &self.parties[who].answers;
            let answer = answers.iter().find(|(of, ..)| *of == id);
            is_applied &= answer.is_some_and(|(_, _, answer)| answer.status() == 200);
        }
        self.run();
        is_applied
    }

    /// From now on, it asks a former leader that was cut off now.
    pub(crate) fn is_cut_off(&mut self, who: usize) {
        self.parties[who].behind = Some((Behind::Former, self.consul.clone()));
    }

    /// From now on, its reads go to a server that learns nothing more.
    pub(crate) fn reads_from_the_past(&mut self, who: usize) {
        self.parties[who].behind = Some((Behind::Lagging, self.consul.clone()));
    }

    // Time.

    /// All that can happen without any time.
    pub(crate) fn run(&mut self) {
        for _ in 0..10_000 {
            let mut is_busy = false;
            for who in [P, Q, R] {
                is_busy |= self.turn(who);
            }
            if !is_busy {
                return;
            }
        }
        panic!("it never rests");
    }

    /// Time passes, and all that happens in it.
    pub(crate) fn pass(&mut self, duration: Duration) {
        let end = self.now + duration;
        self.run();
        while self.now < end {
            self.step(end);
        }
    }

    /// Time passes until this is so. Returns how much.
    #[track_caller]
    pub(crate) fn pass_until(&mut self, most: Duration, is: impl Fn(&Self) -> bool) -> Duration {
        let since = self.now;
        self.run();
        while !is(self) {
            let passed = self.now.saturating_since(since);
            assert!(passed < most, "not within {most:?}");
            self.step(since + most);
        }
        self.now.saturating_since(since)
    }

    fn step(&mut self, end: Instant) {
        let due = self.parties.iter().flat_map(|party| {
            let behind = party.behind.as_ref();
            let behind = behind.and_then(|(_, consul)| consul.poll_timeout());
            [party.participant.poll_timeout(), behind]
        });
        let due = due.chain([self.consul.poll_timeout()]).flatten().min();
        self.now = due.map_or(end, |due| due.min(end)).max(self.now);
        self.consul.handle_timeout(self.now);
        for party in &mut self.parties {
            if let Some((_, consul)) = &mut party.behind {
                consul.handle_timeout(self.now);
            }
        }
        self.run();
    }

    fn turn(&mut self, who: usize) -> bool {
        let now = self.now;
        let participant = &mut self.parties[who].participant;
        participant.handle_timeout(now);
        let mut is_busy = false;
        while let Some(sent) = self.parties[who].participant.poll_transmit(now) {
            is_busy = true;
            self.note(who, "->", &line(&sent.request));
            let party = &mut self.parties[who];
            party.sent.push(sent.request.clone());
            if party.is_held_at(Place::BeforeConsul, &sent.request) {
                party.kept.push((sent.id, sent.request));
            } else {
                self.pass_on(who, sent.id, sent.request);
            }
        }
        while let Some(id) = self.parties[who].participant.poll_abort() {
            self.give_up(who, id);
        }
        while let Some(event) = self.parties[who].participant.poll_event() {
            self.note(who, "==", &format!("{event:?}"));
            self.parties[who].events.push(event);
        }
        self.collect();
        let party = &mut self.parties[who];
        let answers = std::mem::take(&mut party.answers);
        let (held, free): (Vec<_>, Vec<_>) = (answers.into_iter())
            .partition(|(_, request, _)| party.is_held_at(Place::AfterConsul, request));
        party.answers = held;
        for (id, request, answer) in free {
            is_busy = true;
            self.note(
                who,
                "<-",
                &format!("{} to {}", answer.status(), line(&request)),
            );
            let party = &mut self.parties[who];
            party.refusals += usize::from(answer.status() == 409);
            party.participant.handle_response(now, id, Ok(answer));
        }
        is_busy
    }

    fn pass_on(&mut self, who: usize, id: RequestId, request: Request) {
        let party = &mut self.parties[who];
        let (server, consul) = match &mut party.behind {
            Some((Behind::Former, consul))
                if steps::renews_session(&request) || reads_plainly(&request) =>
            {
                (Server::Behind, consul)
            }
            Some((Behind::Former, _)) => return,
            Some((Behind::Lagging, consul)) if reads_plainly(&request) => (Server::Behind, consul),
            _ => (Server::Leader, &mut self.consul),
        };
        let exchange = consul.submit(self.now, &request);
        party.asked.insert((server, exchange), (id, request));
        self.collect();
    }

    fn give_up(&mut self, who: usize, id: RequestId) {
        let party = &mut self.parties[who];
        let given_up = party.kept.iter().position(|(kept, _)| *kept == id);
        let given_up = given_up.map(|at| party.kept.remove(at));
        party.late.extend(given_up.filter(|(_, it)| !polls(it)));
        party.asked.retain(|_, (asked, _)| *asked != id);
        party.answers.retain(|(answered, ..)| *answered != id);
    }

    /// Takes Consul's answers.
    fn collect(&mut self) {
        while let Some((exchange, answer)) = self.consul.poll_answer() {
            self.sort(exchange, answer);
        }
        for party in &mut self.parties {
            while let Some((exchange, answer)) =
                (party.behind.as_mut()).and_then(|(_, consul)| consul.poll_answer())
            {
                party.take((Server::Behind, exchange), answer);
            }
        }
    }

    /// Finds out whose answer it is.
    fn sort(&mut self, exchange: Exchange, answer: Response) {
        let asked = (Server::Leader, exchange);
        let mut parties = self.parties.iter_mut();
        if let Some(party) = parties.find(|it| it.asked.contains_key(&asked)) {
            party.take(asked, answer);
        }
    }

    fn note(&mut self, who: usize, way: &str, what: &str) {
        let who = ["P", "Q", "R", "other"][who];
        self.trace.push(format!("{} {who} {way} {what}", self.now));
    }
}

impl Party {
    fn is_held_at(&self, place: Place, request: &Request) -> bool {
        let mut held = self.held.iter();
        held.any(|(at, is)| *at == place && is(request))
    }

    fn take(&mut self, asked: (Server, Exchange), answer: Response) {
        if let Some((id, request)) = self.asked.remove(&asked) {
            if steps::creates_session(&request)
                && let Ok(created) = serde_json::from_slice::<serde_json::Value>(answer.body())
            {
                self.sessions
                    .extend(created["ID"].as_str().map(str::to_owned));
            }
            self.answers.push((id, request, answer));
        }
    }
}

/// A test that fails shows what happened.
impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = writeln!(std::io::stderr(), "{}", self.trace.join("\n"));
        }
    }
}
