//! Checks many waiters and leaders at once. One transaction of reads asks for dozens of them
//! whether the record is unchanged, and whether keys are still tied to their sessions.
//!
//! ```text
//!            offered                    due                    as it was
//!  member ───────────▶ Due { at } ───────────▶ under way ───────────────────▶ Due
//!                        ▲                        │ changed: the member reads
//!                        └── after a pause ───────┤
//!                               no answer         └ denied: the member polls on its own
//! ```
//! A poll tells nothing while nothing changes, and occupies a connection.
//! - *Leaders*: while a process has few, each has its own poll. Above a given number, none has.
//!   Each is then checked four times within the TTL.
//! - *Waiters*: the same number poll, and learn of their turn at once. The others are checked once
//!   a second, or less often if there are more than [`MOST_AT_PACE`]. When one that polls goes, the
//!   one with the fewest ahead polls in its place.
//!
//! For the record it checks whether it still has the known index. A restored snapshot may give that
//! index to another record. So each member still reads its prefix now and then.
//!
//! Sources: Consul's documentation of transactions (64 operations; `check-index`, `check-session`;
//! one that only reads is answered like a read). docs/CONSUL.md, "Limits and timeouts": an agent
//! allows 200 connections from one address.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use super::backoff::Backoff;
use super::check::{Check, CheckNews, Reads};
use crate::api::{Txn, TxnFaultKind, TxnOutcome};
use crate::defect::{Defect, is_on};
use crate::http::Response;
use crate::id::{Index, RequestId};
use crate::input::Scope;
use crate::machine::contract::Transmit;
use crate::machine::process::outage::RequestEnd;
use crate::machine::process::requests::{Requests, Sender};
use crate::machine::process::service::Service;
use crate::machine::process::tenancy::settings::SessionSettings;
use crate::machine::process::tenancy::tenant::MemberNo;
use crate::time::Instant;
use crate::transport::TransportError;

#[derive(Clone, Debug)]
pub(in crate::machine) struct Checks {
    scope: Scope,
    whom: Whom,
    /// The time between two checks of a record, unless there are too many.
    interval: Duration,
    /// How many may poll separately. After transactions were refused: all.
    most_polls: usize,
    reads: Reads,
    offered: BTreeMap<MemberNo, Offered>,
    /// The members that are checked here, those with the fewest ahead first.
    looked_after: BTreeSet<(u32, MemberNo)>,
    due: BTreeSet<(Instant, MemberNo)>,
    /// Members that may not be checked together with others.
    alone: BTreeSet<MemberNo>,
    /// Members that were told to poll. The initial rule is that none does: many may begin at once.
    told: BTreeSet<MemberNo>,
    requests: Requests<BatchNo>,
    batches: BTreeMap<BatchNo, Vec<Asked>>,
    last_batch: u64,
    backoff: Backoff,
    /// Nothing is sent before this time.
    rests_until: Instant,
    news: Vec<(MemberNo, CheckNews)>,
    rng: fastrand::Rng,
}

/// Whom it checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::machine) enum Whom {
    Holders,
    Waiters,
}

#[derive(Clone, Debug)]
struct Offered {
    check: Check,
    state: State,
    /// How often it was unchanged since its member last read it.
    asked: u32,
}

/// A member's part of a transaction.
#[derive(Clone, Copy, Debug)]
struct Asked {
    no: MemberNo,
    index: Index,
    /// The range of its operations: the first, and the first after them.
    from: usize,
    to: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Due { at: Instant },
    UnderWay,
}

/// The answer about one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    AsBefore,
    Changed,
    /// It was not checked.
    Unasked,
    /// It may not be checked in this way.
    Refused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct BatchNo(u64);

impl Sender for BatchNo {
    fn polls(&self) -> bool {
        false
    }
}

/// The most transactions under way.
const MOST_IN_FLIGHT: usize = 4;

/// The most bytes of one transaction's keys, so that it always fits. A single member's keys fit in
/// any case.
const MOST_KEY_BYTES: usize = Txn::MAX_BYTES / 8;

/// After this number of unchanged answers a member reads: some four minutes with the usual TTL.
const ANSWERS_PER_READ: u32 = 64;
const ANSWERS_PER_READ_OF_WAITERS: u32 = 240;

/// The time between two checks of a waiter's record, with up to `MOST_AT_PACE` waiters. With up to
/// twice as many it is twice as long, and so on. With two operations each, that is at most some 64
/// requests a second.
const PACE_OF_WAITERS: Duration = Duration::from_secs(1);
const MOST_AT_PACE: usize = 2_000;

impl Checks {
    /// Up to `most_polls` poll separately.
    pub(in crate::machine) fn new(
        settings: &SessionSettings,
        whom: Whom,
        most_polls: usize,
        seed: u64,
    ) -> Self {
        let interval = match whom {
            Whom::Holders => settings.ttl() / 4,
            Whom::Waiters => PACE_OF_WAITERS,
        };
        Self {
            scope: settings.scope.clone(),
            whom,
            interval,
            most_polls,
            reads: Reads::Own,
            offered: BTreeMap::new(),
            looked_after: BTreeSet::new(),
            due: BTreeSet::new(),
            alone: BTreeSet::new(),
            told: BTreeSet::new(),
            requests: Requests::new(settings.request_timeout(), settings.lease_time()),
            batches: BTreeMap::new(),
            last_batch: 0,
            backoff: Backoff::new(Duration::from_millis(100), settings.ttl() / 4),
            rests_until: Instant::ORIGIN,
            news: Vec::new(),
            rng: fastrand::Rng::with_seed(seed),
        }
    }

    pub(in crate::machine) fn reseed(&mut self, seed: u64) {
        self.rng.seed(seed);
    }

    /// The time between two checks of a record.
    fn interval(&self) -> Duration {
        let turns = match self.whom {
            Whom::Holders => 1,
            Whom::Waiters => self.looked_after.len().div_ceil(MOST_AT_PACE).max(1),
        };
        self.interval * u32::try_from(turns).unwrap_or(u32::MAX)
    }

    fn answers_per_read(&self) -> u32 {
        match self.whom {
            Whom::Holders => ANSWERS_PER_READ,
            Whom::Waiters => ANSWERS_PER_READ_OF_WAITERS,
        }
    }

    /// Takes a member's request, or `None` if it does something else than holding or waiting.
    pub(in crate::machine) fn offer(&mut self, no: MemberNo, check: Option<Check>) {
        let Some(check) = check else {
            if let Some(offered) = self.offered.remove(&no) {
                self.unlist(no, &offered);
                self.looked_after.remove(&(offered.check.ahead(), no));
                self.choose();
            }
            return;
        };
        if self.alone.contains(&no) {
            return;
        }
        let due = State::Due {
            at: check.seen_at + self.interval(),
        };
        let before = self.offered.get(&no).cloned();
        let is_same =
            |before: &Offered| before.check.index == check.index && before.check.keys == check.keys;
        let (state, asked) = match &before {
            Some(before) if before.check == check => return,
            // The answer under way will tell as much.
            Some(before) if is_same(before) && before.state == State::UnderWay => {
                (State::UnderWay, before.asked)
            }
            Some(before) if is_same(before) => (due, before.asked),
            _ => (due, self.rng.u32(..self.answers_per_read())),
        };
        let is_looked_after = before.as_ref().is_some_and(|before| {
            self.unlist(no, before);
            self.looked_after.remove(&(before.check.ahead(), no))
        });
        let offered = Offered {
            check,
            state,
            asked,
        };
        self.offered.insert(no, offered);
        if is_looked_after {
            self.look_after(no);
        }
        if before.is_none() {
            self.begin_with(no);
        }
    }

    /// A member is gone.
    pub(in crate::machine) fn part_with(&mut self, no: MemberNo) {
        self.offer(no, None);
        self.alone.remove(&no);
        self.told.remove(&no);
    }

    fn unlist(&mut self, no: MemberNo, offered: &Offered) {
        if let State::Due { at } = offered.state {
            self.due.remove(&(at, no));
        }
    }

    /// A member is new.
    fn begin_with(&mut self, no: MemberNo) {
        match self.whom {
            Whom::Holders => {
                self.choose();
                // It may have been told something else when it last only held.
                self.inform(no, self.reads);
            }
            Whom::Waiters => {
                let reads = if self.on_their_own() <= self.most_polls {
                    Reads::Own
                } else {
                    Reads::Shared
                };
                self.inform(no, reads);
            }
        }
    }

    /// How many poll separately.
    fn on_their_own(&self) -> usize {
        self.offered.len() - self.looked_after.len()
    }

    /// Changes who checks, if the number has changed enough.
    fn choose(&mut self) {
        if self.whom == Whom::Waiters {
            while self.on_their_own() < self.most_polls
                && let Some((_, no)) = self.looked_after.first().copied()
            {
                self.inform(no, Reads::Own);
            }
            return;
        }
        let reads = match self.reads {
            Reads::Own if self.offered.len() > self.most_polls => Reads::Shared,
            Reads::Shared if self.offered.len() <= self.most_polls / 2 => Reads::Own,
            reads => reads,
        };
        if reads == self.reads {
            return;
        }
        tracing::debug!(name: "reads-shared", holders = self.offered.len(), ?reads, "who looks after the holders changes");
        self.reads = reads;
        let all: Vec<_> = self.offered.keys().copied().collect();
        for no in all {
            self.inform(no, reads);
        }
    }

    /// Sets who checks for this member. It is told, unless it knows.
    fn inform(&mut self, no: MemberNo, reads: Reads) {
        match reads {
            Reads::Own => {
                if let Some(offered) = self.offered.get(&no).cloned() {
                    self.unlist(no, &offered);
                    self.looked_after.remove(&(offered.check.ahead(), no));
                }
            }
            Reads::Shared => self.look_after(no),
        }
        let is_news = match reads {
            Reads::Own => self.told.insert(no),
            Reads::Shared => self.told.remove(&no),
        };
        if is_news {
            self.tell_who_reads(no, reads);
        }
    }

    fn look_after(&mut self, no: MemberNo) {
        if let Some(offered) = self.offered.get(&no) {
            self.looked_after.insert((offered.check.ahead(), no));
            if let State::Due { at } = offered.state {
                self.due.insert((at, no));
            }
        }
    }

    fn tell_who_reads(&mut self, no: MemberNo, reads: Reads) {
        let news = match self.whom {
            Whom::Holders => CheckNews::Reads(reads),
            Whom::Waiters => CheckNews::WaitingReads(reads),
        };
        self.tell(no, news);
    }

    fn tell(&mut self, no: MemberNo, news: CheckNews) {
        self.news.push((no, news));
    }

    /// The news for members, in order.
    pub(in crate::machine) fn take_news(&mut self) -> Vec<(MemberNo, CheckNews)> {
        core::mem::take(&mut self.news)
    }

    /// When the next transaction is due.
    pub(in crate::machine) fn poll_timeout(&self) -> Option<Instant> {
        if self.batches.len() >= MOST_IN_FLIGHT {
            return None;
        }
        let (at, _) = self.due.first()?;
        Some((*at).max(self.rests_until))
    }

    pub(in crate::machine) fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        self.poll_timeout().filter(|at| *at <= now)?;
        // What would be due soon goes along.
        let soon = now + self.interval() / 2;
        let due = self.due.range(..=(soon, MemberNo(u64::MAX)));
        let due = due.filter_map(|(_, no)| Some((*no, self.offered.get(no)?)));
        let (mut bytes, mut asked, mut operations) = (0, Vec::new(), Vec::new());
        for (
            no,
            Offered {
                check,
                asked: round,
                ..
            },
        ) in due
        {
            bytes += check.bytes();
            let from = operations.len();
            operations.extend(check.operations(*round));
            let to = operations.len();
            let is_too_much = to > Txn::MAX_OPERATIONS || bytes > MOST_KEY_BYTES;
            if is_too_much && !asked.is_empty() {
                operations.truncate(from);
                break;
            }
            let index = check.index;
            asked.push(Asked {
                no,
                index,
                from,
                to,
            });
        }
        let txn = Txn {
            operations: &operations,
        };
        let request = txn.request(&self.scope);
        for Asked { no, .. } in &asked {
            if let Some(offered) = self.offered.get_mut(no)
                && let State::Due { at } = core::mem::replace(&mut offered.state, State::UnderWay)
            {
                self.due.remove(&(at, *no));
            }
        }
        self.last_batch += 1;
        let no = BatchNo(self.last_batch);
        self.batches.insert(no, asked);
        Some(self.requests.send(now, no, Service::Reads, request))
    }

    /// Takes the outcome of a request. Returns how it ended.
    pub(in crate::machine) fn handle_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: &Result<Response, TransportError>,
    ) -> Option<RequestEnd> {
        let (received, end) = self.requests.receive(now, id, result)?;
        let Some(batch) = self.batches.remove(&received.from) else {
            return end;
        };
        match received.answer.and_then(Txn::parse) {
            Ok(outcome) => {
                self.backoff.reset();
                self.rests_until = Instant::ORIGIN;
                self.judge((received.sent_at, now), &batch, &outcome);
            }
            Err(error) => {
                let pause = self.backoff.next(&mut self.rng);
                self.rests_until = now + pause;
                for Asked { no, .. } in batch {
                    self.list(no, now);
                }
                // Some gateways know no such path: then each member checks separately.
                if error.is_permanent() {
                    self.most_polls = usize::MAX;
                    self.choose();
                }
            }
        }
        end
    }

    /// `times` are when the transaction was sent, and when its answer came.
    fn judge(&mut self, times: (Instant, Instant), batch: &[Asked], outcome: &TxnOutcome<'_>) {
        let mut faults = BTreeMap::new();
        if let TxnOutcome::RolledBack(all) = outcome {
            faults.extend(all.iter().map(|fault| (fault.operation, fault.kind)));
        }
        // If a token may not read one of the keys, the agent reports that one and checks no other.
        tracing::debug!(name: "asked-together", members = batch.len(), found = faults.len(), "records were asked for together");
        let is_whole = faults.values().all(|kind| *kind == TxnFaultKind::Check);
        for asked in batch {
            let mut faults = faults.range(asked.from..asked.to).map(|(_, kind)| *kind);
            let verdict = match faults.next() {
                Some(TxnFaultKind::Check) => Verdict::Changed,
                Some(_) => Verdict::Refused,
                None if is_whole => Verdict::AsBefore,
                None => Verdict::Unasked,
            };
            self.settle(times, *asked, verdict);
        }
    }

    fn settle(
        &mut self,
        (sent_at, now): (Instant, Instant),
        Asked { no, index, .. }: Asked,
        verdict: Verdict,
    ) {
        let (interval, per_read) = (self.interval(), self.answers_per_read());
        let Some(offered) = self.offered.get_mut(&no) else {
            return;
        };
        let is_older = offered.check.index != index && !is_on(Defect::OlderCheckBelieved);
        if is_older && verdict != Verdict::Refused {
            return;
        }
        let (again, news) = match verdict {
            Verdict::Refused => {
                self.offer(no, None);
                self.alone.insert(no);
                self.inform(no, Reads::Own);
                return;
            }
            Verdict::Unasked => (now, None),
            Verdict::Changed => {
                tracing::debug!(name: "change-found", "a record has changed, or a key is gone");
                let news = CheckNews::Changed(index);
                let is_told = !is_on(Defect::CheckedChangeUntold);
                (now + interval, is_told.then_some(news))
            }
            Verdict::AsBefore => {
                offered.asked += 1;
                let news = if offered.asked < per_read {
                    CheckNews::AsBefore { index, sent_at }
                } else {
                    offered.asked = 0;
                    CheckNews::Changed(index)
                };
                (now + interval, Some(news))
            }
        };
        self.list(no, again);
        if let Some(news) = news {
            self.tell(no, news);
        }
    }

    fn list(&mut self, no: MemberNo, at: Instant) {
        if let Some(offered) = self.offered.get_mut(&no) {
            if let State::Due { at } = offered.state {
                self.due.remove(&(at, no));
            }
            offered.state = State::Due { at };
            if self.looked_after.contains(&(offered.check.ahead(), no)) {
                self.due.insert((at, no));
            }
        }
    }
}
