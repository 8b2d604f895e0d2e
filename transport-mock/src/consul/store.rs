//! The key/value table: entries, tombstones, and the rules for their indexes.
//!
//! Every write that reaches the store has a Raft index. An entry's `ModifyIndex` is the index of
//! the last write that changed it; a write that changes nothing leaves it. A deletion leaves a
//! tombstone, so that a prefix's index does not fall back to that of its older entries. Tombstones
//! are removed after a quarter of an hour.

use core::time::Duration;
use std::collections::BTreeMap;

use semaphore_core::adapter::Instant;

use super::radix;

const TOMBSTONE_TTL: Duration = Duration::from_secs(15 * 60);

/// One key of the store with its value and indexes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    pub(super) flags: u64,
    pub(super) session: String,
    pub(super) lock_index: u64,
    pub(super) create_index: u64,
    pub(super) modify_index: u64,
}

impl Entry {
    pub(super) fn new(key: &[u8], value: Vec<u8>, flags: u64) -> Self {
        Self {
            key: key.to_vec(),
            value,
            flags,
            session: String::new(),
            lock_index: 0,
            create_index: 0,
            modify_index: 0,
        }
    }

    /// The key. Bytes that are not UTF-8 are replaced, as in the agent's JSON.
    pub fn key(&self) -> String {
        String::from_utf8_lossy(&self.key).into_owned()
    }

    /// The value. The agent does not distinguish an empty value from none: its JSON has `null` for
    /// both.
    pub fn value(&self) -> &[u8] {
        &self.value
    }

    /// The flags of the last write.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn flags(&self) -> u64 {
        self.flags
    }

    /// The session that holds it.
    pub fn session(&self) -> Option<&str> {
        Some(self.session.as_str()).filter(|session| !session.is_empty())
    }

    /// How often a session acquired it that did not hold it before.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn lock_index(&self) -> u64 {
        self.lock_index
    }

    /// The Raft index of the write that created it.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn create_index(&self) -> u64 {
        self.create_index
    }

    /// The Raft index of the last write that changed it.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn modify_index(&self) -> u64 {
        self.modify_index
    }

    fn says_the_same_as(&self, other: &Self) -> bool {
        self.lock_index == other.lock_index
            && self.flags == other.flags
            && self.session == other.session
            && self.value == other.value
    }
}

#[derive(Clone, Debug)]
struct Tombstone {
    index: u64,
    buried: Instant,
}

/// The key/value table.
#[derive(Clone, Debug, Default)]
pub(super) struct Store {
    /// Keys end in a zero byte, as in the agent, so that no key is a prefix of another.
    entries: BTreeMap<Vec<u8>, Entry>,
    tombstones: BTreeMap<Vec<u8>, Tombstone>,
    /// When the oldest tombstone was left. That one may be gone.
    oldest: Option<Instant>,
    /// The index of the last write that changed an entry or left a tombstone.
    table_index: u64,
    touched: Touched,
    undo: Option<Undo>,
}

/// What changed.
#[derive(Clone, Debug, Default)]
pub(super) struct Touched {
    /// Keys, each ended by a zero byte.
    pub(super) keys: Vec<Vec<u8>>,
    /// The paths of the nodes that were split or merged since. They may look as before, for example
    /// after a transaction that writes a key and deletes it.
    pub(super) reshaped: Vec<Vec<u8>>,
}

#[derive(Clone, Debug, Default)]
struct Undo {
    entries: Vec<(Vec<u8>, Option<Entry>)>,
    tombstones: Vec<(Vec<u8>, Option<Tombstone>)>,
    table_index: u64,
    touched: Touched,
}

impl Store {
    pub(super) fn get(&self, key: &[u8]) -> Option<&Entry> {
        self.entries.get(&terminated(key))
    }

    pub(super) fn list(&self, prefix: &[u8]) -> impl Iterator<Item = &Entry> {
        radix::below(&self.entries, prefix).map(|(_, entry)| entry)
    }

    pub(super) fn table_index(&self) -> u64 {
        self.table_index
    }

    /// The index of a prefix: that of its newest entry or tombstone, or of the whole table if it
    /// has neither.
    pub(super) fn prefix_index(&self, prefix: &[u8]) -> u64 {
        if prefix.is_empty() {
            return self.table_index;
        }
        let entries = self.list(prefix).map(|entry| entry.modify_index);
        let tombstones = radix::below(&self.tombstones, prefix).map(|(_, stone)| stone.index);
        entries.chain(tombstones).max().unwrap_or(self.table_index)
    }

    /// The node that a lookup of a missing key watches.
    pub(super) fn node_of_key(&self, key: &[u8]) -> radix::Node {
        radix::Node::reached(&self.entries, &terminated(key))
    }

    /// The node that a listing of a prefix watches.
    pub(super) fn node_of_prefix(&self, prefix: &[u8]) -> radix::Node {
        radix::Node::reached(&self.entries, prefix)
    }

    /// What changed since the last call.
    pub(super) fn take_touched(&mut self) -> Touched {
        core::mem::take(&mut self.touched)
    }

    /// Writes `entry`. Only `with_session` takes over its session; otherwise the key keeps its own.
    /// Returns the new entry.
    pub(super) fn set(&mut self, index: u64, mut entry: Entry, with_session: bool) -> Entry {
        let existing = self.get(&entry.key);
        entry.create_index = existing.map_or(index, |existing| existing.create_index);
        if !with_session {
            entry.session = existing.map_or_else(String::new, |existing| existing.session.clone());
        }
        if let Some(existing) = existing.filter(|existing| existing.says_the_same_as(&entry)) {
            entry.modify_index = existing.modify_index;
            return entry;
        }
        entry.modify_index = index;
        self.insert(index, entry.clone());
        entry
    }

    /// Writes `entry` if the key's `ModifyIndex` is `cas`; 0 stands for a missing key.
    pub(super) fn set_cas(&mut self, index: u64, cas: u64, entry: Entry) -> Option<Entry> {
        let current = self.get(&entry.key).map(|existing| existing.modify_index);
        let matches = match current {
            None => cas == 0,
            Some(current) => cas != 0 && cas == current,
        };
        matches.then(|| self.set(index, entry, false))
    }

    /// Acquires the key for the entry's session, which must live.
    pub(super) fn lock(&mut self, index: u64, mut entry: Entry) -> Option<Entry> {
        entry.lock_index = match self.get(&entry.key) {
            None => 1,
            Some(existing) if existing.session == entry.session => existing.lock_index,
            Some(existing) if existing.session.is_empty() => existing.lock_index + 1,
            Some(_) => return None,
        };
        Some(self.set(index, entry, true))
    }

    /// Releases the key if the entry's session holds it.
    pub(super) fn unlock(&mut self, index: u64, mut entry: Entry) -> Option<Entry> {
        let existing = self.get(&entry.key)?;
        if existing.session != entry.session {
            return None;
        }
        entry.lock_index = existing.lock_index;
        entry.session = String::new();
        Some(self.set(index, entry, true))
    }

    pub(super) fn delete(&mut self, now: Instant, index: u64, key: &[u8]) {
        if self.get(key).is_some() {
            self.bury(now, index, key);
            self.remove(index, &terminated(key));
        }
    }

    /// Deletes the key if its `ModifyIndex` is `cas`. A missing key counts as deleted.
    pub(super) fn delete_cas(&mut self, now: Instant, index: u64, cas: u64, key: &[u8]) -> bool {
        let Some(existing) = self.get(key) else {
            return true;
        };
        let matches = existing.modify_index == cas;
        if matches {
            self.delete(now, index, key);
        }
        matches
    }

    /// Deletes everything below `prefix`. Leaves one tombstone, at the prefix.
    pub(super) fn delete_tree(&mut self, now: Instant, index: u64, prefix: &[u8]) {
        let keys: Vec<_> = radix::below(&self.entries, prefix)
            .map(|(key, _)| key.clone())
            .collect();
        if keys.is_empty() {
            return;
        }
        if !prefix.is_empty() {
            self.bury(now, index, prefix);
        }
        for key in keys {
            self.remove(index, &key);
        }
    }

    /// Removes the tombstones that are old enough.
    pub(super) fn reap(&mut self, now: Instant) {
        let is_over = |buried| now.saturating_since(buried) >= TOMBSTONE_TTL;
        if self.oldest.is_some_and(is_over) {
            self.tombstones.retain(|_, stone| !is_over(stone.buried));
            self.oldest = self.tombstones.values().map(|stone| stone.buried).min();
        }
    }

    /// Starts a transaction. [`commit`](Self::commit) or [`roll_back`](Self::roll_back) ends it.
    pub(super) fn begin(&mut self) {
        self.undo = Some(Undo {
            table_index: self.table_index,
            touched: self.touched.clone(),
            ..Undo::default()
        });
    }

    pub(super) fn commit(&mut self) {
        self.undo = None;
    }

    pub(super) fn roll_back(&mut self) {
        let Some(undo) = self.undo.take() else {
            return;
        };
        for (key, entry) in undo.entries.into_iter().rev() {
            put_back(&mut self.entries, key, entry);
        }
        for (key, stone) in undo.tombstones.into_iter().rev() {
            put_back(&mut self.tombstones, key, stone);
        }
        self.table_index = undo.table_index;
        self.touched = undo.touched;
    }

    /// Gives every index a new number, by `renumber`.
    pub(super) fn renumber(&mut self, renumber: impl Fn(u64) -> u64) {
        for entry in self.entries.values_mut() {
            entry.create_index = renumber(entry.create_index);
            entry.modify_index = renumber(entry.modify_index);
        }
        for stone in self.tombstones.values_mut() {
            stone.index = renumber(stone.index);
        }
        self.table_index = renumber(self.table_index);
    }

    /// Every index in use, in no particular order.
    pub(super) fn indexes(&self) -> impl Iterator<Item = u64> {
        self.entries
            .values()
            .flat_map(|entry| [entry.create_index, entry.modify_index])
            .chain(self.tombstones.values().map(|stone| stone.index))
            .chain([self.table_index])
    }

    fn insert(&mut self, index: u64, entry: Entry) {
        let key = terminated(&entry.key);
        if !self.entries.contains_key(&key) {
            self.reshape(&key);
        }
        let before = self.entries.insert(key.clone(), entry);
        self.changed(index, key, before);
    }

    fn remove(&mut self, index: u64, key: &[u8]) {
        let before = self.entries.remove(key);
        self.reshape(key);
        self.changed(index, key.to_vec(), before);
    }

    fn changed(&mut self, index: u64, key: Vec<u8>, before: Option<Entry>) {
        self.table_index = index;
        if let Some(undo) = &mut self.undo {
            undo.entries.push((key.clone(), before));
        }
        self.touched.keys.push(key);
    }

    /// Notes that a node is split or merged: the one where this missing key would branch off.
    fn reshape(&mut self, key: &[u8]) {
        let node = radix::Node::reached(&self.entries, key);
        self.touched.reshaped.push(node.into_path());
    }

    fn bury(&mut self, now: Instant, index: u64, key: &[u8]) {
        let stone = Tombstone { index, buried: now };
        self.oldest.get_or_insert(now);
        let before = self.tombstones.insert(terminated(key), stone);
        if let Some(undo) = &mut self.undo {
            undo.tombstones.push((terminated(key), before));
        }
    }
}

fn put_back<V>(table: &mut BTreeMap<Vec<u8>, V>, key: Vec<u8>, before: Option<V>) {
    match before {
        Some(before) => table.insert(key, before),
        None => table.remove(&key),
    };
}

fn terminated(key: &[u8]) -> Vec<u8> {
    let mut terminated = Vec::with_capacity(key.len() + 1);
    terminated.extend_from_slice(key);
    terminated.push(0);
    terminated
}
