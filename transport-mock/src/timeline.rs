//! What is due when: the queue along which virtual time moves.

use std::collections::BTreeMap;

use semaphore_core::adapter::Instant;

/// Entries ordered by their time. Entries with the same time keep the order in which they were
/// added.
#[derive(Debug)]
pub(crate) struct Timeline<T> {
    entries: BTreeMap<Key, T>,
    added: u64,
}

/// Identifies one entry. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    at: Instant,
    number: u64,
}

impl Key {
    pub(crate) fn at(self) -> Instant {
        self.at
    }
}

impl<T> Timeline<T> {
    pub(crate) fn new() -> Self {
        Self {
            entries: BTreeMap::new(),
            added: 0,
        }
    }

    pub(crate) fn add(&mut self, at: Instant, entry: T) -> Key {
        self.added += 1;
        let key = Key {
            at,
            number: self.added,
        };
        self.entries.insert(key, entry);
        key
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.entries.get_mut(&key)
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        self.entries.remove(&key)
    }

    /// Keeps only the entries for which this is true.
    pub(crate) fn retain(&mut self, stays: impl Fn(&T) -> bool) {
        self.entries.retain(|_, entry| stays(entry));
    }

    /// When the first entry is due.
    pub(crate) fn first_due(&self) -> Option<Instant> {
        self.entries.keys().next().map(|key| key.at())
    }

    pub(crate) fn pop_first(&mut self) -> Option<T> {
        self.entries.pop_first().map(|(_, entry)| entry)
    }
}
