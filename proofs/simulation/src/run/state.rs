//! The state of a semaphore's record, or of an election's key.

use std::collections::BTreeSet;

use judge::Record;
use transport_mock::consul::Entry;

use crate::history::{Foreign, Found, KeyState, Subject, holders, leader};
use crate::plan::Place;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum State {
    Record(Found),
    Key(Option<KeyState>),
}

impl State {
    /// The state of the entry, or its absence.
    pub(super) fn of(place: Place, entry: Option<&Entry>) -> Self {
        match place {
            Place::Semaphore => {
                let read = |entry: &Entry| Record::read(entry.value(), entry.flags());
                Self::Record(entry.map(|entry| read(entry).ok_or(Foreign)))
            }
            Place::Election { .. } => Self::Key(entry.map(|entry| KeyState {
                session: entry.session().map(str::to_owned),
                value: entry.value().to_vec(),
                flags: entry.flags(),
                lock_index: entry.lock_index(),
            })),
        }
    }

    /// The holders.
    pub(super) fn holders(&self) -> BTreeSet<String> {
        match self {
            Self::Record(found) => holders(found),
            Self::Key(key) => leader(key.as_ref()).into_iter().collect(),
        }
    }

    /// Whether it is foreign data.
    pub(super) fn is_garbled(&self) -> bool {
        match self {
            Self::Record(found) => matches!(found, Some(Err(_))),
            Self::Key(key) => key.as_ref().is_some_and(|key| !key.is_elections()),
        }
    }

    /// The change from this state to the other.
    pub(super) fn into_change(self, after: Self) -> Subject {
        match (self, after) {
            (Self::Key(before), Self::Key(after)) => Subject::Key { before, after },
            (Self::Record(before), Self::Record(after)) => Subject::Record { before, after },
            // A prefix does not change its kind.
            (Self::Record(before), Self::Key(_)) => {
                let after = None;
                Subject::Record { before, after }
            }
            (Self::Key(before), Self::Record(_)) => {
                let after = None;
                Subject::Key { before, after }
            }
        }
    }
}
