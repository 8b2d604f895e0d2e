//! The hosts that may not know or do what they should: their token hides something or refuses
//! writes, or indexes have started again. Each is excused until it has seen a whole answer again.

use std::collections::BTreeMap;

use semaphore_core::sans_io::Instant;

use crate::history::Happening;

#[derive(Default)]
pub(super) struct Clouded {
    hosts: BTreeMap<usize, Cloud>,
    /// All hosts that have run.
    booted: Vec<usize>,
}

#[derive(Clone, Copy, Default)]
struct Cloud {
    /// How many deeds last.
    lasting: u32,
    /// From when on an answer is whole.
    whole_since: Instant,
}

impl Clouded {
    pub(super) fn happen(&mut self, at: Instant, what: &Happening) {
        match what {
            Happening::Booted { host, .. } => self.booted.push(*host),
            Happening::Blinded { host }
            | Happening::Narrowed { host }
            | Happening::Denied { host } => {
                self.hosts.entry(*host).or_default().lasting += 1;
            }
            Happening::Served { host } => {
                if let Some(cloud) = self.hosts.get_mut(host) {
                    cloud.lasting = cloud.lasting.saturating_sub(1);
                    cloud.whole_since = at;
                }
            }
            Happening::NewEpoch => {
                for host in &self.booted {
                    self.hosts.entry(*host).or_default().whole_since = at;
                }
            }
            Happening::Informed { host, of } => {
                let is_over = |cloud: &Cloud| cloud.lasting == 0 && *of >= cloud.whole_since;
                if self.hosts.get(host).is_some_and(is_over) {
                    self.hosts.remove(host);
                }
            }
            _ => {}
        }
    }

    pub(super) fn covers(&self, host: usize) -> bool {
        self.hosts.contains_key(&host)
    }
}
