//! S4: we only change the record by check-and-set, and never overwrite what can't be understood. We
//! keep its dialect, and its limit unless a new one is to be written while nobody holds.

use judge::Record;
use semaphore_core::sans_io::Instant;

use super::{Bounds, Check, Counts, Invariant, Verdict};
use crate::history::{Change, Happening, Subject, Who};

pub(super) struct RecordByCheckAndSet {
    /// Whether somebody writes another limit.
    changes_limits: bool,
    counts: Counts,
}

impl RecordByCheckAndSet {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            changes_limits: bounds.changes_limits,
            counts: Counts::default(),
        }
    }
}

/// Whether one of the earlier holders still holds.
fn stays_any(before: &Record, after: &Record) -> bool {
    before.holders().any(|holder| after.holds(holder))
}

impl Check for RecordByCheckAndSet {
    fn invariant(&self) -> Invariant {
        Invariant::S4
    }

    fn counts(&self) -> (&'static str, Counts) {
        ("record by check-and-set", self.counts)
    }

    fn happen(&mut self, _: Instant, what: &Happening) -> Verdict {
        let Happening::Changed(change) = what else {
            return Ok(());
        };
        let Change { by, is_bound, .. } = change;
        let (Who::Ours(_), Subject::Record { before, after }) = (by, &change.of) else {
            return Ok(());
        };
        self.counts.came(true);
        if !is_bound {
            return Err(format!("{by} wrote the record without check-and-set"));
        }
        match (before, after) {
            (_, None) => Err(format!("{by} deleted the record")),
            (_, Some(Err(_))) => Err(format!("{by} wrote something that is no record")),
            (Some(Err(_)), _) => Err(format!("{by} wrote over something that is no record")),
            (Some(Ok(before)), Some(Ok(after)))
                if before.limit() != after.limit() && stays_any(before, after) =>
            {
                Err(format!("{by} changed the limit while somebody held"))
            }
            (Some(Ok(before)), Some(Ok(after)))
                if before.limit() != after.limit() && !self.changes_limits =>
            {
                Err(format!("{by} changed the limit"))
            }
            (Some(Ok(before)), Some(Ok(after))) if before.spelling() != after.spelling() => {
                Err(format!("{by} changed the dialect"))
            }
            _ => Ok(()),
        }
    }
}
