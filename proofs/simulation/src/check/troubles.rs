//! What keeps hosts from Consul, and until when they may feel it.

use std::collections::BTreeMap;

use semaphore_core::sans_io::Instant;

use crate::history::Happening;

#[derive(Default)]
pub(super) struct Troubles {
    /// The last trouble without a break: of one host, or of all.
    last: BTreeMap<Option<usize>, Trouble>,
}

#[derive(Clone, Copy, Default)]
struct Trouble {
    from: Instant,
    until: Instant,
}

impl Troubles {
    pub(super) fn happen(&mut self, at: Instant, what: &Happening) {
        let Happening::Trouble { host, until } = what else {
            return;
        };
        let last = self.last.entry(*host).or_default();
        if at > last.until {
            last.from = at;
        }
        last.until = last.until.max(*until);
    }

    fn of(&self, host: usize) -> impl Iterator<Item = &Trouble> {
        let both = [Some(host), None];
        both.into_iter().filter_map(|whose| self.last.get(&whose))
    }

    /// Until when this host has had trouble.
    pub(super) fn until(&self, host: usize) -> Instant {
        let ends = self.of(host).map(|it| it.until);
        ends.max().unwrap_or_default()
    }

    /// The same for what had begun by this moment and went on beyond it, if anything did.
    pub(super) fn begun_by(&self, moment: Instant, host: usize) -> Option<Instant> {
        let begun = self
            .of(host)
            .filter(|it| it.from <= moment && it.until > moment);
        begun.map(|it| it.until).max()
    }
}
