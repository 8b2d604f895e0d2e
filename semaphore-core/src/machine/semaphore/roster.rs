//! Our contenders: who of us takes part in the semaphore, and when another one may.
//!
//! Each event needs data about all of them. So the data is kept in [`Standings`], and each change
//! of a contender goes through here. An event only costs work for those it concerns, however many
//! hold.

mod standings;

use std::collections::{BTreeMap, BTreeSet};

use self::standings::{Changing, Standings, Wishes, collect};
use super::admission::ContenderNo;
use super::contender::{Contender, Part, Presence, Spare};
use super::settings::Settings;
use super::spare::{LEAVING, Spares};
use crate::defect::{Defect, is_on};
use crate::http::Request;
use crate::id::{CommandId, Index, SessionId};
use crate::machine::process::moment::Moment;
use crate::machine::process::reader::pause::Pause;
use crate::machine::process::tenancy::confirmations::{Confirmations, QuestionNo, Tied};
use crate::machine::process::tenancy::departure::rest_after_failure;
use crate::machine::process::tenancy::loan::LoanWish;
use crate::machine::process::timers::Timer;
use crate::machine::semaphore::steps::Along;
use crate::record::Record;
use crate::time::Instant;
use crate::view::{Contender as Shown, Key, View};
use crate::work;

pub(super) use self::standings::Group;

/// All contenders of one participant, in the order in which they were made.
#[derive(Clone, Debug)]
pub(super) struct Roster {
    contenders: BTreeMap<ContenderNo, Contender>,
    standings: Standings,
    wishes: Wishes,
    confirmations: Confirmations<ContenderNo>,
    /// Sessions that are kept for the next turn.
    spares: Spares,
    /// No new contender before this is over.
    respawn: Pause,
    /// Until when those that are left behind rest.
    rest: Option<Instant>,
    /// The number of consecutive views that missed acquired contenders.
    unseen: u32,
}

impl Roster {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            contenders: BTreeMap::new(),
            standings: Standings::default(),
            wishes: Wishes::new(),
            confirmations: Confirmations::new(&settings.session),
            spares: Spares::default(),
            respawn: Pause::new(settings.retry_cap()),
            rest: None,
            unseen: 0,
        }
    }

    /// Whether nothing of us is left in Consul, as far as is known.
    pub(super) fn is_empty(&self) -> bool {
        self.contenders.is_empty() && self.spares.is_empty()
    }

    /// Whether there are only contenders that leave in the background, and no kept sessions.
    pub(super) fn has_only_left_behind(&self) -> bool {
        self.spares.is_empty() && self.standings.group(Group::LeftBehind).len() == self.len()
    }

    /// The same, and each has a reason: it does not only look for what may come late.
    pub(super) fn has_only_held_up(&self) -> bool {
        self.has_only_left_behind() && self.all().all(Contender::is_held_up)
    }

    /// A request failed, and only those that are left behind have something to do: they rest.
    pub(super) fn rest_after_failure(&mut self, now: Instant, settings: &Settings) {
        let left_at = self.all().filter_map(|it| it.left_at(settings));
        if let Some(since) = left_at.min() {
            self.rest = Some(rest_after_failure(since, now, &settings.session));
        }
    }

    /// Gives up the oldest of those that are left behind, if there are too many.
    pub(super) fn bound_left_behind(&mut self) {
        let left = self.standings.group(Group::LeftBehind);
        let most = if is_on(Defect::ReleaseGivenUp) {
            0
        } else {
            MOST_LEFT_BEHIND
        };
        let excess = left.len().saturating_sub(most);
        let excess: Vec<_> = left.iter().take(excess).copied().collect();
        for no in excess {
            if let Some(mut contender) = self.get_mut(no) {
                contender.abandon();
            }
        }
    }

    pub(super) fn rests_until(&self) -> Option<Instant> {
        self.rest
    }

    pub(super) fn len(&self) -> usize {
        self.contenders.len()
    }

    pub(super) fn get(&self, no: ContenderNo) -> Option<&Contender> {
        work::passed(1);
        self.contenders.get(&no)
    }

    pub(super) fn get_mut(&mut self, no: ContenderNo) -> Option<Changing<'_>> {
        work::passed(1);
        Some(Changing {
            no,
            contender: self.contenders.get_mut(&no)?,
            standings: &mut self.standings,
            wishes: &mut self.wishes,
        })
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Contender> {
        self.contenders.values().inspect(|_| work::passed(1))
    }

    pub(super) fn numbers(&self) -> Vec<ContenderNo> {
        work::passed(self.contenders.len());
        self.contenders.keys().copied().collect()
    }

    /// The members of a group, in the order in which they were made.
    pub(super) fn those(&self, group: Group) -> impl Iterator<Item = (ContenderNo, &Contender)> {
        let numbers = self.standings.group(group).iter();
        numbers.filter_map(|no| Some((*no, self.get(*no)?)))
    }

    pub(super) fn numbers_of(&self, group: Group) -> Vec<ContenderNo> {
        work::passed(self.count(group));
        self.standings.group(group).iter().copied().collect()
    }

    pub(super) fn has_any(&self, group: Group) -> bool {
        self.count(group) > 0
    }

    pub(super) fn count(&self, group: Group) -> usize {
        self.standings.group(group).len()
    }

    /// Whether all of these have a slot for this acquisition.
    pub(super) fn all_hold(&self, numbers: &[ContenderNo], acquire: CommandId) -> bool {
        let holds = |it: &Contender| it.held_for() == Some(acquire);
        numbers.iter().all(|no| self.get(*no).is_some_and(holds))
    }

    /// When the first lease of these ends.
    pub(super) fn deadline(&self, numbers: &[ContenderNo]) -> Option<Instant> {
        let deadlines = numbers.iter().filter_map(|no| self.get(*no)?.deadline());
        deadlines.min()
    }

    /// Those who wait for a slot, without those who still have one from the last hold.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (ContenderNo, &Contender)> {
        let wanting = self.those(Group::Wanting);
        wanting.filter(|(_, it)| !it.is_handing_over())
    }

    /// When our first waiter entered the queue.
    pub(super) fn first_in_queue(&self) -> Option<Index> {
        let entered = self.waiting().filter_map(|(_, it)| it.create_index());
        entered.min()
    }

    /// Our contenders that may be admitted, in the order of the queue.
    pub(super) fn admissible(&self, now: Instant) -> Vec<(ContenderNo, SessionId)> {
        let all = self
            .those(Group::Wanting)
            .filter(|(_, it)| it.is_admissible(now));
        let mut admissible: Vec<_> = all
            .filter_map(|(no, it)| Some((it.create_index()?, no, it.session_id()?.clone())))
            .collect();
        admissible.sort();
        let in_order = admissible.into_iter();
        in_order.map(|(_, no, session)| (no, session)).collect()
    }

    /// Our contenders that could enter and be admitted in one step, if that is possible.
    pub(super) fn newcomers(&self, now: Instant) -> Vec<(ContenderNo, SessionId)> {
        let all = self
            .those(Group::Wanting)
            .filter(|(_, it)| it.is_newcomer(now));
        all.filter_map(|(no, it)| Some((no, it.session_id()?.clone())))
            .collect()
    }

    /// Our contenders that leave and may be in the record.
    pub(super) fn leaving(&self) -> Vec<(ContenderNo, SessionId, Presence)> {
        let all = self.those(Group::Withdrawing);
        all.filter_map(|(no, it)| Some((no, it.session_id()?.clone(), it.presence())))
            .collect()
    }

    /// The times by which leaving contenders, `most` of them, are expected to free their sessions for the next turn.
    pub(super) fn sessions_to_come(
        &self,
        now: Instant,
        most: usize,
        settings: &Settings,
    ) -> Vec<Instant> {
        let leaving = self.those(Group::Withdrawing);
        let leaving = leaving.filter(|(_, it)| it.keeps_session());
        let ends = leaving.filter_map(|(_, it)| Some(it.left_at(settings)? + LEAVING));
        ends.filter(|end| *end > now).take(most).collect()
    }

    /// Whether this record, which has this index, must be written without one of ours.
    pub(super) fn leaves_any_of(&self, record: &Record, index: Index) -> bool {
        let is_in_it = |it: &Contender| {
            let session = it.session_id();
            session.is_some_and(|session| {
                record.holds(session.as_str()) || it.presence() == Presence::Maybe(index)
            })
        };
        let mut leaving = self.those(Group::Withdrawing);
        leaving.any(|(_, it)| is_in_it(it))
    }

    /// Whether this text is exactly a session of ours.
    pub(super) fn is_ours(&self, session: &str) -> bool {
        self.standings.is_ours(session)
    }

    /// Takes the newest record, so that events need not check all its holders.
    pub(super) fn look_at(&mut self, record: Option<&Record>) {
        self.standings.look_at(record);
    }

    /// Whether nobody else holds a slot of this record.
    pub(super) fn have_all_of(&self, record: &Record) -> bool {
        self.standings.have_all_of(record)
    }

    /// Whether this view shows a key of ours.
    pub(super) fn is_seen_in(&self, view: &View) -> bool {
        let mut sessions = self.all().filter_map(Contender::session_id);
        sessions.any(|session| matches!(view.key(session), Key::Tied(_)))
    }

    /// Those of ours who are known to be in the queue although this view, which was requested at
    /// `sent`, does not show them: they entered after it was read.
    pub(super) fn entered_after(&self, view: &View, sent: Moment) -> Vec<Shown> {
        let shown = self.all().filter_map(|it| it.entered_after(sent));
        let is_missing = |it: &&Shown| {
            it.create_index > view.version() && matches!(view.key(&it.session), Key::Absent)
        };
        let mut entered: Vec<_> = shown.filter(is_missing).cloned().collect();
        entered.sort_by_key(|it| it.create_index);
        entered
    }

    /// Whether others than ours wait in this view.
    pub(super) fn sees_strangers_wait(&self, view: &View) -> bool {
        self.strangers_waiting(view).next().is_some()
    }

    /// Whether others than ours wait in this view for whom no slot is free.
    pub(super) fn sees_strangers_lack(&self, view: &View) -> bool {
        let free = view.record().map_or(0, Record::free);
        // Hundreds of ours may wait while as many slots are free: then nobody is looked at.
        view.waiters().count() > free && self.strangers_waiting(view).nth(free).is_some()
    }

    /// Those who wait in this view, without ours.
    pub(super) fn strangers_waiting<'v>(
        &'v self,
        view: &'v View,
    ) -> impl Iterator<Item = &'v SessionId> {
        let waiters = view.waiters().map(|waiter| &waiter.session);
        waiters.filter(|session| !self.standings.has(session))
    }

    /// Adds a contender.
    pub(super) fn add(
        &mut self,
        no: ContenderNo,
        moment: Moment,
        spare: Option<Spare>,
        settings: &Settings,
    ) {
        let mut contender = match spare {
            Some(spare) => Contender::with_session(spare, moment, settings),
            None => Contender::new(settings),
        };
        self.standings.update(no, &contender);
        collect(no, &mut contender, &mut self.wishes);
        self.contenders.insert(no, contender);
    }

    /// The next wish of one of them for shared sessions.
    pub(super) fn poll_wish(&mut self) -> Option<LoanWish> {
        self.wishes.pop_front()
    }

    /// These begin the way out.
    pub(super) fn leave(
        &mut self,
        now: Instant,
        moment: Moment,
        numbers: &[ContenderNo],
        settings: &Settings,
    ) {
        for no in numbers {
            if let Some(mut contender) = self.get_mut(*no) {
                contender.leave(now, moment, settings);
            }
        }
    }

    /// Removes those of which nothing is left.
    pub(super) fn take_gone(&mut self) -> BTreeMap<ContenderNo, Contender> {
        let gone = self.numbers_of(Group::Gone).into_iter();
        gone.filter_map(|no| {
            self.standings.remove(no);
            Some((no, self.contenders.remove(&no)?))
        })
        .collect()
    }

    /// Of the holders with a request to send, the one with the first deadline.
    pub(super) fn most_urgent(&mut self, now: Instant) -> Option<ContenderNo> {
        self.standings.most_urgent(now)
    }

    /// The next one with a request to send that may send it. Those whose sessions were asked come
    /// last: while answers are slow, the requests of the first ones could take all the room.
    pub(super) fn next_ready(
        &mut self,
        now: Instant,
        may_send: impl Fn(&Contender) -> bool,
    ) -> Option<ContenderNo> {
        let mut first_asked = None;
        for (no, is_asking) in self.standings.ready(now) {
            work::passed(1);
            if !self.contenders.get(&no).is_some_and(&may_send) {
                continue;
            }
            if !is_asking {
                return Some(no);
            }
            first_asked = first_asked.or(Some(no));
        }
        first_asked
    }

    /// A request of its session is sent.
    pub(super) fn asks(&mut self, no: ContenderNo) {
        self.standings.asks(no);
    }

    /// A request of its session has ended.
    pub(super) fn was_answered(&mut self, no: ContenderNo) {
        self.standings.was_answered(no);
    }

    /// Whether one of these has a request of its session under way.
    pub(super) fn is_any_asking(&self, group: Group) -> bool {
        let numbers = self.standings.group(group).iter();
        let mut numbers = numbers.inspect(|_| work::passed(1));
        numbers.any(|no| self.standings.is_asking(*no))
    }

    /// How many requests are under way that keep a hold.
    pub(super) fn asked_for_holds(&self) -> usize {
        self.standings.asked_for_holds() + self.confirmations.under_way()
    }

    /// When the next question about many sessions is due.
    pub(super) fn confirms_at(&self) -> Option<Instant> {
        let waiting = self.count(Group::Unconfirmed);
        self.confirmations.due_at(waiting)
    }

    /// That question.
    pub(super) fn confirm(
        &mut self,
        now: Instant,
        settings: &Settings,
    ) -> Option<(QuestionNo, Request)> {
        self.confirms_at().filter(|at| *at <= now)?;
        let contenders = &self.contenders;
        let waiting = self.standings.group(Group::Unconfirmed).iter();
        let waiting = waiting.filter_map(|no| {
            work::passed(1);
            let session = contenders.get(no)?.session_id()?.clone();
            let key = settings.prefix.contender_key(&session);
            let no = *no;
            Some(Tied { no, session, key })
        });
        self.confirmations
            .ask(now, waiting, &settings.session.scope)
    }

    /// The questions about many sessions.
    pub(super) fn confirmations(&mut self) -> &mut Confirmations<ContenderNo> {
        &mut self.confirmations
    }

    /// It was granted to this acquisition.
    pub(super) fn serves(&mut self, no: ContenderNo, acquire: CommandId) {
        self.standings.serves(no, acquire);
    }

    /// It passes on, or nothing of it is left.
    pub(super) fn serves_nobody(&mut self, no: ContenderNo) {
        self.standings.serves_nobody(no);
    }

    /// The acquisition of this contender, even while it leaves.
    pub(super) fn turn_of(&self, no: ContenderNo) -> Option<CommandId> {
        self.standings.turn_of(no)
    }

    /// It was given back: someone must check whether anything of it is left.
    pub(super) fn turn_changed(&mut self, acquire: CommandId) {
        self.standings.turn_changed(acquire);
    }

    /// The acquisitions of which nothing may be left, since the last call.
    pub(super) fn take_changed_turns(&mut self) -> BTreeSet<CommandId> {
        self.standings.take_changed_turns()
    }

    /// Holders whose lease is over, and others whose time for leaving properly is over.
    pub(super) fn ended(&self, now: Instant) -> BTreeSet<ContenderNo> {
        self.standings.ended(now)
    }

    /// When the first of them ends after this time, as in [`Self::ended`].
    pub(super) fn ends_after(&self, after: Instant) -> Option<Instant> {
        self.standings.ends_after(after)
    }

    /// The next request of this one.
    pub(super) fn transmit(
        &mut self,
        now: Instant,
        no: ContenderNo,
        along: Along,
        settings: &Settings,
    ) -> Option<(Part, Request)> {
        self.get_mut(no)?.transmit(now, along, settings)
    }

    /// What our contenders wait for after this time.
    pub(super) fn timers(&self, after: Instant) -> [(Timer, Option<Instant>); 4] {
        [
            (Timer::End, self.standings.ends_after(after)),
            (Timer::Request, self.standings.due_after(after)),
            (Timer::Respawn, self.respawn.timeout()),
            (Timer::Spares, self.spares.timeout()),
        ]
    }

    /// After one that could not continue, the next one must wait.
    pub(super) fn put_off(&mut self, now: Instant, rng: &mut fastrand::Rng) {
        self.respawn.begin(now, rng);
    }

    /// Whether another one may come.
    pub(super) fn may_add(&mut self, now: Instant) -> bool {
        self.respawn.is_over(now)
    }

    /// A view missed contenders that were acquired.
    pub(super) fn not_seen(&mut self) {
        self.unseen += 1;
    }

    /// Views show our keys, if there were any to show.
    pub(super) fn seen(&mut self) {
        if self.all().any(|it| it.create_index().is_some()) {
            self.unseen = 0;
            self.respawn.reset();
        }
    }

    /// Whether views count as incomplete.
    pub(super) fn is_hidden(&self) -> bool {
        self.unseen >= MAX_UNSEEN
    }

    pub(super) fn spares(&mut self) -> &mut Spares {
        &mut self.spares
    }
}

/// The most contenders of one participant that could not leave and are remembered.
const MOST_LEFT_BEHIND: usize = 64;

/// The number of consecutive views that may miss contenders before views count as incomplete. An
/// agent up to 1.10, or any agent without a token, leaves out what may not be read without saying
/// so (docs/CONSUL.md, "Limits and timeouts"). Each contender would be replaced by another one
/// forever.
const MAX_UNSEEN: u32 = 3;

#[cfg(test)]
mod tests;
