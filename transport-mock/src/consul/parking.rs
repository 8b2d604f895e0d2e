//! The waiting blocking queries. Each request needs the one whose wait ends first, and there may be
//! thousands.

use std::collections::{BTreeMap, BTreeSet};

use semaphore_core::adapter::Instant;

use super::Exchange;
use super::blocking::Parked;

/// All that wait, in the order in which they came.
#[derive(Clone, Default)]
pub(super) struct Parking {
    parked: BTreeMap<Exchange, Parked>,
    /// The same, sorted by the end of their wait.
    ends: BTreeSet<(Instant, Exchange)>,
    looks: u64,
}

impl Parking {
    pub(super) fn add(&mut self, exchange: Exchange, parked: Parked) {
        self.ends.insert((parked.deadline, exchange));
        self.parked.insert(exchange, parked);
    }

    pub(super) fn remove(&mut self, exchange: Exchange) -> Option<Parked> {
        let parked = self.parked.remove(&exchange)?;
        self.ends.remove(&(parked.deadline, exchange));
        Some(parked)
    }

    /// When the first wait ends.
    pub(super) fn first_end(&self) -> Option<Instant> {
        self.ends.first().map(|(at, _)| *at)
    }

    /// A query whose wait is over. The one that ended first comes first.
    pub(super) fn take_ended(&mut self, now: Instant) -> Option<(Exchange, Parked)> {
        let (at, exchange) = *self.ends.first()?;
        if at > now {
            return None;
        }
        self.remove(exchange).map(|parked| (exchange, parked))
    }

    /// All of them, in the order in which they came.
    pub(super) fn take_all(&mut self) -> BTreeMap<Exchange, Parked> {
        self.ends.clear();
        core::mem::take(&mut self.parked)
    }

    /// The queries for which this holds. They read again.
    pub(super) fn woken(&mut self, is_woken: impl Fn(&Parked) -> bool) -> Vec<Exchange> {
        let woken = self.parked.iter().filter(|(_, parked)| is_woken(parked));
        let woken: Vec<_> = woken.map(|(exchange, _)| *exchange).collect();
        self.looks += woken.len() as u64;
        woken
    }

    /// How often a query has read again because of a change, answered or not.
    pub(super) fn looks(&self) -> u64 {
        self.looks
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Exchange, &Parked)> {
        self.parked.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.parked.len()
    }
}
