//! What a test may look at without sending a request.

use semaphore_core::adapter::Instant;

use super::sessions::Session;
use super::state::Tables;
use super::store::Entry;
use super::tenancy::Tenancy;
use super::{Consul, Exchange};

impl Consul {
    /// The entries whose keys begin with `prefix`, in order of their keys. Like all methods without
    /// a tenancy, it looks at the default namespace.
    pub fn entries(&self, prefix: &str) -> impl Iterator<Item = &Entry> {
        self.here().store.list(prefix.as_bytes())
    }

    /// Like [`entries`](Self::entries), in this namespace of a partition.
    pub fn entries_in(&self, tenancy: &Tenancy, prefix: &str) -> impl Iterator<Item = &Entry> {
        self.state.tables(tenancy).store.list(prefix.as_bytes())
    }

    /// One entry.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.here().store.get(key.as_bytes())
    }

    /// The living sessions, in order of their ids.
    pub fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.here().sessions.iter()
    }

    /// Like [`sessions`](Self::sessions), in this namespace of a partition.
    pub fn sessions_in(&self, tenancy: &Tenancy) -> impl Iterator<Item = &Session> {
        self.state.tables(tenancy).sessions.iter()
    }

    /// The namespaces that contain something, or once did.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn tenancies(&self) -> impl Iterator<Item = &Tenancy> {
        self.state.all_tables().map(|(tenancy, _)| tenancy)
    }

    /// Whether a node is in the catalog.
    pub fn has_node(&self, node: &str) -> bool {
        self.state.catalog.has(node)
    }

    /// The Raft index of the last write. It also grows with writes that change nothing.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn last_index(&self) -> u64 {
        self.state.last_index()
    }

    /// When a session ends unless it is renewed.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn expiry(&self, id: &str) -> Option<Instant> {
        let (tenancy, key) = self.state.find_session(id)?;
        self.state.tables(&tenancy).sessions.expiry(&key)
    }

    /// The keys with a lock delay, and when it ends.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn lock_delays(&self) -> impl Iterator<Item = (&[u8], Instant)> {
        self.here().sessions.lock_delays()
    }

    /// The index of a read of everything below `prefix`: that of the newest entry or deletion.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn prefix_index(&self, prefix: &str) -> u64 {
        self.here().store.prefix_index(prefix.as_bytes())
    }

    /// The waiting blocking queries: the index that each wants to exceed, and the end of its wait.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn waits(&self) -> impl Iterator<Item = (Exchange, u64, Instant)> {
        self.parked
            .iter()
            .map(|(exchange, parked)| (*exchange, parked.min_index, parked.deadline))
    }

    /// How many blocking queries wait.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn waiting(&self) -> usize {
        self.parked.len()
    }

    /// How often a waiting blocking query has read again because of a change, whether or not that
    /// answered it.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn looks(&self) -> u64 {
        self.parked.looks()
    }

    fn here(&self) -> &Tables {
        self.state.tables(&Tenancy::default())
    }
}
