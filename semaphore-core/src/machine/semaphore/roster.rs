//! Our contenders: who of us has a part in the semaphore, and when another may have one.

use std::collections::{BTreeMap, BTreeSet};

use super::admission::ContenderNo;
use super::contender::{Contender, Part, Phase, Presence, Spare};
use super::settings::Settings;
use super::spare::Spares;
use crate::http::Request;
use crate::id::{CommandId, Index, SessionId};
use crate::machine::process::encoding::Encoding;
use crate::machine::process::moment::Moment;
use crate::machine::process::reader::pause::Pause;
use crate::time::Instant;
use crate::view::{Key, View};

/// All contenders of one participant, in the order in which they were made.
#[derive(Clone, Debug)]
pub(super) struct Roster {
    contenders: BTreeMap<ContenderNo, Contender>,
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

    /// Whether there are none but such ones, and nothing is kept for another turn.
    pub(super) fn has_only(&self, is: impl FnMut(&Contender) -> bool) -> bool {
        self.spares.is_empty() && self.all().all(is)
    }

    pub(super) fn rest_until(&mut self, until: Instant) {
        self.rest = Some(until);
    }

    pub(super) fn rests_until(&self) -> Option<Instant> {
        self.rest
    }

    pub(super) fn len(&self) -> usize {
        self.contenders.len()
    }

    pub(super) fn get(&self, no: ContenderNo) -> Option<&Contender> {
        self.contenders.get(&no)
    }

    pub(super) fn get_mut(&mut self, no: ContenderNo) -> Option<&mut Contender> {
        self.contenders.get_mut(&no)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Contender> {
        self.contenders.values()
    }

    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Contender> {
        self.contenders.values_mut()
    }

    pub(super) fn any(&self, is: impl FnMut(&Contender) -> bool) -> bool {
        self.all().any(is)
    }

    pub(super) fn numbers(&self) -> Vec<ContenderNo> {
        self.numbers_of(|_| true)
    }

    pub(super) fn numbers_of(&self, is: impl Fn(&Contender) -> bool) -> Vec<ContenderNo> {
        let those = self.contenders.iter().filter(|(_, it)| is(it));
        those.map(|(no, _)| *no).collect()
    }

    /// Whether one of ours has a slot.
    pub(super) fn holds(&self) -> bool {
        self.any(|it| matches!(it.phase(), Phase::Held(_)))
    }

    /// Whether all of these have their slot for this acquisition.
    pub(super) fn all_hold(&self, numbers: &[ContenderNo], acquire: CommandId) -> bool {
        let holds = |it: &Contender| it.phase() == Phase::Held(acquire);
        numbers.iter().all(|no| self.get(*no).is_some_and(holds))
    }

    /// When the first lease of these ends.
    pub(super) fn deadline(&self, numbers: &[ContenderNo]) -> Option<Instant> {
        let deadlines = numbers.iter().filter_map(|no| self.get(*no)?.deadline());
        deadlines.min()
    }

    /// When the first of ours that waits entered the queue.
    pub(super) fn first_in_queue(&self) -> Option<Index> {
        let wanting = self
            .all()
            .filter(|it| it.is_wanting() && !it.is_handing_over());
        wanting.filter_map(Contender::create_index).min()
    }

    /// Our contenders that may be admitted, in the order of the queue.
    pub(super) fn admissible(&self, now: Instant) -> Vec<(ContenderNo, SessionId)> {
        let all = self
            .contenders
            .iter()
            .filter(|(_, it)| it.is_admissible(now));
        let mut admissible: Vec<_> = all
            .filter_map(|(no, it)| Some((it.create_index()?, *no, it.session_id()?.clone())))
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
        let all = self.contenders.iter().filter(|(_, it)| it.is_newcomer(now));
        all.filter_map(|(no, it)| Some((*no, it.session_id()?.clone())))
            .collect()
    }

    /// Our contenders that leave and may be in the record.
    pub(super) fn leaving(&self) -> Vec<(ContenderNo, SessionId, Presence)> {
        let all = self.contenders.iter().filter(|(_, it)| it.must_withdraw());
        all.filter_map(|(no, it)| Some((*no, it.session_id()?.clone(), it.presence())))
            .collect()
    }

    pub(super) fn sessions(&self) -> BTreeSet<&str> {
        let sessions = self.all().filter_map(Contender::session_id);
        sessions.map(SessionId::as_str).collect()
    }

    /// Whether this view shows a key of ours.
    pub(super) fn is_seen_in(&self, view: &View) -> bool {
        let mut sessions = self.all().filter_map(Contender::session_id);
        sessions.any(|session| matches!(view.key(session), Key::Tied(_)))
    }

    /// Whether others than ours wait in this view.
    pub(super) fn sees_strangers_wait(&self, view: &View) -> bool {
        let ours = self.sessions();
        let mut waiters = view.waiters();
        waiters.any(|waiter| !ours.contains(waiter.session.as_str()))
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
        let contender = match spare {
            Some(spare) => Contender::with_session(spare, moment, settings, rng),
            None => Contender::new(settings, rng),
        };
        self.contenders.insert(no, contender);
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
            if let Some(contender) = self.get_mut(*no) {
                contender.leave(now, moment, settings);
            }
        }
    }

    /// Takes those out of which nothing is left.
    pub(super) fn take_gone(&mut self) -> BTreeMap<ContenderNo, Contender> {
        let is_gone = |_: &ContenderNo, it: &mut Contender| it.phase() == Phase::Gone;
        self.contenders.extract_if(.., is_gone).collect()
    }

    /// Who of those that this holds for has the first deadline.
    pub(super) fn most_urgent(&self, is: impl Fn(&Contender) -> bool) -> Option<ContenderNo> {
        let those = self.contenders.iter().filter(|(_, it)| is(it));
        those.min_by_key(|(_, it)| it.deadline()).map(|(no, _)| *no)
    }

    pub(super) fn first(&self, is: impl Fn(&Contender) -> bool) -> Option<ContenderNo> {
        let mut all = self.contenders.iter();
        all.find(|(_, it)| is(it)).map(|(no, _)| *no)
    }

    /// The next request of this one.
    pub(super) fn transmit(
        &mut self,
        now: Instant,
        no: ContenderNo,
        settings: &Settings,
    ) -> Option<(Part, Request)> {
        self.get_mut(no)?.transmit(now, settings)
    }

    /// The first of our times after this one.
    pub(super) fn timeout_after(&self, after: Instant, settings: &Settings) -> Option<Instant> {
        let contenders = self.all().filter_map(|it| it.timeout(settings));
        let others = [self.spares.timeout(), self.respawn.timeout()];
        let all = contenders.chain(others.into_iter().flatten());
        all.filter(|at| *at > after).min()
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
        if self.any(|it| it.create_index().is_some()) {
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

/// In how many views in a row contenders may be missing before views are held to be incomplete.
const MAX_UNSEEN: u32 = 3;
