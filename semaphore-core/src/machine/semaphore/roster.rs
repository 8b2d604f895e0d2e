//! Our contenders: who of us has a part in the semaphore, and when another may have one.
//!
//! Each event asks about all of them. So what is asked is kept in [`Standings`], and each change of one of them
//! goes through here: an event costs what it concerns, however many hold.

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
use crate::machine::process::encoding::Encoding;
use crate::machine::process::moment::Moment;
use crate::machine::process::reader::pause::Pause;
use crate::machine::process::tenancy::departure::rest_after_failure;
use crate::machine::process::tenancy::loan::LoanWish;
use crate::machine::process::timers::Timer;
use crate::machine::semaphore::steps::Along;
use crate::record::Record;
use crate::time::Instant;
use crate::view::{Key, View};
use crate::work;

pub(super) use self::standings::Group;

/// All contenders of one participant, in the order in which they were made.
#[derive(Clone, Debug)]
pub(super) struct Roster {
    contenders: BTreeMap<ContenderNo, Contender>,
    standings: Standings,
    wishes: Wishes,
    /// Sessions that wait for the next turn.
    spares: Spares,
    /// No new contender before it is over.
    respawn: Pause,
    /// Until when those that are left behind rest.
    rest: Option<Instant>,
    /// In how many views in a row contenders were missing that had been acquired.
    unseen: u32,
}

impl Roster {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            contenders: BTreeMap::new(),
            standings: Standings::default(),
            wishes: Wishes::new(),
            spares: Spares::default(),
            respawn: Pause::new(settings.retry_cap()),
            rest: None,
            unseen: 0,
        }
    }

    /// Whether nothing of us is left in Consul, as far as it can be known.
    pub(super) fn is_empty(&self) -> bool {
        self.contenders.is_empty() && self.spares.is_empty()
    }

    /// Whether there are none but some that leave in the background, and nothing is kept for another turn.
    pub(super) fn has_only_left_behind(&self) -> bool {
        self.spares.is_empty() && self.standings.group(Group::LeftBehind).len() == self.len()
    }

    /// A request failed, and nothing is left to do but for those that are left behind: they rest.
    pub(super) fn rest_after_failure(&mut self, now: Instant, settings: &Settings) {
        let left_at = self.all().filter_map(|it| it.left_at(settings));
        if let Some(since) = left_at.min() {
            self.rest = Some(rest_after_failure(since, now, &settings.session));
        }
    }

    /// Of more that are left behind than can be remembered the oldest are given up.
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
                tracing::warn!(name: "given-up", session = ?contender.session_id(), "leaves a session to its TTL");
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

    /// Who is in a group, in the order in which they were made.
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

    /// Whether all of these have their slot for this acquisition.
    pub(super) fn all_hold(&self, numbers: &[ContenderNo], acquire: CommandId) -> bool {
        let holds = |it: &Contender| it.held_for() == Some(acquire);
        numbers.iter().all(|no| self.get(*no).is_some_and(holds))
    }

    /// When the first lease of these ends.
    pub(super) fn deadline(&self, numbers: &[ContenderNo]) -> Option<Instant> {
        let deadlines = numbers.iter().filter_map(|no| self.get(*no)?.deadline());
        deadlines.min()
    }

    /// Those who wait for a slot, but for those who have one already from the hold before.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (ContenderNo, &Contender)> {
        let wanting = self.those(Group::Wanting);
        wanting.filter(|(_, it)| !it.is_handing_over())
    }

    /// When the first of ours that waits entered the queue.
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

    /// Our contenders that could enter and be admitted in one step, if that can be one.
    pub(super) fn newcomers(
        &self,
        now: Instant,
        settings: &Settings,
    ) -> Vec<(ContenderNo, SessionId)> {
        if settings.encoding == Encoding::Requests || !settings.owns_sessions() {
            return Vec::new();
        }
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

    /// Of so many of our contenders that leave, until when each is expected to have left its session for the next turn.
    pub(super) fn sessions_to_come(
        &self,
        now: Instant,
        most: usize,
        settings: &Settings,
    ) -> Vec<Instant> {
        let leaving = self.those(Group::Withdrawing).take(most);
        let leaving = leaving.filter(|(_, it)| it.keeps_session());
        let ends = leaving.filter_map(|(_, it)| Some(it.left_at(settings)? + LEAVING));
        ends.filter(|end| *end > now).collect()
    }

    /// Whether this record, which is the one of that index, is to be written without one of ours.
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

    /// Whether this is, in this very spelling, a session of ours.
    pub(super) fn is_ours(&self, session: &str) -> bool {
        self.standings.is_ours(session)
    }

    /// Takes the newest record, so that an event need not ask all its holders whether they are ours.
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

    /// Whether others than ours wait in this view.
    pub(super) fn sees_strangers_wait(&self, view: &View) -> bool {
        let mut waiters = view.waiters();
        waiters.any(|waiter| !self.standings.has(&waiter.session))
    }

    /// Makes another contender.
    pub(super) fn add(
        &mut self,
        no: ContenderNo,
        moment: Moment,
        spare: Option<Spare>,
        settings: &Settings,
        rng: &mut fastrand::Rng,
    ) {
        let mut contender = match spare {
            Some(spare) => Contender::with_session(spare, moment, settings, rng),
            None => Contender::new(settings, rng),
        };
        self.standings.update(no, &contender);
        collect(no, &mut contender, &mut self.wishes);
        self.contenders.insert(no, contender);
    }

    /// What the next of them wants of the sessions that it shares with others.
    pub(super) fn poll_wish(&mut self) -> Option<LoanWish> {
        self.wishes.pop_front()
    }

    /// These start on the way out.
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

    /// Takes those out of which nothing is left.
    pub(super) fn take_gone(&mut self) -> BTreeMap<ContenderNo, Contender> {
        let gone = self.numbers_of(Group::Gone).into_iter();
        gone.filter_map(|no| {
            self.standings.remove(no);
            Some((no, self.contenders.remove(&no)?))
        })
        .collect()
    }

    /// Who of those that hold and have a request to send has the first deadline.
    pub(super) fn most_urgent(&mut self, now: Instant) -> Option<ContenderNo> {
        self.standings.most_urgent(now)
    }

    /// Those who have a request to send, in the order in which they were made.
    pub(super) fn ready(
        &mut self,
        now: Instant,
    ) -> impl Iterator<Item = (ContenderNo, &Contender)> {
        let contenders = &self.contenders;
        let ready = self.standings.ready(now).iter();
        let ready = ready.inspect(|_| work::passed(1));
        ready.filter_map(|no| Some((*no, contenders.get(no)?)))
    }

    /// A request of its session goes out.
    pub(super) fn asks(&mut self, no: ContenderNo) {
        self.standings.asks(no);
    }

    /// A request of its session is not under way any more.
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
        self.standings.asked_for_holds()
    }

    /// It was granted to this acquisition.
    pub(super) fn serves(&mut self, no: ContenderNo, acquire: CommandId) {
        self.standings.serves(no, acquire);
    }

    /// It passes on, or nothing of it is left.
    pub(super) fn serves_nobody(&mut self, no: ContenderNo) {
        self.standings.serves_nobody(no);
    }

    /// Whose this one is, or was as it left.
    pub(super) fn turn_of(&self, no: ContenderNo) -> Option<CommandId> {
        self.standings.turn_of(no)
    }

    /// It was given back: whether anything is left of it is to be asked.
    pub(super) fn turn_changed(&mut self, acquire: CommandId) {
        self.standings.turn_changed(acquire);
    }

    /// Those of whom nothing may be left since this was asked last.
    pub(super) fn take_changed_turns(&mut self) -> BTreeSet<CommandId> {
        self.standings.take_changed_turns()
    }

    /// Those whose lease is over while they hold, or whose time is over to leave in order.
    pub(super) fn ended(&self, now: Instant) -> BTreeSet<ContenderNo> {
        self.standings.ended(now)
    }

    /// When the first of them ends after this time, as [`Self::ended`] says.
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

    /// After one that could not go on, another comes after a wait only.
    pub(super) fn put_off(&mut self, now: Instant, rng: &mut fastrand::Rng) {
        self.respawn.begin(now, rng);
    }

    /// Whether another may come.
    pub(super) fn may_add(&mut self, now: Instant) -> bool {
        self.respawn.is_over(now)
    }

    /// A view lacked contenders that had been acquired.
    pub(super) fn not_seen(&mut self) {
        self.unseen += 1;
    }

    /// Views show our keys, if they have shown any.
    pub(super) fn seen(&mut self) {
        if self.all().any(|it| it.create_index().is_some()) {
            self.unseen = 0;
            self.respawn.reset();
        }
    }

    /// Whether views are held to be incomplete.
    pub(super) fn is_hidden(&self) -> bool {
        self.unseen >= MAX_UNSEEN
    }

    pub(super) fn spares(&mut self) -> &mut Spares {
        &mut self.spares
    }
}

/// So many contenders of one participant are remembered at most that could not leave.
const MOST_LEFT_BEHIND: usize = 64;

/// In how many views in a row contenders may be missing before views are held to be incomplete. To 1.10, and to a request without
/// a token, an agent leaves out in silence what may not be read (docs/CONSUL.md, "Limits and timeouts"): each contender would be
/// replaced by another for ever.
const MAX_UNSEEN: u32 = 3;

#[cfg(test)]
mod tests;
