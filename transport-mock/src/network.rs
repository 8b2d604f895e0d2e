//! The way between the clients and Consul, one exchange at a time.
//!
//! ```text
//!  send ──▶ in flight ──Deliver──▶ at Consul ──poll_answer──▶ in flight ──Answer──▶ done
//!    │         │ lost                  │ held open               │ lost
//!    └─Timeout, or the future is dropped: HangUp follows the request and abandons it
//! ```
//!
//! Every exchange has two ends that know nothing of each other but what arrives: a [`ClientEnd`]
//! until the client has its outcome, and a [`ServerEnd`] until Consul has nothing to do with it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::task::Waker;
use std::time::Duration;

use fastrand::Rng;
use semaphore_core::{Instant, Request, Response, TransportError, TransportErrorKind};

use crate::consul::{Consul, Exchange};
use crate::fault::{Fault, Faults, Outage, Rules};
use crate::kind::RequestKind;
use crate::stats::Stats;
use crate::timeline::{Key, Timeline};
use crate::trace::{Line, Trace};

/// Names one exchange as its client sees it. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Call(u64);

/// Names one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Host(usize);

/// What is due at a point in time.
#[derive(Debug)]
pub(crate) enum Event {
    /// A sleep is over. Without a waker, nobody waits for it any more.
    Wake(Option<Waker>),
    Message(Host, Message),
    Heal(Host),
    ElectLeader,
}

/// What travels.
#[derive(Debug)]
pub(crate) enum Message {
    Deliver(Call),
    DeliverAgain(Request),
    HangUp(Call),
    Answer(Call, Result<Response, TransportErrorKind>),
    Timeout(Call),
}

/// How a host is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// What is sent is lost.
    Silent,
    /// What is sent arrives when the cut is healed.
    Stalled,
}

pub(crate) type Outcome = Result<Response, TransportError>;

#[derive(Debug)]
struct HostState {
    name: String,
    cut: Option<Cut>,
    held: Vec<Message>,
    stats: Stats,
}

#[derive(Debug)]
struct ClientEnd {
    host: Host,
    waker: Option<Waker>,
    outcome: Option<Outcome>,
    timeout: Key,
}

#[derive(Debug)]
struct ServerEnd {
    request: Request,
    fault: Option<Fault>,
    arrives: Instant,
    exchange: Option<Exchange>,
}

/// Consul, the hosts around it, the messages between them and the time.
pub(crate) struct Network {
    pub(crate) now: Instant,
    pub(crate) timeline: Timeline<Event>,
    pub(crate) consul: Consul,
    pub(crate) rules: Rules,
    pub(crate) faults: Faults,
    pub(crate) latency: RangeInclusive<Duration>,
    pub(crate) max_connections: Option<usize>,
    pub(crate) trace: Trace,
    leaderless: bool,
    rng: Rng,
    hosts: Vec<HostState>,
    clients: BTreeMap<Call, ClientEnd>,
    servers: BTreeMap<Call, ServerEnd>,
    calls: u64,
    woken: Vec<Waker>,
}

impl Network {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            now: Instant::ORIGIN,
            timeline: Timeline::new(),
            consul: Consul::new(seed),
            rules: Rules::default(),
            faults: Faults::none(),
            latency: Duration::from_millis(1)..=Duration::from_millis(1),
            max_connections: Some(200),
            trace: Trace::default(),
            leaderless: false,
            // Not the stream of random numbers that Consul draws from.
            rng: Rng::with_seed(seed.rotate_left(32) ^ 0x6e65_7477_6f72_6b21),
            hosts: Vec::new(),
            clients: BTreeMap::new(),
            servers: BTreeMap::new(),
            calls: 0,
            woken: Vec::new(),
        }
    }

    /// The host of this name, a new one when there is none.
    pub(crate) fn host(&mut self, name: &str) -> Host {
        let found = self.hosts.iter().position(|host| host.name == name);
        Host(found.unwrap_or_else(|| {
            self.hosts.push(HostState {
                name: name.to_owned(),
                cut: None,
                held: Vec::new(),
                stats: Stats::default(),
            });
            self.hosts.len() - 1
        }))
    }

    /// When something happens next.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let events = self.timeline.first_due();
        let consul = self.consul.poll_timeout();
        match (events, consul) {
            (Some(event), Some(consul)) => Some(event.min(consul)),
            (event, consul) => event.or(consul),
        }
    }

    /// Goes to the next event and handles it.
    pub(crate) fn step(&mut self, due: Instant) {
        self.now = self.now.max(due);
        if self.consul.poll_timeout().is_some_and(|at| at <= self.now) {
            self.consul.handle_timeout(self.now);
            self.collect_answers();
        } else if self.timeline.first_due().is_some_and(|at| at <= self.now) {
            match self.timeline.pop_first() {
                Some(Event::Wake(waker)) => self.woken.extend(waker),
                Some(Event::Message(host, message)) => self.handle_message(host, message),
                Some(Event::Heal(host)) => self.heal(host),
                Some(Event::ElectLeader) => self.elect_leader(),
                None => {}
            }
        }
    }

    /// The wakers to call, outside of any lock.
    pub(crate) fn take_woken(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.woken)
    }

    /// A client sends a request.
    pub(crate) fn send(&mut self, host: Host, request: Request) -> Call {
        self.calls += 1;
        let call = Call(self.calls);
        self.note(host, call, format_args!("> {}", Line(&request)));
        let timeout = self.timeline.add(
            self.now + request.timeout(),
            Event::Message(host, Message::Timeout(call)),
        );
        self.clients.insert(
            call,
            ClientEnd {
                host,
                waker: None,
                outcome: None,
                timeout,
            },
        );
        let open = self.hosts[host.0].stats.sent(RequestKind::of(&request));
        for outage in self.faults.draw_outages(&mut self.rng) {
            self.begin_outage(host, outage);
        }

        let fault = self
            .rules
            .strike(&self.hosts[host.0].name, &request)
            .or_else(|| self.faults.draw(&mut self.rng));
        if let Some(fault) = &fault {
            self.note(host, call, format_args!("! {fault}"));
        }
        if self.max_connections.is_some_and(|most| open > most) {
            self.note(host, call, format_args!("! too many connections"));
            self.travel(
                host,
                Message::Answer(call, Err(TransportErrorKind::Unknown)),
            );
            return call;
        }
        self.launch(host, call, request, fault);
        call
    }

    /// What a client waits for, when it is there.
    pub(crate) fn poll_outcome(&mut self, call: Call, waker: &Waker) -> Option<Outcome> {
        let client = self.clients.get_mut(&call)?;
        if let Some(outcome) = client.outcome.take() {
            self.clients.remove(&call);
            return Some(outcome);
        }
        match &mut client.waker {
            Some(present) => present.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        None
    }

    /// A client no longer wants its answer.
    pub(crate) fn give_up(&mut self, call: Call) {
        let Some(client) = self.clients.remove(&call) else {
            return;
        };
        if client.outcome.is_none() {
            self.note(client.host, call, format_args!("x given up"));
            self.timeline.remove(client.timeout);
            self.hosts[client.host.0].stats.closed();
            self.close(client.host, call);
        }
    }

    /// Sends everything that Consul has decided on its way.
    pub(crate) fn collect_answers(&mut self) {
        while let Some((exchange, response)) = self.consul.poll_answer() {
            // Nobody waits for the second answer to a duplicated request.
            let call = self
                .servers
                .iter()
                .find(|(_, server)| server.exchange == Some(exchange))
                .map(|(call, _)| *call);
            if let Some((call, server)) =
                call.and_then(|call| self.servers.remove(&call).map(|server| (call, server)))
            {
                self.send_answer(call, server.fault, response);
            }
        }
    }

    /// Cuts a host off.
    pub(crate) fn cut(&mut self, host: Host, cut: Cut) {
        self.note_host(host, format_args!("cut off ({cut:?})"));
        self.hosts[host.0].cut = Some(cut);
    }

    /// Ends a cut. What was held back arrives now.
    pub(crate) fn heal(&mut self, host: Host) {
        if self.hosts[host.0].cut.take().is_none() {
            return;
        }
        self.note_host(host, format_args!("reachable again"));
        for message in std::mem::take(&mut self.hosts[host.0].held) {
            self.travel(host, message);
        }
    }

    /// Everything works again.
    pub(crate) fn repair(&mut self) {
        self.rules.clear();
        self.faults = Faults::none();
        for host in 0..self.hosts.len() {
            self.heal(Host(host));
        }
        if self.leaderless {
            self.elect_leader();
        }
    }

    /// The cluster has a leader again.
    pub(crate) fn elect_leader(&mut self) {
        self.trace.add(self.now, format_args!("leader elected"));
        self.leaderless = false;
        self.consul.elect_leader(self.now);
        self.collect_answers();
    }

    /// The cluster is without a leader from now on.
    pub(crate) fn lose_leader(&mut self) {
        self.trace.add(self.now, format_args!("leader lost"));
        self.leaderless = true;
        self.consul.lose_leader(self.now);
        self.collect_answers();
    }

    /// The figures of every host, by name.
    pub(crate) fn stats(&self) -> impl Iterator<Item = (&str, &Stats)> {
        self.hosts
            .iter()
            .map(|host| (host.name.as_str(), &host.stats))
    }

    pub(crate) fn host_name(&self, host: Host) -> &str {
        &self.hosts[host.0].name
    }

    fn launch(&mut self, host: Host, call: Call, request: Request, fault: Option<Fault>) {
        let mut arrives = self.now + self.draw_latency();
        match &fault {
            Some(Fault::LoseRequest) => return,
            Some(Fault::Refuse) => {
                let refused = Message::Answer(call, Err(TransportErrorKind::NotSent));
                self.travel(host, refused);
                return;
            }
            Some(Fault::ResetBefore) => {
                let reset = Message::Answer(call, Err(TransportErrorKind::Unknown));
                self.travel(host, reset);
                return;
            }
            Some(Fault::Delay(by)) => arrives = arrives + *by,
            Some(Fault::Duplicate(after)) => {
                self.timeline.add(
                    arrives + *after,
                    Event::Message(host, Message::DeliverAgain(request.clone())),
                );
            }
            _ => {}
        }
        self.servers.insert(
            call,
            ServerEnd {
                request,
                fault,
                arrives,
                exchange: None,
            },
        );
        self.timeline
            .add(arrives, Event::Message(host, Message::Deliver(call)));
    }

    fn handle_message(&mut self, host: Host, message: Message) {
        if let Message::Timeout(call) = message {
            self.finish(call, Err(TransportErrorKind::Timeout));
            self.close(host, call);
            return;
        }
        match self.hosts[host.0].cut {
            Some(Cut::Silent) => return,
            Some(Cut::Stalled) => {
                self.hosts[host.0].held.push(message);
                return;
            }
            None => {}
        }
        match message {
            Message::Deliver(call) => self.deliver(host, call),
            Message::DeliverAgain(request) => {
                let line = Line(&request);
                let name = &self.hosts[host.0].name;
                self.trace
                    .add(self.now, format_args!("{name} delivered again {line}"));
                self.consul.submit(self.now, &request);
                self.collect_answers();
            }
            Message::HangUp(call) => {
                let server = self.servers.remove(&call);
                if let Some(exchange) = server.and_then(|server| server.exchange) {
                    self.note(host, call, format_args!("x hung up"));
                    self.consul.abandon(exchange);
                    self.collect_answers();
                }
            }
            Message::Answer(call, outcome) => self.finish(call, outcome),
            Message::Timeout(_) => {}
        }
    }

    fn deliver(&mut self, host: Host, call: Call) {
        let Some(server) = self.servers.get_mut(&call) else {
            return;
        };
        if let Some(Fault::Answer(response)) = &server.fault {
            let response = response.clone();
            self.servers.remove(&call);
            self.travel(host, Message::Answer(call, Ok(response)));
            return;
        }
        let exchange = self.consul.submit(self.now, &server.request);
        server.exchange = Some(exchange);
        if server.fault == Some(Fault::ResetAfter) {
            self.servers.remove(&call);
            self.consul.abandon(exchange);
            let reset = Message::Answer(call, Err(TransportErrorKind::Unknown));
            self.travel(host, reset);
        }
        self.collect_answers();
    }

    fn send_answer(&mut self, call: Call, fault: Option<Fault>, response: Response) {
        // The client may have given up already. Then the answer has nobody to go to.
        let Some(host) = self.clients.get(&call).map(|client| client.host) else {
            return;
        };
        let mut arrives = self.now + self.draw_latency();
        let outcome = match fault {
            Some(Fault::LoseAnswer) => return,
            Some(Fault::AnswerAfter(instead)) => Ok(instead),
            Some(Fault::BadAnswer) => Err(TransportErrorKind::BadAnswer),
            Some(Fault::Index(index)) => Ok(with_index(&response, index)),
            Some(Fault::DelayAnswer(by)) => {
                arrives = arrives + by;
                Ok(response)
            }
            _ => Ok(response),
        };
        self.timeline.add(
            arrives,
            Event::Message(host, Message::Answer(call, outcome)),
        );
    }

    /// The client learns how its exchange ended.
    fn finish(&mut self, call: Call, outcome: Result<Response, TransportErrorKind>) {
        let Some(client) = self.clients.get_mut(&call) else {
            return;
        };
        if client.outcome.is_some() {
            return;
        }
        let host = client.host;
        self.timeline.remove(client.timeout);
        self.woken.extend(client.waker.take());
        let stats = &mut self.hosts[host.0].stats;
        stats.closed();
        client.outcome = Some(match outcome {
            Ok(response) => {
                stats.received(&response);
                self.trace.add(
                    self.now,
                    format_args!(
                        "{} #{} < {}{} ({} B)",
                        self.hosts[host.0].name,
                        call.0,
                        response.status(),
                        ShownIndex(response.header("X-Consul-Index")),
                        response.body().len()
                    ),
                );
                Ok(response)
            }
            Err(kind) => {
                stats.failed();
                self.trace.add(
                    self.now,
                    format_args!("{} #{} < {kind:?}", self.hosts[host.0].name, call.0),
                );
                Err(TransportError::with_source(
                    kind,
                    "simulated by the network",
                ))
            }
        });
    }

    /// The client closes its connection, which Consul notices behind the request.
    fn close(&mut self, host: Host, call: Call) {
        if let Some(server) = self.servers.get(&call) {
            let arrives = server.arrives;
            let at = (self.now + self.draw_latency()).max(arrives);
            self.timeline
                .add(at, Event::Message(host, Message::HangUp(call)));
        }
    }

    fn begin_outage(&mut self, host: Host, outage: Outage) {
        match outage {
            Outage::Leader(length) => {
                self.lose_leader();
                self.timeline.add(self.now + length, Event::ElectLeader);
            }
            Outage::Partition(length) => {
                self.cut(host, Cut::Silent);
                self.timeline.add(self.now + length, Event::Heal(host));
            }
            Outage::Session => {
                let ids = self
                    .consul
                    .sessions()
                    .map(|session| session.id().to_owned());
                let ids: Vec<_> = ids.collect();
                if let Some(id) = self.rng.choice(ids) {
                    self.trace
                        .add(self.now, format_args!("session {id} destroyed"));
                    self.consul.destroy_session(self.now, &id);
                    self.collect_answers();
                }
            }
        }
    }

    fn travel(&mut self, host: Host, message: Message) {
        let at = self.now + self.draw_latency();
        self.timeline.add(at, Event::Message(host, message));
    }

    fn draw_latency(&mut self) -> Duration {
        let (least, most) = (*self.latency.start(), *self.latency.end());
        let spread = most.saturating_sub(least);
        if spread.is_zero() {
            return least;
        }
        least + spread.mul_f64(self.rng.f64())
    }

    fn note(&mut self, host: Host, call: Call, what: fmt::Arguments<'_>) {
        let name = &self.hosts[host.0].name;
        self.trace
            .add(self.now, format_args!("{name} #{} {what}", call.0));
    }

    fn note_host(&mut self, host: Host, what: fmt::Arguments<'_>) {
        let name = &self.hosts[host.0].name;
        self.trace.add(self.now, format_args!("{name} {what}"));
    }
}

fn with_index(response: &Response, index: u64) -> Response {
    let bare = Response::new(response.status(), response.body());
    response.headers().fold(bare, |answer, (name, value)| {
        if name.eq_ignore_ascii_case("X-Consul-Index") {
            answer.with_header(name, index.to_string())
        } else {
            answer.with_header(name, value)
        }
    })
}

struct ShownIndex<'a>(Option<&'a str>);

impl fmt::Display for ShownIndex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(index) => write!(f, " index {index}"),
            None => Ok(()),
        }
    }
}
