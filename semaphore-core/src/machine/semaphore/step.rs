//! The one write under way: how a step of the protocol becomes a transaction, and what its answer
//! says. Every write of a contender is a check-and-set on its own key, and every write of the record
//! one on `.lock`, so a write that was given up is never applied once a later one was.
//!
//! Source: Consul's documentation of the transaction endpoint (at most 64 operations; all or nothing,
//! at one index).

use std::collections::BTreeMap;

use super::Settings;
use super::contender::ContenderNo;
use super::missing::Dead;
use super::record::KnownRecord;
use crate::api::{Entry, Operation, Txn, TxnFault, TxnFaultKind, TxnOutcome};
use crate::asked::Asked;
use crate::defect::{Defect, is_on};
use crate::error::RequestError;
use crate::http::{Priority, Request, Response};
use crate::id::{Index, SessionId};
use crate::machine::process::moment::Moment;
use crate::machine::process::service::Service;
use crate::record::Record;
use crate::view::{Contender as Shown, ContenderFlags, Lock, View};

/// What is due for one record write.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) exits: Vec<(ContenderNo, Exit)>,
    /// The dead holders whose names are removed, and whose session tries their keys.
    pub(super) prunes: Vec<Dead>,
    pub(super) pruner: Option<ContenderNo>,
    /// Groups that claim, and groups that only enter.
    pub(super) claims: Vec<Vec<ContenderNo>>,
    pub(super) entries: Vec<Vec<ContenderNo>>,
    /// The limit that a claim writes, if it may replace the record's.
    pub(super) limit: Option<u32>,
    /// A claim uses the room that those ahead left for PATIENCE.
    pub(super) is_out_of_turn: bool,
}

impl Plan {
    pub(super) fn is_empty(&self) -> bool {
        self.exits.is_empty()
            && self.prunes.is_empty()
            && self.claims.is_empty()
            && self.entries.is_empty()
    }

    /// Whether it frees a slot of ours (rule 9).
    pub(super) fn removes_names(&self) -> bool {
        self.exits.iter().any(|(_, exit)| exit.removes_name())
    }
}

/// How a contender leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// Key and name go together.
    Release,
    /// Only its key is left.
    Leave,
    /// Only its name is left.
    NameOnly,
    /// Its key stays as one that waits for nothing.
    Park { is_named: bool },
}

impl Exit {
    pub(super) fn operations(self) -> usize {
        match self {
            Self::NameOnly => 1,
            Self::Release | Self::Leave | Self::Park { .. } => 2,
        }
    }

    pub(super) fn removes_name(self) -> bool {
        match self {
            Self::Release | Self::NameOnly => true,
            Self::Leave => false,
            Self::Park { is_named } => is_named,
        }
    }
}

/// What a write does for one contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Exit(Exit),
    Claim,
    Enter,
    EnterAndClaim,
    HandOver,
}

impl Act {
    pub(super) fn enters(self) -> bool {
        matches!(self, Self::Enter | Self::EnterAndClaim)
    }

    pub(super) fn claims(self) -> bool {
        matches!(self, Self::Claim | Self::EnterAndClaim)
    }

    /// Whether the key is locked by it.
    pub(super) fn locks(self) -> bool {
        self.enters()
            || self.claims()
            || matches!(self, Self::HandOver | Self::Exit(Exit::Park { .. }))
    }
}

/// A write, as it was sent.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) parts: Vec<Part>,
    pub(super) prunes: Vec<Dead>,
    /// Whose session tries the keys of the dead.
    pruner: Option<(ContenderNo, SessionId)>,
    /// The record that it writes, and the index that it replaces.
    pub(super) record: Option<(Index, Record)>,
    pub(super) along: Along,
    /// The groups that it serves: those that claim, or get a slot that was handed over.
    pub(super) serves: Vec<Vec<ContenderNo>>,
    pub(super) is_out_of_turn: bool,
    /// When it was composed: it serves nobody who came later.
    pub(super) composed: Moment,
}

/// What it does with the key of one contender.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) no: ContenderNo,
    pub(super) session: SessionId,
    pub(super) act: Act,
    /// The index that the key must have; zero if it must not exist; `None` if somebody else's
    /// session has it, so that the record's index alone tells.
    pub(super) expected: Option<Index>,
    pub(super) flags: u64,
}

/// What is read in the same transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Along {
    Nothing,
    Record,
    Prefix,
}

/// What an operation was for, in the order of the operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    OwnCheck(usize),
    OwnLock(usize),
    Delete,
    PruneLock(usize),
    PruneCheck,
    Record,
    Reading,
}

/// The answer to a write.
#[derive(Debug)]
pub(super) enum Outcome {
    Applied(Box<After>),
    Refused(Refused),
}

/// The state after an applied write.
#[derive(Debug)]
pub(super) struct After {
    /// Its index, if anything in the answer has it.
    pub(super) index: Index,
    /// The keys that it locked.
    pub(super) keys: BTreeMap<ContenderNo, Shown>,
    /// The record that was read along.
    pub(super) lock: Option<Lock>,
    /// The prefix right after it.
    pub(super) tree: Option<View>,
}

/// Why a write was refused: something that we knew is old.
#[derive(Debug, Default)]
pub(super) struct Refused {
    /// The record has moved.
    pub(super) record: bool,
    /// A key of ours, or anything else, is not what it was.
    pub(super) other: bool,
    /// The keys of these are there, although no list shows them.
    pub(super) exist: Vec<ContenderNo>,
    /// These sessions of ours have ended.
    pub(super) ended: Vec<ContenderNo>,
    /// These holders may not be pruned yet.
    pub(super) delayed: Vec<String>,
    /// One of them has its key: the list is old, or hides it.
    pub(super) held: bool,
}

impl Step {
    /// Whether it contains this contender, of which no read concludes anything meanwhile.
    pub(super) fn is_about(&self, no: ContenderNo) -> bool {
        self.parts.iter().any(|part| part.no == no)
    }

    pub(super) fn is_handover(&self) -> bool {
        self.parts.iter().any(|part| part.act == Act::HandOver)
    }

    pub(super) fn claims(&self) -> bool {
        self.parts.iter().any(|part| part.act.claims())
    }

    /// Whether it frees a slot or a place of ours.
    pub(super) fn leaves(&self) -> bool {
        self.parts
            .iter()
            .any(|part| matches!(part.act, Act::Exit(_)))
    }

    /// The sizes of the groups that it hands slots over to.
    pub(super) fn handed_sizes(&self) -> Vec<usize> {
        let sizes = self.serves.iter().filter(|_| self.is_handover());
        sizes.map(Vec::len).collect()
    }

    pub(super) fn new(parts: Vec<Part>, serves: Vec<Vec<ContenderNo>>, along: Along) -> Self {
        Self {
            parts,
            prunes: Vec::new(),
            pruner: None,
            record: None,
            along,
            serves,
            is_out_of_turn: false,
            composed: Moment::START,
        }
    }

    /// The same with the names that it adds and removes, if it changes any.
    pub(super) fn with_record(
        mut self,
        known: &KnownRecord,
        plan: &Plan,
        pruner: Option<(ContenderNo, SessionId)>,
        limit: u32,
    ) -> Self {
        let removed = self.parts.iter().filter(|part| match part.act {
            Act::Exit(exit) => exit.removes_name(),
            _ => false,
        });
        let mut removed: Vec<&str> = removed.map(|part| part.session.as_str()).collect();
        removed.extend(plan.prunes.iter().map(|it| it.name.as_str()));
        let claims = self.parts.iter().filter(|part| part.act.claims());
        let added: Vec<&str> = claims.map(|part| part.session.as_str()).collect();
        if (!removed.is_empty() || !added.is_empty())
            && let Some(mut record) = known.to_write(limit)
        {
            record.remove(removed);
            for session in added {
                record.add(session);
            }
            if let Some(limit) = plan.limit {
                record.set_limit(limit);
            }
            self.record = Some((known.index(), record));
        }
        self.prunes.clone_from(&plan.prunes);
        self.pruner = pruner;
        self.is_out_of_turn = plan.is_out_of_turn;
        self
    }

    /// Whose permission it needs.
    pub(super) fn service(&self) -> Service {
        if self.record.is_some() {
            Service::Records
        } else {
            Service::Keys
        }
    }

    pub(super) fn request(&self, settings: &Settings) -> Request {
        let keys = self.keys(settings);
        let record_key = settings.prefix.record_key();
        let value = self.record.as_ref().map(|(_, record)| record.encode());
        let operations = self.operations(settings, &keys, &record_key, value.as_deref());
        let operations: Vec<Operation<'_>> = operations.into_iter().map(|(it, _)| it).collect();
        let request = Txn {
            operations: &operations,
        }
        .request(settings.scope());
        if self.leaves() {
            request.with_priority(Priority::Urgent)
        } else {
            request
        }
    }

    /// The keys of its parts, and of the dead holders.
    fn keys(&self, settings: &Settings) -> (Vec<String>, Vec<Option<String>>) {
        let prefix = &settings.prefix;
        let parts = self.parts.iter();
        let parts = parts.map(|part| prefix.contender_key(&part.session));
        // A name that is no session has no key. One with a slash would be another semaphore's.
        let dead = self.prunes.iter().map(|it| {
            let session = SessionId::new(it.name.as_str()).ok()?;
            Some(prefix.contender_key(&session))
        });
        (parts.collect(), dead.collect())
    }

    /// Its operations in order, each with what it is for.
    fn operations<'a>(
        &'a self,
        settings: &'a Settings,
        (keys, dead): &'a (Vec<String>, Vec<Option<String>>),
        record_key: &'a str,
        value: Option<&'a [u8]>,
    ) -> Vec<(Operation<'a>, For)> {
        let mut operations = Vec::new();
        let of_part = |at: usize, operations: &mut Vec<(Operation<'a>, For)>| {
            let (part, key) = (&self.parts[at], keys[at].as_str());
            match part.expected {
                Some(Index::ZERO) => {
                    operations.push((Operation::CheckNotExists { key }, For::OwnCheck(at)));
                }
                Some(index) => {
                    operations.push((Operation::CheckIndex { key, index }, For::OwnCheck(at)));
                }
                None => {}
            }
            if part.act.locks() {
                let lock = Operation::Lock {
                    key,
                    session: &part.session,
                    value: settings.value.as_bytes(),
                    flags: part.flags,
                };
                operations.push((lock, For::OwnLock(at)));
            } else if matches!(part.act, Act::Exit(Exit::Release | Exit::Leave)) {
                operations.push((Operation::Delete { key }, For::Delete));
            }
        };
        let is_exit = |at: &usize| matches!(self.parts[*at].act, Act::Exit(_));
        let places = 0..self.parts.len();
        for at in places.clone().filter(is_exit) {
            of_part(at, &mut operations);
        }
        if let Some((_, session)) = &self.pruner {
            for (at, key) in dead.iter().enumerate() {
                let Some(key) = key.as_deref().filter(|_| !is_on(Defect::PruneWithoutProof)) else {
                    continue;
                };
                if let Some(index) = self.prunes[at].taken_at {
                    operations.push((Operation::CheckIndex { key, index }, For::PruneCheck));
                    continue;
                }
                let lock = Operation::Lock {
                    key,
                    session,
                    value: &[],
                    flags: 0,
                };
                operations.push((lock, For::PruneLock(at)));
                operations.push((Operation::Delete { key }, For::Delete));
            }
        }
        for at in places.filter(|at| !is_exit(at)) {
            of_part(at, &mut operations);
        }
        if let (Some((index, record)), Some(value)) = (&self.record, value) {
            let cas = Operation::Cas {
                key: record_key,
                index: *index,
                value,
                flags: record.flags(),
            };
            operations.push((cas, For::Record));
        }
        match self.along {
            Along::Nothing => {}
            Along::Record => {
                operations.push((Operation::Get { key: record_key }, For::Reading));
            }
            Along::Prefix => {
                let prefix = &settings.prefix;
                operations.push((Operation::GetTree { prefix }, For::Reading));
            }
        }
        operations
    }

    /// Reads the answer.
    ///
    /// # Errors
    /// Its outcome is unknown, or Consul refuses the request itself.
    pub(super) fn parse(
        &self,
        response: &Response,
        settings: &Settings,
    ) -> Result<Outcome, RequestError> {
        let keys = self.keys(settings);
        let record_key = settings.prefix.record_key();
        let value = self.record.as_ref().map(|(_, record)| record.encode());
        let operations = self.operations(settings, &keys, &record_key, value.as_deref());
        match Txn::parse(response)? {
            TxnOutcome::Applied(results) => {
                let is_head = |(it, _): &&(Operation<'_>, For)| it.returns_entry();
                let heads = operations.iter().filter(is_head).count();
                let is_filtered = results.filtered;
                let (entries, tree) = results.split(heads)?;
                let heads = operations.iter().filter(is_head).zip(&entries);
                let after = self.after(heads, &keys.0, &record_key)?;
                let tree = (self.along == Along::Prefix)
                    .then(|| View::of_tree(&settings.prefix, after.index, tree, is_filtered));
                Ok(Outcome::Applied(Box::new(After { tree, ..after })))
            }
            TxnOutcome::RolledBack(faults) => {
                let mut refused = Refused::default();
                if faults.is_empty() {
                    return Err(RequestError::garbled(
                        "a transaction that failed for no reason",
                    ));
                }
                for fault in faults {
                    let of = operations.get(fault.operation).map(|(_, of)| *of);
                    self.refuse(&mut refused, of, fault)
                        .map_err(|error| error.of(response))?;
                }
                Ok(Outcome::Refused(refused))
            }
        }
    }

    fn after<'a>(
        &self,
        heads: impl Iterator<Item = (&'a (Operation<'a>, For), &'a Entry<'a>)>,
        keys: &[String],
        record_key: &str,
    ) -> Result<After, RequestError> {
        let mut after = After {
            index: Index::ZERO,
            keys: BTreeMap::new(),
            lock: None,
            tree: None,
        };
        for ((_, of), entry) in heads {
            match *of {
                For::OwnCheck(at) if entry.key() == keys[at] => {}
                For::OwnLock(at) if entry.key() == keys[at] => {
                    let part = &self.parts[at];
                    let shown = Shown::new(part.session.clone(), entry);
                    after.index = after.index.max(shown.modify_index);
                    after.keys.insert(part.no, shown);
                }
                For::Record if entry.key() == record_key => {
                    after.index = after.index.max(entry.modify_index());
                }
                For::Reading if entry.key() == record_key => after.lock = Some(Lock::new(entry)),
                For::PruneLock(_) | For::PruneCheck => {}
                // The token may not read what it wrote.
                _ => {
                    return Err(RequestError::garbled(
                        "a transaction's answer that leaves out keys",
                    ));
                }
            }
        }
        Ok(after)
    }

    /// What one fault means.
    fn refuse(
        &self,
        refused: &mut Refused,
        of: Option<For>,
        TxnFault { kind, text, .. }: TxnFault,
    ) -> Result<(), RequestError> {
        match (kind, of) {
            (TxnFaultKind::Stale, Some(For::Record)) => refused.record = true,
            (TxnFaultKind::SessionGone | TxnFaultKind::Delayed, Some(For::OwnLock(at))) => {
                refused.ended.push(self.parts[at].no);
            }
            (TxnFaultKind::SessionGone, Some(For::PruneLock(_))) => {
                refused
                    .ended
                    .extend(self.pruner.as_ref().map(|(no, _)| *no));
            }
            (TxnFaultKind::Held | TxnFaultKind::Delayed, Some(For::PruneLock(at))) => {
                refused.delayed.push(self.prunes[at].name.clone());
                refused.held |= kind == TxnFaultKind::Held;
            }
            (TxnFaultKind::Check, Some(For::OwnCheck(at))) => {
                refused.other = true;
                let part = &self.parts[at];
                let exists = part.expected == Some(Index::ZERO);
                refused.exist.extend(exists.then_some(part.no));
            }
            (TxnFaultKind::Stale | TxnFaultKind::Check | TxnFaultKind::Held, Some(_)) => {
                refused.other = true;
            }
            (TxnFaultKind::Denied, _) => {
                return Err(RequestError::Denied {
                    text,
                    asked: Asked::default(),
                });
            }
            _ => {
                return Err(RequestError::Rejected {
                    status: 409,
                    text,
                    asked: Asked::default(),
                });
            }
        }
        Ok(())
    }
}

/// The flags of a key at this touch.
pub(super) fn flags_of(act: Act, flags: ContenderFlags) -> u64 {
    match act {
        Act::Exit(Exit::Park { .. }) => flags.parked(),
        _ => flags.encode(),
    }
}
