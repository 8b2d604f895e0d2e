//! Which of the core's rare branches a run takes, counted by their log events.
//!
//! A check proves nothing about a branch that no world ever reaches. So they are counted, and
//! [`missed`] lists those that were never taken.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, with_default};
use tracing::{Event, Metadata, Subscriber};

/// Where a branch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// In semaphores.
    Semaphores,
    /// In elections.
    Elections,
    /// In both.
    Both,
}

/// The branches that some world of any thousand must take, by the names of their events. Others are
/// counted, too: `write-unfounded` takes a snapshot that is restored in the instant before a write, which
/// one world in some hundreds has.
pub const BRANCHES: [(&str, Of); 33] = [
    // Dead holders: missed, asked for, left alone for their lock delay, taken out.
    ("vanished", Of::Semaphores),
    ("inquiry", Of::Semaphores),
    ("hidden-holder", Of::Semaphores),
    ("lock-delay", Of::Semaphores),
    ("prune", Of::Semaphores),
    // Another limit where nobody holds.
    ("limit-replaced", Of::Semaphores),
    // Slots and sessions for the next turn.
    ("slot-passed", Of::Semaphores),
    ("session-kept", Of::Semaphores),
    // Sessions that are shared: several hold by one, one that something may be left on, one that goes, a key that comes late.
    ("session-shared", Of::Semaphores),
    ("session-retired", Of::Semaphores),
    ("shared-loss", Of::Semaphores),
    ("late-key", Of::Semaphores),
    // Holders that are looked after together.
    ("asked-together", Of::Semaphores),
    ("change-found", Of::Semaphores),
    // Those who leave a free slot unused.
    ("patience-over", Of::Semaphores),
    ("others-passed", Of::Semaphores),
    // Many.
    ("crowd", Of::Semaphores),
    // Where lists are dear.
    ("read-by-name", Of::Semaphores),
    // What an answer may do.
    ("index-reset", Of::Both),
    ("early-answer", Of::Both),
    ("unknown-outcome", Of::Semaphores),
    ("claim-found", Of::Semaphores),
    ("no-transactions", Of::Semaphores),
    // The session of a holder or leader. These show in the requests.
    ("renewal-confirmed", Of::Both),
    ("renewal-revoked", Of::Both),
    ("missing-session-found", Of::Both),
    // Elections.
    ("unknown-attempt", Of::Elections),
    ("refused-attempt", Of::Elections),
    ("late-attempt", Of::Elections),
    // Connections that are shared: refused, none opened for a while, polls that have none, and those that are
    // given up and count on.
    ("connection-refused", Of::Semaphores),
    ("connections-shut", Of::Semaphores),
    ("poll-sliced", Of::Semaphores),
    ("poll-given-up", Of::Semaphores),
];

/// How often each branch was taken.
pub type Taken = BTreeMap<&'static str, u64>;

/// Which of the branches of these places were not taken.
pub fn missed(taken: &Taken, of: Of) -> Vec<&'static str> {
    let concerns = |where_it_is: Of| of == Of::Both || where_it_is == of || where_it_is == Of::Both;
    let expected = BRANCHES.iter().filter(|(_, it)| concerns(*it));
    let names = expected.map(|(name, _)| *name);
    names
        .filter(|name| taken.get(name).is_none_or(|count| *count == 0))
        .collect()
}

/// Runs something on this thread, and counts the branches that it takes there.
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

/// The machines and the connections log where a branch is rare, and nothing else.
fn is_counted(metadata: &Metadata<'_>) -> bool {
    let target = metadata.target();
    let is_inside = |module: &str| target.starts_with(module);
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
