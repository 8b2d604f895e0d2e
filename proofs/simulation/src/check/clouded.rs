//! The hosts that may not know or do what they should: their token hides something or refuses
//! writes, a gateway answers in Consul's place, or indexes have started again. Each is excused until it
//! has seen a whole answer again.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::Happening;

#[derive(Default)]
pub(super) struct Clouded {
    hosts: BTreeMap<usize, BTreeSet<Cloud>>,
    /// All hosts that have run.
    booted: BTreeSet<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cloud {
    /// It can't see its own keys.
    Blinded,
    /// It may not write everything.
    Narrowed,
    /// It can't see others' keys, or a gateway answers.
    Denied,
    /// It knows indexes from before they started again.
    Renumbered,
}

impl Clouded {
    pub(super) fn happen(&mut self, what: &Happening) {
        let (host, cloud) = match what {
            Happening::Booted { host, .. } => {
                self.booted.insert(*host);
                return;
            }
            Happening::Blinded { host } => (host, Cloud::Blinded),
            Happening::Narrowed { host } => (host, Cloud::Narrowed),
            Happening::Denied { host } => (host, Cloud::Denied),
            Happening::NewEpoch => {
                for host in &self.booted {
                    self.hosts
                        .entry(*host)
                        .or_default()
                        .insert(Cloud::Renumbered);
                }
                return;
            }
            Happening::Whole { host } => {
                self.hosts.remove(host);
                return;
            }
            _ => return,
        };
        self.hosts.entry(*host).or_default().insert(cloud);
    }

    fn is(&self, host: usize, any: impl Fn(Cloud) -> bool) -> bool {
        let clouds = self.hosts.get(&host);
        clouds.is_some_and(|clouds| clouds.iter().any(|cloud| any(*cloud)))
    }

    /// Whether it can't see its own keys.
    pub(super) fn is_blinded(&self, host: usize) -> bool {
        self.is(host, |cloud| cloud == Cloud::Blinded)
    }

    /// Whether it may not be able to clean up: it does not know what there is, or may not write it.
    pub(super) fn is_hampered(&self, host: usize) -> bool {
        self.is(host, |cloud| cloud != Cloud::Denied)
    }

    /// Whether anything is unknown or refused to it.
    pub(super) fn is_any(&self, host: usize) -> bool {
        self.is(host, |_| true)
    }
}
