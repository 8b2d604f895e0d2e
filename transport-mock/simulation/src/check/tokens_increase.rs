//! S5: fencing tokens strictly increase in the order in which claims were applied, and none is
//! granted twice. Indexes that an operator lets go backwards begin anew. Whoever is elected by a key that
//! was acquired before may read its token before or after that.

use std::collections::{BTreeMap, BTreeSet};

use semaphore_core::{FencingToken, Instant};

use super::{Check, Invariant, Verdict};
use crate::history::{Happening, Subject, Who};

#[derive(Default)]
pub(super) struct TokensIncrease {
    applied: u64,
    epoch: u64,
    elections: BTreeSet<usize>,
    /// Which write made a session a holder last.
    admissions: BTreeMap<String, Admission>,
    granted: BTreeMap<(usize, u64, u64), FencingToken>,
    /// Whom a snapshot has made a holder again. Its next turn may be granted by a write that changes no
    /// holder, with a token from before.
    brought_back: BTreeSet<String>,
}

#[derive(Clone, Copy, PartialEq)]
struct Admission {
    epoch: u64,
    order: u64,
}

impl TokensIncrease {
    fn grant(&mut self, prefix: usize, sessions: &[String], token: FencingToken) -> Verdict {
        if sessions.iter().any(|it| self.brought_back.remove(it)) {
            return Ok(());
        }
        let mut admissions = sessions.iter().map(|it| self.admissions.get(it).copied());
        let Some(Some(first)) = admissions.next() else {
            return Err(format!(
                "token {token} was granted, and no write of the record admitted it"
            ));
        };
        if admissions.any(|it| it != Some(first)) {
            return Err(format!("token {token} was granted for more than one write"));
        }
        if first.epoch != self.epoch && self.elections.contains(&prefix) {
            return Ok(());
        }
        let key = (prefix, first.epoch, first.order);
        if self.granted.insert(key, token).is_some() {
            return Err(format!("one write gave two grants, token {token}"));
        }
        let same_epoch = |at: &(usize, u64, u64)| at.0 == prefix && at.1 == first.epoch;
        let before = self.granted.range(..key).next_back();
        let after = self.granted.range(key..).nth(1);
        let is_higher = before.is_none_or(|(at, it)| !same_epoch(at) || *it < token);
        let is_lower = after.is_none_or(|(at, it)| !same_epoch(at) || *it > token);
        if is_higher && is_lower {
            Ok(())
        } else {
            let (before, after) = (before.map(|it| it.1), after.map(|it| it.1));
            Err(format!(
                "token {token} is not between its neighbours {before:?} and {after:?}"
            ))
        }
    }
}

impl Check for TokensIncrease {
    fn invariant(&self) -> Invariant {
        Invariant::S5
    }

    fn happen(&mut self, _: Instant, what: &Happening) -> Verdict {
        match what {
            Happening::NewEpoch => self.epoch += 1,
            Happening::Changed(change) => {
                self.applied += 1;
                if let Subject::Key { .. } = change.of {
                    self.elections.insert(change.prefix);
                }
                let (epoch, order) = (self.epoch, self.applied);
                for session in change.added.iter().chain(&change.passed) {
                    let admission = Admission { epoch, order };
                    // An operator admits nobody: what a snapshot brings back was admitted before.
                    if change.by == Who::Operator {
                        if self.admissions.contains_key(session) {
                            self.brought_back.insert(session.clone());
                        }
                        let known = self.admissions.entry(session.clone());
                        known.or_insert(admission);
                    } else {
                        self.brought_back.remove(session);
                        self.admissions.insert(session.clone(), admission);
                    }
                }
            }
            Happening::Granted { belief, token } if matches!(belief.who, Who::Ours(_)) => {
                return self.grant(belief.prefix, &belief.sessions, *token);
            }
            _ => {}
        }
        Ok(())
    }
}
