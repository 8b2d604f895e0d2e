//! Consul's last states, for a leader that lacks the last changes.

use transport_mock::consul::{Consul, Snapshot};

/// The most states that are kept. A leader that lacks more starts with the oldest.
const MOST: usize = 20;

#[derive(Default)]
pub(super) struct Past {
    index: Option<u64>,
    states: Vec<Snapshot>,
}

impl Past {
    /// Saves the present state, if it is new.
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

    /// The state without this many of the last changes.
    pub(super) fn lacking(&self, changes: usize) -> Option<&Snapshot> {
        let last = self.states.len().checked_sub(1)?;
        self.states.get(last.saturating_sub(changes))
    }
}
