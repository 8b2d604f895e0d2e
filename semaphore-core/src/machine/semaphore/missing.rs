//! Holders whose key is missing: when their names may be removed (rule 8).
//!
//! Consul refuses the `lock` of a dead holder's key during its lock delay, and while somebody has it.
//! It has no lock delay where a key was deleted by hand, or where a new leader forgot it: then our own
//! clock counts, from the first list without a key that we had seen. A key that another session has
//! can't be locked, but nobody holds with it. That it stays so is checked, and who had not seen it
//! before waits for the longest lock delay.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::defect::{Defect, is_on};
use crate::id::Index;
use crate::input::SessionOptions;
use crate::time::Instant;
use crate::view::{ContenderFlags, View};

#[derive(Clone, Debug, Default)]
pub(super) struct Missing {
    /// The lock delays of all keys of others that were seen and may matter.
    seen: BTreeMap<String, Seen>,
    gone: BTreeMap<String, Gone>,
    /// Names without a key by the newest list or tree.
    keyless: BTreeSet<String>,
    /// Those by a list that is as new as the record, shows a key of ours and is not filtered.
    suspects: BTreeSet<String>,
}

/// A key of somebody else that was seen.
#[derive(Clone, Debug)]
struct Seen {
    lock_delay: Duration,
    value: Option<Arc<str>>,
}

/// A holder without a key.
#[derive(Clone, Copy, Debug)]
struct Gone {
    /// Our own clock: not before this time.
    not_before: Instant,
    /// After an attempt that Consul refused.
    retry_at: Instant,
    /// The index of its key, if another session has it.
    taken_at: Option<Index>,
}

/// A name that may be removed now.
#[derive(Clone, Debug)]
pub(super) struct Dead {
    pub(super) name: String,
    /// The index of its key, if another session has it.
    pub(super) taken_at: Option<Index>,
}

impl Missing {
    /// A list, or the tree of an entry. `suspects`: whether absences in it count.
    pub(super) fn observe(
        &mut self,
        now: Instant,
        view: &View,
        is_others: impl Fn(&str) -> bool,
        counts: bool,
    ) {
        let keyless: BTreeSet<&str> = view.keyless().filter(|it| is_others(it)).collect();
        self.gone
            .retain(|session, _| keyless.contains(session.as_str()));
        self.keyless = keyless.iter().map(|it| (*it).to_owned()).collect();
        if counts {
            for session in &keyless {
                let taken_at = view.taken_at(session);
                let delay = self.seen.get(*session).map(|seen| seen.lock_delay);
                let unseen = taken_at.map_or(Duration::ZERO, |_| SessionOptions::MAX_LOCK_DELAY);
                let gone = self.gone.entry((*session).to_owned()).or_insert(Gone {
                    not_before: now + delay.unwrap_or(unseen),
                    retry_at: now,
                    taken_at,
                });
                gone.taken_at = taken_at;
            }
            self.suspects = keyless.iter().map(|it| (*it).to_owned()).collect();
        } else {
            self.suspects.retain(|it| keyless.contains(it.as_str()));
        }
        self.seen
            .retain(|session, _| keyless.contains(session.as_str()));
        for contender in view.contenders() {
            let seen = Seen {
                lock_delay: ContenderFlags::lock_delay_of(contender.flags),
                value: contender.value.clone(),
            };
            let session = contender.session.as_str().to_owned();
            self.seen.insert(session, seen);
        }
    }

    /// Whether the newest tree shows a name without a key, other than the known suspects.
    pub(super) fn has_new_keyless(&self) -> bool {
        self.keyless.iter().any(|it| !self.suspects.contains(it))
    }

    /// Whether nobody who is named like this is seen to be alive.
    pub(super) fn is_keyless(&self, session: &str) -> bool {
        self.keyless.contains(session)
    }

    /// What its key said when it was seen: its lock delay, and the beginning of its value.
    pub(super) fn seen(&self, session: &str) -> (Option<Duration>, Option<&str>) {
        let seen = self.seen.get(session);
        let lock_delay = seen.map(|seen| seen.lock_delay);
        (lock_delay, self.value_of(session))
    }

    /// The beginning of the value of this holder's key, if it was seen.
    pub(super) fn value_of(&self, session: &str) -> Option<&str> {
        self.seen.get(session)?.value.as_deref()
    }

    /// A newer record: nobody is a suspect by a list older than it.
    pub(super) fn clear_suspects(&mut self) {
        self.suspects.clear();
    }

    /// Only a write of ours has changed the record since the list that shows them.
    pub(super) fn still_suspects(
        &mut self,
        those: BTreeSet<String>,
        is_named: impl Fn(&str) -> bool,
    ) {
        self.suspects = those;
        self.suspects.retain(|it| is_named(it));
    }

    pub(super) fn take_suspects(&mut self) -> BTreeSet<String> {
        core::mem::take(&mut self.suspects)
    }

    pub(super) fn suspects(&self) -> usize {
        self.suspects.len()
    }

    pub(super) fn is_suspect(&self, session: &str) -> bool {
        self.suspects.contains(session)
    }

    /// The suspects whose names may be removed now.
    pub(super) fn prunable(&self, now: Instant) -> impl Iterator<Item = Dead> {
        self.suspects.iter().filter_map(move |name| {
            let gone = self.gone.get(name)?;
            let by_own_clock = gone.not_before <= now || is_on(Defect::PruneAtOnce);
            (by_own_clock && gone.retry_at <= now).then(|| Dead {
                name: name.clone(),
                taken_at: gone.taken_at,
            })
        })
    }

    /// Consul refuses it for now: it is left alone until then.
    pub(super) fn refused(&mut self, session: &str, until: Instant) {
        if let Some(gone) = self.gone.get_mut(session) {
            gone.retry_at = until;
        }
    }

    /// When the next of the suspects may be tried.
    pub(super) fn due_after(&self, now: Instant) -> Option<Instant> {
        let gone = self.suspects.iter().filter_map(|it| self.gone.get(it));
        let due = gone.map(|gone| gone.not_before.max(gone.retry_at));
        due.filter(|at| *at > now).min()
    }

    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}
