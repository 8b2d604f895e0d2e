//! How the steps of the protocol become requests. Only this module decides it.
//!
//! | step | transaction |
//! |---|---|
//! | enter | `[lock contender, get-tree]`; where lists are dear `[lock contender]` |
//! | write of the record | `[checks, cas .lock, lock or delete contenders, get-tree]` |
//! | ask for the vanished | `[lock …, check-not-exists]`, always rolled back |
//!
//! So each step is atomic. At the moment of admission the admitted contender is tied
//! to its key, and a pruned one has no key (S3, S5). Its answer has the record's new index, so the
//! next step can follow without a read.
//!
//! Sources: Consul's documentation of the transaction endpoint (at most 64 operations; all or
//! nothing, in one entry of the log).

use crate::api::{CasKey, Entry, Operation, Results, Txn, TxnFault, TxnFaultKind, TxnOutcome};
use crate::asked::Asked;
use crate::error::RequestError;
use crate::http::{Request, Response};
use crate::id::{Index, SessionId};
use crate::machine::semaphore::admission::{ContenderNo, Write};
use crate::machine::semaphore::settings::Settings;
use crate::view::{Contender, ContenderFlags, View};

/// What an entering transaction also reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Along {
    Prefix,
    /// Nothing: lists are expensive.
    Nothing,
}

/// The answer to an entry.
#[derive(Debug)]
pub(super) enum Entered {
    /// The key is ours: its state, and the prefix at that moment if it was read, too. `None` if the
    /// token may not read the key.
    Tied(Option<Box<(Contender, Option<View>)>>),
    /// Another session has it.
    Taken,
}

/// The answer to a write of the record.
#[derive(Debug)]
pub(super) enum Written {
    /// It was applied.
    Applied(Option<Box<After>>),
    /// It was not applied: the record has changed since the view, or another condition was not
    /// true.
    Refused {
        /// Whether another condition than the record's index failed.
        is_unfounded: bool,
    },
}

/// The state after an applied transaction.
#[derive(Debug)]
pub(super) struct After {
    /// `ModifyIndex` of the record, and of everything else that it changed.
    pub(super) index: Index,
    /// The keys that it locked, with their new state.
    pub(super) locked: Vec<(ContenderNo, Contender)>,
    /// The prefix right after it, if it was read, too.
    pub(super) view: Option<View>,
}

/// What Consul says about the contender key of a vanished holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probed {
    /// Nobody has it, and its lock delay is over.
    Free,
    /// Somebody has it, or its lock delay is not over.
    NotYet,
    /// Unknown: the answer about others kept the agent from checking it.
    Unknown,
}

/// Ties the contender key to its session.
pub(super) fn enter(
    session: &SessionId,
    flags: ContenderFlags,
    along: Along,
    settings: &Settings,
) -> Request {
    let operations = [
        Operation::Lock {
            key: &settings.prefix.contender_key(session),
            session,
            value: settings.value.as_bytes(),
            flags: flags.encode(),
        },
        Operation::GetTree {
            prefix: &settings.prefix,
        },
    ];
    let operations = match along {
        Along::Nothing => &operations[..1],
        Along::Prefix => &operations[..],
    };
    transaction(operations, settings)
}

/// Reads the answer to [`enter`].
pub(super) fn entered(
    response: &Response,
    session: &SessionId,
    along: Along,
    settings: &Settings,
) -> Result<Entered, RequestError> {
    match Txn::parse(response)? {
        TxnOutcome::Applied(results) => {
            let key = settings.prefix.contender_key(session);
            let is_filtered = results.filtered;
            // A contender that may not read its own key learns nothing else.
            let arrival = results.split(1).ok().and_then(|(heads, tree)| {
                let own = heads.first().filter(|entry| entry.key() == key)?;
                let own = Contender::new(session.clone(), own);
                let index = own.modify_index;
                let view = (along == Along::Prefix)
                    .then(|| View::of_tree(&settings.prefix, index, tree, is_filtered));
                Some(Box::new((own, view)))
            });
            Ok(Entered::Tied(arrival))
        }
        TxnOutcome::RolledBack(faults) => match faults.into_iter().next() {
            Some(fault) if is_taken(fault.kind) => Ok(Entered::Taken),
            fault => Err(refusal(fault).of(response)),
        },
    }
}

/// Asks whether our session could acquire these contender keys. If the first operations
/// succeed, the last one fails, so nothing is ever changed.
pub(super) fn probe(
    sessions: &[SessionId],
    own: &SessionId,
    settings: &Settings,
) -> Option<Request> {
    let keys = sessions.iter().map(|it| settings.prefix.contender_key(it));
    let keys: Vec<_> = keys.collect();
    let lock = |key| Operation::Lock {
        key,
        session: own,
        value: &[],
        flags: 0,
    };
    let key = keys.first()?;
    let operations = keys.iter().map(|key| lock(key));
    let operations: Vec<_> = operations
        .chain([Operation::CheckNotExists { key }])
        .collect();
    Some(transaction(&operations, settings))
}

/// Reads the answer to [`probe`] about this number of `sessions`.
pub(super) fn probed(response: &Response, sessions: usize) -> Result<Vec<Probed>, RequestError> {
    let TxnOutcome::RolledBack(faults) = Txn::parse(response)? else {
        return Err(garbled("a transaction that can't be applied, and was"));
    };
    let mut probed = vec![Probed::Free; sessions];
    let mut is_checked = false;
    let mut is_delayed = false;
    for fault in faults {
        match probed.get_mut(fault.operation) {
            Some(probed) if is_taken(fault.kind) => {
                is_delayed |= fault.kind == TxnFaultKind::Delayed;
                *probed = Probed::NotYet;
            }
            None if fault.operation == sessions && fault.kind == TxnFaultKind::Check => {
                is_checked = true;
            }
            _ => return Err(refusal(Some(fault)).of(response)),
        }
    }
    // Lock delays are checked first, and after one is found nothing else is checked.
    if is_delayed || !is_checked {
        for free in probed.iter_mut().filter(|it| **it == Probed::Free) {
            *free = Probed::Unknown;
        }
    }
    Ok(probed)
}

/// Writes the record.
pub(super) fn write(write: &Write, rest: &Rest, settings: &Settings) -> Request {
    let cas = CasKey {
        key: &settings.prefix.record_key(),
        index: write.base,
        value: &write.record.encode(),
        flags: write.record.flags(),
    };
    rest.transaction(cas, settings)
}

/// Reads the answer to [`write`].
pub(super) fn written(
    response: &Response,
    rest: &Rest,
    settings: &Settings,
) -> Result<Written, RequestError> {
    match Txn::parse(response)? {
        TxnOutcome::Applied(results) => Ok(Written::Applied(
            rest.after(results, settings).map(Box::new),
        )),
        TxnOutcome::RolledBack(faults) => {
            // The record's operation follows the steps.
            let is_stale = |fault: &TxnFault| fault.kind == TxnFaultKind::Stale;
            let is_known = |fault: &TxnFault| {
                is_taken(fault.kind)
                    || matches!(
                        fault.kind,
                        TxnFaultKind::Stale | TxnFaultKind::Check | TxnFaultKind::SessionGone
                    )
            };
            match faults.iter().position(|fault| !is_known(fault)) {
                Some(at) => Err(refusal(faults.into_iter().nth(at)).of(response)),
                None => Ok(Written::Refused {
                    is_unfounded: !faults
                        .iter()
                        .all(|fault| is_stale(fault) && fault.operation == rest.steps.len()),
                }),
            }
        }
    }
}

/// The other parts of a write of the record.
#[derive(Clone, Debug, Default)]
pub(super) struct Rest {
    pub(super) steps: Vec<Step>,
    /// Everyone else whom it removes from the record.
    pub(super) pruned: Vec<String>,
    /// Whether the prefix is read, too.
    pub(super) reads: bool,
}

/// One operation besides the record's.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// The admitted contender of ours is tied to its key.
    Tied(SessionId),
    /// The pruned holder has no key.
    Absent(SessionId),
    /// The pruned holder's key is tied to no session.
    Free(SessionId),
    /// A waiting contender of ours claims. These flags tell the one that watches its key that it
    /// has moved on.
    Claim(ContenderNo, SessionId, ContenderFlags),
    /// A contender of ours enters.
    Enter(ContenderNo, SessionId, ContenderFlags),
    /// A contender of ours leaves.
    Leave(SessionId),
}

impl Step {
    fn session(&self) -> &SessionId {
        match self {
            Self::Tied(session)
            | Self::Absent(session)
            | Self::Free(session)
            | Self::Claim(_, session, _)
            | Self::Enter(_, session, _)
            | Self::Leave(session) => session,
        }
    }

    fn operation<'a>(&'a self, key: &'a str, settings: &'a Settings) -> Operation<'a> {
        let value = settings.value.as_bytes();
        match self {
            Self::Tied(session) => Operation::CheckSession {
                key,
                session: Some(session),
            },
            Self::Absent(_) => Operation::CheckNotExists { key },
            Self::Free(_) => Operation::CheckSession { key, session: None },
            Self::Claim(_, session, flags) | Self::Enter(_, session, flags) => Operation::Lock {
                key,
                session,
                value,
                flags: flags.encode(),
            },
            Self::Leave(..) => Operation::Delete { key },
        }
    }
}

impl Rest {
    /// The sessions whose keys it deletes.
    pub(super) fn leaving(&self) -> Vec<SessionId> {
        let steps = self.steps.iter();
        let leaving = steps.filter_map(|step| match step {
            Step::Leave(session) => Some(session.clone()),
            _ => None,
        });
        leaving.collect()
    }

    /// Those that it enters.
    pub(super) fn entering(&self) -> impl Iterator<Item = ContenderNo> {
        self.steps.iter().filter_map(|step| match step {
            Step::Enter(no, _, _) => Some(*no),
            _ => None,
        })
    }

    pub(super) fn deletes_key_of(&self, session: &SessionId) -> bool {
        let deletes = |step: &Step| matches!(step, Step::Leave(of) if of == session);
        self.steps.iter().any(deletes)
    }

    /// The record and everything else in one request.
    fn transaction(&self, cas: CasKey<'_>, settings: &Settings) -> Request {
        let keys: Vec<_> = self
            .steps
            .iter()
            .map(|step| settings.prefix.contender_key(step.session()))
            .collect();
        let cas = Operation::Cas {
            key: cas.key,
            index: cas.index,
            value: cas.value,
            flags: cas.flags,
        };
        let steps = self.steps.iter().zip(&keys);
        let mut operations: Vec<_> = steps
            .map(|(step, key)| step.operation(key, settings))
            .collect();
        operations.push(cas);
        if self.reads {
            let prefix = &settings.prefix;
            operations.push(Operation::GetTree { prefix });
        }
        transaction(&operations, settings)
    }

    /// The state in the answer. `None` if the agent has left out what may not be read.
    fn after(&self, results: Results<'_>, settings: &Settings) -> Option<After> {
        let prefix = &settings.prefix;
        let is_shown = |step: &&Step| !matches!(step, Step::Absent(_) | Step::Leave(..));
        let steps = || self.steps.iter().filter(is_shown);
        let keys = steps().map(|step| prefix.contender_key(step.session()));
        let keys: Vec<_> = keys.chain([prefix.record_key()]).collect();
        let is_filtered = results.filtered;
        let (heads, tree) = results.split(keys.len()).ok()?;
        if !heads.iter().map(Entry::key).eq(keys.iter()) {
            return None;
        }
        let index = heads.last()?.modify_index();
        let locked = steps().zip(&heads).filter_map(|(step, entry)| match step {
            Step::Claim(no, session, _) | Step::Enter(no, session, _) => {
                Some((*no, Contender::new(session.clone(), entry)))
            }
            _ => None,
        });
        Some(After {
            index,
            locked: locked.collect(),
            view: self
                .reads
                .then(|| View::of_tree(prefix, index, tree, is_filtered)),
        })
    }
}

/// The request for these operations.
fn transaction(operations: &[Operation<'_>], settings: &Settings) -> Request {
    Txn { operations }.request(settings.scope())
}

/// Somebody else has the key, or its lock delay runs.
fn is_taken(kind: TxnFaultKind) -> bool {
    matches!(kind, TxnFaultKind::Held | TxnFaultKind::Delayed)
}

/// Why a rolled-back transaction failed.
fn refusal(fault: Option<TxnFault>) -> RequestError {
    let Some(TxnFault { kind, text, .. }) = fault else {
        return garbled("a transaction that failed for no reason");
    };
    match kind {
        TxnFaultKind::SessionGone => RequestError::InvalidSession {
            text,
            asked: Asked::default(),
        },
        TxnFaultKind::Denied => RequestError::Denied {
            text,
            asked: Asked::default(),
        },
        _ => RequestError::Rejected {
            status: 409,
            text,
            asked: Asked::default(),
        },
    }
}

fn garbled(what: &'static str) -> RequestError {
    RequestError::garbled(what)
}

#[cfg(test)]
mod tests;
