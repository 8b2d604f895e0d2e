//! What a poll is for: the whole prefix, the record, or one key.

use core::time::Duration;

use crate::id::{Index, SessionId};
use crate::machine::process::reader::poller::WAIT;
use crate::machine::semaphore::settings::Settings;

/// What a poll is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Focus {
    /// Everything below the prefix.
    Prefix,
    /// The record, beyond this index.
    Record { index: Index },
    /// The key of the one that is next ahead in the queue, beyond this index. Behind many others the
    /// poll lasts longer, so that what they ask for while nothing happens stays bounded.
    Ahead {
        session: SessionId,
        index: Index,
        wait: Duration,
    },
}

impl Focus {
    /// The one key that it is for.
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

/// How long the server may hold a poll of the record open. A holder that dies changes nothing of the record: the one that
/// waits for its slot reads the prefix when this time is over.
const RECORD_WAIT: Duration = Duration::from_secs(5);
