//! What a test may look at without sending a request.

use super::Consul;
use super::sessions::Session;
use super::store::Entry;

/// A kind of request, to count by. Redirects and requests that are malformed count as none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// `GET /v1/kv/…`, blocking or not.
    KvRead,
    /// `PUT` and `DELETE /v1/kv/…`.
    KvWrite,
    /// `/v1/txn`.
    Txn,
    /// `/v1/session/create`.
    SessionCreate,
    /// `/v1/session/renew/…`.
    SessionRenew,
    /// `/v1/session/destroy/…`.
    SessionDestroy,
    /// `/v1/session/info/…`, `list` and `node/…`.
    SessionRead,
    /// Everything else that is answered.
    Other,
}

impl Consul {
    /// The entries whose keys begin with `prefix`, in order of their keys.
    pub fn entries(&self, prefix: &str) -> impl Iterator<Item = &Entry> {
        self.state.store.list(prefix.as_bytes())
    }

    /// One entry.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.state.store.get(key.as_bytes())
    }

    /// The sessions that live, in order of their ids.
    pub fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.state.sessions.iter()
    }

    /// The Raft index of the last write. It moves with every change of the state, and with writes
    /// that change nothing, too.
    pub fn last_index(&self) -> u64 {
        self.state.last_index()
    }

    /// How many requests of this kind were submitted.
    pub fn requests(&self, kind: Kind) -> u64 {
        self.counts.get(&kind).copied().unwrap_or_default()
    }

    /// How many blocking queries wait.
    pub fn waiting(&self) -> usize {
        self.parked.len()
    }
}
