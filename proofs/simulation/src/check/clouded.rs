//! The hosts that may not know or do what they should: their token hides something or refuses
//! writes, a gateway answers in Consul's place, or indexes have started again. Each is excused at a
//! prefix until it has seen a whole answer about that prefix again.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::Happening;
use crate::plan::is_own;

#[derive(Default)]
pub(super) struct Clouded {
    /// The hosts, each with a prefix of which it may not know everything, or do what it should there.
    places: BTreeMap<(usize, usize), BTreeSet<Cloud>>,
    /// All hosts that have run, with the prefixes at which they contend with others.
    booted: BTreeSet<(usize, usize)>,
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
        match what {
            Happening::Booted { host, prefix, .. } => _ = self.booted.insert((*host, *prefix)),
            Happening::Blinded { host } => self.cover(Some(*host), Cloud::Blinded),
            Happening::Narrowed { host } => self.cover(Some(*host), Cloud::Narrowed),
            Happening::Denied { host } => self.cover(Some(*host), Cloud::Denied),
            Happening::NewEpoch => self.cover(None, Cloud::Renumbered),
            Happening::Whole { host, prefix } => _ = self.places.remove(&(*host, *prefix)),
            _ => {}
        }
    }

    fn cover(&mut self, host: Option<usize>, cloud: Cloud) {
        let booted = self.booted.iter();
        for place in booted.filter(|(it, _)| host.is_none_or(|host| host == *it)) {
            self.places.entry(*place).or_default().insert(cloud);
        }
    }

    /// Whether such a cloud is over what this host does at this prefix. Of those that nobody else wants,
    /// the host is shown nothing that others can hide: there any of its prefixes counts.
    fn is_at(&self, (host, prefix): (usize, usize), any: impl Fn(Cloud) -> bool) -> bool {
        let places = self.places.iter();
        let mut its =
            places.filter(|((of, at), _)| *of == host && (is_own(prefix) || *at == prefix));
        its.any(|(_, clouds)| clouds.iter().any(|cloud| any(*cloud)))
    }

    fn is(&self, host: usize, any: impl Fn(Cloud) -> bool) -> bool {
        let mut its = self.places.iter().filter(|((of, _), _)| *of == host);
        its.any(|(_, clouds)| clouds.iter().any(|cloud| any(*cloud)))
    }

    /// Whether it can't see its own keys at this prefix.
    pub(super) fn is_blinded_at(&self, host: usize, prefix: usize) -> bool {
        self.is_at((host, prefix), |cloud| cloud == Cloud::Blinded)
    }

    /// Whether anything is unknown or refused to it at this prefix.
    pub(super) fn covers_at(&self, host: usize, prefix: usize) -> bool {
        self.is_at((host, prefix), |_| true)
    }

    /// Whether it may not be able to clean up somewhere: it does not know what there is, or may not
    /// write it. A session may be used at all its prefixes.
    pub(super) fn is_hampered(&self, host: usize) -> bool {
        self.is(host, |cloud| cloud != Cloud::Denied)
    }

    /// Whether anything is unknown or refused to it.
    pub(super) fn covers(&self, host: usize) -> bool {
        self.is(host, |_| true)
    }
}
