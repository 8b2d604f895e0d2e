//! Consul's states after its last changes, for a leader to begin from.

use transport_mock::consul::{Consul, Snapshot};

/// How many states are kept. A leader that lacks more begins from the first.
const MOST: usize = 20;

#[derive(Default)]
pub(super) struct Past {
    index: Option<u64>,
    states: Vec<Snapshot>,
}

impl Past {
    /// Remembers the present state, if it is a new one.
    pub(super) fn look_at(&mut self, consul: &Consul) {
        let index = consul.last_index();
        if self.index.replace(index) == Some(index) {
            return;
        }
        if self.states.len() == MOST {
            self.states.remove(1);
        }
        self.states.push(consul.snapshot());
    }

    /// The state that lacks so many of the last changes.
    pub(super) fn lacking(&self, changes: usize) -> Option<&Snapshot> {
        let last = self.states.len().checked_sub(1)?;
        self.states.get(last.saturating_sub(changes))
    }
}
