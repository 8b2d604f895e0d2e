//! Why something is no longer held.

use core::time::Duration;
use std::sync::Arc;

use super::request::RequestError;
use crate::id::SessionId;
use crate::one_line::Brief;
use crate::subject::Subject;

/// Why a permit or a leadership ended before it was given back. The holder must stop using the
/// resource at once.
///
/// `Display` shows everything in one line, with the causes.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Lost {
    /// The session is gone: an operator destroyed it, it expired, its node was deregistered, or a
    /// health check failed. A missing contender key also counts, since that is what an ended
    /// session leaves behind.
    #[error("{}{}", .on.intro_of_loss(), what_is_gone(session, *.key_alone))]
    SessionGone {
        /// The session.
        session: SessionId,
        /// Whether all that is known is that its contender key is gone. Then somebody may have
        /// deleted or released the key alone.
        key_alone: bool,
        /// What was held.
        on: Subject,
    },
    /// Somebody removed the session from the record's holders, or removed or replaced the record.
    #[error("{}somebody removed the session {session} from the holders in the record", .on.intro_of_loss())]
    RemovedFromHolders {
        /// The session.
        session: SessionId,
        /// What was held.
        on: Subject,
    },
    /// Somebody took the slot away and gave a reason, with
    /// [`Semaphore::evict`](crate::Semaphore::evict) or the command. Others may have the slot when
    /// the permit is given back or dropped, or after ten seconds.
    #[error("{}the session {session} was evicted: {reason}", .on.intro_of_loss())]
    Evicted {
        /// The session.
        session: SessionId,
        /// The reason, in one line.
        reason: Arc<str>,
        /// What was held.
        on: Subject,
    },
    /// The contender key exists, but is no longer tied to the session.
    #[error("{}the contender key of session {session} was taken from it", .on.intro_of_loss())]
    ContenderKeyTaken {
        /// The session.
        session: SessionId,
        /// What was held.
        on: Subject,
    },
    /// No renewal succeeded in time, so Consul may give the slot away (S2).
    #[error(
        "{}the lease of session {session} ran out{}",
        .on.intro_of_loss(),
        why_expired(*.unsent, .last_failure.as_ref())
    )]
    LeaseExpired {
        /// The session.
        session: SessionId,
        /// Why the last renewal failed, if one did.
        #[source]
        last_failure: Option<RequestError>,
        /// How long no renewal was sent, if that is the reason. Nobody ran the driver: the executor
        /// was blocked, or the process or its machine stood still.
        unsent: Option<Duration>,
        /// What was held.
        on: Subject,
    },
    /// The election's key is tied to no session: the session has ended (destroyed, expired, or its
    /// node deregistered), or somebody released the key.
    #[error(
        "{}the key was released from session {session}: the session has ended, or somebody released the key",
        .on.intro_of_loss()
    )]
    KeyReleased {
        /// The session.
        session: SessionId,
        /// What was held.
        on: Subject,
    },
    /// The key of the election is tied to another session: somebody else leads.
    #[error("{}the key of session {session} was taken by session {by}, which leads", .on.intro_of_loss())]
    KeyTaken {
        /// The session.
        session: SessionId,
        /// The present owner of the key.
        by: SessionId,
        /// What was held.
        on: Subject,
    },
    /// The election's key was deleted, and maybe created again. Terms are counted from the
    /// beginning.
    #[error("{}somebody deleted the key of session {session}", .on.intro_of_loss())]
    KeyDeleted {
        /// The session.
        session: SessionId,
        /// What was held.
        on: Subject,
    },
    /// Somebody wrote the election's key without `acquire`. The key is still tied to the session,
    /// but does not have the leader's value. Its lock index no longer identifies the term, so the
    /// sequencer is invalid.
    #[error("{}somebody wrote the key of session {session} without `acquire`", .on.intro_of_loss())]
    KeyOverwritten {
        /// The session.
        session: SessionId,
        /// What was held.
        on: Subject,
    },
    /// The agent no longer accepts such keys, for example after an upgrade. So an eviction would
    /// not be noticed.
    #[error("{}the key of session {session} can't be read any more: {refusal}", .on.intro_of_loss())]
    Unreadable {
        /// The session.
        session: SessionId,
        /// What the agent said.
        #[source]
        refusal: RequestError,
        /// What was held.
        on: Subject,
    },
    /// It was given back here, by its holder, its leader or the election's handle, or by a drop.
    #[error("it was given back here")]
    SteppedDown,
    /// The runtime dropped the driver, so nothing renews the session.
    #[error(
        "{}the runtime has ended, and with it the task that renewed the session: keep the runtime until the work is done, \
         and connect again on another one",
        .on.intro_of_loss()
    )]
    RuntimeEnded {
        /// What was held.
        on: Subject,
    },
    /// This process was forked off from the one that holds it, and has no driver.
    #[error(
        "{}this process was forked off, and its parent keeps what was held: connect again after the fork",
        .on.intro_of_loss()
    )]
    Forked {
        /// What was held.
        on: Subject,
    },
}

/// The subject of a loss, if it has one.
macro_rules! subject_of {
    ($lost:expr) => {
        match $lost {
            Lost::SessionGone { on, .. }
            | Lost::RemovedFromHolders { on, .. }
            | Lost::Evicted { on, .. }
            | Lost::ContenderKeyTaken { on, .. }
            | Lost::LeaseExpired { on, .. }
            | Lost::KeyReleased { on, .. }
            | Lost::KeyTaken { on, .. }
            | Lost::KeyDeleted { on, .. }
            | Lost::KeyOverwritten { on, .. }
            | Lost::Unreadable { on, .. }
            | Lost::RuntimeEnded { on }
            | Lost::Forked { on } => Some(on),
            Lost::SteppedDown => None,
        }
    };
}

impl Lost {
    /// What was held: which semaphore or election, at which agent.
    pub fn subject(&self) -> Option<&Subject> {
        subject_of!(self).filter(|on| !on.is_unknown())
    }

    /// The runtime has ended.
    pub(crate) fn at_end() -> Self {
        Self::RuntimeEnded {
            on: Subject::default(),
        }
    }

    /// Adds this subject, unless there is one already.
    #[must_use]
    pub(crate) fn or_about(mut self, subject: &Subject) -> Self {
        if let Some(on) = subject_of!(&mut self) {
            on.or_set(subject);
        }
        self
    }
}

fn what_is_gone(session: &SessionId, key_alone: bool) -> String {
    if key_alone {
        return format!(
            "the contender key of session {session} is gone: somebody deleted or released it, or the session has ended"
        );
    }
    format!(
        "the session {session} is gone: it was destroyed, it expired, or its node or a health check of it failed"
    )
}

/// Why no renewal has succeeded.
fn why_expired(unsent: Option<Duration>, last_failure: Option<&RequestError>) -> String {
    match (unsent, last_failure) {
        (Some(unsent), _) => format!(
            ": no renewal was sent for {}; is the executor blocked, or was the process stopped?",
            Brief(unsent)
        ),
        (None, Some(failure)) => format!(": no renewal succeeded: {failure}"),
        (None, None) => ": no renewal was answered in time".to_owned(),
    }
}
