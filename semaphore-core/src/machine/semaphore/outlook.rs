//! What to read next, when, and how urgently: a function of what is known and what is under way.
//!
//! # Of whom
//! If few contend, each watches the whole prefix and learns of every change at once. If many do,
//! each of them would read the prefix at each handover. So in a crowd
//! - a contender that waits behind others watches only the key of the next one ahead, which a claim
//!   changes;
//! - the first waiter and each holder watch only the record;
//! - the prefix is read when that is not enough: when the next one ahead is gone, when a free slot
//!   stays unused for the time of our patience, and now and then, since holders may die.
//!
//! ```text
//!   behind ──key touched──▶ first ──a slot is free──▶ claims, touching its own key
//!     │  ▲                    ▲
//!     │  └─time is over: look at the record
//!     └────key gone: read the prefix
//! ```
//! A claim of a foreign client changes no key. A contender that waits behind it notices at the end
//! of its poll: after [`LOOK_AT_RECORD`], and a bit later for each waiter ahead.
//!
//! The reason is the thundering herd: if each watched the whole prefix, one release would wake all
//! waiters, and each of them would read all keys. Watching only the one ahead is a known recipe for
//! locks with Apache `ZooKeeper`.
//!
//! # From when on
//! A transaction shows the state that it left. So no other read is needed while one is under way,
//! or for a moment after it. A hold is not watched in its first moments: for a quarter of a second
//! after the last transaction that showed it. An eviction in that time is noticed that much later,
//! plus one round of requests. A holder among many of its process does not poll at all, nor does a
//! waiter beyond the first ones: the process asks for many records at once (`reader::checks`). If
//! others have turns all the time, a holder looks once a second, since a change of the record wakes
//! all who watch it.
//!
//! For a second after a write of ours was refused, the record counts as contended. It is then read
//! just before each write, so that fewer writes are refused, and polled less often, so that each
//! write admits more.
//!
//! Source: docs/CONSUL.md, "Limits and timeouts": a given-up poll counts as a connection until its
//! `wait` is over. So no poll is begun if something else is about to answer it.

use core::time::Duration;

use crate::http::Priority;
use crate::id::{Index, SessionId};
use crate::machine::callers::Queue;
use crate::machine::process::reader::check::{Check, Stance};
use crate::machine::process::requests::Requests;
use crate::machine::semaphore::admission::CREATORS;
use crate::machine::semaphore::contender::{Contender, Part};
use crate::machine::semaphore::focus::Focus;
use crate::machine::semaphore::knowledge::{Knowledge, Observed, RecordLook};
use crate::machine::semaphore::ledger::Ledger;
use crate::machine::semaphore::roster::{Group, Roster};
use crate::machine::semaphore::sender::From;
use crate::machine::semaphore::settings::Settings;
use crate::machine::semaphore::steps::Along;
use crate::machine::semaphore::watch::Watch;
use crate::record::Record;
use crate::time::Instant;
use crate::view::{Contender as Shown, Source, View};

/// How long a waiter behind one other watches that one's key before it reads the record.
const LOOK_AT_RECORD: Duration = Duration::from_secs(2);

/// How much longer for each further waiter ahead, and the limit.
const LOOK_PER_RANK: Duration = Duration::from_millis(100);
const LOOK_AT_MOST: Duration = Duration::from_secs(15);

/// How long a poll waits for another answer that tells as much. A nearby agent needs a fraction of
/// it. After a slow answer it is longer.
const PROMPT: Duration = Duration::from_millis(50);

/// How long a newcomer waits for the first read, with which it claims in one step. Entering before
/// takes one request more, and as long. If hundreds of semaphores are wanted at once, reads wait
/// for one another; an answer that is lost costs this time.
const FIRST_READ: Duration = Duration::from_millis(500);

/// The fewest contenders below a prefix that is long. Their keys take 60 kB in an answer.
const LONG: usize = 256;

/// How long a read of the prefix shows well enough who waits.
const RECENT: Duration = Duration::from_millis(300);

/// If more of ours than this are about to enter or have entered, one of them reads. If few do, each
/// learns its place at once.
const MANY_ENTER: usize = 4;

/// The age limit of what is known about a contended record when it is written, in round trips.
const FRESH_ROUNDS: u32 = 2;

/// How long those ahead may leave a slot unused before they are checked: in round trips, and the
/// limit. If they poll the record with pauses, they have time for some polls: a check reads the
/// keys of all who contend.
const GRACE_ROUNDS: u32 = 12;
const MOST_GRACE: Duration = Duration::from_millis(20);
const GRACE_POLLS: u32 = 3;

/// The pause between polls of a contended record for each slot, and the limit of slots. A longer
/// pause lets each write admit more. `scale` shows for 20 processes and 100 slots, where a round
/// trip takes 2 ms: 72 % of the ideal and 1.2 requests a turn with this value, 70 % and 1.4 with
/// 250 µs.
const PACE_PER_SLOT: Duration = Duration::from_micros(400);
const MOST_PACED: u32 = 100;

/// How many contend before they count as a crowd, if turns follow each other at once.
const BUSY_CROWD: usize = 1;

/// The parts of the participant that it depends on.
pub(super) struct Outlook<'a> {
    pub(super) settings: &'a Settings,
    pub(super) queue: &'a Queue,
    pub(super) roster: &'a Roster,
    pub(super) knowledge: &'a Knowledge,
    pub(super) ledger: &'a Ledger,
    pub(super) watch: &'a Watch,
    pub(super) requests: &'a Requests<From>,
}

impl Outlook<'_> {
    /// What polls read at the moment.
    pub(super) fn focus(&self, now: Instant) -> Focus {
        if !self.is_in_crowd() || self.is_in_the_dark() {
            return Focus::Prefix;
        }
        match self.knowledge.record_look() {
            RecordLook::Not => {}
            RecordLook::Now => return Focus::Record { index: Index::ZERO },
            RecordLook::After(index) => return Focus::Record { index },
        }
        let Some(observed) = self.knowledge.current() else {
            return Focus::Prefix;
        };
        let index = observed.view.record_index();
        let has_record = observed.view.record().is_some();
        let holds = self.roster.has_any(Group::Held);
        match self.next_ahead(now, observed) {
            Some((ahead, rank))
                if !holds
                    && !self.knowledge.is_next_stuck()
                    && !self.roster.has_any(Group::Withdrawing)
                    && (has_record || rank as usize >= CREATORS) =>
            {
                Focus::Ahead {
                    session: ahead.session.clone(),
                    index: ahead.modify_index,
                    wait: LOOK_AT_MOST.min(LOOK_AT_RECORD + LOOK_PER_RANK * rank),
                }
            }
            _ if has_record => Focus::Record { index },
            _ => Focus::Prefix,
        }
    }

    /// Whether not everybody should watch the whole prefix. That is so if too many contend, or have
    /// turns so often that each watcher would reach its read limit and learn too late.
    pub(super) fn is_in_crowd(&self) -> bool {
        let own = self.roster.len();
        let crowd = if self.watch.is_busy() {
            BUSY_CROWD.min(self.settings.crowd)
        } else {
            self.settings.crowd
        };
        self.knowledge.is_crowd(crowd.saturating_mul(own.max(1)))
    }

    /// What the transaction reads with which one of ours enters. In a crowd, or if the prefix is
    /// long, a recent read suffices: the next read shows the place of all who have entered by then.
    pub(super) fn along(&self, now: Instant) -> Along {
        let is_recent =
            |it: &Observed| it.view.record().is_some() && now.saturating_since(it.read_at) < RECENT;
        // A read for one of them serves all. For a single one it would be an additional request.
        let serves_more = self.roster.len() > 1;
        let is_long = |it: &Observed| it.view.contenders().len() >= LONG;
        let is_read = self.is_entering_with_read();
        let known = self.knowledge.current();
        let known = known.filter(|it| is_recent(it) || is_read);
        let knows_enough = known.is_some_and(|it| self.is_in_crowd() || is_long(it));
        let is_of_many = is_read && self.roster.len() > MANY_ENTER;
        if serves_more && knows_enough || is_of_many {
            Along::Nothing
        } else {
            Along::Prefix
        }
    }

    /// Whether one of ours enters with a read of the prefix under way.
    fn is_entering_with_read(&self) -> bool {
        let reads = |no| self.roster.get(no).is_some_and(Contender::enters_with_read);
        let those = |from| matches!(from, From::Contender(no, Part::Key) if reads(no));
        self.requests.count(those) > 0
    }

    /// Whether the record must be read before it is written: others write it at any moment, and
    /// what is known is older than a request takes. A refused write costs Consul an entry of its
    /// log, and its sender a pause.
    pub(super) fn must_read_record(&self, now: Instant) -> bool {
        let age = |it: &Observed| now.saturating_since(it.seen_at);
        let is_old = |it: &Observed| age(it) > self.watch.round_trip() * FRESH_ROUNDS;
        self.is_contended(now) && self.knowledge.current().is_some_and(is_old)
    }

    /// Whether others write the record at any moment.
    pub(super) fn is_contended(&self, now: Instant) -> bool {
        self.ledger.is_contended(now) && self.is_in_crowd()
    }

    /// How long a slot is left to those ahead before a read checks them: somewhat longer than a
    /// claim takes.
    pub(super) fn grace(&self, now: Instant) -> Duration {
        let claim = MOST_GRACE.min(self.watch.round_trip() * GRACE_ROUNDS);
        claim.max(self.pace(now) * GRACE_POLLS)
    }

    /// The pause between polls of a record that others write at any moment; a poll would be
    /// answered at once. With more slots the record is longer, and a single slot matters less.
    fn pace(&self, now: Instant) -> Duration {
        if !self.is_contended(now) {
            return Duration::ZERO;
        }
        let slots = self.knowledge.record().map_or(0, Record::limit);
        PACE_PER_SLOT * slots.min(MOST_PACED)
    }

    /// Whether a read besides the poll is about to be sent.
    fn is_about_to_look(&self) -> bool {
        self.watch.is_refresh_wanted()
    }

    /// Whether only another view can show what to delete, because the present one leaves something
    /// out.
    fn is_in_the_dark(&self) -> bool {
        let is_filtered = |it: &Observed| it.view.is_filtered();
        self.roster.has_any(Group::Looking) && self.knowledge.current().is_some_and(is_filtered)
    }

    /// The next waiter ahead of our first, and the number of all ahead.
    fn next_ahead<'v>(&self, now: Instant, observed: &'v Observed) -> Option<(&'v Shown, u32)> {
        let overtaken = self.ledger.overtaken(now);
        let first = self.roster.first_in_queue()?;
        observed.next_ahead(first, |session| overtaken.contains(session))
    }

    /// The number of waiters ahead of our first, according to this view.
    pub(super) fn ahead(&self, now: Instant, observed: Option<&Observed>) -> u32 {
        let next = observed.and_then(|it| self.next_ahead(now, it));
        next.map_or(0, |(_, rank)| rank)
    }

    /// The next waiter needs polls most. A holder has its lease.
    pub(super) fn priority_of_poll(&self, now: Instant) -> Priority {
        let ahead = if self.queue.is_empty() {
            u32::MAX
        } else {
            self.ahead(now, self.knowledge.newest())
        };
        Priority::Poll { ahead }
    }

    /// When the next poll is wanted. It waits a little for an answer that tells as much.
    pub(super) fn watch_from(&self, now: Instant) -> Option<Instant> {
        let is_looked_after = self.watch.shares_reads() && self.only_holds().is_some()
            || self.watch.shares_waiting_reads() && self.only_waits().is_some();
        if is_looked_after || self.watch.is_reading_record() {
            return None;
        }
        if self.knowledge.record_look() != RecordLook::Not && self.is_in_crowd() {
            return Some(now);
        }
        let Some(observed) = self.knowledge.current() else {
            let entered_at = self.entered_at();
            return Some(entered_at.map_or(now, |sent| sent + self.prompt()));
        };
        let later = self.knowledge.confirmed_until(now);
        let rested = observed.seen_at + self.watch.rest_of_holders();
        let holds = self.roster.has_any(Group::Held);
        let waits = self.waits();
        let for_others = (waits && !self.is_about_to_enter()).then(|| {
            let is_for_own = later > now
                && self.ledger.claims().is_empty()
                && self.has_only_own_holders(&observed.view);
            let from = if is_for_own {
                later
            } else {
                (observed.seen_at + self.pace(now)).max(now)
            };
            self.answer_awaited(now)
                .map_or(from, |sent| from.max(sent + self.prompt()))
        });
        let for_own = holds.then_some(later.max(rested));
        for_others.into_iter().chain(for_own).min()
    }

    /// Whether somebody here needs something that only a read can tell.
    fn waits(&self) -> bool {
        !self.queue.is_empty()
            || self.roster.has_any(Group::Wanting)
            || self.roster.has_any(Group::Withdrawing)
            || self.is_in_the_dark()
    }

    /// What to check while one only holds, or only waits: changes of the record, or missing keys.
    pub(super) fn check(&self) -> Option<Check> {
        if let Some(observed) = self.only_holds() {
            let sessions = self.roster.those(Group::Held);
            let sessions = sessions.filter_map(|(_, it)| it.session_id());
            return Some(self.check_of(observed, Stance::Holds, sessions));
        }
        let observed = self.only_waits()?;
        let ahead = self.ahead_of_first(observed);
        let sessions = observed.view.contenders().iter().map(|it| &it.session);
        Some(self.check_of(observed, Stance::Waits { ahead }, sessions))
    }

    fn check_of<'s>(
        &self,
        observed: &Observed,
        stance: Stance,
        sessions: impl Iterator<Item = &'s SessionId>,
    ) -> Check {
        let prefix = &self.settings.prefix;
        Check {
            stance,
            record: prefix.record_key(),
            index: observed.view.record_index(),
            keys: sessions
                .map(|session| (prefix.contender_key(session), session.clone()))
                .collect(),
            seen_at: observed.seen_at,
        }
    }

    /// How many wait ahead of our first, overtaken or not.
    fn ahead_of_first(&self, observed: &Observed) -> u32 {
        let first = self.roster.first_in_queue();
        let next = first.and_then(|first| observed.next_ahead(first, |_| false));
        next.map_or(0, |(_, rank)| rank)
    }

    /// What is known, if one only holds, and others of the process could check instead.
    fn only_holds(&self) -> Option<&Observed> {
        let may_share = self.settings.shares_sessions() && self.roster.len() <= Check::MOST_KEYS;
        let holds = self.roster.has_any(Group::Held) && !self.waits();
        let is_settled = !self.knowledge.is_doubted() && !self.is_about_to_look();
        let observed = self.knowledge.current();
        observed.filter(|it| may_share && holds && is_settled && it.view.record().is_some())
    }

    /// What is known, if one waits in a queue that is no crowd and nothing is under way, so that
    /// others of the process could check the record instead. Then all contenders are known, and
    /// each has a key that must exist.
    fn only_waits(&self) -> Option<&Observed> {
        let may_share = self.settings.shares_sessions()
            && self.roster.len() <= Check::MOST_KEYS
            && !self.queue.is_empty();
        let observed = self.knowledge.current().filter(|_| may_share)?;
        let is_still = |it: &Contender| it.is_queued() || it.is_held();
        let waits = self.roster.has_any(Group::Wanting) && self.roster.all().all(is_still);
        let is_settled = !self.knowledge.is_doubted()
            && !self.is_about_to_look()
            && self.knowledge.record_look() == RecordLook::Not
            && !self.ledger.is_planned()
            && self.ledger.claims().is_empty()
            && observed.view.source() != Source::NewerRecord;
        let is_known = observed.view.record().is_some()
            && observed.view.contenders().len() <= Check::MOST_KEYS;
        (waits && is_settled && is_known && !self.is_in_crowd()).then_some(observed)
    }

    fn prompt(&self) -> Duration {
        PROMPT.max(self.watch.round_trip() * 4)
    }

    /// When a request was sent, or is about to be, whose answer tells as much as a poll.
    fn answer_awaited(&self, now: Instant) -> Option<Instant> {
        let is_in_crowd = self.is_in_crowd();
        let is_planned = self.ledger.is_planned() || self.is_about_to_look() && is_in_crowd;
        let under_way = self.requests.last_step(|from| match from {
            From::Ledger => true,
            From::Refresh | From::Record => is_in_crowd,
            _ => false,
        });
        let entered_at = self.entered_at();
        let all = [is_planned.then_some(now), under_way, entered_at];
        all.into_iter().flatten().max()
    }

    /// Whether a poll could not be used yet: our first contender will soon have its session, or, in
    /// a crowd, its key. Entering shows as much as a poll. In a crowd a poll would be answered with
    /// everything for each one that enters before: if many come at once, the agent would become so
    /// slow that nobody gets in.
    fn is_about_to_enter(&self) -> bool {
        let is_in_line =
            |it: &Contender| it.key_index().is_some() || it.must_withdraw() || it.is_queued();
        let enters = self.entered_at().is_some();
        let is_about_to = if enters {
            self.is_in_crowd()
        } else {
            self.roster.is_any_asking(Group::Wanting)
        };
        is_about_to && !self.roster.all().any(is_in_line)
    }

    /// Until when a newcomer waits for the first read, which tells whether it may enter and claim
    /// in one step.
    pub(super) fn first_view_until(&self) -> Option<Instant> {
        let since = self.watch.reads_since()?;
        let is_first = self.knowledge.current().is_none();
        is_first.then_some(since + self.prompt().max(FIRST_READ))
    }

    /// Whether newcomers join the next write of the record, which is about to be made when another one has been answered, or
    /// after a pause. Otherwise each would enter by a separate request. Either slots are free and nobody else waits, so
    /// that they are admitted; or others of ours are in the queue already, so that a short delay costs no turn.
    pub(super) fn joins_next_write(&self, now: Instant) -> bool {
        let Some(observed) = self.knowledge.newest() else {
            return false;
        };
        let is_put_off = self.ledger.retry_at().is_some_and(|at| now < at)
            || self.watch.is_reading_record()
            || self.knowledge.current().is_none();
        let may_join = self.ledger.is_writing() || is_put_off;
        may_join && (self.has_room_for_one(observed) || self.queues_already())
    }

    /// Whether a slot is free for the first in our queue, besides one for each other process's waiter.
    fn has_room_for_one(&self, observed: &Observed) -> bool {
        let free = || observed.view.record().map(Record::free);
        let wants_one = self.queue.head().is_some_and(|head| head.permits == 1);
        let free = self.ledger.free_after().or_else(free);
        let waiting = || self.roster.strangers_waiting(&observed.view).count();
        wants_one && free.is_some_and(|free| free > waiting())
    }

    /// Whether one of ours is in the queue, so that others may enter a moment later.
    pub(super) fn queues_already(&self) -> bool {
        self.roster.first_in_queue().is_some()
    }

    /// When the contender entered that will soon learn the state of the prefix.
    fn entered_at(&self) -> Option<Instant> {
        self.requests.last_step(|from| match from {
            From::Contender(no, Part::Key) => {
                self.roster.get(no).is_some_and(Contender::is_wanting)
            }
            _ => false,
        })
    }

    /// Whether only our own releases are waited for: nobody else holds or waits.
    fn has_only_own_holders(&self, view: &View) -> bool {
        let has_all = |record: &Record| self.roster.have_all_of(record);
        !self.roster.sees_strangers_wait(view) && view.record().is_none_or(has_all)
    }
}
