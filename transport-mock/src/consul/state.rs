//! What all servers agree on, and the writes that reach across its tables.

use semaphore_core::adapter::Instant;

use super::catalog::Catalog;
use super::sessions::{self, Behavior, Sessions};
use super::store::Store;

/// What an idle agent's log has seen when it has just come up.
const FIRST_INDEX: u64 = 12;

/// The replicated state and the index of the last write to it.
#[derive(Clone, Debug)]
pub(super) struct State {
    raft_index: u64,
    pub(super) store: Store,
    pub(super) sessions: Sessions,
    pub(super) catalog: Catalog,
}

impl State {
    /// The state of a new cluster of one node.
    pub(super) fn new(node: &str) -> Self {
        let mut catalog = Catalog::default();
        catalog.register(node, FIRST_INDEX);
        Self {
            raft_index: FIRST_INDEX,
            store: Store::default(),
            sessions: Sessions::default(),
            catalog,
        }
    }

    /// The index of the last write.
    pub(super) fn raft_index(&self) -> u64 {
        self.raft_index
    }

    /// The index of the write that is now made.
    pub(super) fn next_index(&mut self) -> u64 {
        self.raft_index += 1;
        self.raft_index
    }

    /// The index after so many more writes.
    pub(super) fn advance_index(&mut self, by: u64) {
        self.raft_index += by;
    }

    /// The index of the last write.
    pub(super) fn last_index(&self) -> u64 {
        self.raft_index
    }

    /// Ends a session: its keys are released or deleted, and their lock delays begin.
    pub(super) fn end_session(&mut self, now: Instant, id: &[u8]) {
        let index = self.next_index();
        self.end_session_at(now, index, id);
    }

    /// Marks a check as critical, which ends the sessions that are tied to it.
    pub(super) fn fail_check(&mut self, now: Instant, node: &str, check: &str) {
        self.catalog.set_check(node, check, false);
        self.end_sessions_of_check(now, node, check);
    }

    /// Removes a check, which ends the sessions that are tied to it.
    pub(super) fn remove_check(&mut self, now: Instant, node: &str, check: &str) {
        self.catalog.remove_check(node, check);
        self.end_sessions_of_check(now, node, check);
    }

    /// Marks a check as passing.
    pub(super) fn pass_check(&mut self, node: &str, check: &str) {
        self.next_index();
        self.catalog.set_check(node, check, true);
    }

    /// Adds a node.
    pub(super) fn register_node(&mut self, node: &str) {
        let index = self.next_index();
        self.catalog.register(node, index);
    }

    /// Removes a node, which ends all its sessions.
    pub(super) fn deregister_node(&mut self, now: Instant, node: &str) {
        self.catalog.deregister(node);
        self.end_sessions(now, |session| session.is_on(node));
    }

    /// Counts all indexes anew from a new cluster's first one, keeping their order.
    pub(super) fn reset_index(&mut self) {
        let mut indexes: Vec<u64> = self
            .store
            .indexes()
            .chain(self.sessions.indexes())
            .chain(self.catalog.indexes())
            .filter(|index| *index != 0)
            .collect();
        indexes.sort_unstable();
        indexes.dedup();
        let renumber = |old: u64| match old {
            0 => 0,
            old => FIRST_INDEX + (1..).zip(&indexes).take_while(|(_, i)| **i <= old).count() as u64,
        };
        self.store.renumber(renumber);
        self.sessions.renumber(renumber);
        self.catalog.renumber(renumber);
        self.raft_index = FIRST_INDEX + indexes.len() as u64;
    }

    /// Goes back to `snapshot`, as a write of its own: the log goes on where it was.
    pub(super) fn restore(&mut self, snapshot: Self) {
        let index = self.next_index();
        *self = snapshot;
        self.raft_index = index.max(self.raft_index);
    }

    fn end_sessions_of_check(&mut self, now: Instant, node: &str, check: &str) {
        self.end_sessions(now, |session| {
            session.is_on(node)
                && session
                    .checks()
                    .any(|tied| tied.eq_ignore_ascii_case(check))
        });
    }

    fn end_sessions(&mut self, now: Instant, ends: impl Fn(&sessions::Session) -> bool) {
        let index = self.next_index();
        let ended: Vec<_> = self
            .sessions
            .iter()
            .filter(|session| ends(session))
            .filter_map(|session| sessions::parse_id(session.id()).ok())
            .collect();
        for id in ended {
            self.end_session_at(now, index, &id);
        }
    }

    fn end_session_at(&mut self, now: Instant, index: u64, id: &[u8]) {
        let Some(session) = self.sessions.remove(index, id) else {
            return;
        };
        let held: Vec<_> = self
            .store
            .list(b"")
            .filter(|entry| {
                entry
                    .session()
                    .and_then(|held| sessions::parse_id(held).ok())
                    .as_deref()
                    == Some(id)
            })
            .cloned()
            .collect();
        for mut entry in held {
            self.sessions.delay_lock(now, &entry.key, &session);
            match session.behavior() {
                Behavior::Release => {
                    entry.session = String::new();
                    self.store.set(index, entry, true);
                }
                Behavior::Delete => self.store.delete(now, index, &entry.key),
            }
        }
    }
}
