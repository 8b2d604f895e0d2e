//! The plan that a seed draws: everything that will happen in a world, and when.
//!
//! ```text
//!  seed ──draw──▶ Plan ──run──▶ Report, or a violation ──shrink──▶ a shorter Plan
//! ```
//! A plan alone decides what happens, so it can be reduced, printed and run again.

mod bounds;
mod deed;
mod draw;
mod pieces;
mod story;

use std::collections::BTreeMap;
use std::time::Duration;

use semaphore_core::sans_io::{Dialect, SessionOptions};
use transport_mock::Fault;
use transport_mock::consul::Profile;

pub use bounds::HostBounds;
pub(crate) use bounds::TURN_REQUESTS;
pub use deed::{Deed, Fate, Gateway, Hidden, ReadOnly};
pub use pieces::{Piece, Pieces};

/// The clocks of hosts and of Consul run at a rate between this and [`FASTEST_CLOCK`], relative to
/// the true clock. The lease's margin is a tenth.
pub const SLOWEST_CLOCK: f64 = 0.95;
/// See [`SLOWEST_CLOCK`].
pub const FASTEST_CLOCK: f64 = 1.05;

/// The prefixes of hosts' own semaphores have numbers from here on. Each host has a range of this
/// size.
const OWN_PLACES: usize = 10_000;

/// Within a host's range, its own elections start here.
const OWN_ELECTIONS: usize = OWN_PLACES / 2;

/// Whether this number belongs to a host's own semaphore or election.
pub(crate) fn is_own(prefix: usize) -> bool {
    prefix >= OWN_PLACES
}

/// Whether it belongs to a host's own election.
pub(crate) fn is_own_election(prefix: usize) -> bool {
    is_own(prefix) && prefix % OWN_PLACES >= OWN_ELECTIONS
}

/// The last parts of the prefixes for which hosts contend.
const PREFIXES: [&str; 5] = ["db", "queue", "jobs", "mail", "feed"];

/// The TTL of strangers' sessions.
pub(crate) const STRANGERS_TTL: Duration = Duration::from_secs(30);

/// The lock delay of strangers' sessions, which is Consul's default.
pub(crate) const STRANGERS_LOCK_DELAY: Duration = SessionOptions::DEFAULT_LOCK_DELAY;

/// The TTL of a guest whose TTL is too short for the servers: the shortest that Consul accepts by
/// default.
pub(crate) const GUEST_TTL: Duration = Duration::from_secs(10);

/// Everything that will happen in a world, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The seed of the world and the participants: latencies, jitter, ids.
    pub seed: u64,
    /// The number of slots at each prefix.
    pub limit: u32,
    /// The longest TTL of our sessions.
    pub ttl: Duration,
    /// The kind of each prefix.
    pub prefixes: Vec<Place>,
    /// The longest that a message travels.
    pub latency: Duration,
    /// How long a session lives after its last renewal on the true clock, in TTLs.
    pub lifetime: f64,
    /// How long a lock delay lasts on the true clock, relative to its nominal length.
    pub lock_delay_length: f64,
    /// Whether tokens are checked. If so, whether a read says that it left something out.
    pub access_control: Option<Told>,
    /// If tokens are checked, what a guest may not do who comes in the end.
    pub guest: Option<ReadOnly>,
    /// If set, the servers accept no shorter TTL in the end, when a guest with a shorter one comes.
    pub least_ttl: Option<Duration>,
    /// How agents hold requests while there is no leader. `None` if they refuse them.
    pub holding: Option<Holding>,
    /// The release and edition of Consul. In an Enterprise world, our hosts name the namespace that
    /// strangers use by default.
    pub profile: Profile,
    /// How long things go wrong. Then it is quiet.
    pub storm: Duration,
    /// The hosts of our users.
    pub hosts: Vec<HostPlan>,
    /// The other contenders.
    pub strangers: Vec<StrangerPlan>,
    /// How strangers write the record. If that is not Go's dialect, they were here before us and
    /// left an empty record.
    pub dialect: Dialect,
    /// Whether others keep so many keys below each semaphore's prefix that lists are expensive.
    pub is_beside_others: bool,
    /// The deeds, in the order of time.
    pub deeds: Vec<(Duration, Deed)>,
}

/// How agents hold requests while there is no leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The shortest and longest time that they wait for a leader.
    pub wait: (Duration, Duration),
    /// The longest time after the election until the last request is applied.
    pub late: Duration,
}

/// The kind of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A semaphore.
    Semaphore,
    /// An election, with the key of `consul lock -n 1`: `<prefix>/.lock`.
    Election {
        /// How long nobody may lead after a leader's session was invalidated. By default, this is
        /// longer than belief.
        lock_delay: Option<Duration>,
    },
}

/// Whether a read says that it left keys out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It says so in a header, as from Consul 1.11 on.
    InHeader,
    /// It does not say so, as in older versions.
    NotAtAll,
}

/// A host with one process. The process has one semaphore or takes part in one election, and may
/// have separate semaphores in addition.
#[derive(Clone, Debug, PartialEq)]
pub struct HostPlan {
    /// The number of the host in deeds.
    pub number: usize,
    /// When its first process starts.
    pub starts_at: Duration,
    /// The prefix of its semaphore or election.
    pub prefix: usize,
    /// The only server that it talks to. `None` if there is only one.
    pub server: Option<usize>,
    /// Whether its sessions are on a node without an agent.
    pub own_node: bool,
    /// The TTL of its sessions.
    pub ttl: Duration,
    /// The lock delay that it sets for its sessions in a semaphore, if any.
    pub lock_delay: Option<Duration>,
    /// How fast its clock runs.
    pub clock: f64,
    /// Its limit in a rolling deploy, if it differs from the others' limit.
    pub rolling: Option<Rolling>,
    /// If its semaphores keep lost slots until they are given back, how long its users take to stop.
    pub keeps_lost: Option<Duration>,
    /// Whether it also follows the leader, in an election.
    pub follows: bool,
    /// The connections that it keeps open and shares, and what else uses them. Otherwise each
    /// exchange has its own connection.
    pub shared: Option<Shared>,
    /// Whether it uses one client for everything, so its semaphores share sessions.
    pub client: bool,
    /// How many of the client's semaphores poll separately while they only hold. `None` is the
    /// client's default.
    pub own_polls: Option<usize>,
    /// The users of each of its own semaphores, which nobody else wants. These take turns with the
    /// shared transports. With a client, they use its transport, the first one.
    pub own: Vec<UserPlan>,
    /// The users of each of its own elections, in which nobody else takes part. They use the
    /// client.
    pub own_elections: Vec<UserPlan>,
    /// The tasks in its process.
    pub users: Vec<UserPlan>,
    /// The further prefixes at which it contends with others.
    pub also: Vec<Also>,
    /// The troubles of its requests, by their number among those of their sort.
    pub troubles: BTreeMap<(Sort, u64), Trouble>,
}

/// A further prefix of a host. With a client, one session may hold there and at the first one.
#[derive(Clone, Debug, PartialEq)]
pub struct Also {
    /// The number of the prefix.
    pub prefix: usize,
    /// The tasks that acquire or campaign there.
    pub users: Vec<UserPlan>,
}

/// A limit that is written into the record when nobody holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rolling {
    /// The limit.
    pub limit: u32,
    /// Whether the record's limit is adopted while somebody holds, and not refused.
    pub adopts: bool,
}

/// Connections that a process shares.
#[derive(Clone, Debug, PartialEq)]
pub struct Shared {
    /// The number of its transports. Each opens at most 64 connections, and only notices the others
    /// by refusals. The host's contest uses the first transport.
    pub transports: usize,
    /// How many connections its agent allows the host.
    pub allowed: usize,
    /// How many tasks read something again and again by the first transport. Urgent requests go
    /// first.
    pub readers: usize,
}

/// A sort of requests, as a target of troubles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sort {
    /// Any.
    Any,
    /// A change of the record.
    Record,
    /// A request that creates, changes or deletes a contender key.
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
    /// Its turns during the storm.
    pub turns: Vec<Turn>,
}

/// One acquisition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// How long it does something else first.
    pub idle: Duration,
    /// How it asks.
    pub how: How,
    /// The number of permits.
    pub permits: u32,
    /// How long it holds them.
    pub hold: Duration,
    /// How often a leader changes its value meanwhile.
    pub changes: u32,
    /// How it releases them.
    pub end: End,
}

/// How a user asks for permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It waits.
    Acquire,
    /// It waits this long.
    Within(Duration),
    /// It takes what is free.
    Try,
    /// It waits this long, and then drops the future.
    CancelAfter(Duration),
}

/// How a user gives permits back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It waits for the release.
    Release,
    /// It drops the permit.
    Drop,
    /// It waits this long for the release, and then drops the future.
    Abandon(Duration),
}

/// The trouble of one request.
#[derive(Clone, Debug, PartialEq)]
pub enum Trouble {
    /// A fault of the network.
    Fault(Fault),
    /// This deed happens this long after the request was sent.
    Deed(Duration, Deed),
}

/// A contender that does not use this library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrangerPlan {
    /// The number of its host.
    pub number: usize,
    /// The number of its prefix.
    pub prefix: usize,
    /// When it comes.
    pub at: Duration,
    /// What it does.
    pub kind: Stranger,
    /// How it writes records, if not as the others do.
    pub dialect: Option<Dialect>,
}

/// What a stranger does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stranger {
    /// It uses the algorithm of Go's client and the guide: no queue, prune, check and set. In an
    /// election, that of `api.Lock`.
    Go {
        /// How often it acquires.
        turns: u32,
        /// How long it holds.
        hold: Duration,
    },
    /// It has a contender key and never claims. It stays this long.
    Stuck(Duration),
    /// Many who hold at once, and for as long.
    Crowd {
        /// How many they are.
        holders: u32,
        /// How long they hold. Then most leave, and the others die.
        hold: Duration,
    },
    /// It leads an election like `consul lock`, which deletes the key afterwards.
    ConsulLock {
        /// How often it leads.
        turns: u32,
        /// How long it leads.
        hold: Duration,
    },
}

impl Plan {
    /// The node without an agent.
    pub const OWN_NODE: &str = "semaphores";

    /// The prefix with this number.
    pub fn prefix(number: usize) -> String {
        if let Some(host) = (number / OWN_PLACES).checked_sub(1) {
            return format!("own/{host}/{}", number % OWN_PLACES);
        }
        format!("service/{}", PREFIXES[number % PREFIXES.len()])
    }

    /// The number of the prefix of a host's own semaphore.
    pub(crate) fn own_prefix(host: usize, semaphore: usize) -> usize {
        (host + 1) * OWN_PLACES + semaphore % OWN_ELECTIONS
    }

    /// The number of the prefix of a host's own election.
    pub(crate) fn own_election(host: usize, election: usize) -> usize {
        (host + 1) * OWN_PLACES + OWN_ELECTIONS + election % OWN_ELECTIONS
    }

    /// All of these prefixes.
    pub(crate) fn own_prefixes(&self) -> impl Iterator<Item = usize> {
        self.hosts.iter().flat_map(HostPlan::own_prefixes)
    }

    /// Whether some host shares its connections.
    pub fn shares_connections(&self) -> bool {
        self.hosts.iter().any(|it| it.shared.is_some())
    }

    /// Whether some host uses a client.
    pub fn has_client(&self) -> bool {
        self.hosts.iter().any(|it| it.client)
    }

    /// Whether some host has separate semaphores.
    pub fn has_own(&self) -> bool {
        let has_own = |it: &HostPlan| !it.own.is_empty() || !it.own_elections.is_empty();
        self.hosts.iter().any(has_own)
    }

    /// Whether nothing goes wrong, except that connections are refused.
    pub(crate) fn is_peaceful(&self) -> bool {
        let mut hosts = self.hosts.iter();
        let is_left_alone = self.deeds.is_empty() && self.strangers.is_empty();
        is_left_alone && hosts.all(|it| it.troubles.is_empty())
    }

    /// The kind of the prefix with this number.
    pub(crate) fn place(&self, prefix: usize) -> Place {
        if is_own_election(prefix) {
            return Place::Election { lock_delay: None };
        }
        let place = self.prefixes.get(prefix).copied();
        place.unwrap_or(Place::Semaphore)
    }

    /// The name of a server's node.
    pub fn node(server: usize) -> String {
        format!("server-{server}")
    }

    /// Whether the record's limit may change.
    pub(crate) fn changes_limits(&self) -> bool {
        let is_rolling = self.hosts.iter().any(|it| it.rolling.is_some());
        is_rolling || self.has(|deed| matches!(deed, Deed::Resize { .. } | Deed::SetLimit { .. }))
    }

    /// Whether there is an election.
    pub fn has_election(&self) -> bool {
        self.prefixes.iter().any(Place::is_election)
    }

    /// Whether hosts can always ask Consul about dead holders. A restricted token may not.
    pub(crate) fn asks(&self) -> bool {
        self.access_control.is_none()
    }

    /// Whether one of the deeds, wherever it is, matches.
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

    /// The prefixes at which it contends with others, the first one first.
    pub(crate) fn places(&self) -> impl Iterator<Item = usize> {
        let further = self.also.iter().map(|it| it.prefix);
        [self.prefix].into_iter().chain(further)
    }

    /// Whether somebody on it acquires or campaigns at this prefix.
    pub(crate) fn uses(&self, prefix: usize) -> bool {
        let further = self.also.iter().map(|it| (it.prefix, &it.users));
        let mut parts = further.chain([(self.prefix, &self.users)]);
        parts.any(|(it, users)| it == prefix && !users.is_empty())
    }

    /// The number of its users at prefixes that others want.
    pub(crate) fn contending_users(&self) -> usize {
        let further = self.also.iter().map(|it| it.users.len());
        self.users.len() + further.sum::<usize>()
    }

    /// The number of all its users.
    pub(crate) fn all_users(&self) -> usize {
        self.contending_users() + self.own.len() + self.own_elections.len()
    }
}

impl Place {
    /// Whether it is an election.
    pub fn is_election(&self) -> bool {
        matches!(self, Self::Election { .. })
    }
}
