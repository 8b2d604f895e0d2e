//! The servers behind one name: which one a new connection tries first, and which one is left for
//! another. No clock, no I/O.
//!
//! ```text
//!               an answer                 it fails, or can't serve for UNAVAILABLE
//!  (unknown) ─────────────▶ serves ◀═══════════════════════════════════════════════▶ failed
//!      │                                              an answer                         ▲
//!      └────────────────────────────────── it fails ────────────────────────────────────┘
//! ```
//! A new connection tries servers that work first, then unknown ones, then failed ones in the order
//! of their failures. A failed server is left, even by open connections, while a better one exists.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use crate::api::is_out_of_service;
use crate::http::Response;
use crate::time::Instant;
use crate::transport::TransportErrorKind;

/// What one transport's connections have learned about the servers of its agent's name.
#[derive(Debug, Default)]
pub struct Servers {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The servers of the last resolution.
    servers: BTreeMap<IpAddr, Standing>,
    has_served: bool,
    refused: Option<Refused>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    /// Whether it has worked since its last failure.
    serves: bool,
    failed_at: Option<Instant>,
    /// Since when it answers that it can't serve.
    unavailable_since: Option<Instant>,
}

/// Since when TLS is refused, and when it was refused last.
#[derive(Clone, Copy, Debug)]
struct Refused {
    since: Instant,
    last: Instant,
}

impl Servers {
    /// Nothing is known yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sorts the resolved addresses into the order in which to try them. Equally good ones keep
    /// their order.
    pub fn order(&self, found: &mut [SocketAddr]) {
        let mut known = self.known();
        let is_found = |address: &IpAddr| found.iter().any(|it| it.ip() == *address);
        known.servers.retain(|address, _| is_found(address));
        for address in found.iter() {
            known.servers.entry(address.ip()).or_default();
        }
        found.sort_by_key(|it| known.servers.get(&it.ip()).map(Standing::rank));
    }

    /// The number of servers in the last resolution. Zero if the agent's address is not a name.
    pub fn count(&self) -> usize {
        self.known().servers.len()
    }

    /// No connection could be opened to it, one broke, or an answer did not come in time.
    pub fn failed(&self, now: Instant, server: IpAddr) {
        let mut known = self.known();
        let standing = known.servers.entry(server).or_default();
        if standing.failed_at.is_none() {
            tracing::debug!(name: "server-failed", %server, "connections go elsewhere, if there is another server");
        }
        standing.fail(now);
    }

    /// The server has answered.
    pub fn answered(&self, now: Instant, server: IpAddr, response: &Response) {
        let mut known = self.known();
        if !is_out_of_service(response) {
            known.has_served = true;
            let good = Standing {
                serves: true,
                ..Standing::default()
            };
            known.servers.insert(server, good);
            return;
        }
        let standing = known.servers.entry(server).or_default();
        let since = *standing.unavailable_since.get_or_insert(now);
        if now.saturating_since(since) >= UNAVAILABLE {
            standing.fail(now);
        }
    }

    /// Whether an open connection to this server should be closed instead of used. That is so if it
    /// has failed and another one has not, or not within ten seconds.
    pub fn is_left(&self, now: Instant, server: IpAddr) -> bool {
        let known = self.known();
        let Some(Standing {
            failed_at: Some(_), ..
        }) = known.servers.get(&server)
        else {
            return false;
        };
        let is_better = |other: &Standing| {
            let failed_at = other.failed_at;
            failed_at.is_none_or(|at| now.saturating_since(at) >= AGAIN)
        };
        let mut others = known.servers.iter().filter(|(it, _)| **it != server);
        others.any(|(_, standing)| is_better(standing))
    }

    /// The kind of error when one side refuses the other's certificate or settings. At first it is
    /// a misconfiguration, reported at once. If a server worked before, certificates are being
    /// replaced on one side after the other: for a minute it counts as a connection that could not
    /// be opened.
    pub fn refused_by_tls(&self, now: Instant) -> TransportErrorKind {
        let mut known = self.known();
        if !known.has_served {
            return TransportErrorKind::Misconfigured;
        }
        let began = known
            .refused
            .filter(|it| now.saturating_since(it.last) < REPLACED);
        if began.is_none() {
            tracing::warn!(name: "tls-refused", "one side refuses the other's certificate, which fitted before: tried again for a minute");
        }
        let since = began.map_or(now, |it| it.since);
        known.refused = Some(Refused { since, last: now });
        if now.saturating_since(since) < REPLACED {
            TransportErrorKind::NotSent
        } else {
            TransportErrorKind::Misconfigured
        }
    }

    /// A panic breaks no invariant: each change is one assignment.
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Standing {
    fn fail(&mut self, now: Instant) {
        self.serves = false;
        self.failed_at = Some(now);
    }

    fn rank(&self) -> (u8, Option<Instant>) {
        match self.failed_at {
            None if self.serves => (0, None),
            None => (1, None),
            failed_at => (2, failed_at),
        }
    }
}

/// How long a server may answer that it can't serve, for example without a leader, before it counts
/// as failed. An election is over sooner, and the other servers have no leader either.
const UNAVAILABLE: Duration = Duration::from_secs(3);

/// After this time a failed server is as good as any other failed one.
const AGAIN: Duration = Duration::from_secs(10);

/// How long certificates that worked before may be refused: the longest lease.
const REPLACED: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    const A: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 2));
    const C: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 3));

    fn at(seconds: u64) -> Instant {
        Instant::from_origin(Duration::from_secs(seconds))
    }

    fn order<const N: usize>(servers: &Servers, found: [IpAddr; N]) -> [IpAddr; N] {
        let mut found = found.map(|ip| SocketAddr::new(ip, 8500));
        servers.order(&mut found);
        found.map(|it| it.ip())
    }

    fn served() -> Response {
        Response::new(200, "true")
    }

    fn no_leader() -> Response {
        Response::new(500, "No cluster leader")
    }

    #[test]
    fn those_that_serve_come_first_and_those_that_failed_last() {
        let servers = Servers::new();
        assert_eq!(order(&servers, [C, A, B]), [C, A, B], "as they were found");
        servers.failed(at(1), C);
        assert_eq!(order(&servers, [C, A, B]), [A, B, C]);
        servers.answered(at(2), B, &served());
        assert_eq!(order(&servers, [C, A, B]), [B, A, C]);
        servers.failed(at(3), A);
        servers.failed(at(4), B);
        assert_eq!(order(&servers, [B, A, C]), [C, A, B], "longest ago first");
        servers.answered(at(5), B, &served());
        assert_eq!(order(&servers, [A, B, C]), [B, C, A]);
    }

    #[test]
    fn an_address_that_the_name_has_no_longer_is_forgotten() {
        let servers = Servers::new();
        order(&servers, [A, B]);
        servers.failed(at(1), A);
        order(&servers, [B, C]);
        assert_eq!(order(&servers, [A, C]), [A, C]);
    }

    #[test]
    fn a_server_that_failed_is_left_for_one_that_did_not() {
        let servers = Servers::new();
        order(&servers, [A, B]);
        assert!(!servers.is_left(at(0), A));
        servers.failed(at(1), A);
        assert!(servers.is_left(at(1), A));
        assert!(!servers.is_left(at(1), B));
        servers.answered(at(2), A, &served());
        assert!(!servers.is_left(at(2), A), "it serves after all");
    }

    #[test]
    fn the_only_server_is_never_left() {
        let servers = Servers::new();
        order(&servers, [A]);
        servers.failed(at(1), A);
        assert!(!servers.is_left(at(100), A));
        let of_an_address = Servers::new();
        of_an_address.failed(at(1), A);
        assert!(!of_an_address.is_left(at(100), A), "nothing was resolved");
    }

    #[test]
    fn a_server_that_can_t_serve_for_long_is_left() {
        let servers = Servers::new();
        order(&servers, [A, B]);
        servers.answered(at(1), A, &no_leader());
        servers.answered(at(3), A, &no_leader());
        assert!(!servers.is_left(at(3), A), "an election takes that long");
        servers.answered(at(4), A, &no_leader());
        assert!(servers.is_left(at(4), A));
        assert_eq!(order(&servers, [A, B]), [B, A]);
    }

    #[test]
    fn each_success_gives_the_whole_time_again() {
        let servers = Servers::new();
        order(&servers, [A, B]);
        for now in [0, 2, 4] {
            servers.answered(at(now), A, &no_leader());
            servers.answered(at(now), A, &served());
        }
        servers.answered(at(6), A, &no_leader());
        assert!(!servers.is_left(at(6), A));
    }

    #[test]
    fn what_consul_says_of_a_request_is_no_failure_of_the_server() {
        let servers = Servers::new();
        order(&servers, [A, B]);
        for now in 0..10 {
            for (status, text) in [
                (404, ""),
                (403, "Permission denied"),
                (409, "{}"),
                (500, "invalid session \"x\""),
                (
                    503,
                    "rate limit exceeded for operation that can only be performed by the leader",
                ),
            ] {
                servers.answered(at(now), A, &Response::new(status, text));
                assert!(!servers.is_left(at(now), A), "{status} {text}");
            }
        }
    }

    #[test]
    fn where_no_server_can_serve_connections_move_now_and_then() {
        let servers = Servers::new();
        let (mut at_server, mut moves) = (A, 0);
        order(&servers, [A, B, C]);
        for tenth in 0..600 {
            let now = Instant::from_origin(Duration::from_millis(tenth * 100));
            if servers.is_left(now, at_server) {
                at_server = order(&servers, [A, B, C])[0];
                moves += 1;
            }
            servers.answered(now, at_server, &no_leader());
        }
        assert!((6..=18).contains(&moves), "{moves} in a minute");
    }

    #[test]
    fn certificates_that_never_fitted_are_a_mistake() {
        let servers = Servers::new();
        for now in [0, 1, 100] {
            let kind = servers.refused_by_tls(at(now));
            assert_eq!(kind, TransportErrorKind::Misconfigured);
        }
    }

    #[test]
    fn certificates_that_fitted_may_be_replaced_for_a_minute() {
        let servers = Servers::new();
        servers.answered(at(0), A, &served());
        for now in [100, 130, 159] {
            let kind = servers.refused_by_tls(at(now));
            assert_eq!(kind, TransportErrorKind::NotSent, "at {now}");
        }
        for now in [160, 200, 259] {
            let kind = servers.refused_by_tls(at(now));
            assert_eq!(kind, TransportErrorKind::Misconfigured, "at {now}");
        }
        let kind = servers.refused_by_tls(at(1000));
        assert_eq!(kind, TransportErrorKind::NotSent, "another time");
    }
}
