//! What an operator, or a failure, does to a cluster.

use semaphore_core::adapter::Instant;

use super::Consul;
use super::acl::Policy;
use super::limits::{Limiter, RequestLimits};
use super::profile::Profile;
use super::state::State;

/// A snapshot of the whole state, to go back to with [`Consul::restore`].
#[derive(Clone)]
pub struct Snapshot(pub(super) State);

impl Consul {
    /// Ends a session as an operator would: its keys are released or deleted as its behavior
    /// says, lock delays begin, and blocking queries wake. An unknown id changes nothing.
    pub fn destroy_session(&mut self, now: Instant, id: &str) {
        self.handle_timeout(now);
        match self.state.find_session(id) {
            Some((tenancy, key)) => self.state.end_session(now, &tenancy, &key),
            // It is a write, whatever it finds.
            None => {
                self.state.next_index();
            }
        }
        self.wake();
    }

    /// How long a session lives after its last renewal, in multiples of its TTL: 2, as on an
    /// agent, unless this says otherwise. Consul only promises that it is not below 1. It counts
    /// for the sessions that are made or renewed from now on.
    ///
    /// # Panics
    /// When it is negative or no number.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn set_session_lifetime(&mut self, ttls: f64) {
        assert!(ttls >= 0.0, "a session can't live for {ttls} TTLs");
        self.state.in_each(|tables| tables.sessions.lifetime = ttls);
    }

    /// How long a lock delay lasts, in multiples of what its session says: 1, unless this says otherwise. A
    /// server whose clock runs fast ends it early. It counts for the sessions that end from now on.
    ///
    /// # Panics
    /// When it is negative or no number.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn set_lock_delay_length(&mut self, multiple: f64) {
        assert!(
            multiple >= 0.0,
            "a lock delay can't last {multiple} times its length"
        );
        self.state
            .in_each(|tables| tables.sessions.lock_delay_length = multiple);
    }

    /// Marks a node's health check as critical, adding both when they are new. The sessions that
    /// are tied to it end. A node that was [registered](Self::register_node) has the check
    /// `serfHealth`.
    pub fn fail_check(&mut self, now: Instant, node: &str, check: &str) {
        self.handle_timeout(now);
        self.state.fail_check(now, node, check);
        self.wake();
    }

    /// Marks a node's health check as passing, adding both when they are new.
    pub fn pass_check(&mut self, now: Instant, node: &str, check: &str) {
        self.handle_timeout(now);
        self.state.pass_check(node, check);
    }

    /// Removes a node's health check. The sessions that are tied to it end.
    pub fn remove_check(&mut self, now: Instant, node: &str, check: &str) {
        self.handle_timeout(now);
        self.state.remove_check(now, node, check);
        self.wake();
    }

    /// Adds a node, on which sessions can then be created, or brings one back that was removed.
    pub fn register_node(&mut self, now: Instant, node: &str) {
        self.handle_timeout(now);
        self.state.register_node(node);
    }

    /// Removes a node, as an operator does, and autopilot some ten seconds after a server died or was cut
    /// off. All its sessions end, whatever their TTL and the checks they are tied to; lock delays begin.
    /// Sessions are refused on it until it is [registered](Self::register_node) again.
    pub fn deregister_node(&mut self, now: Instant, node: &str) {
        self.handle_timeout(now);
        self.state.deregister_node(now, node);
        self.wake();
    }

    /// Takes the leader away. Until [`elect_leader`](Self::elect_leader) every request is answered
    /// 500 `No cluster leader`, except reads with `?stale`; no session expires; blocking queries go
    /// on waiting. (A real agent holds such a request for up to seven seconds in the hope of a
    /// leader, then answers the same.)
    pub fn lose_leader(&mut self, now: Instant) {
        self.handle_timeout(now);
        if self.leaderless_since.is_none() {
            self.leaderless_since = Some(now);
            self.stop_timers();
        }
    }

    /// Elects a leader, also in place of one that is there. A new leader has not seen any renewal:
    /// every session lives for twice its TTL from `now` on, as if it were renewed. It has applied
    /// its log at once.
    pub fn elect_leader(&mut self, now: Instant) {
        self.handle_timeout(now);
        self.leaderless_since = None;
        self.state.next_index();
        self.restart_timers(now);
    }

    /// From now on requests are limited, or no more.
    ///
    /// # Panics
    /// When there are limits, and the [profile](super::Profile) is of a release that has none: one before 1.15.
    pub fn set_request_limits(&mut self, now: Instant, limits: Option<RequestLimits>) {
        let release = self.profile.rules();
        assert!(
            limits.is_none() || release.has_request_limits,
            "Consul {} has no limits of requests",
            release.version
        );
        self.limiter = limits.map_or_else(Limiter::default, |it| Limiter::new(now, it));
    }

    /// The release and the edition.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn profile(&self) -> Profile {
        self.profile
    }

    /// As many writes elsewhere in the cluster as to move the index on by so much.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn advance_index(&mut self, by: u64) {
        self.state.advance_index(by);
    }

    /// Counts all indexes again from a small number, as when the data is moved to a new cluster:
    /// `X-Consul-Index`, `CreateIndex` and `ModifyIndex` go backwards, and keep their order.
    /// Blocking queries go on waiting for the index they were given.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn reset_index(&mut self, now: Instant) {
        self.handle_timeout(now);
        self.state.reset_index();
    }

    /// The whole state as it is now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.state.clone())
    }

    /// Goes back to an earlier state: entries and sessions have their old indexes again, so that
    /// `X-Consul-Index` and `ModifyIndex` go backwards, while new writes go on from the present
    /// index. All timers start again, lock delays are forgotten (they are no part of a snapshot), and all blocking queries are answered with what they read
    /// last, before the restoration.
    pub fn restore(&mut self, now: Instant, snapshot: &Snapshot) {
        self.handle_timeout(now);
        self.state.restore(snapshot.0.clone());
        self.restart_timers(now);
        self.state.in_each(|it| it.sessions.end_lock_delays());
        for (exchange, parked) in self.parked.take_all() {
            self.ready.push_back((exchange, parked.last));
        }
    }

    /// Turns access control on: what no token's policy allows is denied, also to requests without
    /// a token. A write is then answered 403 `Permission denied`; what a read may not see is left
    /// out in silence. An unknown token is answered 403 `ACL not found`.
    pub fn set_acl_default_deny(&mut self) {
        self.acl.default_deny = true;
    }

    /// Whether a read by a token that is known says that something was left out, in the header
    /// `X-Consul-Results-Filtered-By-ACLs`: newer agents do (1.11 and up), 1.8 does not. At first it is as the
    /// [profile](super::Profile) has it.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn set_acl_reports_filtering(&mut self, reports: bool) {
        self.acl.reports_filtering = reports;
    }

    /// Makes a token known, or changes what it may do. Blocking queries that already wait keep the
    /// permissions they came with.
    pub fn add_token(&mut self, token: &str, policy: Policy) {
        self.acl.add(token, policy);
    }

    /// Forgets a token.
    pub fn remove_token(&mut self, token: &str) {
        self.acl.remove(token);
    }
}
