//! The local callers that wait, first come first served.

use std::collections::VecDeque;

use crate::id::AcquireId;
use crate::time::Instant;

#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    tickets: VecDeque<Ticket>,
}

/// One caller that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    pub(super) acquire: AcquireId,
    pub(super) permits: u32,
    pub(super) since: Instant,
    pub(super) patience: Patience,
}

/// How long a caller waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// Until a slot is free.
    Unlimited,
    /// Until then.
    Until(Instant),
    /// Not at all: what is not free now is not worth waiting for.
    None,
}

impl Queue {
    pub(super) fn push(&mut self, ticket: Ticket) {
        self.tickets.push_back(ticket);
    }

    /// The caller whose turn it is.
    pub(super) fn head(&self) -> Option<&Ticket> {
        self.tickets.front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tickets.is_empty()
    }

    /// Whether anybody waits until a slot is free.
    pub(super) fn has_waiters(&self) -> bool {
        self.tickets
            .iter()
            .any(|ticket| ticket.patience != Patience::None)
    }

    /// How many permits are wanted in all.
    pub(super) fn wanted(&self) -> u32 {
        self.tickets
            .iter()
            .fold(0, |sum, ticket| sum.saturating_add(ticket.permits))
    }

    pub(super) fn remove(&mut self, acquire: AcquireId) -> Option<Ticket> {
        let at = self
            .tickets
            .iter()
            .position(|ticket| ticket.acquire == acquire)?;
        self.tickets.remove(at)
    }

    /// Takes out every caller that `leaves` says, in order.
    pub(super) fn drain_where(&mut self, leaves: impl Fn(&Ticket) -> bool) -> Vec<Ticket> {
        let (left, stayed): (Vec<_>, Vec<_>) =
            self.tickets.drain(..).partition(|ticket| leaves(ticket));
        self.tickets = stayed.into();
        left
    }

    pub(super) fn timeout(&self) -> Option<Instant> {
        self.tickets
            .iter()
            .filter_map(|ticket| match ticket.patience {
                Patience::Until(end) => Some(end),
                Patience::Unlimited | Patience::None => None,
            })
            .min()
    }
}
