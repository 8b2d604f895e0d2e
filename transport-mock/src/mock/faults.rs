//! What goes wrong in a world: an exchange, a host, a server, the cluster, and what an operator
//! does.

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
    /// Adds a rule after the present ones.
    #[track_caller]
    pub fn inject(&self, rule: Rule) {
        let at = Location::caller();
        self.world().with(|network| network.rules.add(rule, at));
    }

    /// How many rules have struck less often than they must, including rules that were cleared
    /// before. Optional rules don't count. It is zero when every fault that the test aimed has
    /// struck.
    pub fn pending_rules(&self) -> usize {
        self.world().with(|network| network.rules.pending())
    }

    /// Allows this world to be dropped before its rules have struck as often as they must. This is
    /// for tests that don't know how much will happen.
    pub fn allow_unmet_rules(&self) {
        self.world().with(|network| network.rules.allow_unmet());
    }

    /// From now on things go wrong at random at these rates.
    pub fn set_faults(&self, faults: Faults) {
        self.world().with(|network| network.faults = faults);
    }

    /// Removes all rules and rates, heals all partitions, lets all agents and the leader catch up,
    /// and elects a leader if the network took it away. A latency from [`order`](Self::order) ends;
    /// one that was [set](Self::set_latency) stays. [`MockConsul::pending_rules`] still counts a
    /// rule that should have struck more often.
    pub fn clear_faults(&self) {
        self.world().with(Network::repair);
    }

    /// Sets how long a message travels until [`MockConsul::clear_faults`].
    #[cfg(feature = "loopback")]
    pub(crate) fn slow_down(&self, range: RangeInclusive<Duration>) {
        self.world().with(|network| {
            let before = std::mem::replace(&mut network.latency, range);
            network.usual_latency.get_or_insert(before);
        });
    }

    /// Cuts a host off: from now on everything in both directions is lost. The host only sees
    /// timeouts.
    pub fn partition(&self, host: impl AsRef<str>) {
        self.cut(host.as_ref(), Cut::Silent);
    }

    /// Cuts a host off like [`MockConsul::partition`], but loses nothing. When the cut is healed
    /// everything arrives, as with TCP, even from clients that gave up long ago.
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

    /// From now on this host uses the agent on this node, and its sessions belong to that node. The
    /// node is registered if it is not in the catalog. By default all hosts use one agent, on
    /// [`consul::NODE`](crate::consul::NODE).
    pub fn set_agent(&self, host: impl AsRef<str>, node: impl AsRef<str>) {
        self.world().with(|network| {
            let host = network.host(host.as_ref());
            network.set_agent(host, node.as_ref());
        });
    }

    /// Removes a node from the catalog. All its sessions end at once, whatever their TTL, and their
    /// lock delays begin. This happens some ten seconds after a server died or was cut off. If its
    /// hosts are cut off, too, they don't know it:
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
    /// Its hosts can still use it, but can't create sessions: that is answered 500
    /// `Missing node registration` until [`MockConsul::register_node`]. A returning agent registers
    /// its node.
    pub fn deregister_node(&self, node: impl AsRef<str>) {
        self.world()
            .with(|network| network.deregister_node(node.as_ref()));
    }

    /// Adds a node to the catalog, unless it is there.
    pub fn register_node(&self, node: impl AsRef<str>) {
        self.world()
            .with(|network| network.register_node(node.as_ref()));
    }

    /// From now on the agent of this host lags behind, until [`MockConsul::catch_up`]. Reads of
    /// this host without `?consistent` show the present state, and blocking queries wait. Writes
    /// and consistent reads go to the leader.
    pub fn lag(&self, host: impl AsRef<str>) {
        self.world().with(|network| {
            let host = network.host(host.as_ref());
            network.lag(host);
        });
    }

    /// Ends [`MockConsul::lag`]: the agent has the leader's state.
    pub fn catch_up(&self, host: impl AsRef<str>) {
        self.world().with(|network| {
            let host = network.host(host.as_ref());
            network.catch_up(host);
        });
    }

    /// From now on the agent of this host is on the smaller side of servers that are parted, with the
    /// former leader, until [`MockConsul::catch_up`]. At first that leader answers renewals and reads in
    /// default mode by its state of now. After [`MockConsul::step_down`] there is no leader on this
    /// side. The other side has one, or elects one, which is told separately.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn sever(&self, host: impl AsRef<str>) {
        self.world().with(|network| {
            let host = network.host(host.as_ref());
            network.sever(host);
        });
    }

    /// The former leader of [`MockConsul::sever`] has noticed that it leads no more.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn step_down(&self, host: impl AsRef<str>) {
        self.world().with(|network| {
            let host = network.host(host.as_ref());
            network.step_down(host);
        });
    }

    /// Breaks every connection of every host, with everything under way, as when another cluster
    /// replaces this one.
    pub fn break_connections(&self) {
        self.world().with(Network::break_connections);
    }

    /// From now on agents hold requests while there is no leader, each for a time in this range,
    /// before they answer 500 `No cluster leader`. When a leader is elected, held requests are
    /// applied, each at a different time up to `late` after the election. So a write that its
    /// client has given up may be applied, even after a read that was sent later. An agent of 1.8.7
    /// holds requests for 7 s, and one of 1.23 for 9 to 18 s. They were seen to apply them up to
    /// 0.3 s and 4.7 s after such a read.
    ///
    /// A held request's connection counts, even if its client has given it up. Reads with `?stale`
    /// are answered. Without this call every request is refused at once.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn hold_without_leader(&self, wait: RangeInclusive<Duration>, late: Duration) {
        self.world()
            .with(|network| network.hold_without_leader(wait, late));
    }

    /// From now on agents hold requests while there is no leader, as those of this world's
    /// [profile](crate::consul::Profile) do, before they answer 500 `No cluster leader`: for 7 s in
    /// 1.8, and for 9 to 18 s in newer ones. When a leader is elected, held requests are applied,
    /// including writes that their client has given up.
    pub fn hold_without_leader_as_agents_do(&self) {
        let (wait, late) = self.consul(|consul, _| consul.profile().without_leader());
        self.hold_without_leader(wait, late);
    }

    /// Limits how many requests servers serve, until the next call. Agents have such limits from
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
    /// If there are limits and this world's [profile](crate::consul::Profile) is a release before
    /// 1.15.
    pub fn set_request_limits(&self, limits: Option<RequestLimits>) {
        self.consul(|consul, now| consul.set_request_limits(now, limits));
    }

    /// How many requests [were held](Self::hold_without_leader) without a leader, and how many of
    /// those were writes that were applied after their client had given them up.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn held_without_leader(&self) -> (u64, u64) {
        self.world().with(|network| network.held())
    }

    /// The cluster loses its leader. Every request is answered 500 `No cluster leader`, at once
    /// unless agents [hold](Self::hold_without_leader_as_agents_do) it.
    pub fn lose_leader(&self) {
        self.world().with(Network::lose_leader);
    }

    /// The cluster elects a leader, which restarts the TTL of every session.
    pub fn elect_leader(&self) {
        self.world().with(Network::elect_leader);
    }

    /// The cluster elects a leader that has applied its log only up to this snapshot, until
    /// [`MockConsul::catch_up_leader`]: a server that lagged, or was restarted. Meanwhile
    /// - a session that is not in the snapshot is unknown: its renewal is answered 404;
    /// - reads without `?consistent` show the snapshot, and blocking queries wait;
    /// - writes, consistent reads and all transactions wait in the log. They are answered when they
    ///   are applied, in their order, or refused if the leader is lost before. (A real leader lets
    ///   a consistent read wait for at most seven seconds. It checks a write's lock delays and
    ///   permissions by what it has applied.)
    ///
    /// Meanwhile no session expires. All TTLs restart when the leader has caught up.
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

    /// Acts on Consul as an operator would, or inspects it. Clients notice changes in the usual
    /// way.
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
