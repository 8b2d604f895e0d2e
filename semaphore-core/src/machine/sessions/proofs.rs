//! Proofs that the majority saw our sessions alive (rule 12).
//!
//! A renewal's answer alone proves nothing to others: a former leader may give it. So the keys of
//! all holders of the process, and the records beside them, are read with the leader's confirmation
//! as often as sessions are renewed, in transactions that only read. They don't wait for each
//! other: [`retry`].
//!
//! No key is tied to an ended session. So one key that is tied to it proves that a session lives.
//!
//! Sources: Consul's documentation of sessions (`Behavior`: the end of a session unties or deletes
//! its keys) and of transactions (64 operations; `consistent` for those that only read).

use core::iter;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use super::agenda::SessionNo;
use super::retry;
use crate::api::{Operation, Txn};
use crate::http::{Priority, Request};
use crate::id::SessionId;
use crate::machine::process::tenancy::settings::SessionSettings;
use crate::machine::process::tenancy::tenant::{Place, Tenant, election_at};
use crate::time::Instant;

/// Who is not asked about yet in the present round, and what is under way.
#[derive(Clone, Debug)]
pub(super) struct Proofs {
    /// A round begins with a renewal after T/16, and at the latest after T/15.
    soonest: Duration,
    latest: Duration,
    /// The time from one to the next within a round.
    spacing: Duration,
    /// When the present round began.
    began: Instant,
    /// When the last one was sent.
    sent: Instant,
    /// When the newest answered one was sent. The first grant is one, too.
    answered: Instant,
    waiting: VecDeque<Tenant>,
    /// The record that was read last in this round.
    read: Option<String>,
    under_way: BTreeMap<u32, Proof>,
    last: u32,
}

/// One read.
#[derive(Clone, Debug)]
pub(super) struct Proof {
    pub(super) sent_at: Instant,
    pub(super) asked: Vec<Asked>,
}

/// A user, whose key at its place is read.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) tenant: Tenant,
    pub(super) no: SessionNo,
    pub(super) session: SessionId,
    pub(super) key: String,
    /// The record beside it, unless it was read in this round.
    pub(super) record: Option<String>,
    pub(super) place: Place,
}

/// A process sends at most five a second, so rounds with more than 300 keys and records take longer. With
/// thousands it sends more, since each must be proven thrice in its lease.
const SPACING: Duration = Duration::from_millis(200);

/// The most bytes of one read's keys, so that it always fits.
const MOST_KEY_BYTES: usize = Txn::MAX_BYTES / 8;

impl Proofs {
    pub(super) fn new(settings: &SessionSettings) -> Self {
        let whole = settings.proved_time();
        Self {
            soonest: whole / 16,
            latest: whole / 15,
            spacing: SPACING,
            began: Instant::ORIGIN,
            sent: Instant::ORIGIN,
            answered: Instant::ORIGIN,
            waiting: VecDeque::new(),
            read: None,
            under_way: BTreeMap::new(),
            last: 0,
        }
    }

    /// When the next one is due, while somebody holds.
    pub(super) fn due_at(&self, settings: &SessionSettings) -> Instant {
        let soon = self.asks_at(settings);
        if !self.is_unanswered() && self.waiting.is_empty() {
            return soon.max(self.began + self.latest);
        }
        soon
    }

    /// When one about an unknown session may be sent.
    pub(super) fn asks_at(&self, settings: &SessionSettings) -> Instant {
        let wait = if self.is_unanswered() {
            let left = self.left(self.sent, settings);
            retry::follows_within(left, settings).min(self.latest)
        } else {
            self.spacing
        };
        self.sent + wait
    }

    fn is_unanswered(&self) -> bool {
        self.answered < self.sent
    }

    /// What is left of the shortest lease, if every key was proven in the round before.
    pub(super) fn left(&self, now: Instant, settings: &SessionSettings) -> Duration {
        let lasts = (settings.proved_time() / 10 * 9).saturating_sub(self.latest);
        (self.answered + lasts).saturating_since(now)
    }

    /// The first one holds: its grant is a proof.
    pub(super) fn begin(&mut self, now: Instant) {
        self.began = now;
        self.answered = now;
    }

    /// A holder's session is renewed now. A round that is nearly due goes with it. Returns whether
    /// it begins.
    pub(super) fn goes_with_renewal(&self, now: Instant) -> bool {
        self.waiting.is_empty() && self.began + self.soonest <= now
    }

    /// A round begins, with all these.
    pub(super) fn begin_round(&mut self, now: Instant, holders: impl Iterator<Item = Tenant>) {
        self.began = now;
        self.waiting = holders.collect();
        let reads = self.waiting.len().div_ceil(Txn::MAX_OPERATIONS / 2).max(1);
        let share = self.latest * 5 / u32::try_from(reads).unwrap_or(u32::MAX);
        self.spacing = SPACING.min(share);
        self.read = None;
    }

    pub(super) fn is_round_over(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The next read of the round. `whose` says what is read for a user; `None` if it has left.
    pub(super) fn next(
        &mut self,
        now: Instant,
        mut whose: impl FnMut(Tenant) -> Option<Asked>,
        settings: &SessionSettings,
    ) -> Option<(u32, Request)> {
        let mut asked: Vec<Asked> = Vec::new();
        let (mut operations, mut bytes) = (0, 0);
        while let Some(tenant) = self.waiting.pop_front() {
            let Some(mut next) = whose(tenant) else {
                continue;
            };
            next.record.take_if(|it| self.read.as_ref() == Some(it));
            let record = next.record.as_ref();
            let more = 1 + usize::from(record.is_some());
            let length = next.key.len() + record.map_or(0, String::len);
            if operations + more > Txn::MAX_OPERATIONS || bytes + length > MOST_KEY_BYTES {
                self.waiting.push_front(tenant);
                break;
            }
            operations += more;
            bytes += length;
            self.read = next.record.clone().or(self.read.take());
            asked.push(next);
        }
        self.ask(now, asked, settings)
    }

    /// Sends one about these.
    pub(super) fn ask(
        &mut self,
        now: Instant,
        asked: Vec<Asked>,
        settings: &SessionSettings,
    ) -> Option<(u32, Request)> {
        if asked.is_empty() {
            return None;
        }
        let operations: Vec<_> = asked.iter().flat_map(Asked::operations).collect();
        let txn = Txn {
            operations: &operations,
        };
        let request = txn.confirmed_read(&settings.scope);
        self.last = self.last.wrapping_add(1);
        self.sent = now;
        self.under_way.insert(
            self.last,
            Proof {
                sent_at: now,
                asked,
            },
        );
        Some((self.last, request.with_priority(Priority::Renewal)))
    }

    /// Its answer is here.
    pub(super) fn answered(&mut self, no: u32, has_failed: bool) -> Option<Proof> {
        let proof = self.under_way.remove(&no)?;
        if !has_failed {
            self.answered = self.answered.max(proof.sent_at);
        }
        Some(proof)
    }

    /// Whether this session is asked about since then.
    pub(super) fn asks_about(&self, no: SessionNo, since: Instant) -> bool {
        let mut all = self.under_way.values().filter(|it| it.sent_at >= since);
        all.any(|it| it.asked.iter().any(|it| it.no == no))
    }
}

impl Asked {
    fn operations(&self) -> impl Iterator<Item = Operation<'_>> {
        let (key, session) = (self.key.as_str(), Some(&self.session));
        let own = if election_at(&self.place).is_some() {
            // Its value may be large, and others may have keys below it.
            Operation::CheckSession { key, session }
        } else {
            // A plain `get` of a missing key would refuse all.
            Operation::GetFrom { key }
        };
        let record = self.record.as_ref();
        iter::once(own).chain(record.map(|key| Operation::GetFrom { key }))
    }
}
