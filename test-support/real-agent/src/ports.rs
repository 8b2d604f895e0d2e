//! Ports for agents.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};

use crate::error::StartError;

/// Linux takes the ports of outgoing connections from a range above this one. So no connection
/// takes an agent's port while the agent restarts.
const RANGE: core::ops::Range<u16> = 10_000..32_000;
const TRIES: usize = 1_000;

/// The ports of one agent, all on 127.0.0.1.
#[derive(Clone, Debug)]
pub(crate) struct Ports {
    pub(crate) http: u16,
    pub(crate) https: u16,
    pub(crate) server: u16,
    pub(crate) serf_lan: u16,
    pub(crate) serf_wan: u16,
}

impl Ports {
    /// Ports that were free a moment ago. If another process takes one before the agent does, the
    /// caller tries again with others.
    pub(crate) fn free() -> Result<Self, StartError> {
        let mut taken = BTreeSet::new();
        let mut next = || {
            let port = (0..TRIES)
                .map(|_| random_port())
                .find(|port| !taken.contains(port) && is_free(*port))
                .ok_or(StartError::NoPorts)?;
            taken.insert(port);
            Ok::<_, StartError>(port)
        };
        Ok(Self {
            http: next()?,
            https: next()?,
            server: next()?,
            serf_lan: next()?,
            serf_wan: next()?,
        })
    }

    pub(crate) fn are_distinct_from(&self, other: &Self) -> bool {
        self.all().iter().all(|port| !other.all().contains(port))
    }

    fn all(&self) -> [u16; 5] {
        let Self {
            http,
            https,
            server,
            serf_lan,
            serf_wan,
        } = *self;
        [http, https, server, serf_lan, serf_wan]
    }
}

/// Each `RandomState` has different keys, also in processes that start at the same time.
fn random_port() -> u16 {
    let width = u64::from(RANGE.end - RANGE.start);
    let offset = RandomState::new().build_hasher().finish() % width;
    RANGE.start + u16::try_from(offset).unwrap_or_default()
}

/// Gossip needs the port for UDP, too.
fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
        && UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_not_free() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(!is_free(listener.local_addr().unwrap().port()));
    }

    #[test]
    fn the_ports_of_an_agent_are_distinct_and_in_range() {
        let all = BTreeSet::from(Ports::free().unwrap().all());
        assert_eq!(all.len(), 5);
        assert!(all.iter().all(|port| RANGE.contains(port)));
    }
}
