//! The state that all servers agree on, and the writes that affect several tables.

use std::collections::BTreeMap;

use semaphore_core::Behavior;
use semaphore_core::adapter::Instant;

use super::catalog::Catalog;
use super::profile::SessionIds;
use super::sessions::{self, Sessions};
use super::store::{Store, Touched};
use super::tenancy::Tenancy;

/// The index of an idle agent's log after its start.
const FIRST_INDEX: u64 = 12;

/// The replicated state and the index of the last write to it.
#[derive(Clone, Debug)]
pub(super) struct State {
    raft_index: u64,
    /// The default namespace, and all that have ever had content.
    tables: BTreeMap<Tenancy, Tables>,
    /// The content of a new namespace.
    nothing: Tables,
    pub(super) catalog: Catalog,
}

/// The content of one namespace of a partition.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    pub(super) store: Store,
    pub(super) sessions: Sessions,
}

/// What changed in one namespace.
pub(super) struct Changes {
    pub(super) tenancy: Tenancy,
    pub(super) touched: Touched,
    pub(super) sessions: Vec<Vec<u8>>,
}

impl State {
    /// The state of a new cluster of one node.
    pub(super) fn new(node: &str, ids: SessionIds) -> Self {
        let mut catalog = Catalog::default();
        catalog.register(node, FIRST_INDEX);
        let nothing = Tables {
            store: Store::default(),
            sessions: Sessions::new(ids),
        };
        Self {
            raft_index: FIRST_INDEX,
            tables: BTreeMap::from([(Tenancy::default(), nothing.clone())]),
            nothing,
            catalog,
        }
    }

    /// The content of this namespace.
    pub(super) fn tables(&self, tenancy: &Tenancy) -> &Tables {
        self.tables.get(tenancy).unwrap_or(&self.nothing)
    }

    /// The content of this namespace, to be changed.
    pub(super) fn tables_mut(&mut self, tenancy: &Tenancy) -> &mut Tables {
        let tables = self.tables.entry(tenancy.clone());
        tables.or_insert_with(|| self.nothing.clone())
    }

    /// The content of every namespace.
    pub(super) fn all_tables(&self) -> impl Iterator<Item = (&Tenancy, &Tables)> {
        self.tables.iter()
    }

    /// Changes every namespace, including future ones.
    pub(super) fn in_each(&mut self, mut change: impl FnMut(&mut Tables)) {
        let tables = self.tables.values_mut();
        tables.chain([&mut self.nothing]).for_each(&mut change);
    }

    /// The changes since the last call, by namespace.
    pub(super) fn take_changes(&mut self) -> Vec<Changes> {
        let mut changes = Vec::new();
        for (tenancy, tables) in &mut self.tables {
            let touched = tables.store.take_touched();
            let sessions = tables.sessions.take_touched();
            if !touched.keys.is_empty() || !sessions.is_empty() {
                changes.push(Changes {
                    tenancy: tenancy.clone(),
                    touched,
                    sessions,
                });
            }
        }
        changes
    }

    /// When the next session ends.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        let tables = self.tables.values();
        tables.filter_map(|it| it.sessions.next_expiry()).min()
    }

    /// Ends the session that expired first, if one has expired.
    pub(super) fn end_expired(&mut self, now: Instant) -> bool {
        let mut tables = self.tables.iter();
        let expired = tables.find_map(|(tenancy, tables)| {
            let id = tables.sessions.expired(now)?;
            Some((tenancy.clone(), id))
        });
        if let Some((tenancy, id)) = &expired {
            self.end_session(now, tenancy, id);
        }
        expired.is_some()
    }

    /// The session of this id in any namespace, and its key in the table.
    pub(super) fn find_session(&self, id: &str) -> Option<(Tenancy, Vec<u8>)> {
        self.tables.iter().find_map(|(tenancy, tables)| {
            let key = tables.sessions.key_of(id).ok()?;
            tables.sessions.get(&key)?;
            Some((tenancy.clone(), key))
        })
    }

    /// The index of the last write.
    pub(super) fn raft_index(&self) -> u64 {
        self.raft_index
    }

    /// The index of a new write.
    pub(super) fn next_index(&mut self) -> u64 {
        self.raft_index += 1;
        self.raft_index
    }

    /// Adds this to the index.
    pub(super) fn advance_index(&mut self, by: u64) {
        self.raft_index += by;
    }

    /// The index of the last write.
    pub(super) fn last_index(&self) -> u64 {
        self.raft_index
    }

    /// Ends a session: its keys are released or deleted, and their lock delays begin.
    pub(super) fn end_session(&mut self, now: Instant, tenancy: &Tenancy, id: &[u8]) {
        let index = self.next_index();
        if let Some(tables) = self.tables.get_mut(tenancy) {
            tables.end_session_at(now, index, id);
        }
    }

    /// Marks a check as critical. That ends the sessions that depend on it.
    pub(super) fn fail_check(&mut self, now: Instant, node: &str, check: &str) {
        self.catalog.set_check(node, check, false);
        self.end_sessions_of_check(now, node, check);
    }

    /// Removes a check. That ends the sessions that depend on it.
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

    /// Removes a node. That ends all its sessions.
    pub(super) fn deregister_node(&mut self, now: Instant, node: &str) {
        self.catalog.deregister(node);
        self.end_sessions(now, |session| session.is_on(node));
    }

    /// Restarts all indexes from that of a new cluster, and keeps their order.
    pub(super) fn reset_index(&mut self) {
        let tables = self.tables.values();
        let mut indexes: Vec<u64> = tables
            .flat_map(|it| it.store.indexes().chain(it.sessions.indexes()))
            .chain(self.catalog.indexes())
            .filter(|index| *index != 0)
            .collect();
        indexes.sort_unstable();
        indexes.dedup();
        let renumber = |old: u64| match old {
            0 => 0,
            old => FIRST_INDEX + (1..).zip(&indexes).take_while(|(_, i)| **i <= old).count() as u64,
        };
        for tables in self.tables.values_mut() {
            tables.store.renumber(renumber);
            tables.sessions.renumber(renumber);
        }
        self.catalog.renumber(renumber);
        self.raft_index = FIRST_INDEX + indexes.len() as u64;
    }

    /// Restores `snapshot`. The restoration is a new write: the log's index continues.
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
        for tables in self.tables.values_mut() {
            let ended: Vec<_> = tables
                .sessions
                .iter()
                .filter(|session| ends(session))
                .filter_map(|session| tables.sessions.key_of(session.id()).ok())
                .collect();
            for id in ended {
                tables.end_session_at(now, index, &id);
            }
        }
    }
}

impl Tables {
    fn end_session_at(&mut self, now: Instant, index: u64, id: &[u8]) {
        let Some(session) = self.sessions.remove(index, id) else {
            return;
        };
        let held: Vec<_> = self
            .store
            .list(b"")
            .filter(|entry| {
                let held = entry.session();
                held.and_then(|held| self.sessions.key_of(held).ok())
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
