//! Sessions that are admitted again although the record already named them. Such a write also
//! begins a turn, with its own token.

use std::collections::{BTreeMap, BTreeSet};

use semaphore_core::sans_io::Request;

use super::transaction::Transaction;
use crate::history::Who;
use crate::plan::Plan;

pub(super) struct Turns {
    /// Hosts whose slots pass from user to user. After a refusal of transactions, slots no longer
    /// pass.
    passing: BTreeSet<Who>,
    /// For each prefix and session, when the contender key was created by which the holder was
    /// admitted.
    entered: BTreeMap<(usize, String), u64>,
}

/// The holders in the record before and after a write, and those of the latter that are the
/// writer's.
pub(super) struct Holders<'a> {
    pub(super) had: &'a BTreeSet<String>,
    pub(super) has: &'a BTreeSet<String>,
    pub(super) own: &'a BTreeSet<String>,
}

impl Turns {
    pub(super) fn new(plan: &Plan) -> Self {
        let passing = plan.hosts.iter();
        Self {
            passing: passing.map(|it| Who::Ours(it.number)).collect(),
            entered: BTreeMap::new(),
        }
    }

    /// Those of the earlier holders whose turn begins by this write. `since` returns the index at
    /// which a session's contender key was created.
    pub(super) fn admitted_anew(
        &mut self,
        prefix: usize,
        by: Who,
        request: &Request,
        holders: &Holders<'_>,
        since: impl Fn(&str) -> Option<u64>,
    ) -> Vec<String> {
        let mut anew = self.passed(by, request, holders);
        for session in holders.has {
            let Some(since) = since(session) else {
                continue;
            };
            let stays = holders.had.contains(session);
            let at = (prefix, session.clone());
            let has_entered = self.entered.get(&at).is_some_and(|known| *known != since);
            if stays && has_entered && holders.own.contains(session) {
                anew.insert(session.clone());
            }
            if !stays || !has_entered || holders.own.contains(session) {
                self.entered.insert(at, since);
            }
        }
        anew.into_iter().collect()
    }

    /// The slots that pass to the next users of their host. A transaction shows which sessions
    /// these are. If a separate request replaced it, any of the host's may be meant.
    fn passed(&self, by: Who, request: &Request, holders: &Holders<'_>) -> BTreeSet<String> {
        if !self.passing.contains(&by) {
            return BTreeSet::new();
        }
        let stay = holders.had.intersection(holders.has);
        match Transaction::of(request) {
            Some(transaction) => {
                let tied: BTreeSet<_> = transaction.tied().collect();
                stay.filter(|it| tied.contains(it.as_str()))
                    .cloned()
                    .collect()
            }
            None if holders.has.is_subset(holders.had) => Self::of_writer(holders),
            None => BTreeSet::new(),
        }
    }

    /// If the separate request admits others, too, any of the host's that stay may have been
    /// admitted again.
    pub(super) fn may_have_passed(
        &self,
        by: Who,
        request: &Request,
        holders: &Holders<'_>,
    ) -> Vec<String> {
        let is_separate = self.passing.contains(&by) && Transaction::of(request).is_none();
        if is_separate && !holders.has.is_subset(holders.had) {
            Self::of_writer(holders).into_iter().collect()
        } else {
            Vec::new()
        }
    }

    /// The holders that stay and are the writer's.
    fn of_writer(holders: &Holders<'_>) -> BTreeSet<String> {
        let stay = holders.had.intersection(holders.has);
        stay.filter(|it| holders.own.contains(*it))
            .cloned()
            .collect()
    }
}
