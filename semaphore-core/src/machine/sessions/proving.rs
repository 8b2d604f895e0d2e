//! What is asked to prove that sessions live, and what the answers say of them and of their users.
//!
//! Source: docs/PROTOCOL.md, rule 12.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Pool;
use super::agenda::SessionNo;
use super::proofs::{Asked, Proof};
use super::shared::Shared;
use crate::api::{Entry, Txn, TxnFaultKind, TxnOutcome};
use crate::error::RequestError;
use crate::http::{Request, Response};
use crate::input::LOCK_NAME;
use crate::machine::process::failed::Failed;
use crate::machine::process::tenancy::loan::{Seen, SeenRecord};
use crate::machine::process::tenancy::tenant::{Place, Tenant, election_at, key_at};
use crate::time::Instant;
use crate::view::{Contender, Lock};

impl Pool {
    /// An unknown session of which no proof under way tells.
    pub(super) fn unknown(&self) -> Option<SessionNo> {
        self.agenda.unknown().find(|no| {
            let shared = self.sessions.get(no);
            let since = shared.and_then(|it| it.session.unknown_since());
            since.is_some_and(|since| !self.proofs.asks_about(*no, since))
        })
    }

    /// The proof that is due: of an unknown session, or of all holders in turn.
    pub(super) fn next_proof(&mut self, now: Instant) -> Option<(u32, Request)> {
        if self.proofs.asks_at(&self.settings) <= now
            && let Some(no) = self.unknown()
        {
            let asked = self.sessions.get(&no)?.users();
            let asked = asked.filter_map(|it| asked_of(&self.sessions, &self.lent, it));
            let asked: Vec<Asked> = asked.take(Txn::MAX_OPERATIONS / 2).collect();
            return self.proofs.ask(now, asked, &self.settings);
        }
        if self.held == 0 || self.proofs.due_at(&self.settings) > now {
            return None;
        }
        if self.proofs.is_round_over() {
            self.begin_round(now);
        }
        let (sessions, lent) = (&self.sessions, &self.lent);
        let whose = |tenant| asked_of(sessions, lent, tenant);
        self.proofs.next(now, whose, &self.settings)
    }

    /// All holders are proved in turn, those of one semaphore together. One leader's key proves the
    /// session of all: each looks at its own key besides.
    pub(super) fn begin_round(&mut self, now: Instant) {
        let mut holders: BTreeSet<Tenant> = BTreeSet::new();
        for shared in self.sessions.values() {
            if shared.leads() {
                let count = shared.holders().count().max(1);
                holders.extend(shared.holders().nth(self.rng.usize(..count)));
            } else {
                holders.extend(shared.holders());
            }
        }
        self.proofs.begin_round(now, holders.into_iter());
    }

    pub(super) fn take_proof(
        &mut self,
        now: Instant,
        (no, sent_at): (u32, Instant),
        answer: Result<&Response, RequestError>,
    ) {
        let mut untied = BTreeSet::new();
        let (entries, failed) = match answer.and_then(Txn::parse) {
            Ok(TxnOutcome::Applied(results)) => (Some(results.entries), None),
            Ok(TxnOutcome::RolledBack(faults)) => {
                let checks = faults.iter().filter(|it| it.kind == TxnFaultKind::Check);
                untied.extend(checks.map(|fault| fault.operation));
                (None, None)
            }
            Err(error) => (None, Some(Failed { sent_at, error })),
        };
        let has_failed = entries.is_none() && untied.is_empty();
        let Some(proof) = self.proofs.answered(no, has_failed) else {
            return;
        };
        let entries = entries.as_deref();
        let shown: BTreeMap<&str, &Entry<'_>> = entries
            .into_iter()
            .flatten()
            .map(|entry| (entry.key(), entry))
            .collect();
        let numbers: BTreeSet<SessionNo> = proof.asked.iter().map(|it| it.no).collect();
        for no in numbers {
            if let Some(shared) = self.sessions.get_mut(&no) {
                // Consul evaluates all operations: the leaders' keys that are not refused are tied.
                let is_tied = |at: usize| !untied.is_empty() && !untied.contains(&at);
                let mut keys = proof.asked.iter().enumerate().filter(|(_, it)| it.no == no);
                let is_shown = keys.any(|(at, it)| is_tied(at) || tied(it, &shown).is_some());
                let lease = shared.session.lease();
                if failed.is_some() && lease.is_some_and(|it| it.is_proved_since(sent_at)) {
                    // A later one was answered.
                    continue;
                }
                // If nobody may look, it is believed in until its lease ends.
                let is_refused = failed.as_ref().is_some_and(|it| it.error.is_refusal());
                let is_over = is_refused && lease.is_some_and(|it| it.kept_until() <= now);
                if is_shown {
                    shared.session.lived(sent_at);
                } else if entries.is_some() || !untied.is_empty() || is_over {
                    if shared.leads() && !shared.is_held() {
                        // No key need be tied to it. But this leader has applied its log, so the next
                        // renewal tells.
                        shared.session.doubt();
                    } else {
                        shared.session.is_missed(sent_at);
                    }
                }
                shared.unproved.clone_from(&failed);
            }
            self.settle(now, no);
        }
        if entries.is_some() {
            self.tell_seen(sent_at, &proof, &shown);
        }
        for asked in untied.iter().filter_map(|at| proof.asked.get(*at)) {
            self.tell_of(asked, sent_at, SeenRecord::Unread, None);
        }
    }

    /// Tells the users what a proof has shown of their keys and of the records.
    fn tell_seen(&mut self, sent_at: Instant, proof: &Proof, shown: &BTreeMap<&str, &Entry<'_>>) {
        for asked in &proof.asked {
            let record = match &asked.record {
                None => SeenRecord::Unread,
                Some(record) => shown
                    .get(record.as_str())
                    .map_or(SeenRecord::Missing, |it| SeenRecord::There(Lock::new(it))),
            };
            let key = tied(asked, shown).map(|it| Contender::new(asked.session.clone(), it));
            self.tell_of(asked, sent_at, record, key);
        }
    }

    /// Tells one of them, if it still uses the session.
    fn tell_of(
        &mut self,
        asked: &Asked,
        sent_at: Instant,
        record: SeenRecord,
        key: Option<Contender>,
    ) {
        let is_theirs = self.lent.get(&asked.tenant).map(|(no, _)| *no) == Some(asked.no);
        if let Some(shared) = self.sessions.get(&asked.no).filter(|_| is_theirs) {
            let seen = Seen {
                sent_at,
                record,
                key,
            };
            let now = shared.shown();
            self.tell(asked.tenant, now, Some(seen));
        }
    }
}

/// What is read for a user.
fn asked_of(
    sessions: &BTreeMap<SessionNo, Shared>,
    lent: &BTreeMap<Tenant, (SessionNo, Place)>,
    tenant: Tenant,
) -> Option<Asked> {
    let (no, place) = lent.get(&tenant)?;
    let session = sessions.get(no)?.session.id()?.clone();
    let is_election = election_at(place).is_some();
    Some(Asked {
        tenant,
        no: *no,
        key: key_at(place, &session),
        record: (!is_election).then(|| format!("{place}/{LOCK_NAME}")),
        place: Arc::clone(place),
        session,
    })
}

/// The key of this user, if it is tied to its session.
fn tied<'a>(asked: &Asked, shown: &BTreeMap<&str, &'a Entry<'a>>) -> Option<&'a Entry<'a>> {
    let entry = shown.get(asked.key.as_str()).copied()?;
    (entry.session() == Some(asked.session.as_str())).then_some(entry)
}
