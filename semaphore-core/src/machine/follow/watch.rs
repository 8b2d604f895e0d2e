//! The watch of the key: by a poll, or by a machine set, which checks whether the key is as it was.

use crate::id::Index;
use crate::machine::process::reader::check::Reads;
use crate::machine::process::reader::poller::Poller;

#[derive(Debug)]
pub(super) struct Watch {
    pub(super) poller: Poller,
    /// Who looks at the key.
    pub(super) reads: Reads,
    key: Key,
}

/// The key, as far as a check can know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    /// It is not an election's, or in doubt.
    Unknown,
    /// When it last changed; zero if it is missing.
    Seen(Index),
    /// It has changed since.
    Outdated(Index),
}

impl Watch {
    pub(super) fn new(poller: Poller) -> Self {
        Self {
            poller,
            reads: Reads::Own,
            key: Key::Unknown,
        }
    }

    /// An answer has shown the key, which changed last at this index.
    pub(super) fn saw(&mut self, changed_at: Option<Index>) {
        self.key = Key::Seen(changed_at.unwrap_or(Index::ZERO));
    }

    /// The key must be read.
    pub(super) fn forget(&mut self) {
        self.key = Key::Unknown;
    }

    /// The key was checked, and is no longer as it was at this index. Returns whether that is news.
    pub(super) fn changed(&mut self, index: Index) -> bool {
        let is_news = self.key == Key::Seen(index);
        if is_news {
            self.key = Key::Outdated(index);
        }
        is_news
    }

    /// The index to check.
    pub(super) fn index(&self) -> Option<Index> {
        match self.key {
            Key::Unknown => None,
            Key::Seen(index) | Key::Outdated(index) => Some(index),
        }
    }

    /// Whether it is still as at this index, as far as is known.
    pub(super) fn is_at(&self, index: Index) -> bool {
        self.key == Key::Seen(index)
    }

    /// Whether somebody else looks at it, and nothing says that it has changed.
    pub(super) fn is_looked_after(&self) -> bool {
        self.reads == Reads::Shared && matches!(self.key, Key::Seen(_))
    }
}
