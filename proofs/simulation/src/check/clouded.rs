//! The hosts that may not know or do what they should: their token hides something or refuses
//! writes, or indexes have started again. Each is excused until it has seen a whole answer again.

use std::collections::BTreeSet;

use crate::history::Happening;

#[derive(Default)]
pub(super) struct Clouded {
    hosts: BTreeSet<usize>,
    /// All hosts that have run.
    booted: BTreeSet<usize>,
}

impl Clouded {
    pub(super) fn happen(&mut self, what: &Happening) {
        match what {
            Happening::Booted { host, .. } => _ = self.booted.insert(*host),
            Happening::Blinded { host }
            | Happening::Narrowed { host }
            | Happening::Denied { host } => _ = self.hosts.insert(*host),
            Happening::NewEpoch => self.hosts.clone_from(&self.booted),
            Happening::Whole { host } => _ = self.hosts.remove(host),
            _ => {}
        }
    }

    pub(super) fn covers(&self, host: usize) -> bool {
        self.hosts.contains(&host)
    }
}
