//! Who is admitted again although the record named it before: such a write also begins a turn, with
//! a separate token.

use std::collections::{BTreeMap, BTreeSet};

use semaphore_core::Encoding;
use semaphore_core::sans_io::Request;

use super::transaction::Transaction;
use crate::history::Who;
use crate::plan::Plan;

pub(super) struct Turns {
    /// Hosts whose slots pass from user to user. Whose agent refuses transactions goes on without.
    passing: BTreeSet<Who>,
    /// Since when the contender key is there by which a holder was admitted, for each prefix and session.
    entered: BTreeMap<(usize, String), u64>,
}

/// Whom the record named before a write and after it, and who of the latter are the writer's own.
pub(super) struct Holders<'a> {
    pub(super) had: &'a BTreeSet<String>,
    pub(super) has: &'a BTreeSet<String>,
    pub(super) own: &'a BTreeSet<String>,
}

impl Turns {
    pub(super) fn new(plan: &Plan) -> Self {
        let passing = plan.hosts.iter();
        let passing = passing.filter(|it| it.encoding == Encoding::Transactions);
        Self {
            passing: passing.map(|it| Who::Ours(it.number)).collect(),
            entered: BTreeMap::new(),
        }
    }

    /// Whose turn begins by this write of the record at a prefix, of those that it named before. `since`
    /// says at which index a session's contender key was created.
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

    /// A slot passes to the next user of its host. A transaction says whose; what takes its place where it
    /// was refused may mean any of its host's.
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
            None if holders.has.is_subset(holders.had) => stay
                .filter(|it| holders.own.contains(*it))
                .cloned()
                .collect(),
            None => BTreeSet::new(),
        }
    }
}
