//! The network traffic in numbers.

use std::collections::BTreeMap;

use semaphore_core::adapter::Response;

use crate::kind::RequestKind;

/// The traffic between one host, or all hosts, and Consul.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Requests sent, by kind.
    pub requests: BTreeMap<RequestKind, u64>,
    /// Answers that arrived, whatever their status.
    pub answers: u64,
    /// Requests that ended without an answer, without those that the client gave up.
    pub failures: u64,
    /// Bytes of the answers that arrived: bodies and headers.
    pub bytes_down: u64,
    /// Exchanges under way now. Each needs a separate connection.
    pub open: usize,
    /// The most connections that the agent has counted for the host at once, see
    /// [`MockConsul::set_max_connections`](crate::MockConsul::set_max_connections). For several
    /// hosts, the sum of their peaks.
    pub peak_connections: usize,
    /// The most exchanges that were under way at once. For several hosts, the sum of their peaks.
    pub peak_open: usize,
}

impl Stats {
    /// All requests sent.
    pub fn total_requests(&self) -> u64 {
        self.requests.values().sum()
    }

    /// Requests of one kind.
    pub fn requests_of(&self, kind: RequestKind) -> u64 {
        self.requests.get(&kind).copied().unwrap_or(0)
    }

    /// Counts a request. Returns how many exchanges are open now.
    pub(crate) fn sent(&mut self, kind: RequestKind) -> usize {
        *self.requests.entry(kind).or_default() += 1;
        self.open += 1;
        self.peak_open = self.peak_open.max(self.open);
        self.open
    }

    pub(crate) fn connected(&mut self, open: usize) {
        self.peak_connections = self.peak_connections.max(open);
    }

    pub(crate) fn closed(&mut self) {
        self.open -= 1;
    }

    pub(crate) fn failed(&mut self) {
        self.failures += 1;
    }

    pub(crate) fn received(&mut self, response: &Response) {
        let headers: usize = response
            .headers()
            .map(|(name, value)| name.len() + value.len() + ": \r\n".len())
            .sum();
        self.answers += 1;
        self.bytes_down += (headers + response.body().len()) as u64;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (kind, count) in &other.requests {
            *self.requests.entry(*kind).or_default() += count;
        }
        self.answers += other.answers;
        self.failures += other.failures;
        self.bytes_down += other.bytes_down;
        self.open += other.open;
        self.peak_open += other.peak_open;
        self.peak_connections += other.peak_connections;
    }
}
