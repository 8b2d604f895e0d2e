//! What a seed draws, as a value: everything that will happen to a world, and when.
//!
//! ```text
//!  seed ──draw──▶ Plan ──run──▶ Report, or a violation ──shrink──▶ a shorter Plan
//! ```
//! A plan alone decides what happens, so it can be reduced, printed and run again.

mod deed;
mod draw;
mod pieces;
mod story;

use std::collections::BTreeMap;
use std::time::Duration;

use semaphore_core::sans_io::{Dialect, SessionOptions};
use semaphore_core::{Behavior, Encoding};
use transport_mock::Fault;
use transport_mock::consul::Profile;

pub use deed::{Deed, Fate, Gateway, Hidden};
pub use pieces::{Piece, Pieces};

/// Local clocks and Consul's run at between this and its counterpart above one, as fast as the
/// true clock. The lease's margin is a tenth.
pub const SLOWEST_CLOCK: f64 = 0.95;
/// See [`SLOWEST_CLOCK`].
pub const FASTEST_CLOCK: f64 = 1.05;

/// The prefixes of hosts' own semaphores are numbered from here on, so many for each host.
const OWN_PLACES: usize = 10_000;

/// Its own elections are numbered from here on.
const OWN_ELECTIONS: usize = OWN_PLACES / 2;

/// Whether the prefix of this number is that of a host's own semaphore or election.
pub(crate) fn is_own(prefix: usize) -> bool {
    prefix >= OWN_PLACES
}

/// Whether it is that of a host's own election.
pub(crate) fn is_own_election(prefix: usize) -> bool {
    is_own(prefix) && prefix % OWN_PLACES >= OWN_ELECTIONS
}

/// The longest between two looks of a poll that has no connection.
const LOOK: Duration = Duration::from_secs(5);

/// The longest that a poll is held open: its `wait`, and a sixteenth of it (Consul's documentation of blocking queries).
const LONGEST_POLL: Duration = Duration::from_secs(16);

/// The TTL of strangers' sessions.
pub(crate) const STRANGERS_TTL: Duration = Duration::from_secs(30);

/// The lock delay of strangers' sessions: Consul's own.
pub(crate) const STRANGERS_LOCK_DELAY: Duration = SessionOptions::DEFAULT_LOCK_DELAY;

/// A lock delay is no longer than this, and belief no longer than it.
const MAX_LOCK_DELAY: Duration = SessionOptions::MAX_LOCK_DELAY;

/// Everything that will be done to a world, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What the world and the participants draw from: latencies, jitter, ids.
    pub seed: u64,
    /// How many slots each prefix has.
    pub limit: u32,
    /// The longest TTL of our sessions.
    pub ttl: Duration,
    /// What becomes of contender keys when their session ends.
    pub behavior: Behavior,
    /// What is at each prefix.
    pub prefixes: Vec<Place>,
    /// The longest that a message travels.
    pub latency: Duration,
    /// How long a session lives after its last renewal, in TTLs of the true clock.
    pub lifetime: f64,
    /// How long a lock delay lasts on the true clock, in multiples of what a session says.
    pub lock_delay_length: f64,
    /// Whether tokens are asked for, and if so whether reads that leave something out say so.
    pub access_control: Option<Told>,
    /// How agents hold requests while there is no leader, unless they refuse them at once.
    pub holding: Option<Holding>,
    /// Of which release and edition Consul is. In an Enterprise world our hosts name the namespace that strangers have
    /// without naming one.
    pub profile: Profile,
    /// How long things go wrong. Then it is quiet.
    pub storm: Duration,
    /// Where our users are.
    pub hosts: Vec<HostPlan>,
    /// Who else contends.
    pub strangers: Vec<StrangerPlan>,
    /// How strangers spell the record. In another dialect than Go's they were here before us, and
    /// left an empty one.
    pub dialect: Dialect,
    /// Whether others keep so much below the prefix of each semaphore that a list of it is dear.
    pub is_beside_others: bool,
    /// What is done to the world, in the order of time.
    pub deeds: Vec<(Duration, Deed)>,
}

/// How agents hold requests while there is no leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// How long they wait for one: at least, and at most.
    pub wait: (Duration, Duration),
    /// How long after the election the last one is applied, at most.
    pub late: Duration,
}

/// What a prefix is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A semaphore.
    Semaphore,
    /// An election, whose key is the one that `consul lock -n 1` takes: `<prefix>/.lock`.
    Election {
        /// For how long nobody leads after a leader's session was invalidated, where that is chosen. Unless it
        /// is, it outlasts belief.
        lock_delay: Option<Duration>,
    },
}

/// Whether a read that leaves keys out says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// In a header, as from Consul 1.11 on.
    InHeader,
    /// It does not, as before.
    NotAtAll,
}

/// A host with one process, which has one semaphore or takes part in one election, and may have separate semaphores
/// beside.
#[derive(Clone, Debug, PartialEq)]
pub struct HostPlan {
    /// What deeds call it.
    pub number: usize,
    /// Which prefix its semaphore or its election has.
    pub prefix: usize,
    /// Which server it talks to and no other, unless they all talk to Consul's own.
    pub server: Option<usize>,
    /// Whether its sessions stand on a node that no agent stands for.
    pub own_node: bool,
    /// The TTL of its sessions.
    pub ttl: Duration,
    /// The lock delay that is chosen for its sessions in a semaphore, if one is.
    pub lock_delay: Option<Duration>,
    /// How fast its clock runs.
    pub clock: f64,
    /// How it encodes its steps.
    pub encoding: Encoding,
    /// The limit that it was built with, where that is another one than the others': a rolling deploy.
    pub rolling: Option<Rolling>,
    /// How many contenders are no crowd to it, in a semaphore.
    pub crowd: usize,
    /// Whether it follows the leader besides, in an election.
    pub follows: bool,
    /// From when on its agent serves no transactions any more.
    pub refuses_from: Option<Duration>,
    /// The connections that it keeps open and shares, and what else goes by them. Otherwise each exchange has one.
    pub shared: Option<Shared>,
    /// Whether all that it has goes by one client, so that its semaphores share their sessions.
    pub client: bool,
    /// How many of the client's semaphores poll on their own while they only hold, if that is not left to it.
    pub own_polls: Option<usize>,
    /// What is done with each of its own semaphores, which nobody else wants. They take turns with the transports of those
    /// that are shared, unless they go by a client, which has the first one.
    pub own: Vec<UserPlan>,
    /// What is done in each of its own elections, which nobody else takes part in. They go by the client.
    pub own_elections: Vec<UserPlan>,
    /// The tasks in its process.
    pub users: Vec<UserPlan>,
    /// What its requests meet, by their number among those of their sort.
    pub troubles: BTreeMap<(Sort, u64), Trouble>,
}

/// A limit that is written into the record where nobody holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rolling {
    /// The limit.
    pub limit: u32,
    /// Whether the record's is taken over while somebody holds, instead of being refused.
    pub adopts: bool,
}

/// Connections that a process shares among all that it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Shared {
    /// How many transports it has, each of which opens 64 at most and sees the others only by what is refused. What
    /// it contends for goes by the first one.
    pub transports: usize,
    /// How many connections its agent allows the host.
    pub allowed: usize,
    /// How many tasks read something by the first transport, again and again: what is urgent goes before.
    pub readers: usize,
}

/// A sort of requests, to aim troubles at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sort {
    /// Any.
    Any,
    /// What changes the record.
    Record,
    /// What makes, changes or deletes a contender key.
    Key,
    /// The creation or the end of a session.
    Session,
    /// The renewal of a session.
    Renewal,
    /// A read, blocking or not.
    Read,
}

/// One task that acquires or campaigns again and again.
#[derive(Clone, Debug, PartialEq)]
pub struct UserPlan {
    /// What it does before the storm is over.
    pub turns: Vec<Turn>,
}

/// One acquisition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// How long it does something else before.
    pub idle: Duration,
    /// How it asks.
    pub how: How,
    /// For how many permits.
    pub permits: u32,
    /// How long it holds them.
    pub hold: Duration,
    /// How often a leader changes what the key says meanwhile.
    pub changes: u32,
    /// How it gives them back.
    pub end: End,
}

/// How a user asks for permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It waits.
    Acquire,
    /// It waits for so long.
    Within(Duration),
    /// It takes what is free.
    Try,
    /// It waits, and drops the future after so long.
    CancelAfter(Duration),
}

/// How a user gives permits back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It waits for the release.
    Release,
    /// It drops the permit.
    Drop,
    /// It waits for the release for so long, and drops the future.
    Abandon(Duration),
}

/// What one request meets.
#[derive(Clone, Debug, PartialEq)]
pub enum Trouble {
    /// A fault of the network.
    Fault(Fault),
    /// This is done to the world so long after it was sent.
    Deed(Duration, Deed),
}

/// Somebody who does not use this library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrangerPlan {
    /// What its host is called.
    pub number: usize,
    /// Where it contends.
    pub prefix: usize,
    /// When it comes.
    pub at: Duration,
    /// What it does.
    pub kind: Stranger,
}

/// What a stranger does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stranger {
    /// It follows the algorithm of Go's client and the guide: no queue, prune, check and set. In an
    /// election that of `api.Lock`.
    Go {
        /// How often it acquires.
        turns: u32,
        /// How long it holds.
        hold: Duration,
    },
    /// It has a contender key and never claims. It stays for so long.
    Stuck(Duration),
    /// It leads an election as `consul lock` does, which deletes the key afterwards.
    ConsulLock {
        /// How often it leads.
        turns: u32,
        /// How long.
        hold: Duration,
    },
}

impl Plan {
    /// The node that no agent stands for.
    pub const OWN_NODE: &str = "semaphores";

    /// The prefix of this number.
    pub fn prefix(number: usize) -> String {
        if let Some(host) = (number / OWN_PLACES).checked_sub(1) {
            return format!("own/{host}/{}", number % OWN_PLACES);
        }
        format!("service/{}", ["db", "queue", "jobs"][number % 3])
    }

    /// The number of the prefix of a semaphore that nobody but its host wants.
    pub(crate) fn own_prefix(host: usize, semaphore: usize) -> usize {
        (host + 1) * OWN_PLACES + semaphore % OWN_ELECTIONS
    }

    /// The number of the prefix of an election in which nobody but its host takes part.
    pub(crate) fn own_election(host: usize, election: usize) -> usize {
        (host + 1) * OWN_PLACES + OWN_ELECTIONS + election % OWN_ELECTIONS
    }

    /// All of these.
    pub(crate) fn own_prefixes(&self) -> impl Iterator<Item = usize> {
        self.hosts.iter().flat_map(HostPlan::own_prefixes)
    }

    /// What becomes of the contender keys at a host's own semaphores when their session ends. Those of a client stand on the
    /// sessions of the others.
    pub(crate) fn behavior_of_own(&self, host: &HostPlan) -> Behavior {
        if host.client {
            self.behavior
        } else {
            Behavior::Delete
        }
    }

    /// Whether some host shares its connections.
    pub fn shares_connections(&self) -> bool {
        self.hosts.iter().any(|it| it.shared.is_some())
    }

    /// Whether some host goes by a client.
    pub fn has_client(&self) -> bool {
        self.hosts.iter().any(|it| it.client)
    }

    /// Whether some host has separate semaphores.
    pub fn has_own(&self) -> bool {
        let has_own = |it: &HostPlan| !it.own.is_empty() || !it.own_elections.is_empty();
        self.hosts.iter().any(has_own)
    }

    /// Whether nothing can go wrong but that connections are refused.
    pub(crate) fn is_peaceful(&self) -> bool {
        let mut hosts = self.hosts.iter();
        let is_left_alone = self.deeds.is_empty() && self.strangers.is_empty();
        is_left_alone && hosts.all(|it| it.troubles.is_empty())
    }

    /// How long the requests of all semaphores of a host may take together when all are due at once.
    pub(crate) fn queueing(&self, host: usize) -> Duration {
        let mut hosts = self.hosts.iter().filter(|it| it.number == host);
        let Some((host, shared)) = hosts.find_map(|it| Some((it, it.shared.as_ref()?))) else {
            return Duration::ZERO;
        };
        // Polls have half of them.
        let lanes = (shared.allowed / 2).clamp(1, 30);
        let rounds = host.all_users().div_ceil(lanes);
        self.latency * 2 * u32::try_from(rounds).unwrap_or(u32::MAX)
    }

    /// How long a poll that has no connection may take to tell of a change: until its next look, on a clock that runs slow,
    /// and the requests before it.
    pub(crate) fn unseen(&self) -> Duration {
        let hosts = self.hosts.iter().filter(|it| it.shared.is_some());
        let unseen = hosts.map(|it| LOOK.div_f64(SLOWEST_CLOCK) + self.queueing(it.number) * 2);
        unseen.max().unwrap_or_default()
    }

    /// How long the leases of all hosts last, where they are alike and no connections are shared.
    pub(crate) fn lease(&self) -> Option<Duration> {
        let is_alike = self.hosts.iter().all(|it| it.ttl == self.ttl);
        let lease = self.ttl.min(MAX_LOCK_DELAY);
        Some(lease).filter(|_| is_alike && !self.shares_connections())
    }

    /// How long a lease lasts at most that comes from a leader of yesterday, if there is such a leader.
    pub(crate) fn lease_of_yesterday(&self) -> Option<Duration> {
        let remembers = |deed: &Deed| {
            matches!(
                deed,
                Deed::LoseServer {
                    fate: Fate::Remembers,
                    ..
                }
            )
        };
        let longest = self
            .hosts
            .iter()
            .filter(|it| it.own_node)
            .map(|it| it.ttl)
            .max();
        let longest = longest.filter(|_| self.has(remembers))?;
        Some(longest.min(MAX_LOCK_DELAY).div_f64(SLOWEST_CLOCK))
    }

    /// How long a participant waits at most between two attempts of one request.
    pub(crate) fn retry_cap(&self) -> Duration {
        (self.ttl / 10).min(Duration::from_secs(5))
    }

    /// How long a short request of ours may take.
    pub(crate) fn request_timeout(&self) -> Duration {
        (self.ttl / 5).min(Duration::from_secs(10))
    }

    /// Whether the answer to a request may come when it has been given up, so that nobody knows of a session that it
    /// made.
    pub(crate) fn is_slow(&self) -> bool {
        self.latency * 2 > self.request_timeout() / 2
    }

    /// How long a session can outlive its owner, on the true clock. Strangers end theirs when they
    /// leave, and only a snapshot can bring them back.
    pub(crate) fn longest_session(&self) -> Duration {
        let may_return =
            !self.strangers.is_empty() && self.has(|deed| matches!(deed, Deed::Restore));
        let ttl = if may_return {
            self.ttl.max(STRANGERS_TTL)
        } else {
            self.ttl
        };
        ttl.mul_f64(self.lifetime)
    }

    /// What is at the prefix of this number.
    pub(crate) fn place(&self, prefix: usize) -> Place {
        if is_own_election(prefix) {
            return Place::Election { lock_delay: None };
        }
        let place = self.prefixes.get(prefix).copied();
        place.unwrap_or(Place::Semaphore)
    }

    /// The node of a server.
    pub fn node(server: usize) -> String {
        format!("server-{server}")
    }

    /// The lock delay of the sessions of one of our hosts.
    pub(crate) fn lock_delay_of(&self, host: &HostPlan) -> Duration {
        let long_enough = host.ttl.min(MAX_LOCK_DELAY);
        match self.place(host.prefix) {
            Place::Semaphore => host.lock_delay.unwrap_or(long_enough),
            Place::Election { lock_delay } => {
                lock_delay.unwrap_or_else(|| long_enough.max(STRANGERS_LOCK_DELAY))
            }
        }
    }

    /// That of the sessions of its own elections, if it has any: as in the one in which others take part.
    fn lock_delay_of_own_elections(&self, host: &HostPlan) -> Option<Duration> {
        let of_election = match self.place(host.prefix) {
            Place::Election { .. } => self.lock_delay_of(host),
            Place::Semaphore => host.ttl.min(MAX_LOCK_DELAY).max(STRANGERS_LOCK_DELAY),
        };
        (!host.own_elections.is_empty()).then_some(of_election)
    }

    /// Whether the lock delay of this host's sessions is over no earlier than belief in them.
    pub(crate) fn is_guarded(&self, host: usize) -> bool {
        let mut hosts = self.hosts.iter().filter(|it| it.number == host);
        hosts.all(|it| self.lock_delay_of(it) >= it.ttl.min(MAX_LOCK_DELAY))
    }

    /// For how long at least nobody can be elected after a leader's session has ended.
    pub(crate) fn shortest_lock_delay(&self) -> Duration {
        let delays = self.candidates().map(|host| self.lock_delay_of(host));
        let shortest = delays.min().unwrap_or_default();
        shortest.mul_f64(self.lock_delay_length)
    }

    fn candidates(&self) -> impl Iterator<Item = &HostPlan> {
        let is_candidate = |it: &&HostPlan| self.place(it.prefix).is_election();
        self.hosts.iter().filter(is_candidate)
    }

    /// Whether the record's limit may become another one.
    pub(crate) fn changes_limits(&self) -> bool {
        let is_rolling = self.hosts.iter().any(|it| it.rolling.is_some());
        is_rolling || self.has(|deed| matches!(deed, Deed::Resize { .. }))
    }

    /// Whether there is an election.
    pub fn has_election(&self) -> bool {
        self.prefixes.iter().any(Place::is_election)
    }

    /// For how long nobody can be elected after a session has ended, wherever that is longest.
    pub(crate) fn longest_lock_delay(&self) -> Duration {
        let delays = self.candidates().map(|host| self.lock_delay_of(host));
        let strangers =
            (self.has_election() && !self.strangers.is_empty()).then_some(STRANGERS_LOCK_DELAY);
        let hosts = self.hosts.iter();
        let own = hosts.filter_map(|host| self.lock_delay_of_own_elections(host));
        let longest = delays.chain(strangers).chain(own).max();
        longest.unwrap_or_default().mul_f64(self.lock_delay_length)
    }

    /// For how long nobody has the place of a dead holder or leader after its session has ended, wherever
    /// that is longest and by whichever clock.
    pub(crate) fn longest_vacancy(&self) -> Duration {
        let delays = self.hosts.iter().flat_map(|host| {
            // A contender that can't ask whether a lock delay is over waits as long as one can be.
            let in_semaphore = |delay: Duration| {
                if self.asks(host) {
                    delay
                } else {
                    delay.max(MAX_LOCK_DELAY)
                }
            };
            let delay = self.lock_delay_of(host);
            let is_election = self.place(host.prefix).is_election();
            let of_place = if is_election {
                delay
            } else {
                in_semaphore(delay)
            };
            let own = host.lock_delay.filter(|_| host.client);
            let own = own.unwrap_or(host.ttl.min(MAX_LOCK_DELAY));
            let of_own = (!host.own.is_empty()).then(|| in_semaphore(own));
            let of_elections = self.lock_delay_of_own_elections(host);
            of_own.into_iter().chain(of_elections).chain([of_place])
        });
        let strangers = (!self.strangers.is_empty()).then_some(STRANGERS_LOCK_DELAY);
        let longest = delays.chain(strangers).max().unwrap_or_default();
        longest.div_f64(SLOWEST_CLOCK)
    }

    /// Whether this host asks Consul for the dead throughout. A token that is restricted for a while makes it go on by
    /// separate requests, and so does a gateway that answers its first transaction.
    pub(crate) fn asks(&self, host: &HostPlan) -> bool {
        let is_gateway = |deed: &Deed| matches!(deed, Deed::Gateway { host: behind, .. } if *behind == host.number);
        host.speaks_transactions() && self.access_control.is_none() && !self.has(is_gateway)
    }

    /// How long somebody may be out of touch who polls when everything works again: what was lost before is waited for
    /// as long as a poll is held open and an answer may take, which is twice as long where the last one was slow.
    pub(crate) fn lost_poll(&self) -> Duration {
        (LONGEST_POLL + self.request_timeout() * 2).div_f64(SLOWEST_CLOCK)
    }

    /// Whether one of the deeds, wherever it stands, is one of these.
    pub(crate) fn has(&self, is: impl Fn(&Deed) -> bool) -> bool {
        let timed = self.deeds.iter().map(|(_, deed)| deed);
        let caused = self.hosts.iter().flat_map(|host| {
            host.troubles.values().filter_map(|trouble| match trouble {
                Trouble::Deed(_, deed) => Some(deed),
                Trouble::Fault(_) => None,
            })
        });
        timed.chain(caused).any(is)
    }
}

impl HostPlan {
    /// The prefixes of the separate semaphores.
    pub(crate) fn own_prefixes(&self) -> impl Iterator<Item = usize> + use<> {
        let host = self.number;
        let semaphores = (0..self.own.len()).map(move |it| Plan::own_prefix(host, it));
        let elections = 0..self.own_elections.len();
        semaphores.chain(elections.map(move |it| Plan::own_election(host, it)))
    }

    /// How many use what it has.
    pub(crate) fn all_users(&self) -> usize {
        self.users.len() + self.own.len() + self.own_elections.len()
    }

    /// Whether it sends transactions, and its agent serves them throughout.
    pub(crate) fn speaks_transactions(&self) -> bool {
        self.encoding == Encoding::Transactions && self.refuses_from.is_none()
    }
}

impl Place {
    /// Whether it is an election.
    pub fn is_election(&self) -> bool {
        matches!(self, Self::Election { .. })
    }
}
