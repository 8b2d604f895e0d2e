//! The hosts that may not know or do what they should: their token hides something or refuses
//! writes, or indexes have started again. Each is excused at a prefix until it has seen a whole
//! answer about that prefix again.

use std::collections::BTreeSet;

use crate::history::Happening;
use crate::plan::is_own;

#[derive(Default)]
pub(super) struct Clouded {
    /// The hosts, each with a prefix of which it may not know everything.
    hosts: BTreeSet<(usize, usize)>,
    /// All hosts that have run, with the prefixes at which they contend with others.
    booted: BTreeSet<(usize, usize)>,
}

impl Clouded {
    pub(super) fn happen(&mut self, what: &Happening) {
        match what {
            Happening::Booted { host, prefix, .. } => _ = self.booted.insert((*host, *prefix)),
            Happening::Blinded { host }
            | Happening::Narrowed { host }
            | Happening::Denied { host } => {
                let its = self.booted.iter().filter(|(it, _)| it == host);
                self.hosts.extend(its);
            }
            Happening::NewEpoch => self.hosts.clone_from(&self.booted),
            Happening::Whole { host, prefix } => _ = self.hosts.remove(&(*host, *prefix)),
            _ => {}
        }
    }

    /// Whether it covers anything of this host: a session may be used at all its prefixes.
    pub(super) fn covers(&self, host: usize) -> bool {
        self.hosts.iter().any(|(it, _)| *it == host)
    }

    /// Whether it covers what this host does at this prefix. Of those that nobody else wants, the host
    /// is shown nothing that others can hide.
    pub(super) fn covers_at(&self, host: usize, prefix: usize) -> bool {
        if is_own(prefix) {
            self.covers(host)
        } else {
            self.hosts.contains(&(host, prefix))
        }
    }
}
