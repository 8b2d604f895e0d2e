//! What goes wrong in a world: one exchange, a host, a server, the cluster, and what an operator does.

use std::ops::RangeInclusive;
use std::panic::Location;
use std::time::Duration;

use semaphore_core::adapter::Instant;

use crate::consul::{Consul, RequestLimits, Snapshot};
use crate::fault::{Faults, Rule};
use crate::mock::MockConsul;
use crate::network::{Cut, Network};

/// Faults.
impl MockConsul {
    /// Adds a rule behind those that are there.
    #[track_caller]
    pub fn inject(&self, rule: Rule) {
        let at = Location::caller();
        self.world().with(|network| network.rules.add(rule, at));
    }

    /// How many of the rules, optional ones aside, have not struck as often as they are to, or were cleared
    /// before: zero when all that a test has aimed has hit.
    pub fn pending_rules(&self) -> usize {
        self.world().with(|network| network.rules.pending())
    }

    /// Lets this world be dropped although rules have not struck as often as they are to, as a test may want
    /// that does not know how much will happen.
    pub fn allow_unmet_rules(&self) {
        self.world().with(|network| network.rules.allow_unmet());
    }

    /// From now on things go wrong on their own at these rates.
    pub fn set_faults(&self, faults: Faults) {
        self.world().with(|network| network.faults = faults);
    }

    /// Removes all rules and rates, heals all partitions, lets all agents and the leader catch up,
    /// and elects a leader if the network took it away. A latency that was ordered (`order`) ends, one that was
    /// [set](Self::set_latency) stays. A rule that should have struck more often is
    /// remembered for [`MockConsul::pending_rules`].
    pub fn clear_faults(&self) {
        self.world().with(Network::repair);
    }

    /// How long a message travels until [`MockConsul::clear_faults`].
    #[cfg(feature = "loopback")]
    pub(crate) fn slow_down(&self, range: RangeInclusive<Duration>) {
        self.world().with(|network| {
            let before = std::mem::replace(&mut network.latency, range);
            network.usual_latency.get_or_insert(before);
        });
    }

    /// Cuts a host off without a word: whatever goes either way from now on is lost, and the
    /// host only sees its timeouts.
    pub fn partition(&self, host: impl AsRef<str>) {
        self.cut(host.as_ref(), Cut::Silent);
    }

    /// Cuts a host off as [`MockConsul::partition`] does, but nothing is lost: all of it arrives
    /// when the cut is healed, even from clients that have long given up, as TCP does it.
    pub fn stall(&self, host: impl AsRef<str>) {
        self.cut(host.as_ref(), Cut::Stalled);
    }

    /// Ends [`MockConsul::partition`] or [`MockConsul::stall`].
    pub fn heal(&self, host: impl AsRef<str>) {
        self.world().with(|network| {
            let host = network.host(host.as_ref());
            network.heal(host);
        });
    }

    /// From now on this host talks to the agent on this node, which is registered if it is not in the
    /// catalog: the sessions that it makes stand there. Unless this says otherwise all hosts talk to one
    /// agent, on [`consul::NODE`](crate::consul::NODE).
    pub fn set_agent(&self, host: impl AsRef<str>, node: impl AsRef<str>) {
        self.world().with(|network| {
            let host = network.host(host.as_ref());
            network.set_agent(host, node.as_ref());
        });
    }

    /// Takes a node out of the catalog. All sessions on it end at once, whatever their TTL, and their
    /// lock delays begin. So it is done to a server some ten seconds after it died or was cut off, together with
    /// its hosts, who then don't know:
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use transport_mock::Semaphore;
    /// use transport_mock::adapter::Runtime;
    /// use transport_mock::MockConsul;
    ///
    /// # fn main() -> Result<(), transport_mock::Error> {
    /// let world = MockConsul::new(7);
    /// world.set_agent("node-1", "server-2");
    /// let semaphore = Semaphore::builder("service/db", 1).connect(world.client("node-1"))?;
    /// let permit = world.run(semaphore.acquire())?;
    ///
    /// world.partition("node-1"); // the server dies
    /// world.advance(Duration::from_secs(10));
    /// world.deregister_node("server-2"); // autopilot
    /// assert_eq!(world.consul(|consul, _| consul.sessions().count()), 0);
    /// assert!(permit.is_held(), "by its lease, and nobody else may have the slot");
    ///
    /// world.heal("node-1"); // the server comes back
    /// world.register_node("server-2");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Its hosts can go on through it, but make no session: that is answered 500 `Missing node registration`
    /// until [`MockConsul::register_node`], which an agent does that comes back.
    pub fn deregister_node(&self, node: impl AsRef<str>) {
        self.world()
            .with(|network| network.deregister_node(node.as_ref()));
    }

    /// Puts a node into the catalog, unless it is there.
    pub fn register_node(&self, node: impl AsRef<str>) {
        self.world()
            .with(|network| network.register_node(node.as_ref()));
    }

    /// From now on the agent of this host lags behind: reads of this host that don't ask for
    /// `?consistent` show the state as it is now, and blocking queries wait, until
    /// [`MockConsul::catch_up`]. Writes and consistent reads go to the leader.
    pub fn lag(&self, host: impl AsRef<str>) {
        self.world().with(|network| {
            let host = network.host(host.as_ref());
            network.lag(host);
        });
    }

    /// Ends [`MockConsul::lag`]: the agent knows what the leader knows.
    pub fn catch_up(&self, host: impl AsRef<str>) {
        self.world().with(|network| {
            let host = network.host(host.as_ref());
            network.catch_up(host);
        });
    }

    /// Every connection of every host breaks, with all that is on its way, as when a cluster is
    /// replaced by another one.
    pub fn break_connections(&self) {
        self.world().with(Network::break_connections);
    }

    /// From now on agents hold what comes while there is no leader, each request for a time of this range, before it is
    /// answered 500 `No cluster leader`. When a leader is elected, what is held is applied, each at another time
    /// of at most `late` after the election: also a write that its client has given up, and after a read that was sent
    /// later. An agent of 1.8.7 holds requests for 7 s and one of 1.23 for 9 to 18 s; they were seen to apply them
    /// up to 0.3 s and 4.7 s later than such a read.
    ///
    /// The connection of a request that is held counts, also when its client has given it up. Reads with `?stale` are
    /// answered. Without this call everything is refused at once.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn hold_without_leader(&self, wait: RangeInclusive<Duration>, late: Duration) {
        self.world()
            .with(|network| network.hold_without_leader(wait, late));
    }

    /// From now on agents hold what comes while there is no leader, as those of this world's
    /// [profile](crate::consul::Profile) do, before it is answered 500 `No cluster leader`: for 7 s in 1.8, and for 9 to 18 s in
    /// newer ones. When a leader is elected, what is held is applied, also a write that its client has given up.
    pub fn hold_without_leader_as_agents_do(&self) {
        let (wait, late) = self.consul(|consul, _| consul.profile().without_leader());
        self.hold_without_leader(wait, late);
    }

    /// From now on servers serve so many requests and no more, until this says otherwise. Agents have such limits from
    /// 1.15 on.
    ///
    /// ```
    /// use transport_mock::adapter::{Method, Request, Transport};
    /// use transport_mock::MockConsul;
    /// use transport_mock::consul::{RequestLimits, Version};
    ///
    /// let world = MockConsul::with_profile(7, Version::V1_15);
    /// let node = world.client("node-1");
    /// world.set_request_limits(Some(RequestLimits { read_rate: None, write_rate: Some(0.1) }));
    /// let write = || Request::new(Method::Put, "/v1/kv/greeting").with_body("hello");
    /// assert_eq!(world.run(node.send(write()))?.status(), 200);
    /// assert_eq!(world.run(node.send(write()))?.status(), 503);
    ///
    /// world.set_request_limits(None);
    /// assert_eq!(world.run(node.send(write()))?.status(), 200);
    /// # Ok::<(), transport_mock::adapter::TransportError>(())
    /// ```
    ///
    /// # Panics
    /// When there are limits, and this world's [profile](crate::consul::Profile) is of a release before 1.15.
    pub fn set_request_limits(&self, limits: Option<RequestLimits>) {
        self.consul(|consul, now| consul.set_request_limits(now, limits));
    }

    /// How many requests [were held](Self::hold_without_leader) without a leader, and how many writes of them were applied
    /// when their client had given them up.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn held_without_leader(&self) -> (u64, u64) {
        self.world().with(|network| network.held())
    }

    /// The cluster loses its leader: every request is answered 500 `No cluster leader`, at once unless agents
    /// [hold](Self::hold_without_leader_as_agents_do) it.
    pub fn lose_leader(&self) {
        self.world().with(Network::lose_leader);
    }

    /// The cluster elects a leader, which restarts the TTL of every session.
    pub fn elect_leader(&self) {
        self.world().with(Network::elect_leader);
    }

    /// The cluster elects a leader that has applied no more of its log than is in this snapshot,
    /// until [`MockConsul::catch_up_leader`]: a server that had lagged, or was restarted. Meanwhile
    /// - a session that is not in the snapshot is unknown: its renewal is answered 404;
    /// - reads that don't ask for `?consistent` show the snapshot, and blocking queries wait;
    /// - writes and consistent reads, and all transactions, wait. They go through the log, in their
    ///   order, and are answered when they are applied, or refused when the leader is lost before.
    ///   (A real leader lets a consistent read wait for seven seconds at most, and checks lock delays
    ///   and permissions of a write by what it has applied.)
    ///
    /// No session expires meanwhile; all TTLs start again when the leader has caught up.
    ///
    /// ```
    /// use transport_mock::adapter::{Method, Request, Transport};
    /// use transport_mock::MockConsul;
    ///
    /// let world = MockConsul::new(7);
    /// let node = world.client("node-1");
    /// let before = world.consul(|consul, _| consul.snapshot());
    /// let write = Request::new(Method::Put, "/v1/kv/greeting").with_body("hello");
    /// world.run(node.send(write))?;
    ///
    /// world.elect_leader_behind(&before);
    /// let read = || Request::new(Method::Get, "/v1/kv/greeting");
    /// assert_eq!(world.run(node.send(read()))?.status(), 404);
    /// world.catch_up_leader();
    /// assert_eq!(world.run(node.send(read()))?.status(), 200);
    /// # Ok::<(), transport_mock::adapter::TransportError>(())
    /// ```
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn elect_leader_behind(&self, applied: &Snapshot) {
        self.world()
            .with(|network| network.elect_leader_behind(applied));
    }

    /// The leader of [`MockConsul::elect_leader_behind`] has applied its log.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn catch_up_leader(&self) {
        self.world().with(Network::catch_up_leader);
    }

    /// Acts on Consul itself, as an operator would, or looks into it. Whom it concerns learns of
    /// it in the usual way.
    pub fn consul<T>(&self, act: impl FnOnce(&mut Consul, Instant) -> T) -> T {
        self.world().with(|network| {
            let result = act(&mut network.consul, network.now);
            network.collect_answers();
            result
        })
    }

    fn cut(&self, host: &str, cut: Cut) {
        self.world().with(|network| {
            let host = network.host(host);
            network.cut(host, cut);
        });
    }
}
