//! What a participant reads of its prefix: polls, one after the other, and separate reads.
//!
//! A [`Poller`] has the rules for consecutive polls, and [`Focus`] is what each reads. After
//! indexes went backwards, a lagging server can't be recognised by its index any more: from then on
//! the leader must confirm polls.
//!
//! Sources: Consul's documentation of consistency modes: by default a server answers that leads by
//! its lease, though another one may lead by then; with `?consistent` the leader first confirms
//! itself with a majority.

use core::time::Duration;

use crate::api::{ListKeys, ReadKey};
use crate::error::RequestError;
use crate::http::Request;
use crate::id::Index;
use crate::machine::process::reader::budget::{Budget, READ_BURST, READ_INTERVAL};
use crate::machine::process::reader::check::Reads;
use crate::machine::process::reader::cursor::Progress;
use crate::machine::process::reader::poller::{Poller, Start};
use crate::machine::semaphore::focus::Focus;
use crate::machine::semaphore::refresh::{Of, Refresh};
use crate::machine::semaphore::settings::Settings;
use crate::time::Instant;

#[derive(Clone, Debug)]
pub(super) struct Watch {
    poller: Poller,
    /// Whether the leader must confirm polls.
    asks_leader: bool,
    /// When a poll is wanted. `None` if none is.
    wanted_from: Option<Instant>,
    /// What the next poll reads.
    focus: Focus,
    polled: Polled,
    /// Whether a request got no answer since the last answer to a poll. Then the poll under way may
    /// be dead, too.
    is_suspect: bool,
    /// A read of the prefix besides the poll.
    refresh: Refresh,
    /// A read of the record before a write.
    record: Refresh,
    /// The duration of the last short request.
    round_trip: Duration,
    /// The number of consecutive polls that were answered soon, up to a limit.
    soon_answered: u32,
    /// The number of consecutive polls that were answered at once, up to a limit.
    quickly_answered: u32,
    /// Who checks while one only holds, and while one waits.
    reads: Reads,
    waiting_reads: Reads,
}

/// The present or last poll.
#[derive(Clone, Debug)]
struct Polled {
    focus: Focus,
    /// Whether the leader confirms the answer.
    is_confirmed: bool,
}

impl Watch {
    pub(super) fn new(settings: &Settings) -> Self {
        let budget = Budget::new(READ_INTERVAL, READ_BURST);
        Self {
            poller: Poller::new(budget, settings.retry_cap()),
            asks_leader: false,
            wanted_from: Some(Instant::ORIGIN),
            focus: Focus::Prefix,
            polled: Polled {
                focus: Focus::Prefix,
                is_confirmed: false,
            },
            is_suspect: false,
            refresh: Refresh::new(Of::Prefix, settings),
            record: Refresh::new(Of::Record, settings),
            round_trip: Duration::ZERO,
            soon_answered: 0,
            quickly_answered: 0,
            reads: Reads::at_first(&settings.session),
            waiting_reads: Reads::at_first(&settings.session),
        }
    }

    /// Starts watching.
    pub(super) fn start(&mut self) -> Start {
        let start = self.poller.start();
        self.asks_leader &= start != Start::Anew;
        start
    }

    /// Sets who checks while one only holds.
    pub(super) fn share_reads(&mut self, reads: Reads) {
        self.reads = reads;
    }

    /// Whether somebody else checks while one only holds.
    pub(super) fn shares_reads(&self) -> bool {
        self.reads == Reads::Shared
    }

    /// Sets who checks while one waits.
    pub(super) fn share_waiting_reads(&mut self, reads: Reads) {
        self.waiting_reads = reads;
    }

    /// Whether somebody else checks while one waits.
    pub(super) fn shares_waiting_reads(&self) -> bool {
        self.waiting_reads == Reads::Shared
    }

    /// Sets when the next poll is wanted, if at all. A poll under way continues.
    pub(super) fn want_from(&mut self, from: Option<Instant>) {
        self.wanted_from = from;
    }

    /// Makes the next poll a plain read, unless one is under way. Returns whether it did.
    pub(super) fn start_over(&mut self) -> bool {
        if !self.is_polling() {
            self.poller.restart();
        }
        !self.is_polling()
    }

    /// Everything up to this index is known from elsewhere.
    pub(super) fn skip_to(&mut self, index: Index) {
        self.poller.skip_to(index);
    }

    pub(super) fn is_polling(&self) -> bool {
        self.poller.is_polling()
    }

    /// Since when a plain read of the prefix is under way, which is answered at
    /// once.
    pub(super) fn reads_since(&self) -> Option<Instant> {
        let is_of_prefix = self.polled.focus == Focus::Prefix;
        let is_reading = self.is_polling() && is_of_prefix && self.poller.is_at_start();
        is_reading.then_some(self.poller.sent_at())
    }

    /// Sets what polls read from now on.
    pub(super) fn look_at(&mut self, focus: Focus) {
        self.focus = focus;
    }

    /// What the present or last poll reads.
    pub(super) fn polled(&self) -> &Focus {
        &self.polled.focus
    }

    /// Whether the poll under way reads only the next one ahead.
    pub(super) fn is_looking_ahead(&self) -> bool {
        self.is_polling() && matches!(self.polled.focus, Focus::Ahead { .. })
    }

    /// Whether the poll under way reads one key that no longer matters.
    pub(super) fn is_for_another(&self) -> bool {
        self.is_looking_ahead() && self.polled.focus.ahead() != self.focus.ahead()
    }

    /// Whether the answer to the poll under way comes before its time.
    pub(super) fn is_early(&self, now: Instant) -> bool {
        now.saturating_since(self.poller.sent_at()) < self.polled.focus.wait()
    }

    /// A poll of one key was answered.
    pub(super) fn key_answered(&mut self, now: Instant) {
        self.count_answer(now);
        self.poller.answered_aside(now);
    }

    /// How long a holder does not watch the prefix after an answer: zero if it seldom changes. If
    /// others have turns all the time, each change would wake every holder for nothing.
    pub(super) fn rest_of_holders(&self) -> Duration {
        let rest = |doublings| SHORTEST_REST * (1_u32 << doublings);
        self.soon_answered
            .checked_sub(UNRESTED)
            .map_or(Duration::ZERO, rest)
    }

    /// Whether the watched data changes so often that polls would soon reach their limit.
    pub(super) fn is_busy(&self) -> bool {
        self.quickly_answered >= BUSY
    }

    fn count_answer(&mut self, now: Instant) {
        let took = now.saturating_since(self.poller.sent_at());
        if took < SOON {
            self.soon_answered = (self.soon_answered + 1).min(UNRESTED + MOST_DOUBLINGS);
        } else {
            self.soon_answered = 0;
        }
        self.quickly_answered = if took < QUICK {
            (self.quickly_answered + 1).min(BUSY)
        } else {
            0
        };
    }

    /// The leader must confirm polls from the next one on, until the watch restarts.
    pub(super) fn ask_leader(&mut self) {
        self.asks_leader = true;
    }

    pub(super) fn asks_leader(&self) -> bool {
        self.asks_leader
    }

    /// Whether the leader confirms the answer to the poll under way.
    pub(super) fn is_polling_leader(&self) -> bool {
        self.is_polling() && self.polled.is_confirmed
    }

    /// Gives the poll under way up for a plain read, unless it has just begun. Returns whether it
    /// did.
    pub(super) fn restart(&mut self, now: Instant) -> bool {
        let age = now.saturating_since(self.poller.sent_at());
        let is_due = self.is_polling() && age >= LEAST_POLL;
        if is_due {
            self.poller.restart();
            self.poller.ended(Instant::ORIGIN);
        }
        is_due
    }

    /// Stops polling.
    pub(super) fn pause(&mut self) {
        self.poller.pause();
    }

    /// Reads the whole prefix besides the poll, confirmed by the leader. A long poll would only
    /// answer at the next change, or its answers contradict each other.
    pub(super) fn refresh(&mut self, now: Instant) {
        self.refresh.want(now);
    }

    /// Reads the record before a write, from this time on, confirmed by the leader.
    pub(super) fn read_record(&mut self, from: Instant) {
        self.record.want(from);
    }

    /// Whether the record will soon be read before a write.
    pub(super) fn is_reading_record(&self) -> bool {
        !self.record.is_idle()
    }

    /// It does not count for the limit of reads: there is one for each attempt to write, and these
    /// pause after a refusal.
    pub(super) fn transmit_record(&mut self, now: Instant, settings: &Settings) -> Option<Request> {
        self.record.transmit(now, settings)
    }

    pub(super) fn record_read(&mut self) {
        self.record.answered();
    }

    pub(super) fn record_failed(&mut self, now: Instant, rng: &mut fastrand::Rng) {
        self.record.failed(now, rng);
    }

    pub(super) fn stop_reads(&mut self) {
        self.refresh.stop();
        self.record.stop();
    }

    /// Whether a separate read is wanted and not sent yet.
    pub(super) fn is_refresh_wanted(&self) -> bool {
        self.refresh.timeout().is_some()
    }

    /// When the next wanted read is due. It has the limit of polls.
    pub(super) fn read_timeout(&self) -> Option<Instant> {
        let first = self.refresh.timeout();
        let first = first.map(|at| at.max(self.poller.ready_at()));
        first.into_iter().chain(self.record.timeout()).min()
    }

    pub(super) fn transmit_refresh(
        &mut self,
        now: Instant,
        settings: &Settings,
    ) -> Option<Request> {
        if self.poller.ready_at() > now {
            return None;
        }
        let request = self.refresh.transmit(now, settings)?;
        self.poller.spend(now);
        Some(request)
    }

    pub(super) fn refreshed(&mut self) {
        self.refresh.answered();
    }

    pub(super) fn refresh_failed(&mut self, now: Instant, rng: &mut fastrand::Rng) {
        self.refresh.failed(now, rng);
    }

    /// A request has ended. If requests are answered again after some were not, the poll that was
    /// under way may be dead, which would only be noticed at its end. Returns whether it is given
    /// up.
    pub(super) fn judge(&mut self, now: Instant, is_poll: bool, is_answered: bool) -> bool {
        match (is_poll, is_answered) {
            (true, _) => self.is_suspect = false,
            (false, false) => self.is_suspect = true,
            (false, true) => {
                self.is_suspect &= self.is_polling();
                if self.is_suspect && self.restart(now) {
                    self.is_suspect = false;
                    return true;
                }
            }
        }
        false
    }

    /// A short request was answered after this time.
    pub(super) fn took(&mut self, round_trip: Duration) {
        self.round_trip = round_trip;
    }

    pub(super) fn round_trip(&self) -> Duration {
        self.round_trip
    }

    /// One more read is allowed, since our write has caused it.
    pub(super) fn credit(&mut self) {
        self.poller.credit();
    }

    pub(super) fn timeout(&self) -> Option<Instant> {
        if self.is_for_another() {
            return Some(self.poller.sent_at() + LEAST_POLL);
        }
        let due = self.poller.timeout()?;
        self.wanted_from.map(|from| due.max(from))
    }

    pub(super) fn transmit(&mut self, now: Instant, settings: &Settings) -> Option<Request> {
        if self.is_polling() || self.timeout().is_none_or(|due| due > now) {
            return None;
        }
        let onward = self.poller.send(now);
        let consistent = self.asks_leader;
        self.polled = Polled {
            focus: self.focus.clone(),
            is_confirmed: consistent,
        };
        let wait = match self.focus {
            Focus::Prefix => onward,
            Focus::Record { index } | Focus::Ahead { index, .. } => {
                Some((index, self.focus.wait())).filter(|(_, wait)| !wait.is_zero())
            }
        };
        Some(match self.focus.key(settings) {
            None => ListKeys {
                prefix: &settings.prefix,
                wait,
                consistent,
            }
            .request(settings.scope()),
            Some(key) => ReadKey {
                key: &key,
                wait,
                consistent,
            }
            .request(settings.scope()),
        })
    }

    /// Returns whether the answer continues the one before it. If not, a snapshot may have been
    /// restored between them.
    pub(super) fn answered(&mut self, now: Instant, index: Index) -> bool {
        self.count_answer(now);
        self.poller.answered(now, index) != Progress::Anew
    }

    pub(super) fn failed(&mut self, now: Instant, rng: &mut fastrand::Rng) {
        self.poller.failed(now, rng);
    }

    pub(super) fn failed_by(
        &mut self,
        now: Instant,
        error: &RequestError,
        rng: &mut fastrand::Rng,
    ) {
        self.poller.failed_by(now, error, rng);
    }
}

/// The shortest time before a poll is given up. So only a few of the given-up polls that an agent
/// still counts are ours.
const LEAST_POLL: Duration = Duration::from_secs(2);

/// A poll that takes longer than this shows that the data seldom changes.
const SOON: Duration = Duration::from_secs(1);

/// This many soon-answered polls don't make a holder rest. Each further one doubles the rest, up to
/// a second.
const UNRESTED: u32 = 4;
const SHORTEST_REST: Duration = Duration::from_millis(250);
const MOST_DOUBLINGS: u32 = 2;

/// This many consecutive polls, each answered within this time, show that the data is busy. The
/// limit of reads allows fifty at once.
const BUSY: u32 = 16;
const QUICK: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
