//! What a poll reads: the whole prefix, the record, or one key.

use core::time::Duration;

use crate::id::{Index, SessionId};
use crate::machine::process::reader::poller::WAIT;
use crate::machine::semaphore::settings::Settings;

/// What a poll reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Focus {
    /// Everything below the prefix.
    Prefix,
    /// The record, from this index on.
    Record { index: Index },
    /// The key of the next waiter ahead, from this index on. With many ahead the poll lasts longer,
    /// to limit the requests while nothing happens.
    Ahead {
        session: SessionId,
        index: Index,
        wait: Duration,
    },
}

impl Focus {
    /// The key, if it reads only one.
    pub(super) fn key(&self, settings: &Settings) -> Option<String> {
        match self {
            Self::Prefix => None,
            Self::Record { .. } => Some(settings.prefix.record_key()),
            Self::Ahead { session, .. } => Some(settings.prefix.contender_key(session)),
        }
    }

    pub(super) fn ahead(&self) -> Option<&SessionId> {
        match self {
            Self::Ahead { session, .. } => Some(session),
            Self::Prefix | Self::Record { .. } => None,
        }
    }

    pub(super) fn wait(&self) -> Duration {
        match self {
            Self::Prefix => WAIT,
            // A record without an index is read at once.
            Self::Record { index: Index::ZERO } => Duration::ZERO,
            Self::Record { .. } => RECORD_WAIT,
            Self::Ahead { wait, .. } => *wait,
        }
    }
}

/// How long the server may hold a poll of the record open. A holder's death does not change the
/// record. So a waiter reads the prefix after this time.
const RECORD_WAIT: Duration = Duration::from_secs(5);
