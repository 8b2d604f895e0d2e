//! How long things may take in a planned world: requests, leases, sessions and lock delays.

use std::time::Duration;

use semaphore_core::sans_io::SessionOptions;

use super::{
    Deed, FASTEST_CLOCK, Fate, HostPlan, Place, Plan, SLOWEST_CLOCK, STRANGERS_LOCK_DELAY,
    STRANGERS_TTL, is_own,
};

/// If an agent allows no more connections, requests that wait may take all of them.
const FEW_CONNECTIONS: usize = 8;

/// How long no connection is opened after many refusals, with its jitter.
pub(crate) const SHUT: Duration = Duration::from_secs(40);

/// The most requests that a turn sends one after the other.
pub(crate) const TURN_REQUESTS: u32 = 12;

/// The longest time between two looks of a poll without a connection.
const LOOK: Duration = Duration::from_secs(5);

/// The longest time for which a poll is held open: its `wait`, and a sixteenth of it (Consul's
/// documentation of blocking queries).
const LONGEST_POLL: Duration = Duration::from_secs(16);

/// The longest lock delay. Belief is at most as long as the lock delay.
const MAX_LOCK_DELAY: Duration = SessionOptions::MAX_LOCK_DELAY;

/// What the limits of the checks depend on for one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostBounds {
    /// The limit that it was started with.
    pub limit: u32,
    /// The longest time without a look, if its polls may have no connection.
    pub unseen: Duration,
    /// How much longer everything may take because its requests wait for connections.
    pub held_up: Duration,
    /// The length of its leases, if its requests have the connections that they need.
    pub lease: Option<Duration>,
}

impl Plan {
    /// What the limits of the checks depend on for this host.
    pub(crate) fn bounds_of(&self, host: &HostPlan) -> HostBounds {
        let shares = host.shared.is_some();
        let unseen = || LOOK.div_f64(SLOWEST_CLOCK) + self.queueing(host.number) * 2;
        let held_up = || SHUT + self.queueing(host.number) * TURN_REQUESTS;
        HostBounds {
            limit: host.rolling.map_or(self.limit, |it| it.limit),
            unseen: shares.then(unseen).unwrap_or_default(),
            held_up: shares.then(held_up).unwrap_or_default(),
            lease: (!shares).then(|| host.ttl.min(MAX_LOCK_DELAY)),
        }
    }

    /// How long the requests of all semaphores of a host may take if all are due at once.
    pub(crate) fn queueing(&self, host: usize) -> Duration {
        let mut hosts = self.hosts.iter().filter(|it| it.number == host);
        let Some((host, shared)) = hosts.find_map(|it| Some((it, it.shared.as_ref()?))) else {
            return Duration::ZERO;
        };
        // Polls have half of the connections.
        let lanes = (shared.allowed / 2).clamp(1, 30);
        let rounds = host.all_users().div_ceil(lanes);
        self.latency * 2 * u32::try_from(rounds).unwrap_or(u32::MAX)
    }

    /// How long requests that were lost in trouble are in the way of others after it, on any
    /// clock. Where an agent allows few connections, all of them may be taken. After a timeout, the
    /// next answer is waited for twice as long.
    pub(crate) fn longest_request(&self, host: usize) -> Duration {
        let usual = self.shortest_request();
        let mut shared = self.hosts.iter().filter(|it| it.number == host);
        let allows_few = shared.any(|it| {
            it.shared
                .as_ref()
                .is_some_and(|it| it.allowed <= FEW_CONNECTIONS)
        });
        if allows_few { usual * 2 } else { usual }
    }

    /// The same where there are enough connections.
    pub(crate) fn shortest_request(&self) -> Duration {
        self.request_timeout().mul_f64(FASTEST_CLOCK + 0.01)
    }

    /// How long it may take on the slowest host until a poll without a connection shows a change:
    /// until its next look on a slow clock, and after the requests before it.
    pub(crate) fn unseen(&self) -> Duration {
        let unseen = self.hosts.iter().map(|host| self.bounds_of(host).unseen);
        unseen.max().unwrap_or_default()
    }

    /// The longest lease that a former leader can give, if there is such a leader.
    ///
    /// A session may have been renewed last a whole TTL before that leader is lost: in a silence a
    /// proof keeps the belief. So the session may end by its TTL at once, long before the lost
    /// server leaves the catalog.
    pub(crate) fn lease_of_yesterday(&self) -> Option<Duration> {
        let is_renewed_from_memory = |server: Option<usize>| {
            self.has(|deed| match deed {
                Deed::LoseServer {
                    server: lost,
                    fate: Fate::Remembers,
                    ..
                } => server == Some(*lost),
                _ => false,
            })
        };
        let hosts = self.hosts.iter();
        let ttls = hosts.filter(|it| is_renewed_from_memory(it.server));
        let longest = ttls.map(|it| it.ttl).max()?;
        Some(longest.min(MAX_LOCK_DELAY).div_f64(SLOWEST_CLOCK))
    }

    /// The longest wait of a participant between two attempts of a request.
    pub(crate) fn retry_cap(&self) -> Duration {
        (self.ttl / 10).min(Duration::from_secs(5))
    }

    /// The longest time of one of our short requests.
    pub(crate) fn request_timeout(&self) -> Duration {
        (self.ttl / 5).min(Duration::from_secs(10))
    }

    /// Whether an answer may come after its request was given up, so a session that it created is
    /// unknown.
    pub(crate) fn is_slow(&self) -> bool {
        self.latency * 2 > self.request_timeout() / 2
    }

    /// How long a session can outlive its owner on the true clock. Strangers end theirs when they
    /// leave, and only a snapshot can bring those back.
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

    /// The lock delay of the sessions of one of our hosts at a prefix where it contends with others.
    fn lock_delay_of(&self, host: &HostPlan, prefix: usize) -> Duration {
        let long_enough = host.ttl.min(MAX_LOCK_DELAY);
        match self.place(prefix) {
            Place::Semaphore => host.lock_delay.unwrap_or(long_enough),
            Place::Election { lock_delay } => {
                lock_delay.unwrap_or_else(|| long_enough.max(STRANGERS_LOCK_DELAY))
            }
        }
    }

    /// How long Consul guards what a session of this host held at this prefix.
    pub(crate) fn guards_for(&self, host: &HostPlan, prefix: usize) -> Duration {
        let delay = self.lock_delay_of(host, prefix);
        delay.mul_f64(self.lock_delay_length)
    }

    /// The lock delay of the sessions of its own elections, if it has any. It is the same as in the
    /// shared election.
    fn lock_delay_of_own_elections(&self, host: &HostPlan) -> Option<Duration> {
        let of_election = match self.place(host.prefix) {
            Place::Election { .. } => self.lock_delay_of(host, host.prefix),
            Place::Semaphore => host.ttl.min(MAX_LOCK_DELAY).max(STRANGERS_LOCK_DELAY),
        };
        (!host.own_elections.is_empty()).then_some(of_election)
    }

    /// Whether the lock delay of this host's sessions at this prefix is at least as long as belief.
    pub(crate) fn is_guarded(&self, host: usize, prefix: usize) -> bool {
        let mut hosts = self.hosts.iter().filter(|it| it.number == host);
        hosts.all(|it| {
            let prefix = if is_own(prefix) { it.prefix } else { prefix };
            self.lock_delay_of(it, prefix) >= it.ttl.min(MAX_LOCK_DELAY)
        })
    }

    /// The shortest time after the end of a leader's session in which nobody can be elected.
    pub(crate) fn shortest_lock_delay(&self) -> Duration {
        let delays = self
            .candidacies()
            .map(|(host, prefix)| self.lock_delay_of(host, prefix));
        let hosts = self.hosts.iter();
        let own = hosts.filter_map(|host| self.lock_delay_of_own_elections(host));
        let shortest = delays.chain(own).min().unwrap_or_default();
        shortest.mul_f64(self.lock_delay_length)
    }

    /// The hosts that take part in elections, with each election.
    fn candidacies(&self) -> impl Iterator<Item = (&HostPlan, usize)> {
        let hosts = self.hosts.iter();
        let parts = hosts.flat_map(|host| host.places().map(move |prefix| (host, prefix)));
        parts.filter(|(_, prefix)| self.place(*prefix).is_election())
    }

    /// The longest time after the end of a session in which nobody can be elected, over all
    /// elections.
    pub(crate) fn longest_lock_delay(&self) -> Duration {
        let delays = self
            .candidacies()
            .map(|(host, prefix)| self.lock_delay_of(host, prefix));
        let strangers =
            (self.has_election() && !self.strangers.is_empty()).then_some(STRANGERS_LOCK_DELAY);
        let hosts = self.hosts.iter();
        let own = hosts.filter_map(|host| self.lock_delay_of_own_elections(host));
        let longest = delays.chain(strangers).chain(own).max();
        longest.unwrap_or_default().mul_f64(self.lock_delay_length)
    }

    /// The longest time after the end of a dead holder's or leader's session in which its place
    /// stays empty, over all prefixes and clocks.
    pub(crate) fn longest_vacancy(&self) -> Duration {
        let delays = self.hosts.iter().flat_map(|host| {
            // A contender that can't ask about the lock delay waits for the longest one.
            let in_semaphore = |delay: Duration| {
                if self.asks() {
                    delay
                } else {
                    delay.max(MAX_LOCK_DELAY)
                }
            };
            let of_places = host.places().map(move |prefix| {
                let delay = self.lock_delay_of(host, prefix);
                if self.place(prefix).is_election() {
                    delay
                } else {
                    in_semaphore(delay)
                }
            });
            let own = host.lock_delay.filter(|_| host.client);
            let own = own.unwrap_or(host.ttl.min(MAX_LOCK_DELAY));
            let of_own = (!host.own.is_empty()).then(|| in_semaphore(own));
            let of_elections = self.lock_delay_of_own_elections(host);
            of_own.into_iter().chain(of_elections).chain(of_places)
        });
        let strangers = (!self.strangers.is_empty()).then_some(STRANGERS_LOCK_DELAY);
        let longest = delays.chain(strangers).max().unwrap_or_default();
        longest.div_f64(SLOWEST_CLOCK)
    }

    /// How long a polling contender may be out of touch when everything works again. A lost poll is
    /// waited for as long as it may be held open, plus the time for an answer. That is doubled if
    /// the last answer was slow.
    pub(crate) fn lost_poll(&self) -> Duration {
        (LONGEST_POLL + self.request_timeout() * 2).div_f64(SLOWEST_CLOCK)
    }
}
