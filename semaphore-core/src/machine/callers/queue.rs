//! The local callers that wait, first come first served.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::CommandId;
use crate::time::Instant;

/// Every event asks it something. So nothing here may visit every waiter, unless all leave.
#[derive(Clone, Debug, Default)]
pub(in crate::machine) struct Queue {
    /// A later caller has a higher number.
    tickets: BTreeMap<CommandId, Ticket>,
    /// The sum of their permits.
    wanted: u64,
    tries: BTreeSet<CommandId>,
    deadlines: BTreeSet<(Instant, CommandId)>,
    /// Those that want more than one permit, sorted by that number.
    wide: BTreeSet<(u32, CommandId)>,
}

/// A waiting caller.
#[derive(Clone, Copy, Debug)]
pub(in crate::machine) struct Ticket {
    pub(in crate::machine) id: CommandId,
    pub(in crate::machine) permits: u32,
    pub(in crate::machine) since: Instant,
    pub(in crate::machine) patience: Patience,
}

/// How long a caller waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::machine) enum Patience {
    /// Until a slot is free.
    Unlimited,
    /// Until this time.
    Until(Instant),
    /// Not at all: only what is free now.
    None,
}

impl Queue {
    /// Adds a caller. Its number must be higher than all before.
    pub(in crate::machine) fn push(&mut self, ticket: Ticket) {
        let id = ticket.id;
        self.wanted += u64::from(ticket.permits);
        match ticket.patience {
            Patience::Unlimited => {}
            Patience::Until(end) => {
                self.deadlines.insert((end, id));
            }
            Patience::None => {
                self.tries.insert(id);
            }
        }
        if ticket.permits > 1 {
            self.wide.insert((ticket.permits, id));
        }
        self.tickets.insert(id, ticket);
    }

    /// The caller whose turn is next.
    pub(in crate::machine) fn head(&self) -> Option<&Ticket> {
        self.tickets.first_key_value().map(|(_, ticket)| ticket)
    }

    /// The caller who came last.
    pub(in crate::machine) fn newest(&self) -> Option<CommandId> {
        self.tickets.last_key_value().map(|(id, _)| *id)
    }

    /// How many slots somebody wants at most.
    pub(in crate::machine) fn widest(&self) -> u32 {
        self.wide.last().map_or(1, |(permits, _)| *permits)
    }

    /// The waiters, in order.
    pub(in crate::machine) fn first(&self) -> impl Iterator<Item = &Ticket> {
        self.tickets.values()
    }

    pub(in crate::machine) fn len(&self) -> usize {
        self.tickets.len()
    }

    pub(in crate::machine) fn is_empty(&self) -> bool {
        self.tickets.is_empty()
    }

    /// Whether anybody waits, other than instant tries.
    pub(in crate::machine) fn has_waiters(&self) -> bool {
        self.tickets.len() > self.tries.len()
    }

    pub(in crate::machine) fn remove(&mut self, id: CommandId) -> Option<Ticket> {
        let ticket = self.tickets.remove(&id)?;
        self.wanted -= u64::from(ticket.permits);
        match ticket.patience {
            Patience::Unlimited => {}
            Patience::Until(end) => {
                self.deadlines.remove(&(end, id));
            }
            Patience::None => {
                self.tries.remove(&id);
            }
        }
        self.wide.remove(&(ticket.permits, id));
        Some(ticket)
    }

    /// Removes everyone who came until then, in order.
    pub(in crate::machine) fn drain_until(&mut self, then: Instant) -> Vec<Ticket> {
        let all = self.first().take_while(|ticket| ticket.since <= then);
        let until = all.map(|ticket| ticket.id).collect();
        self.take(until)
    }

    /// Removes the instant tries, in order.
    pub(in crate::machine) fn drain_tries(&mut self) -> Vec<Ticket> {
        let tries = core::mem::take(&mut self.tries);
        self.take(tries)
    }

    /// Removes every caller whose time is over, in order.
    pub(in crate::machine) fn drain_expired(&mut self, now: Instant) -> Vec<Ticket> {
        let expired = self.deadlines.iter().take_while(|(end, _)| *end <= now);
        let expired = expired.map(|(_, id)| *id).collect();
        self.take(expired)
    }

    /// Removes every caller that wants more permits than the limit, which is at least one, in
    /// order.
    pub(in crate::machine) fn drain_over(&mut self, limit: u32) -> Vec<Ticket> {
        let over = self
            .wide
            .iter()
            .rev()
            .take_while(|(permits, _)| *permits > limit);
        let over = over.map(|(_, id)| *id).collect();
        self.take(over)
    }

    pub(in crate::machine) fn timeout(&self) -> Option<Instant> {
        self.deadlines.first().map(|(end, _)| *end)
    }

    fn take(&mut self, leave: BTreeSet<CommandId>) -> Vec<Ticket> {
        leave.into_iter().filter_map(|id| self.remove(id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use crate::machine::callers::queue::*;

    fn at(secs: u64) -> Instant {
        Instant::from_origin(Duration::from_secs(secs))
    }

    /// Callers with rising numbers, and what each wants.
    fn queue(callers: &[(u32, Patience)]) -> Queue {
        let mut queue = Queue::default();
        for (no, (permits, patience)) in (0..).zip(callers) {
            queue.push(Ticket {
                id: CommandId(no),
                permits: *permits,
                since: at(no),
                patience: *patience,
            });
        }
        queue
    }

    fn numbers(tickets: &[Ticket]) -> Vec<u64> {
        tickets.iter().map(|ticket| ticket.id.0).collect()
    }

    fn head(queue: &Queue) -> Option<u64> {
        queue.head().map(|head| head.id.0)
    }

    #[test]
    fn callers_are_served_in_the_order_in_which_they_came() {
        let mut queue = queue(&[(1, Patience::Unlimited); 4]);
        assert_eq!(head(&queue), Some(0));
        assert!(queue.remove(CommandId(0)).is_some());
        assert!(queue.remove(CommandId(2)).is_some());
        assert!(queue.remove(CommandId(2)).is_none());
        assert_eq!(head(&queue), Some(1));
        assert_eq!(numbers(&queue.drain_until(at(2))), [1]);
        assert_eq!(numbers(&queue.drain_until(at(3))), [3]);
        assert!(queue.is_empty());
        assert_eq!(head(&queue), None);
    }

    #[test]
    fn instant_tries_are_no_waiters() {
        let mut queue = queue(&[
            (1, Patience::None),
            (1, Patience::Until(at(1))),
            (1, Patience::None),
        ]);
        assert!(queue.has_waiters());
        queue.remove(CommandId(1));
        assert!(!queue.has_waiters());
        assert_eq!(numbers(&queue.drain_tries()), [0, 2]);
        assert!(!queue.has_waiters());
        assert!(queue.is_empty());
    }

    #[test]
    fn whose_time_is_over_leaves_in_the_order_of_the_queue() {
        let until = |secs| (1, Patience::Until(at(secs)));
        let mut queue = queue(&[
            until(5),
            until(9),
            until(3),
            (1, Patience::Unlimited),
            until(4),
        ]);
        assert_eq!(queue.timeout(), Some(at(3)));
        assert_eq!(numbers(&queue.drain_expired(at(2))), [0; 0]);
        assert_eq!(numbers(&queue.drain_expired(at(5))), [0, 2, 4]);
        assert_eq!(queue.timeout(), Some(at(9)));
        queue.remove(CommandId(1));
        assert_eq!(queue.timeout(), None);
        assert_eq!(numbers(&queue.drain_expired(at(100))), [0; 0]);
        assert_eq!(head(&queue), Some(3));
    }

    #[test]
    fn who_wants_more_than_there_is_leaves_in_the_order_of_the_queue() {
        let wants = |permits| (permits, Patience::Unlimited);
        let mut queue = queue(&[wants(5), wants(1), wants(9), wants(3), wants(4)]);
        assert_eq!(numbers(&queue.drain_over(9)), [0; 0]);
        assert_eq!(numbers(&queue.drain_over(3)), [0, 2, 4]);
        assert_eq!(numbers(&queue.drain_over(1)), [3]);
        assert_eq!(numbers(&queue.drain_until(at(9))), [1]);
        assert_eq!(numbers(&queue.drain_over(1)), [0; 0]);
    }
}
