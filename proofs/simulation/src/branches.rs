//! The core's rare branches that a run takes, counted by their log events.
//!
//! A check proves nothing about a branch that no world ever reaches. So branches are counted, and
//! [`missed`] lists those that were never taken.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, with_default};
use tracing::{Event, Metadata, Subscriber};

/// The place of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// In semaphores.
    Semaphores,
    /// In elections.
    Elections,
    /// In both.
    Both,
}

/// The branches that at least one world in any thousand must take, by the names of their events.
/// Others are counted, too. For example, `write-unfounded` needs a snapshot that is restored in the
/// instant before a write, which happens in one of several hundred worlds.
pub const BRANCHES: [(&str, Of); 23] = [
    // Dead holders: missed, left alone for their lock delay, removed.
    ("holder-without-key", Of::Semaphores),
    ("lock-delay", Of::Semaphores),
    ("holder-died", Of::Semaphores),
    // A new limit when nobody holds.
    ("limit-replaced", Of::Semaphores),
    // A slot that goes to the next caller of its process.
    ("handed-over", Of::Semaphores),
    // Shared sessions: several holds use one, one may have leftovers, one leaves, a key comes late.
    ("session-shared", Of::Semaphores),
    ("session-retired", Of::Semaphores),
    ("shared-loss", Of::Semaphores),
    ("late-key", Of::Semaphores),
    // Holders that are watched together.
    ("asked-together", Of::Semaphores),
    ("change-found", Of::Semaphores),
    // Contenders that leave a free slot unused.
    ("others-passed", Of::Semaphores),
    // The possible effects of an answer.
    ("index-reset", Of::Both),
    ("early-answer", Of::Both),
    ("unknown-outcome", Of::Semaphores),
    ("claim-found", Of::Semaphores),
    // Elections.
    ("unknown-attempt", Of::Elections),
    ("refused-attempt", Of::Elections),
    ("late-attempt", Of::Elections),
    // Shared connections: refused, none opened for a while, polls without one, and abandoned polls
    // that still count.
    ("connection-refused", Of::Semaphores),
    ("connections-shut", Of::Semaphores),
    ("poll-sliced", Of::Semaphores),
    ("poll-given-up", Of::Semaphores),
];

/// How often each branch was taken.
pub type Taken = BTreeMap<&'static str, u64>;

/// The branches of these places that were not taken.
pub fn missed(taken: &Taken, of: Of) -> Vec<&'static str> {
    let concerns = |where_it_is: Of| of == Of::Both || where_it_is == of || where_it_is == Of::Both;
    let expected = BRANCHES.iter().filter(|(_, it)| concerns(*it));
    let names = expected.map(|(name, _)| *name);
    names
        .filter(|name| taken.get(name).is_none_or(|count| *count == 0))
        .collect()
}

/// Runs something on this thread, and counts the branches that it takes.
pub(crate) fn count<T>(run: impl FnOnce() -> T) -> (T, Taken) {
    let counter = Counter::default();
    let done = with_default(counter.clone(), run);
    let taken = std::mem::take(&mut *counter.lock());
    (done, taken)
}

#[derive(Clone, Default)]
struct Counter(Arc<Mutex<Taken>>);

impl Counter {
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The machines and the connections only log their rare branches.
fn is_counted(metadata: &Metadata<'_>) -> bool {
    // Not by the target: what a user reads has that of the crate.
    let place = metadata.module_path().unwrap_or_default();
    let is_inside = |module: &str| place.starts_with(module);
    metadata.is_event()
        && (is_inside("semaphore_core::machine") || is_inside("semaphore_core::connections"))
}

impl Subscriber for Counter {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if is_counted(metadata) {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        is_counted(metadata)
    }

    fn event(&self, event: &Event<'_>) {
        *self.lock().entry(event.metadata().name()).or_default() += 1;
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
