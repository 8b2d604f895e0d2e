//! The network between the clients and Consul: hosts, messages, and what is due when.
//!
//! ```text
//!            exchange.rs: one request and its answer
//!  clients ◀──────── messages on the timeline ────────▶ Consul
//!            outage.rs: cut hosts, no leader     lag.rs: agents that lag behind
//!            behind.rs: a leader that has yet to apply its log
//!            holding.rs: agents that hold requests while there is no leader
//!            severed.rs: agents on the smaller side of servers that are parted
//!            story.rs: what became of the slots and leaders by it
//! ```

mod behind;
mod exchange;
mod holding;
mod lag;
mod outage;
mod severed;
mod sockets;
mod story;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::task::Waker;
use std::time::Duration;

use fastrand::Rng;
use semaphore_core::adapter::{Instant, Request, Response, TransportError, TransportErrorKind};

use self::behind::Behind;
use self::exchange::{ClientEnd, ServerEnd};
use self::holding::Holding;
use self::lag::{Lagging, Server};
pub(crate) use self::outage::Cut;
use self::severed::Severed;
use self::sockets::Sockets;
pub(crate) use self::sockets::{Pool, Socket};
use self::story::Seen;
use crate::consul::{Consul, Exchange, Profile};
use crate::fault::{Faults, Rules};
use crate::stats::Stats;
use crate::timeline::Timeline;
use crate::trace::Trace;

/// Identifies one exchange of a client. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Call(u64);

/// Identifies one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Host(usize);

/// A request that has reached Consul.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Delivered {
    /// The host that sent it.
    pub host: String,
    /// When that host sent it.
    pub sent_at: Instant,
    /// The request.
    pub request: Request,
}

/// An event at a point in time.
#[derive(Debug)]
pub(crate) enum Event {
    /// A sleep is over.
    Wake(Waker),
    Message(Host, Message),
    /// A request that has reached Consul is now handled.
    Arrive(Host, Option<Call>, Request, Instant),
    Heal(Host),
    ElectLeader,
    /// A request has waited for a leader as long as it may.
    HeldInVain(u64),
}

/// A message under way.
#[derive(Debug)]
pub(crate) enum Message {
    Deliver(Call),
    DeliverAgain(Request, Instant),
    HangUp(Call),
    Answer(Call, Result<Response, TransportErrorKind>),
    Timeout(Call),
}

impl Message {
    fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout(_))
    }
}

/// How an exchange ends for its client.
pub(crate) type Outcome = Result<Response, TransportError>;

#[derive(Debug)]
struct HostState {
    name: String,
    /// The node of the agent that it uses, if that is not Consul's own.
    agent: Option<String>,
    cut: Option<Cut>,
    held: Vec<Message>,
    /// Its connections that are served over HTTP.
    #[cfg(feature = "loopback")]
    connected: usize,
    /// The most connections that its agent allows it, if that differs from the others.
    max_connections: Option<usize>,
    stats: Stats,
}

/// Consul, the hosts around it, the messages between them and the time.
pub(crate) struct Network {
    pub(crate) now: Instant,
    pub(crate) timeline: Timeline<Event>,
    pub(crate) consul: Consul,
    pub(crate) rules: Rules,
    pub(crate) faults: Faults,
    pub(crate) latency: RangeInclusive<Duration>,
    /// The latency before an order changed it.
    pub(crate) usual_latency: Option<RangeInclusive<Duration>>,
    pub(crate) max_connections: Option<usize>,
    pub(crate) trace: Trace,
    /// The delivered writes, if they are collected.
    pub(crate) writes: Option<Vec<Delivered>>,
    lagging: Lagging,
    severed: BTreeMap<Host, Severed>,
    behind: Option<Behind>,
    leaderless: bool,
    /// How agents hold requests while there is no leader, if they do.
    holding: Option<Holding>,
    sockets: Sockets,
    rng: Rng,
    hosts: Vec<HostState>,
    clients: BTreeMap<Call, ClientEnd>,
    servers: BTreeMap<Call, ServerEnd>,
    /// The call that an exchange at Consul belongs to. Duplicates belong to none.
    exchanges: BTreeMap<(Server, Exchange), Call>,
    calls: u64,
    woken: Vec<Waker>,
    seen: Seen,
}

impl Network {
    pub(crate) fn new(seed: u64, profile: Profile) -> Self {
        Self {
            now: Instant::ORIGIN,
            timeline: Timeline::new(),
            consul: Consul::with_profile(seed, profile),
            rules: Rules::default(),
            faults: Faults::none(),
            latency: Duration::from_millis(1)..=Duration::from_millis(1),
            usual_latency: None,
            max_connections: Some(200),
            trace: Trace::new(),
            writes: None,
            lagging: Lagging::new(),
            severed: BTreeMap::new(),
            behind: None,
            leaderless: false,
            holding: None,
            sockets: Sockets::default(),
            // Not the random numbers that Consul draws.
            rng: Rng::with_seed(seed.rotate_left(32) ^ 0x6e65_7477_6f72_6b21),
            hosts: Vec::new(),
            clients: BTreeMap::new(),
            servers: BTreeMap::new(),
            exchanges: BTreeMap::new(),
            calls: 0,
            woken: Vec::new(),
            seen: Seen::default(),
        }
    }

    /// The host of this name. Makes it if there is none.
    pub(crate) fn host(&mut self, name: &str) -> Host {
        let found = self.hosts.iter().position(|host| host.name == name);
        Host(found.unwrap_or_else(|| {
            self.hosts.push(HostState {
                name: name.to_owned(),
                agent: None,
                cut: None,
                held: Vec::new(),
                #[cfg(feature = "loopback")]
                connected: 0,
                max_connections: None,
                stats: Stats::default(),
            });
            self.hosts.len() - 1
        }))
    }

    /// Sets the most connections that this host's agent allows it.
    pub(crate) fn set_max_connections_of(&mut self, host: Host, most: usize) {
        self.hosts[host.0].max_connections = Some(most);
    }

    /// A client of this host connects. Returns whether its agent allows it.
    #[cfg(feature = "loopback")]
    pub(crate) fn connect(&mut self, host: Host) -> bool {
        let most = self.hosts[host.0].max_connections.or(self.max_connections);
        let connected = &mut self.hosts[host.0].connected;
        let is_allowed = most.is_none_or(|most| *connected < most);
        *connected += usize::from(is_allowed);
        is_allowed
    }

    #[cfg(feature = "loopback")]
    pub(crate) fn disconnect(&mut self, host: Host) {
        self.hosts[host.0].connected -= 1;
    }

    /// The number of connected clients of all hosts.
    #[cfg(feature = "loopback")]
    pub(crate) fn connected(&self) -> usize {
        self.hosts.iter().map(|host| host.connected).sum()
    }

    /// From now on this host uses the agent on this node.
    pub(crate) fn set_agent(&mut self, host: Host, node: &str) {
        self.note_host(host, format_args!("asks the agent on {node}"));
        self.hosts[host.0].agent = Some(node.to_owned());
        self.register_node(node);
    }

    /// A node is in the catalog from now on.
    pub(crate) fn register_node(&mut self, node: &str) {
        if self.consul.has_node(node) {
            return;
        }
        self.trace
            .tell(self.now, format_args!("node {node} registered"));
        self.consul.register_node(self.now, node);
        self.collect_answers();
    }

    /// A node is taken out of the catalog.
    pub(crate) fn deregister_node(&mut self, node: &str) {
        self.trace
            .tell(self.now, format_args!("node {node} deregistered"));
        self.consul.deregister_node(self.now, node);
        self.collect_answers();
    }

    /// A random number from this network's own stream.
    pub(crate) fn draw_seed(&mut self) -> u64 {
        self.rng.u64(..)
    }

    /// When the next event happens.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let events = self.timeline.first_due();
        events.into_iter().chain(self.agents_due()).min()
    }

    /// Goes to the next event and handles it.
    pub(crate) fn step(&mut self, due: Instant) {
        self.now = self.now.max(due);
        if self.agents_due().is_some_and(|at| at <= self.now) {
            self.consul.handle_timeout(self.now);
            let behind = self.behind.as_mut().map(Behind::leader_mut);
            for agent in behind.into_iter().chain(self.lagging.values_mut()) {
                agent.handle_timeout(self.now);
            }
            self.collect_answers();
        } else if self.timeline.first_due().is_some_and(|at| at <= self.now) {
            match self.timeline.pop_first() {
                Some(Event::Wake(waker)) => self.woken.push(waker),
                Some(Event::Message(host, message)) => self.handle_message(host, message),
                Some(Event::Arrive(host, call, request, sent_at)) => {
                    self.arrive(host, call, &request, sent_at);
                }
                Some(Event::Heal(host)) => self.heal(host),
                Some(Event::ElectLeader) => self.elect_leader(),
                Some(Event::HeldInVain(number)) => self.end_hold(number),
                None => {}
            }
        }
    }

    /// The wakers to call, outside of any lock.
    pub(crate) fn take_woken(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.woken)
    }

    /// The statistics of every host, by name.
    pub(crate) fn stats(&self) -> impl Iterator<Item = (&str, &Stats)> {
        self.hosts
            .iter()
            .map(|host| (host.name.as_str(), &host.stats))
    }

    pub(crate) fn host_name(&self, host: Host) -> &str {
        &self.hosts[host.0].name
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
            Message::DeliverAgain(request, sent_at) => self.deliver_again(host, &request, sent_at),
            Message::HangUp(call) => self.hang_up(host, call),
            Message::Answer(call, outcome) => self.finish(call, outcome),
            Message::Timeout(_) => {}
        }
    }

    fn travel(&mut self, host: Host, message: Message) {
        let at = self.now + self.draw_latency();
        self.timeline.add(at, Event::Message(host, message));
    }

    fn draw_latency(&mut self) -> Duration {
        self.draw_between(&self.latency.clone())
    }

    fn draw_between(&mut self, range: &RangeInclusive<Duration>) -> Duration {
        let (least, most) = (*range.start(), *range.end());
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

    /// Like [`Self::note`], for lines of the story.
    fn tell_of(&mut self, host: Host, call: Call, what: fmt::Arguments<'_>) {
        let name = &self.hosts[host.0].name;
        self.trace
            .tell(self.now, format_args!("{name} #{} {what}", call.0));
    }

    fn note_host(&mut self, host: Host, what: fmt::Arguments<'_>) {
        let name = &self.hosts[host.0].name;
        self.trace.tell(self.now, format_args!("{name} {what}"));
    }
}
