//! What follows from what is known: how many of ours contend, and what is read for them. `failures`
//! has those whose wait fails, `plan` has what is written next.

use std::collections::BTreeSet;

use crate::machine::callers::Patience;
use crate::machine::contract::Machine as _;
use crate::machine::process::moment::Moment;
use crate::machine::process::reader::poller::Start;
use crate::machine::semaphore::Participant;
use crate::machine::semaphore::admission::ContenderNo;
use crate::machine::semaphore::contender::{Contender, Spare};
use crate::machine::semaphore::knowledge::Observed;
use crate::machine::semaphore::roster::Group;
use crate::record::Record;
use crate::time::Instant;
use crate::view::{Lock, View};

impl Participant {
    /// Adapts everything to what is known now. Every command, answer and timeout ends here.
    pub(super) fn settle(&mut self, now: Instant) {
        self.remove_gone(now);
        self.dismiss_spares(now);
        self.judge_record(now);
        self.judge_tries(now);
        self.adjust_contenders(now);
        self.roster.look_at(self.knowledge.record());
        self.adjust_reads(now);
        self.plan(now);
        self.doubt_refusals();
    }

    /// Adds or removes contenders, to have as many as the callers need.
    fn adjust_contenders(&mut self, now: Instant) {
        let passing = self.adjust_handovers(now);
        let mut wanted = self.wanted_contenders(passing);
        let mut wanting: Vec<_> = self.roster.waiting().map(|(no, _)| no).collect();
        if self.is_try_undecided(now) {
            wanted = wanted.min(wanting.len());
        }
        if wanting.len() > wanted {
            // The youngest has waited least. One with a claim under way may be needed: its answer decides.
            let is_claiming = |no: &ContenderNo| {
                let contender = self.roster.get(*no);
                contender.is_some_and(Contender::is_claiming)
            };
            let (claiming, mut others): (Vec<_>, Vec<_>) =
                wanting.into_iter().partition(is_claiming);
            let kept = wanted.saturating_sub(claiming.len()).min(others.len());
            let mut leaving = others.split_off(kept);
            wanting = claiming;
            if !self.ledger.is_writing() {
                leaving.extend(wanting.split_off(wanting.len().min(wanted)));
            }
            wanting.append(&mut others);
            self.set_aside(now, &leaving);
        }
        if !self.roster.may_add(now) {
            return;
        }
        let missing = wanted.saturating_sub(wanting.len());
        self.add_contenders(now, missing);
        self.remove_gone(now);
    }

    /// Adds contenders that are missing. Each takes a kept session, or waits for that of a contender that is leaving. Without
    /// either it makes one.
    fn add_contenders(&mut self, now: Instant, missing: usize) {
        let mut to_come = Vec::new();
        if missing > 0 {
            to_come = self.roster.sessions_to_come(now, missing, &self.settings);
        }
        let mut awaited: Option<Instant> = None;
        for _ in 0..missing {
            let spare = self.roster.spares().take();
            if spare.is_none()
                && let Some(end) = to_come.pop()
            {
                awaited = awaited.into_iter().chain([end]).min();
            } else {
                self.add_contender(spare);
            }
        }
        self.roster.spares().expect(awaited);
    }

    pub(super) fn add_contender(&mut self, spare: Option<Spare>) -> ContenderNo {
        let no = ContenderNo(self.requests.number());
        let moment = self.moment();
        self.roster.add(no, moment, spare, &self.settings);
        no
    }

    /// Frees slots that should pass to the next in our queue, if it is somebody else's turn now, or
    /// nobody waits. Returns how many remain.
    fn adjust_handovers(&mut self, now: Instant) -> u32 {
        if !self.has_handovers() {
            return 0;
        }
        let head = self.callers.queue().head();
        let is_wanted = head.is_some_and(|head| head.permits == 1);
        let view = self.knowledge.view();
        let is_ours = view.is_some_and(|view| !self.roster.sees_strangers_lack(view));
        let slots = self.knowledge.record().map_or(0, Record::limit);
        let is_writing = self.ledger.is_writing();
        let most = self.callers.queue().wanted() as usize;
        let (kept, _) = self.free_handovers(now, most, |it| {
            it.is_claiming() && is_writing
                || is_wanted && (is_ours || it.has_slot_for_more(now, slots))
        });
        u32::try_from(kept).unwrap_or(u32::MAX)
    }

    /// Frees slots that are kept for our next callers, since others come first. Returns whether there were any.
    pub(super) fn give_way(&mut self, now: Instant) -> bool {
        self.has_handovers() && self.free_handovers(now, 0, |_| false).1 > 0
    }

    /// Whether slots are kept for our next callers, and may be freed.
    fn has_handovers(&self) -> bool {
        self.roster.has_any(Group::HandingOver)
    }

    /// Of the slots that are kept for our next callers, frees those that don't stay, and all beyond
    /// this number. Returns how many remain, and how many are freed.
    fn free_handovers(
        &mut self,
        now: Instant,
        most: usize,
        stays: impl Fn(&Contender) -> bool,
    ) -> (usize, usize) {
        let passing = self.roster.numbers_of(Group::HandingOver).into_iter();
        let stays = |no: &ContenderNo| self.roster.get(*no).is_some_and(&stays);
        let (mut kept, mut freed): (Vec<_>, Vec<_>) = passing.partition(stays);
        freed.extend(kept.split_off(kept.len().min(most)));
        self.set_aside(now, &freed);
        (kept.len(), freed.len())
    }

    /// An instant try reads before it creates a session.
    fn is_try_undecided(&self, now: Instant) -> bool {
        let is_try = self
            .callers
            .queue()
            .head()
            .is_some_and(|head| head.patience == Patience::None);
        is_try
            && self.knowledge.current().is_none_or(|observed| {
                let record_index = observed.view.record_index();
                !self.ledger.may_plan(now, record_index, observed.sent)
            })
    }

    /// How many contenders are wanted besides those whose slot passes on.
    fn wanted_contenders(&self, passing: u32) -> usize {
        let Some(head) = self.callers.queue().head() else {
            return 0;
        };
        let limit = self.settings.limit;
        // If the limit is adopted, more may be requested than there are.
        let known_limit = self
            .knowledge
            .record()
            .map_or(limit, |record| record.limit().max(limit));
        let ahead = limit
            .min(self.contenders_ahead())
            .max(head.permits.min(known_limit));
        self.callers
            .queue()
            .wanted()
            .saturating_sub(passing)
            .min(ahead) as usize
    }

    /// How many contenders queue in advance. If hundreds of slots are free, a write of the record
    /// should admit many: each contains all holders.
    fn contenders_ahead(&self) -> u32 {
        let free = self.knowledge.record().map_or(0, Record::free);
        let free = u32::try_from(free).unwrap_or(u32::MAX);
        if free < MANY_FREE {
            CONTENDERS_AHEAD
        } else {
            (free / FREE_FOR_EACH).min(MOST_AHEAD)
        }
    }

    /// The prefix is read while a decision may follow from it.
    fn adjust_reads(&mut self, now: Instant) {
        if !self.needs_view() {
            self.watch.pause();
            if self.is_idle() {
                self.watch.stop_reads();
                self.vanished.suspect(BTreeSet::new());
                self.knowledge.forget();
                self.requests.forget_services();
                self.ledger.take_claims();
                self.ledger.unplan();
            }
            return;
        }
        match self.watch.start() {
            // The view from the last turn may suffice for an attempt: the attempt names the
            // record's index.
            Start::Anew if self.knowledge.is_useful_recollection(&self.settings) => {}
            Start::Anew => self.knowledge.drop_view(),
            Start::Resumed if self.knowledge.current().is_none() => self.look(now),
            Start::Running if self.is_blind() => self.look(now),
            Start::Resumed | Start::Running => {}
        }
        // The poll under way continues.
        if !self.watch.is_polling() {
            let from = self.outlook().watch_from(now);
            self.watch.want_from(from);
        }
        let focus = self.outlook().focus(now);
        self.watch.look_at(focus);
        if self.watch.is_for_another() {
            self.restart_watch(now);
        }
        let known = self.knowledge.newest();
        let record_index = known.map(|observed| observed.view.record_index());
        let sent = known.map_or(Moment::START, |observed| observed.sent);
        // A session that lives on does not delete its key.
        let is_waited_for = self
            .roster
            .those(Group::Looking)
            .any(|(_, it)| it.needs_read(sent));
        if self.knowledge.is_doubted()
            || is_waited_for
            || self.ledger.needs_read(record_index, sent)
        {
            self.look(now);
        }
    }

    /// If nothing shows how a record changes that gives our callers nothing, those who come later
    /// need another look.
    fn doubt_refusals(&mut self) {
        let with_view = [Group::Held, Group::Withdrawing];
        let is_needed = with_view.into_iter().any(|it| self.roster.has_any(it));
        let is_watched = self.watch.is_polling() || self.ledger.is_writing();
        if self.callers.queue().is_empty()
            && !is_needed
            && !is_watched
            && let Some(observed) = self.knowledge.newest_mut()
            && gives_nothing(&observed.view, self.settings.limit)
        {
            observed.outdate();
        }
    }

    /// Whether somebody waits although the record gave nothing when it was last seen, and nothing
    /// shows the present one.
    fn is_blind(&self) -> bool {
        let gave_nothing = |it: &Observed| gives_nothing(&it.view, self.settings.limit);
        !self.callers.queue().is_empty()
            && self.knowledge.current().is_none()
            && self.knowledge.newest().is_some_and(gave_nothing)
            && !self.watch.is_polling()
    }

    /// A contender that only has to delete its key and its session needs no view any more.
    fn needs_view(&self) -> bool {
        let with_view = [
            Group::Wanting,
            Group::Held,
            Group::Withdrawing,
            Group::Looking,
            Group::Gone,
        ];
        !self.callers.queue().is_empty()
            || with_view
                .into_iter()
                .any(|group| self.roster.has_any(group))
    }
}

/// Whether a record with this limit is not what this view shows, or what it shows is incomplete.
fn gives_nothing(view: &View, limit: u32) -> bool {
    let is_ours = |lock: &Lock| {
        let record = lock.record.as_ref();
        record.is_ok_and(|record| record.limit() == limit)
    };
    view.is_filtered() || view.lock().is_some_and(|lock| !is_ours(lock))
}

/// The most contenders of one participant that queue in advance, so that the next one is in the
/// queue when a slot becomes free. One caller that wants more permits at once gets more.
const CONTENDERS_AHEAD: u32 = 8;

/// The same while many slots are free: one for each of these, as long as a transaction can enter
/// all of them.
const MANY_FREE: u32 = 128;
const FREE_FOR_EACH: u32 = 8;
const MOST_AHEAD: u32 = 48;
