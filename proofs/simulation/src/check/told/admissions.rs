//! The writes that may have admitted each grant.
//!
//! If an operator makes indexes go backwards, they start again. If a leader is elected with a key
//! that was acquired before, its token may be from before or after that.

use std::collections::{BTreeMap, BTreeSet};

use judge::{Admission, Event, Place, Write};
use semaphore_core::FencingToken;

use crate::history::{Belief, Change, Happening, Subject, Who};

#[derive(Default)]
pub(super) struct Admissions {
    applied: u64,
    epoch: u64,
    elections: BTreeSet<usize>,
    /// The write that last made a session a holder, at each prefix. A shared session is used at
    /// several.
    turns: BTreeMap<(usize, String), Turn>,
    /// Sessions that a snapshot has made holders again. A write that changes no holders may grant
    /// their next turn, with an earlier token.
    brought_back: BTreeSet<(usize, String)>,
}

/// How a session became a holder.
struct Turn {
    by: Who,
    /// The write that made it a holder. If the record named the session before, any write of its
    /// host that keeps the session may be the one, until the grant.
    writes: Vec<Write>,
    is_open: bool,
}

impl Admissions {
    /// The judge's event, if any.
    pub(super) fn happen(&mut self, what: &Happening) -> Option<Event> {
        match what {
            Happening::NewEpoch => self.epoch += 1,
            Happening::Changed(change) => {
                self.applied += 1;
                if let Subject::Key { .. } = change.of {
                    self.elections.insert(change.prefix);
                }
                self.admit(change);
            }
            // Who asks a holder to leave writes its key, too.
            Happening::Touched {
                prefix,
                by: Who::Ours(_),
                sessions,
            } => self.touch(*prefix, sessions),
            Happening::Granted { belief, token } if matches!(belief.who, Who::Ours(_)) => {
                return self.grant(belief, *token);
            }
            _ => {}
        }
        None
    }

    fn grant(&mut self, belief: &Belief, token: FencingToken) -> Option<Event> {
        let sessions = belief.sessions.iter();
        let sessions: Vec<_> = sessions.map(|it| (belief.prefix, it.clone())).collect();
        let sessions = &sessions;
        if sessions.iter().any(|it| self.brought_back.remove(it)) {
            return None;
        }
        let mut writes = self.writes(sessions);
        let is_of_election = self.elections.contains(&belief.prefix);
        // A semaphore's grant is of the last write that touched its keys.
        if !is_of_election {
            writes.drain(..writes.len().saturating_sub(1));
        }
        let is_former = |first: &Write| first.epoch != self.epoch;
        if writes.first().is_some_and(is_former) && is_of_election {
            return None;
        }
        for session in sessions {
            if let Some(turn) = self.turns.get_mut(session) {
                turn.is_open = false;
                // The next user of the slot gets it by a later write.
                if !is_of_election {
                    turn.writes.clear();
                }
            }
        }
        Some(Event::Granted {
            place: Place(belief.prefix),
            permits: belief.permits,
            token: token.0,
            admitted: writes.into_iter().map(Admission::By).collect(),
            name: belief.to_string(),
        })
    }

    /// A slot passes to another user by a write of its contender key.
    fn touch(&mut self, prefix: usize, sessions: &[String]) {
        self.applied += 1;
        let write = Write {
            epoch: self.epoch,
            number: self.applied,
        };
        for session in sessions {
            if let Some(turn) = self.turns.get_mut(&(prefix, session.clone())) {
                turn.writes.push(write);
            }
        }
    }

    /// The writes that may have admitted all of these.
    fn writes(&self, sessions: &[(usize, String)]) -> Vec<Write> {
        let writes =
            |session: &(usize, String)| self.turns.get(session).map(|turn| turn.writes.as_slice());
        let of_all = |it: &&Write| {
            let has = |session| writes(session).is_some_and(|writes| writes.contains(it));
            sessions.iter().all(has)
        };
        let first = sessions.first().and_then(writes).unwrap_or_default();
        first.iter().filter(of_all).copied().collect()
    }

    /// Notes the sessions that this write admits, and those that it may have admitted by keeping
    /// them.
    fn admit(&mut self, change: &Change) {
        let write = Write {
            epoch: self.epoch,
            number: self.applied,
        };
        for ((prefix, session), turn) in &mut self.turns {
            let is_here = turn.is_open && *prefix == change.prefix && turn.by == change.by;
            if is_here && change.holders().contains(session) {
                turn.writes.push(write);
            }
        }
        for session in &change.may_have_passed {
            let turn = self.turns.get_mut(&(change.prefix, session.clone()));
            if let Some(turn) = turn.filter(|it| it.by == change.by && !it.is_open) {
                turn.writes.push(write);
                turn.is_open = true;
            }
        }
        let added = change.added.iter().map(|session| (session, false));
        let passed = change.passed.iter().map(|session| (session, true));
        for (session, is_open) in added.chain(passed) {
            let session = (change.prefix, session.clone());
            let turn = Turn {
                by: change.by,
                writes: vec![write],
                is_open,
            };
            // An operator admits nobody. What a snapshot brings back was admitted before.
            if change.by == Who::Operator {
                if self.turns.contains_key(&session) {
                    self.brought_back.insert(session.clone());
                }
                self.turns.entry(session).or_insert(turn);
            } else {
                self.brought_back.remove(&session);
                self.turns.insert(session, turn);
            }
        }
    }
}
