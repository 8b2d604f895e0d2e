//! What an operator, or a failure, does to a cluster.

use std::time::Duration;

use semaphore_core::adapter::Instant;

use super::Consul;
use super::acl::Policy;
use super::limits::{Limiter, RequestLimits};
use super::profile::Profile;
use super::state::State;

/// A snapshot of the whole state, for [`Consul::restore`].
#[derive(Clone)]
pub struct Snapshot(pub(super) State);

impl Consul {
    /// Ends a session as an operator would. Its keys are released or deleted according to its
    /// behavior, lock delays begin, and blocking queries wake. An unknown id changes nothing.
    pub fn destroy_session(&mut self, now: Instant, id: &str) {
        self.handle_timeout(now);
        match self.state.find_session(id) {
            Some((tenancy, key)) => self.state.end_session(now, &tenancy, &key),
            // It counts as a write, even if there is no such session.
            None => {
                self.state.next_index();
            }
        }
        self.wake();
    }

    /// Sets how long a session lives after its last renewal, in multiples of its TTL. The default
    /// is 2, as on an agent; Consul only promises at least 1. It applies to sessions that are
    /// created or renewed from now on.
    ///
    /// # Panics
    /// If it is negative or not a number.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn set_session_lifetime(&mut self, ttls: f64) {
        assert!(ttls >= 0.0, "a session can't live for {ttls} TTLs");
        self.state.in_each(|tables| tables.sessions.lifetime = ttls);
    }

    /// Sets how long a lock delay lasts, in multiples of the session's setting. The default is 1. A
    /// server with a fast clock ends it early. It applies to sessions that end from now on.
    ///
    /// # Panics
    /// If it is negative or not a number.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn set_lock_delay_length(&mut self, multiple: f64) {
        assert!(
            multiple >= 0.0,
            "a lock delay can't last {multiple} times its length"
        );
        self.state
            .in_each(|tables| tables.sessions.lock_delay_length = multiple);
    }

    /// Marks a node's health check as critical. Adds the node and the check if they are missing.
    /// The sessions that depend on the check end. A [registered](Self::register_node) node has the
    /// check `serfHealth`.
    pub fn fail_check(&mut self, now: Instant, node: &str, check: &str) {
        self.handle_timeout(now);
        self.state.fail_check(now, node, check);
        self.wake();
    }

    /// Marks a node's health check as passing. Adds the node and the check if they are missing.
    pub fn pass_check(&mut self, now: Instant, node: &str, check: &str) {
        self.handle_timeout(now);
        self.state.pass_check(node, check);
    }

    /// Removes a node's health check. The sessions that depend on it end.
    pub fn remove_check(&mut self, now: Instant, node: &str, check: &str) {
        self.handle_timeout(now);
        self.state.remove_check(now, node, check);
        self.wake();
    }

    /// Adds a node, or a removed one again. Sessions can then be created on it.
    pub fn register_node(&mut self, now: Instant, node: &str) {
        self.handle_timeout(now);
        self.state.register_node(node);
    }

    /// Removes a node, as an operator does. Autopilot does it some ten seconds after a server died
    /// or was cut off. All sessions on the node end, whatever their TTL and checks, and lock delays
    /// begin. Nothing can create a session on it until it is [registered](Self::register_node)
    /// again.
    pub fn deregister_node(&mut self, now: Instant, node: &str) {
        self.handle_timeout(now);
        self.state.deregister_node(now, node);
        self.wake();
    }

    /// Takes the leader away. Until [`elect_leader`](Self::elect_leader) every request is answered
    /// 500 `No cluster leader`, except reads with `?stale`. No session expires, and blocking
    /// queries keep waiting. (A real agent waits up to seven seconds for a leader before it gives
    /// this answer.)
    pub fn lose_leader(&mut self, now: Instant) {
        self.handle_timeout(now);
        if self.leaderless_since.is_none() {
            self.leaderless_since = Some(now);
            self.stop_timers();
        }
    }

    /// Elects a leader, also if there is one. The new leader has applied its log, but has seen no
    /// renewal: every session lives for twice its TTL from `now` on, as if it were just renewed.
    pub fn elect_leader(&mut self, now: Instant) {
        self.handle_timeout(now);
        self.leaderless_since = None;
        self.state.next_index();
        self.restart_timers(now);
    }

    /// Limits requests from now on, or with `None` no longer.
    ///
    /// # Panics
    /// If `limits` is set and the [profile](super::Profile)'s release is before 1.15, which has
    /// none.
    pub fn set_request_limits(&mut self, now: Instant, limits: Option<RequestLimits>) {
        let release = self.profile.rules();
        assert!(
            limits.is_none() || release.has_request_limits,
            "Consul {} has no limits of requests",
            release.version
        );
        self.limiter = limits.map_or_else(Limiter::default, |it| Limiter::new(now, it));
    }

    /// The same for a server that does not lead: the one on this node. It refuses changes with 429,
    /// too, since its clients may ask another server. What it passes on counts for the leader's limits
    /// besides.
    ///
    /// # Panics
    /// As [`set_request_limits`](Self::set_request_limits).
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn set_request_limits_of(
        &mut self,
        now: Instant,
        node: &str,
        limits: Option<RequestLimits>,
    ) {
        let release = self.profile.rules();
        assert!(
            limits.is_none() || release.has_request_limits,
            "Consul {} has no limits of requests",
            release.version
        );
        self.limiters.remove(node);
        if let Some(limits) = limits {
            let limiter = Limiter::new(now, limits);
            self.limiters.insert(node.to_owned(), limiter);
        }
    }

    /// From now on servers refuse to create sessions with a shorter TTL, as `session_ttl_min` sets it.
    /// The default is 10 s. Sessions that exist are renewed as before.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn set_least_ttl(&mut self, ttl: Duration) {
        self.least_ttl = i64::try_from(ttl.as_nanos()).unwrap_or(i64::MAX);
    }

    /// The release and the edition.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn profile(&self) -> Profile {
        self.profile
    }

    /// Adds this to the index, as writes elsewhere in the cluster would.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn advance_index(&mut self, by: u64) {
        self.state.advance_index(by);
    }

    /// Restarts all indexes from a small number, as when the data is moved to a new cluster.
    /// `X-Consul-Index`, `CreateIndex` and `ModifyIndex` go backwards and keep their order.
    /// Blocking queries keep waiting for their old index.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn reset_index(&mut self, now: Instant) {
        self.handle_timeout(now);
        self.state.reset_index();
    }

    /// The whole present state.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.state.clone())
    }

    /// Restores an earlier state. Entries and sessions have their old indexes, so `X-Consul-Index`
    /// and `ModifyIndex` go backwards; new writes continue from the present index. All timers
    /// restart, and lock delays are forgotten, since a snapshot does not have them. All blocking
    /// queries are answered with what they read last, before the restoration.
    pub fn restore(&mut self, now: Instant, snapshot: &Snapshot) {
        self.handle_timeout(now);
        self.state.restore(snapshot.0.clone());
        self.restart_timers(now);
        self.state.in_each(|it| it.sessions.end_lock_delays());
        for (exchange, parked) in self.parked.take_all() {
            self.ready.push_back((exchange, parked.last));
        }
    }

    /// Turns access control on, with "deny" as the default, also for requests without a token.
    /// Denied writes are answered 403 `Permission denied`. Reads leave out what they may not see
    /// without saying so. An unknown token is answered 403 `ACL not found`.
    pub fn set_acl_default_deny(&mut self) {
        self.acl.default_deny = true;
    }

    /// Sets whether reads with a known token report left-out results in the header
    /// `X-Consul-Results-Filtered-By-ACLs`. Agents do from 1.11 on; 1.8 does not. The
    /// [profile](super::Profile) decides the initial setting.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn set_acl_reports_filtering(&mut self, reports: bool) {
        self.acl.reports_filtering = reports;
    }

    /// Adds a token, or changes its policy. Waiting blocking queries keep the permissions that they
    /// came with.
    pub fn add_token(&mut self, token: &str, policy: Policy) {
        self.acl.add(token, policy);
    }

    /// Removes a token.
    pub fn remove_token(&mut self, token: &str) {
        self.acl.remove(token);
    }
}
