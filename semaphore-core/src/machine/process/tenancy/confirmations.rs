//! One question to the leader about many sessions: a transaction that checks the keys tied to them.
//!
//! A holder's renewal counts once the leader has confirmed that the session lives
//! ([`session`](super::session)). A process that holds many slots of one semaphore has as many
//! sessions, and would send as many questions as renewals. So up to 64 of its sessions are asked
//! about together.
//!
//! No key is tied to an ended session. So a key that is tied to a session proves that it lives. If
//! one is not, all others are asked about again, and the leader is asked about its session alone:
//! somebody may have deleted only the key. Without an answer each session is asked about alone
//! after a tenth of its lease.
//!
//! Sources: Consul's documentation of sessions (`Behavior`: the end of a session unties or deletes
//! its keys) and of transactions (64 operations; `check-session`; `consistent` for those that only
//! read).

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use crate::api::{Entry, Operation, Txn, TxnFaultKind, TxnOutcome};
use crate::error::RequestError;
use crate::http::{Priority, Request, Response};
use crate::id::SessionId;
use crate::input::Scope;
use crate::machine::process::reader::backoff::Backoff;
use crate::machine::process::tenancy::settings::SessionSettings;
use crate::time::Instant;

/// A session, and a key that is tied to it while it lives.
#[derive(Clone, Debug)]
pub(in crate::machine) struct Tied<N> {
    pub(in crate::machine) no: N,
    pub(in crate::machine) session: SessionId,
    pub(in crate::machine) key: String,
}

/// What an answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::machine) enum Confirmed<N> {
    /// These live.
    All(Vec<N>),
    /// These may have ended. Nothing is known of the others.
    Without(Vec<N>),
    Nothing,
}

/// The questions of one owner of sessions, who knows them as `N`.
#[derive(Clone, Debug)]
pub(in crate::machine) struct Confirmations<N> {
    under_way: BTreeMap<QuestionNo, Vec<Tied<N>>>,
    asked: BTreeSet<N>,
    last: QuestionNo,
    rests_until: Instant,
    backoff: Backoff,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::machine) struct QuestionNo(u64);

/// The most questions under way.
const MOST_IN_FLIGHT: usize = 4;

/// The time between two questions, unless more sessions wait than one question has room for. Those
/// whose renewals are answered within it are asked about together.
const GATHERING: Duration = Duration::from_millis(100);

/// After a failure the next question comes after this time, and after more if that fails, too.
const REST: Duration = Duration::from_millis(100);

/// The most bytes of one question's keys, so that it always fits.
const MOST_KEY_BYTES: usize = Txn::MAX_BYTES / 8;

impl<N: Copy + Ord> Confirmations<N> {
    pub(in crate::machine) fn new(settings: &SessionSettings) -> Self {
        Self {
            under_way: BTreeMap::new(),
            asked: BTreeSet::new(),
            last: QuestionNo(0),
            rests_until: Instant::ORIGIN,
            backoff: Backoff::new(REST, settings.ttl() / 30),
        }
    }

    /// When the next question may be sent, if so many sessions wait for one.
    pub(in crate::machine) fn due_at(&self, waiting: usize) -> Option<Instant> {
        let is_possible = self.under_way.len() < MOST_IN_FLIGHT;
        (is_possible && waiting > self.asked.len()).then_some(self.rests_until)
    }

    /// The question about the first of these that are not asked about yet.
    pub(in crate::machine) fn ask(
        &mut self,
        now: Instant,
        waiting: impl Iterator<Item = Tied<N>>,
        scope: &Scope,
    ) -> Option<(QuestionNo, Request)> {
        let mut bytes = 0;
        let fits = |it: &Tied<N>| {
            bytes += it.key.len();
            bytes <= MOST_KEY_BYTES
        };
        let new = waiting.filter(|it| !self.asked.contains(&it.no));
        let those: Vec<_> = new.take(Txn::MAX_OPERATIONS).take_while(fits).collect();
        if those.is_empty() {
            return None;
        }
        let operations: Vec<_> = those.iter().map(check).collect();
        let question = Txn {
            operations: &operations,
        };
        let request = question.confirmed_read(scope);
        self.asked.extend(those.iter().map(|it| it.no));
        self.last = QuestionNo(self.last.0 + 1);
        let is_full = those.len() == Txn::MAX_OPERATIONS;
        self.rests_until = if is_full { now } else { now + GATHERING };
        self.under_way.insert(self.last, those);
        Some((self.last, request.with_priority(Priority::Renewal)))
    }

    /// Takes the answer to a question.
    pub(in crate::machine) fn hear(
        &mut self,
        now: Instant,
        no: QuestionNo,
        answer: Result<&Response, RequestError>,
        rng: &mut fastrand::Rng,
    ) -> Confirmed<N> {
        let those = self.take(no);
        match answer.and_then(Txn::parse) {
            Ok(TxnOutcome::Applied(results)) => {
                let shown = results.entries.iter();
                // A token that may not read some keys is not shown them.
                if shown.len() == those.len() && those.iter().zip(shown).all(|(it, e)| it.is(e)) {
                    self.backoff.reset();
                    tracing::debug!(name: "confirmed-together", sessions = those.len(), "the leader knows these sessions");
                    return Confirmed::All(those.into_iter().map(|it| it.no).collect());
                }
            }
            Ok(TxnOutcome::RolledBack(faults)) => {
                let failed = faults.iter().filter(|it| it.kind == TxnFaultKind::Check);
                let failed = failed.filter_map(|fault| Some(those.get(fault.operation)?.no));
                let failed: Vec<_> = failed.collect();
                if !failed.is_empty() {
                    return Confirmed::Without(failed);
                }
            }
            Err(_) => {}
        }
        self.rests_until = now + self.backoff.next(rng);
        Confirmed::Nothing
    }

    fn take(&mut self, no: QuestionNo) -> Vec<Tied<N>> {
        let those = self.under_way.remove(&no).unwrap_or_default();
        for it in &those {
            self.asked.remove(&it.no);
        }
        those
    }
}

impl<N> Tied<N> {
    /// Whether this is its key, tied to it.
    fn is(&self, entry: &Entry<'_>) -> bool {
        entry.key() == self.key && entry.session().is_some_and(|it| self.session.is(it))
    }
}

fn check<N>(tied: &Tied<N>) -> Operation<'_> {
    Operation::CheckSession {
        key: &tied.key,
        session: Some(&tied.session),
    }
}

#[cfg(test)]
mod tests;
