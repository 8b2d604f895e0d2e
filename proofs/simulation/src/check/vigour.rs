//! Which hosts can do at once what they have to: nothing keeps them from Consul, and what they know
//! of it is whole.

use std::collections::BTreeMap;

use semaphore_core::sans_io::Instant;

use super::clouded::Clouded;
use crate::history::Happening;

#[derive(Default)]
pub(super) struct Vigour {
    clouded: Clouded,
    hindered: BTreeMap<usize, Instant>,
    all_hindered: Instant,
}

impl Vigour {
    pub(super) fn happen(&mut self, at: Instant, what: &Happening) {
        self.clouded.happen(what);
        match what {
            Happening::Booted { host, .. } => self.hinder(*host, at),
            Happening::Hindered { host, until }
            | Happening::Trouble {
                host: Some(host),
                until,
            } => self.hinder(*host, *until),
            Happening::Trouble { host: None, until } => {
                self.all_hindered = self.all_hindered.max(*until);
            }
            Happening::NewEpoch | Happening::Revived { .. } => {
                self.all_hindered = self.all_hindered.max(at);
            }
            _ => {}
        }
    }

    fn hinder(&mut self, host: usize, until: Instant) {
        let hindered = self.hindered.entry(host).or_default();
        *hindered = (*hindered).max(until);
    }

    /// Since when the host can do what it has to at this prefix. `None` while its token hides or refuses
    /// something.
    pub(super) fn since(&self, host: usize, prefix: usize) -> Option<Instant> {
        let hindered = self.hindered.get(&host).copied().unwrap_or_default();
        let since = hindered.max(self.all_hindered);
        (!self.clouded.covers_at(host, prefix)).then_some(since)
    }
}
