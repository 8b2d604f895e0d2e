//! S5: fencing tokens strictly increase in the order in which claims were applied, and none is
//! granted twice. Indexes that an operator lets go backwards begin anew. Whoever is elected by a key that
//! was acquired before may read its token before or after that.

use std::collections::{BTreeMap, BTreeSet};

use semaphore_core::FencingToken;
use semaphore_core::sans_io::Instant;

use super::{Check, Invariant, Verdict};
use crate::history::{Change, Happening, Subject, Who};

#[derive(Default)]
pub(super) struct TokensIncrease {
    applied: u64,
    epoch: u64,
    elections: BTreeSet<usize>,
    /// Which write made a session a holder last.
    turns: BTreeMap<String, Turn>,
    granted: BTreeMap<(usize, u64, u64), FencingToken>,
    /// Whom a snapshot has made a holder again. Its next turn may be granted by a write that changes no
    /// holder, with a token from before.
    brought_back: BTreeSet<String>,
}

/// What made a session a holder.
struct Turn {
    by: Who,
    /// The write that did. Of whom the record named before, that may be any write of its host that keeps it
    /// there, until it is granted.
    writes: Vec<Admission>,
    is_open: bool,
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
        let admissions = self.admissions(sessions);
        let Some(first) = admissions.first() else {
            return Err(format!(
                "token {token} was granted, and no write of the record admitted all of it"
            ));
        };
        if first.epoch != self.epoch && self.elections.contains(&prefix) {
            return Ok(());
        }
        for session in sessions {
            if let Some(turn) = self.turns.get_mut(session) {
                turn.is_open = false;
            }
        }
        let mut verdict = Ok(());
        for admission in admissions {
            let key = (prefix, admission.epoch, admission.order);
            verdict = self.judge(key, token);
            if verdict.is_ok() {
                self.granted.insert(key, token);
                break;
            }
        }
        verdict
    }

    /// The writes that may have admitted all of these.
    fn admissions(&self, sessions: &[String]) -> Vec<Admission> {
        let writes = |session: &String| self.turns.get(session).map(|turn| turn.writes.as_slice());
        let of_all = |it: &&Admission| {
            let has = |session| writes(session).is_some_and(|writes| writes.contains(it));
            sessions.iter().all(has)
        };
        let first = sessions.first().and_then(writes).unwrap_or_default();
        first.iter().filter(of_all).copied().collect()
    }

    fn judge(&self, key: (usize, u64, u64), token: FencingToken) -> Verdict {
        if self.granted.contains_key(&key) {
            return Err(format!("one write gave two grants, token {token}"));
        }
        let same_epoch = |at: &(usize, u64, u64)| (at.0, at.1) == (key.0, key.1);
        let before = self.granted.range(..key).next_back();
        let after = self.granted.range(key..).next();
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

    /// Who becomes a holder by a write, or stays one and may have become one by it.
    fn admit(&mut self, change: &Change) {
        let admission = Admission {
            epoch: self.epoch,
            order: self.applied,
        };
        for (session, turn) in &mut self.turns {
            if turn.is_open && turn.by == change.by && change.holders().contains(session) {
                turn.writes.push(admission);
            }
        }
        let added = change.added.iter().map(|session| (session, false));
        let passed = change.passed.iter().map(|session| (session, true));
        for (session, is_open) in added.chain(passed) {
            let turn = Turn {
                by: change.by,
                writes: vec![admission],
                is_open,
            };
            // An operator admits nobody: what a snapshot brings back was admitted before.
            if change.by == Who::Operator {
                if self.turns.contains_key(session) {
                    self.brought_back.insert(session.clone());
                }
                self.turns.entry(session.clone()).or_insert(turn);
            } else {
                self.brought_back.remove(session);
                self.turns.insert(session.clone(), turn);
            }
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
                self.admit(change);
            }
            Happening::Granted { belief, token } if matches!(belief.who, Who::Ours(_)) => {
                return self.grant(belief.prefix, &belief.sessions, *token);
            }
            _ => {}
        }
        Ok(())
    }
}
