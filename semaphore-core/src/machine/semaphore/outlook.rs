//! What is to be read next: what for, from when on, and how urgently. A function of what is known and of what is under way.
//!
//! # Of whom
//! Where few contend, each watches the whole prefix and learns of every change at once. Where many do,
//! that would cost each handoff a read of the prefix by each of them. So there
//! - a contender that waits behind others watches only the key of the next ahead, which a claim touches;
//! - the first one, and each holder, watches only the record;
//! - the prefix is read when that is not enough: when the next ahead is gone, when a free slot stays
//!   unused for the time of our patience, and now and then, for holders may die.
//!
//! ```text
//!   behind ──key touched──▶ first ──a slot is free──▶ claims, touching its own key
//!     │  ▲                    ▲
//!     │  └─time is over: look at the record
//!     └────key gone: read the prefix
//! ```
//! A claim of a foreign client touches no key. A contender that waits behind one finds out when the time of its poll is
//! over: that is [`LOOK_AT_RECORD`], and somewhat more for each who waits ahead.
//!
//! The herd is why: with a watch of the whole prefix each, one release wakes all who wait, and each of them reads all
//! keys. To watch the one ahead alone is a known recipe for locks of Apache `ZooKeeper`.
//!
//! # From when on
//! A transaction shows what it left, so that nothing else needs to be asked while one is under
//! way, and nothing for a moment after it. A hold in its first moments is not watched: that is
//! a quarter of a second after the last transaction that showed it, and with one round of requests the bound
//! within which an eviction is noticed. A holder among many of its process does not poll at all, nor does a waiter beyond the first of
//! them: the process asks for many records at once (`reader::checks`). Where others have their turns all the time, a holder looks once a
//! second: a change of the record wakes all who watch it.
//!
//! A record is contended for a second after a write of ours was refused. Then it is read right before each write, by which fewer are
//! refused, and polled less often, by which each write admits more.
//!
//! Source: docs/CONSUL.md, "Limits and timeouts": a poll that was given up goes on counting as a connection until its `wait` is
//! over. So a poll is not begun that something else is about to answer.

use core::time::Duration;

use crate::http::Priority;
use crate::id::{Index, SessionId};
use crate::machine::callers::Queue;
use crate::machine::process::encoding::Encoding;
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

/// How long the one that waits behind one other looks at its key before it looks at the record.
const LOOK_AT_RECORD: Duration = Duration::from_secs(2);

/// How much longer for each other who waits ahead, and at most.
const LOOK_PER_RANK: Duration = Duration::from_millis(100);
const LOOK_AT_MOST: Duration = Duration::from_secs(15);

/// For how long an answer that tells as much as a poll keeps the poll waiting, and how long a newcomer
/// waits for the first read: an agent nearby needs a fraction of it. Where the last answer was slow, longer.
const PROMPT: Duration = Duration::from_millis(50);

/// For how long a read of the prefix shows well enough who waits.
const RECENT: Duration = Duration::from_millis(300);

/// How many round trips old what is known of a contended record may be when it is written.
const FRESH_ROUNDS: u32 = 2;

/// For how many round trips, and at most for how long, those ahead may leave a slot unused before they are looked for.
const GRACE_ROUNDS: u32 = 12;
const MOST_GRACE: Duration = Duration::from_millis(20);

/// How far apart polls of a contended record are for each slot, and for how many at most. `scale` has shown that turns are the most
/// with it, since each write admits more: 89 % of the ideal with 20 processes and 100 slots, 85 % without, 68 % with twice as much.
const PACE_PER_SLOT: Duration = Duration::from_micros(250);
const MOST_PACED: u32 = 100;

/// How many contend before they are a crowd where turns follow each other at once.
const BUSY_CROWD: usize = 1;

/// The rooms that it follows from.
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
    /// What polls are for at the moment.
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

    /// Whether not everybody watches the whole prefix: so many contend, or so often do they have their turns that each who watched
    /// it would be at the ceiling of reads, and learn late what it waits for.
    pub(super) fn is_in_crowd(&self) -> bool {
        let own = self.roster.len();
        if self.settings.reads_by_name() {
            return true;
        }
        let crowd = if self.watch.is_busy() {
            BUSY_CROWD.min(self.settings.crowd)
        } else {
            self.settings.crowd
        };
        self.knowledge
            .is_crowd(crowd.saturating_mul(own.max(1)), self.settings)
    }

    /// Whether what is known begins with a read by name, in place of a poll that would be answered with everything below the prefix.
    pub(super) fn begins_by_name(&self) -> bool {
        self.settings.reads_by_name()
            && self.knowledge.current().is_none()
            && (self.knowledge.record_look() == RecordLook::Not
                || self.knowledge.newest().is_none())
    }

    /// What a transaction reads along by which one of ours enters. In a crowd what was read shortly before will do: the next read
    /// shows the place of all who have entered by then.
    pub(super) fn along(&self, now: Instant) -> Along {
        let is_recent =
            |it: &Observed| it.view.record().is_some() && now.saturating_since(it.read_at) < RECENT;
        // A read for one of them serves all: alone it would be one request more.
        let serves_more = self.roster.len() > 1;
        let knows_enough =
            serves_more && self.is_in_crowd() && self.knowledge.current().is_some_and(is_recent);
        if self.settings.reads_by_name() || knows_enough {
            Along::Nothing
        } else {
            Along::Prefix
        }
    }

    /// Whether the record has to be read before it is written: others write it at any moment, and what is known is older than
    /// it takes to ask. A write that is refused costs Consul an entry of its log, and its sender a pause.
    pub(super) fn must_read_record(&self, now: Instant) -> bool {
        let age = |it: &Observed| now.saturating_since(it.seen_at);
        let is_old = |it: &Observed| age(it) > self.watch.round_trip() * FRESH_ROUNDS;
        self.is_contended(now) && self.knowledge.current().is_some_and(is_old)
    }

    /// Whether others write the record at any moment.
    pub(super) fn is_contended(&self, now: Instant) -> bool {
        self.ledger.is_contended(now) && self.is_in_crowd() && !self.settings.reads_by_name()
    }

    /// For how long a slot is left to those ahead, before a read shows whether they still are: somewhat more than it takes to
    /// claim it.
    pub(super) fn grace(&self) -> Duration {
        MOST_GRACE.min(self.watch.round_trip() * GRACE_ROUNDS)
    }

    /// From when on a poll of a record is wanted that others write at any moment: it would be answered at once. The more slots,
    /// the longer is the record, and the less does it matter when one of them is taken.
    fn paced(&self, now: Instant, observed: &Observed) -> Instant {
        if !self.is_contended(now) {
            return now;
        }
        let slots = observed.view.record().map_or(0, Record::limit);
        observed.seen_at + PACE_PER_SLOT * slots.min(MOST_PACED)
    }

    /// Whether a read beside the poll is about to go out.
    fn is_about_to_look(&self) -> bool {
        if self.settings.reads_by_name() {
            self.watch.is_glance_wanted()
        } else {
            self.watch.is_refresh_wanted()
        }
    }

    /// Whether only another view tells what there is to delete, since the present one leaves something out.
    fn is_in_the_dark(&self) -> bool {
        let is_filtered = |it: &Observed| it.view.is_filtered();
        self.roster.has_any(Group::Looking) && self.knowledge.current().is_some_and(is_filtered)
    }

    /// Who waits next ahead of the first of ours, and how many do in all.
    fn next_ahead<'v>(&self, now: Instant, observed: &'v Observed) -> Option<(&'v Shown, u32)> {
        let overtaken = self.ledger.overtaken(now);
        let first = self.roster.first_in_queue()?;
        observed.next_ahead(first, |session| overtaken.contains(session))
    }

    /// How many wait ahead of the first of ours, as this shows it.
    pub(super) fn ahead(&self, now: Instant, observed: Option<&Observed>) -> u32 {
        let next = observed.and_then(|it| self.next_ahead(now, it));
        next.map_or(0, |(_, rank)| rank)
    }

    /// The next one has most use for what a poll tells. A holder has its lease.
    pub(super) fn priority_of_poll(&self, now: Instant) -> Priority {
        let ahead = if self.queue.is_empty() {
            u32::MAX
        } else {
            self.ahead(now, self.knowledge.newest())
        };
        Priority::Poll { ahead }
    }

    /// From when on the next poll is wanted. It waits a little for an answer that tells as much.
    pub(super) fn watch_from(&self, now: Instant) -> Option<Instant> {
        let is_looked_after = self.watch.shares_reads() && self.only_holds().is_some()
            || self.watch.shares_waiting_reads() && self.only_waits().is_some();
        if is_looked_after || self.watch.is_reading_record() {
            return None;
        }
        if self.settings.encoding == Encoding::Requests {
            return Some(now);
        }
        if self.knowledge.record_look() != RecordLook::Not && self.is_in_crowd() {
            return Some(now);
        }
        if self.begins_by_name() {
            return None;
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
                self.paced(now, observed).max(now)
            };
            self.answer_awaited(now)
                .map_or(from, |sent| from.max(sent + self.prompt()))
        });
        let for_own = holds.then_some(later.max(rested));
        for_others.into_iter().chain(for_own).min()
    }

    /// Whether somebody here wants something that only a read tells.
    fn waits(&self) -> bool {
        !self.queue.is_empty()
            || self.roster.has_any(Group::Wanting)
            || self.roster.has_any(Group::Withdrawing)
            || self.is_in_the_dark()
    }

    /// What is to be told while one only holds, or only waits: that the record has changed, or that a key is gone.
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

    /// How many wait ahead of the first of ours, overtaken or not.
    fn ahead_of_first(&self, observed: &Observed) -> u32 {
        let first = self.roster.first_in_queue();
        let next = first.and_then(|first| observed.next_ahead(first, |_| false));
        next.map_or(0, |(_, rank)| rank)
    }

    /// What is known, where one only holds, and others of the process could look as well.
    fn only_holds(&self) -> Option<&Observed> {
        let may_share = self.settings.shares_sessions()
            && self.settings.encoding == Encoding::Transactions
            && self.roster.len() <= Check::MOST_KEYS;
        let holds = self.roster.has_any(Group::Held) && !self.waits();
        let is_settled = !self.knowledge.is_doubted() && !self.is_about_to_look();
        let observed = self.knowledge.current();
        observed.filter(|it| may_share && holds && is_settled && it.view.record().is_some())
    }

    /// What is known, where one waits in a queue that is no crowd, and nothing is under way: others of the process could look as well
    /// whether the record changes. Everybody who contends is known then, and has a key that has to be there.
    fn only_waits(&self) -> Option<&Observed> {
        let may_share = self.settings.shares_sessions()
            && self.settings.encoding == Encoding::Transactions
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
            From::Refresh | From::Record | From::Glance(_) => is_in_crowd,
            _ => false,
        });
        let entered_at = self.entered_at();
        let all = [is_planned.then_some(now), under_way, entered_at];
        all.into_iter().flatten().max()
    }

    /// Whether nothing can be done yet about what a poll would show: the first of ours is about to have
    /// its session, or, in a crowd, its key. To enter shows as much, and one that polled a crowd meanwhile
    /// would read all of it again for each who enters before: many who come at once would make an agent
    /// so slow by it that nobody gets in.
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

    /// Until when a newcomer waits for the first read, which tells whether it may enter and claim in
    /// one step.
    pub(super) fn first_view_until(&self) -> Option<Instant> {
        let since = self.watch.reads_since()?;
        let is_first =
            self.settings.encoding == Encoding::Transactions && self.knowledge.current().is_none();
        is_first.then_some(since + self.prompt())
    }

    /// Whether newcomers go along with the next write of the record: one is under way that leaves slots free, and nobody else
    /// holds or waits, who could make it fail. Who entered meanwhile would read the whole prefix, each, to do in two steps what
    /// then takes one.
    pub(super) fn has_next_write(&self) -> bool {
        let Some(observed) = self.knowledge.current() else {
            return false;
        };
        self.settings.encoding == Encoding::Transactions
            && self.settings.owns_sessions()
            && self.ledger.free_after().is_some_and(|free| free > 0)
            && self.has_only_own_holders(&observed.view)
    }

    /// Since when a contender is about to learn how the prefix looks.
    fn entered_at(&self) -> Option<Instant> {
        self.requests.last_step(|from| match from {
            From::Contender(no, Part::Key) => {
                self.roster.get(no).is_some_and(Contender::is_wanting)
            }
            _ => false,
        })
    }

    /// Whether it is our own releases that are waited for: nobody else holds or waits.
    fn has_only_own_holders(&self, view: &View) -> bool {
        let has_all = |record: &Record| self.roster.have_all_of(record);
        !self.roster.sees_strangers_wait(view) && view.record().is_none_or(has_all)
    }
}
