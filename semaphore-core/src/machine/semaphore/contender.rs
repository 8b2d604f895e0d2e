//! One session that waits for a slot, owns one, or leaves.
//!
//! ```text
//!            its key is tied         the record names it         a caller is served
//!  Entering ────────────────▶ Waiting ────────────────▶ Idle ◀────────────────────▶ Holding
//!     │                          │                        │   released or cancelled     │
//!     └──────────────────────────┴───────▶ Leaving ◀──────┴─────────────────────────────┘
//!                                             │ its end is known
//!                                             ▼
//!                                          forgotten
//! ```
//! Only `Leaving` is final: what was once sent as a release may come late, and must not meet a user.
//! The record decides between `Waiting` and `Idle`, the list between `Entering` and `Waiting`. So
//! these are read off what is known, and only holding and leaving are kept.

use core::time::Duration;

use crate::defect::{Defect, is_on};
use crate::id::{CommandId, Index, SessionId};
use crate::machine::process::late::LATEST;
use crate::machine::process::tenancy::loan::Loan;
use crate::machine::process::tenancy::settings::SessionSettings;
use crate::time::Instant;
use crate::view::{Contender as Shown, ContenderFlags};

/// Identifies a contender of ours. A later one has a higher number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ContenderNo(pub(super) u64);

#[derive(Clone, Debug)]
pub(super) struct Contender {
    pub(super) loan: Loan,
    /// What is known of its key.
    pub(super) key: Option<Key>,
    /// Somebody else's session has its key.
    pub(super) is_taken: bool,
    /// The newest record names it.
    pub(super) is_named: bool,
    course: Course,
    pub(super) entry: Entry,
    /// Its group: the number of its first contender, and how many slots its caller wants.
    pub(super) group: (ContenderNo, u32),
    /// Since when it has its slot.
    pub(super) slot_since: Instant,
    /// The hold that was given back and waits for the end of this slot.
    pub(super) owes: Option<CommandId>,
    touches: u32,
}

/// A contender key of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// Its `ModifyIndex`: every write of ours is a check-and-set on it.
    pub(super) index: Index,
    /// Its `CreateIndex`: the place in the line.
    pub(super) created: Index,
    pub(super) lock_index: u64,
    pub(super) state: KeyState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyState {
    Tied,
    /// It waits for nothing, and keeps late entries off.
    Parked,
    /// Somebody untied it.
    Untied,
}

/// What cannot be read off the record and the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// It wants a slot, or has one that no caller uses.
    Here,
    /// A caller holds its slot.
    Holding { acquire: CommandId, since: Instant },
    /// It leaves, and may have been believed in until then.
    Leaving {
        /// Since when its parked key keeps late entries off, on a session that lives on.
        parked_at: Option<Instant>,
        /// Since when Consul refuses what it needs for that.
        refused_since: Option<Instant>,
    },
    /// Consul refuses it: what is left goes with its session, whose end is waited for.
    Left,
}

/// How its entries have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Settled,
    /// Its entry with a claim was refused: it only enters now.
    Refused,
    /// The outcome of one is unknown: it may still be applied.
    Open,
    /// So it is, and an entry was refused since its key is there. If a confirmed list lacks it and
    /// the next one is refused, too, it is hidden.
    Unseen,
}

/// Where a contender stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stand {
    Entering,
    Waiting,
    Idle,
    Holding,
    Leaving,
    /// It leaves, and nothing of it is known to be left but a parked key.
    Over,
}

impl Stand {
    pub(super) fn leaves(self) -> bool {
        matches!(self, Self::Leaving | Self::Over)
    }
}

impl Contender {
    pub(super) fn new(group: (ContenderNo, u32), settings: &SessionSettings) -> Self {
        Self {
            loan: Loan::new(settings),
            key: None,
            is_taken: false,
            is_named: false,
            course: Course::Here,
            entry: Entry::Settled,
            group,
            slot_since: Instant::ORIGIN,
            owes: None,
            touches: 0,
        }
    }

    pub(super) fn stand(&self) -> Stand {
        match self.course {
            Course::Holding { .. } => Stand::Holding,
            Course::Leaving { .. } | Course::Left => {
                let is_left = |key: Key| key.state != KeyState::Parked;
                if self.is_named || self.key.is_some_and(is_left) {
                    Stand::Leaving
                } else {
                    Stand::Over
                }
            }
            Course::Here => match (self.key, self.is_named) {
                (None, _) => Stand::Entering,
                (Some(_), false) => Stand::Waiting,
                (Some(_), true) => Stand::Idle,
            },
        }
    }

    pub(super) fn course(&self) -> Course {
        self.course
    }

    /// A caller has its slot from now on.
    pub(super) fn serve(&mut self, acquire: CommandId, now: Instant) {
        self.course = Course::Holding {
            acquire,
            since: now,
        };
    }

    /// Its caller has given the slot back.
    pub(super) fn is_given_back(&mut self) {
        self.course = Course::Here;
    }

    pub(super) fn session(&self) -> Option<&SessionId> {
        self.loan.id()
    }

    /// The caller that has its slot.
    pub(super) fn held_for(&self) -> Option<CommandId> {
        match self.course {
            Course::Holding { acquire, .. } => Some(acquire),
            Course::Here | Course::Leaving { .. } | Course::Left => None,
        }
    }

    /// Since when that caller has it.
    pub(super) fn held_since(&self) -> Option<Instant> {
        match self.course {
            Course::Holding { since, .. } => Some(since),
            Course::Here | Course::Leaving { .. } | Course::Left => None,
        }
    }

    /// The index at which its key is known, or zero if it is not there.
    pub(super) fn index(&self) -> Index {
        self.key.map_or(Index::ZERO, |key| key.index)
    }

    /// Its place in the line.
    pub(super) fn created(&self) -> Option<Index> {
        self.key.map(|key| key.created)
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.entry, Entry::Open | Entry::Unseen) && !is_on(Defect::ReadSettles)
    }

    /// When the belief in its slot ends (rule 12). An early end of the session leaves others a lock
    /// delay after the proof, and silence a TTL after the renewal.
    pub(super) fn believed_until(&self) -> Option<Instant> {
        let lease = self.loan.lease()?;
        Some(match self.course {
            Course::Holding { .. } => lease.deadline(),
            Course::Here | Course::Leaving { .. } | Course::Left => lease.kept_until(),
        })
    }

    /// Whether it may enter or claim: its session lives and is believed in.
    pub(super) fn is_believed(&self, now: Instant) -> bool {
        let lease = self.loan.lease();
        lease.is_some_and(|lease| now < lease.kept_until())
    }

    /// Whether the session could give a grant whose proof was sent at `sent_at`.
    pub(super) fn may_be_granted(&self, now: Instant, sent_at: Instant) -> bool {
        self.loan.lease().copied().is_some_and(|mut lease| {
            lease.proved(sent_at);
            lease.is_valid(now)
        })
    }

    /// The flags of its next touch. Each differs from the one before.
    pub(super) fn touch(&mut self) -> ContenderFlags {
        if !is_on(Defect::FenceWithoutChange) {
            self.touches = self.touches % MOST_TOUCHES + 1;
        }
        ContenderFlags {
            size: self.group.1,
            touches: self.touches,
            ..ContenderFlags::entering(self.loan.lock_delay())
        }
    }

    /// Its key was seen like this. `i` only rises, unless a confirmed read shows a restored one.
    pub(super) fn saw(&mut self, shown: &Shown) {
        let state = if ContenderFlags::is_parked(shown.flags) {
            KeyState::Parked
        } else {
            KeyState::Tied
        };
        if let Some(seen) = ContenderFlags::in_line(shown.flags) {
            self.touches = seen.touches;
        }
        self.is_taken = false;
        self.key = Some(Key {
            index: shown.modify_index,
            created: shown.create_index,
            lock_index: shown.lock_index,
            state,
        });
        self.entry = match self.entry {
            Entry::Settled | Entry::Refused => Entry::Settled,
            Entry::Open | Entry::Unseen => Entry::Open,
        };
    }

    /// Whether no late write can come any more, as measured, so that its parked key may go.
    pub(super) fn is_late_over(&self, now: Instant) -> bool {
        self.late_until().is_some_and(|until| until <= now)
    }

    /// Until when its parked key stays, on a session that lives on (LATE).
    pub(super) fn late_until(&self) -> Option<Instant> {
        match self.course {
            Course::Leaving { parked_at, .. } => parked_at.map(|at| at + LATEST),
            Course::Here | Course::Holding { .. } | Course::Left => None,
        }
    }

    /// Its key stays parked from now on. False if it does already.
    pub(super) fn parks(&mut self, now: Instant) -> bool {
        match &mut self.course {
            Course::Leaving { parked_at, .. } if parked_at.is_none() => {
                *parked_at = Some(now);
                self.loan.settles();
                true
            }
            _ => false,
        }
    }

    /// What it needs to leave is refused. Returns whether it was for so long.
    pub(super) fn is_refused_for(&mut self, time: Duration, now: Instant) -> bool {
        match &mut self.course {
            Course::Leaving { refused_since, .. } => {
                *refused_since.get_or_insert(now) + time <= now
            }
            Course::Left => true,
            Course::Here | Course::Holding { .. } => false,
        }
    }

    /// What is left of it goes with its session.
    pub(super) fn is_left(&mut self) {
        self.loan.leave();
        self.loan.settles();
        self.course = Course::Left;
    }

    /// It leaves for good.
    pub(super) fn leave(&mut self) {
        if !self.stand().leaves() {
            self.loan.leave();
            self.course = Course::Leaving {
                parked_at: None,
                refused_since: None,
            };
        }
    }
}

/// As many as the flags of a key count.
const MOST_TOUCHES: u32 = 511;
