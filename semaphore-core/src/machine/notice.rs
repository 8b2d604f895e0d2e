//! What a machine tells observers, besides the events for its callers.
//!
//! ```text
//!  callers ──┐
//!  requests ─┼─▶ Notices ──▶ poll_notice ──▶ the handles' observers, the log, the figures
//!  writes ───┘      │ nobody listens: nothing is kept
//! ```
//! A notice is made where the outcome is known, with what is known there. No clock is read for it.

use core::fmt;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::defect::{Defect, is_on};
use crate::error::{Error, Lost, Refusal, RequestError};
use crate::id::{CommandId, FencingToken, SessionId};
use crate::machine::callers::Ticket;
use crate::time::Instant;

/// Something that happened to one semaphore or election of this process, or to a whole
/// [`Client`](crate::Client): an outage of Consul is the client's.
///
/// A command is one acquisition or one campaign. All notices about it have its number.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Notice {
    /// Somebody waits.
    Queued {
        /// The command.
        command: CommandId,
        /// The wanted permits.
        permits: u32,
        /// The place in the queue of this process; 1 is the next.
        place: usize,
    },
    /// A slot is held, or an election led.
    Granted {
        /// The command.
        command: CommandId,
        /// How many permits.
        permits: u32,
        /// Its fencing token.
        token: FencingToken,
        /// How long it waited.
        waited: Duration,
    },
    /// A try found nothing free.
    NotAvailable {
        /// The command.
        command: CommandId,
        /// Why. If others of the same handle come first, it was not queued.
        refusal: Refusal,
    },
    /// It failed.
    Failed {
        /// The command.
        command: CommandId,
        /// Why.
        error: Error,
        /// How long it waited.
        waited: Duration,
    },
    /// Its caller gave up.
    GivenUp {
        /// The command.
        command: CommandId,
        /// How long it waited.
        waited: Duration,
    },
    /// The lease of a hold was extended.
    Renewed {
        /// The command.
        command: CommandId,
        /// How long the lease lasts now.
        left: Duration,
        /// How long the lease would have lasted without the renewal.
        was: Duration,
    },
    /// Two thirds of a hold's lease are over, since no renewal has succeeded. It is reported once
    /// until one does.
    LosingSoon {
        /// The command.
        command: CommandId,
        /// How long the lease still lasts.
        left: Duration,
    },
    /// A hold is lost.
    Lost {
        /// The command.
        command: CommandId,
        /// How many permits.
        permits: u32,
        /// Why.
        reason: Lost,
        /// How long it was held.
        held: Duration,
    },
    /// A hold was given back. Cleaning up in Consul begins.
    Released {
        /// The command.
        command: CommandId,
        /// How many permits.
        permits: u32,
        /// How long it was held.
        held: Duration,
    },
    /// A request failed, and will be tried again. One about a client's shared sessions is only
    /// reported to the client's observers. A machine that is driven by hand does not report it: its
    /// owner brings it every failure.
    RequestFailed {
        /// Why.
        error: RequestError,
    },
    /// Consul has not served some requests for a second. It is reported once until they are served
    /// again. A client's outage is reported once to the client's observers, however many semaphores
    /// and elections it has. One machine does not know it, so a machine that is driven by hand
    /// reports neither this nor its end.
    Retrying {
        /// Since when.
        since: Instant,
        /// Why the last of them failed.
        cause: RequestError,
    },
    /// Consul serves these requests again.
    Recovered {
        /// How long it did not.
        after: Duration,
    },
    /// Nothing more was requested for a minute and a half, which ends an outage that was reported:
    /// whether Consul serves these requests is unknown, and nobody needs them.
    Unasked {
        /// How long it was from the first failure to the last.
        after: Duration,
    },
    /// Consul permanently refuses something necessary: all waiters fail.
    Refused {
        /// The error.
        error: Error,
    },
    /// Consul's content differs from the settings: another limit, or no semaphore or election at
    /// all. All waiters fail.
    Conflict {
        /// The error.
        error: Error,
    },
    /// Holders with ended sessions were removed from the record.
    Pruned {
        /// Their sessions.
        sessions: Vec<String>,
    },
    /// An election's key shows another leader, or none. It is reported while somebody of this
    /// process campaigns or leads.
    Leader {
        /// The session that the key is tied to.
        session: Option<SessionId>,
    },
}

/// In one line, with all causes.
impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RequestFailed { error } => write!(f, "RequestFailed: {error}"),
            Self::Retrying { since, cause } => write!(f, "Retrying since {since}: {cause}"),
            Self::Lost { reason, held, .. } => write!(f, "Lost after {held:?}: {reason}"),
            Self::Failed { error, waited, .. } => write!(f, "Failed after {waited:?}: {error}"),
            Self::Refused { error } => write!(f, "Refused: {error}"),
            Self::Conflict { error } => write!(f, "Conflict: {error}"),
            other => fmt::Debug::fmt(other, f),
        }
    }
}

/// A loss as one word, for logs and figures.
pub(crate) fn name_of_loss(reason: &Lost) -> &'static str {
    match reason {
        Lost::SessionGone { .. } => "session-gone",
        Lost::RemovedFromHolders { .. } | Lost::Evicted { .. } => "evicted",
        Lost::ContenderKeyTaken { .. } | Lost::KeyTaken { .. } => "key-taken",
        Lost::LeaseExpired { .. } => "lease-expired",
        Lost::KeyReleased { .. } => "key-released",
        Lost::KeyDeleted { .. } => "key-deleted",
        Lost::KeyOverwritten { .. } => "key-overwritten",
        Lost::Unreadable { .. } => "unreadable",
        Lost::SteppedDown => "stepped-down",
        Lost::RuntimeEnded { .. } => "runtime-ended",
        Lost::Forked { .. } => "forked",
    }
}

/// All words of [`name_of_loss`].
#[cfg(feature = "metrics")]
pub(crate) const NAMES_OF_LOSSES: [&str; 11] = [
    "session-gone",
    "evicted",
    "key-taken",
    "lease-expired",
    "key-released",
    "key-deleted",
    "key-overwritten",
    "unreadable",
    "stepped-down",
    "runtime-ended",
    "forked",
];

/// The most notices that are kept for an observer that does not ask for them.
const MOST: usize = 1024;

/// Notices that were not taken yet, and the data for later ones.
#[derive(Clone, Default)]
pub(in crate::machine) struct Notices {
    /// `None` while nobody listens.
    queue: Option<VecDeque<Notice>>,
    /// For each hold, since when it is held, and its permits.
    held: BTreeMap<CommandId, (Instant, u32)>,
    /// Holds whose observers were warned of the lease's end.
    warned: BTreeSet<CommandId>,
    renewed_at: Option<Instant>,
    /// The last session that an election's key showed.
    leader: Option<SessionId>,
}

/// No request depends on it, so it does not distinguish states.
impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notices")
    }
}

impl Notices {
    /// Somebody begins or stops listening.
    pub(in crate::machine) fn listen(&mut self, listens: bool) {
        if listens != self.queue.is_some() {
            self.queue = listens.then(VecDeque::new);
        }
    }

    pub(in crate::machine) fn is_heard(&self) -> bool {
        self.queue.is_some()
    }

    pub(in crate::machine) fn poll(&mut self) -> Option<Notice> {
        self.queue.as_mut()?.pop_front()
    }

    /// Adds it, if somebody listens.
    pub(in crate::machine) fn tell(&mut self, notice: impl FnOnce() -> Notice) {
        if let Some(queue) = &mut self.queue {
            if queue.len() == MOST {
                queue.pop_front();
            }
            queue.push_back(notice());
        }
    }

    pub(in crate::machine) fn queued(&mut self, ticket: &Ticket, place: usize) {
        let (command, permits) = (ticket.id, ticket.permits);
        self.tell(|| Notice::Queued {
            command,
            permits,
            place,
        });
    }

    pub(in crate::machine) fn granted(
        &mut self,
        now: Instant,
        ticket: &Ticket,
        token: FencingToken,
    ) {
        self.held.insert(ticket.id, (now, ticket.permits));
        self.renewed_at = Some(now);
        self.tell(|| Notice::Granted {
            command: ticket.id,
            permits: ticket.permits,
            token,
            waited: now.saturating_since(ticket.since),
        });
    }

    pub(in crate::machine) fn failed(&mut self, now: Instant, ticket: &Ticket, error: &Error) {
        self.tell(|| Notice::Failed {
            command: ticket.id,
            error: error.clone(),
            waited: now.saturating_since(ticket.since),
        });
    }

    pub(in crate::machine) fn given_up(&mut self, now: Instant, ticket: &Ticket) {
        self.tell(|| Notice::GivenUp {
            command: ticket.id,
            waited: now.saturating_since(ticket.since),
        });
    }

    /// All waiters fail for this reason.
    pub(in crate::machine) fn failed_all(&mut self, error: &Error) {
        match error {
            Error::Conflict { .. } | Error::LimitConflict { .. } | Error::NotAnElection { .. } => {
                self.tell(|| Notice::Conflict {
                    error: error.clone(),
                });
            }
            Error::Closed { .. } => {}
            _ => self.tell(|| Notice::Refused {
                error: error.clone(),
            }),
        }
    }

    /// The lease of a hold now lasts until `until`, and did until `before`.
    pub(in crate::machine) fn renewed(
        &mut self,
        now: Instant,
        command: CommandId,
        before: Instant,
        until: Instant,
    ) {
        self.warned.remove(&command);
        self.renewed_at = Some(now);
        self.tell(|| Notice::Renewed {
            command,
            left: until.saturating_since(now),
            was: before.saturating_since(now),
        });
    }

    /// The lease of a hold ends soon, at this time.
    pub(in crate::machine) fn ends_soon(
        &mut self,
        now: Instant,
        command: CommandId,
        until: Instant,
    ) {
        if self.held.contains_key(&command) && self.warned.insert(command) {
            self.tell(|| Notice::LosingSoon {
                command,
                left: until.saturating_since(now),
            });
        }
    }

    pub(in crate::machine) fn lost(&mut self, now: Instant, command: CommandId, reason: &Lost) {
        if let Some((held, permits)) = self.end(now, command)
            && !is_on(Defect::LossNotNoticed)
        {
            self.tell(|| Notice::Lost {
                command,
                permits,
                reason: reason.clone(),
                held,
            });
        }
    }

    pub(in crate::machine) fn released(&mut self, now: Instant, command: CommandId) {
        if let Some((held, permits)) = self.end(now, command) {
            self.tell(|| Notice::Released {
                command,
                permits,
                held,
            });
        }
    }

    /// How long it was held until now, and its permits.
    fn end(&mut self, now: Instant, command: CommandId) -> Option<(Duration, u32)> {
        self.warned.remove(&command);
        let (since, permits) = self.held.remove(&command)?;
        Some((now.saturating_since(since), permits))
    }

    /// An election's key shows this session, and ours is `own`. Our own term is a grant.
    pub(in crate::machine) fn leads(
        &mut self,
        session: Option<&SessionId>,
        own: Option<&SessionId>,
    ) {
        if self.leader.as_ref() != session {
            self.leader = session.cloned();
            if session.is_none() || session != own {
                let session = session.cloned();
                self.tell(|| Notice::Leader { session });
            }
        }
    }

    /// How long ago a lease began or was extended.
    pub(in crate::machine) fn renewed_before(&self, now: Instant) -> Option<Duration> {
        Some(now.saturating_since(self.renewed_at?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::callers::Patience;
    use crate::machine::fixture::at;

    fn ticket(id: u64, since: u64) -> Ticket {
        Ticket {
            id: CommandId(id),
            permits: 2,
            since: at(since),
            patience: Patience::Unlimited,
        }
    }

    fn told(notices: &mut Notices) -> Vec<Notice> {
        std::iter::from_fn(|| notices.poll()).collect()
    }

    #[test]
    fn nothing_is_kept_while_nobody_listens() {
        let mut notices = Notices::default();
        notices.queued(&ticket(1, 0), 1);
        assert!(!notices.is_heard());
        assert!(notices.poll().is_none());
        notices.listen(true);
        assert!(notices.poll().is_none(), "what was before is not told");
    }

    #[test]
    fn a_hold_says_how_long_it_waited_and_was_held_whoever_listens_when() {
        let mut notices = Notices::default();
        notices.granted(at(1_000), &ticket(1, 0), FencingToken(7));
        notices.listen(true);
        notices.granted(at(3_000), &ticket(2, 1_000), FencingToken(8));
        notices.released(at(4_000), CommandId(1));
        notices.released(at(5_000), CommandId(1));
        let told = told(&mut notices);
        assert!(matches!(
            &told[..],
            [Notice::Granted { waited, permits: 2, .. }, Notice::Released { held, .. }]
                if waited.as_secs() == 2 && held.as_secs() == 3
        ));
    }

    #[test]
    fn who_loses_soon_is_told_once_until_a_renewal() {
        let mut notices = Notices::default();
        notices.listen(true);
        notices.granted(at(0), &ticket(1, 0), FencingToken(7));
        for now in [8_000, 9_000] {
            notices.ends_soon(at(now), CommandId(1), at(12_000));
        }
        notices.renewed(at(9_500), CommandId(1), at(12_000), at(22_000));
        notices.ends_soon(at(18_000), CommandId(1), at(22_000));
        notices.ends_soon(at(18_000), CommandId(9), at(22_000));
        let kinds = told(&mut notices).into_iter().map(|it| match it {
            Notice::Granted { .. } => "granted",
            Notice::LosingSoon { left, .. } if left.as_secs() == 4 => "losing soon",
            Notice::Renewed { .. } => "renewed",
            _ => "other",
        });
        let kinds: Vec<_> = kinds.collect();
        assert_eq!(kinds, ["granted", "losing soon", "renewed", "losing soon"]);
    }

    #[test]
    fn who_listens_and_never_asks_keeps_the_newest() {
        let mut notices = Notices::default();
        notices.listen(true);
        for place in 0..2 * MOST {
            notices.queued(&ticket(1, 0), place);
        }
        let told = told(&mut notices);
        assert_eq!(told.len(), MOST);
        assert!(matches!(told[0], Notice::Queued { place, .. } if place == MOST));
    }
}
