//! One session that wants, has or gives back one slot.
//!
//! [`phase`] has the drawing of its states, and alone changes them.
//!
//! The [`ContenderKey`] and the [`Session`] have separate machines; this one decides their order.
//! [`Presence`] is what the record says about the contender. The participant writes the record for
//! all its contenders. [`leaving`] has the way out. Another turn may follow with the same session
//! or in the same slot: see [`succession`].
//!
//! Sources: Consul's guide to semaphores (a session, a contender key that it acquires, then the
//! record by `cas`); its documentation of sessions (what an invalidation does to the keys:
//! `Behavior`).

mod leaving;
mod phase;
mod presence;
mod succession;

use crate::defect::{Defect, is_on};
use crate::error::{Lost, RequestError};
use crate::http::{Request, Response};
use crate::id::{CommandId, Index, SessionId};
use crate::machine::process::moment::Moment;
use crate::machine::process::tenancy::lease::Lease;
use crate::machine::process::tenancy::loan::{Belief, Life, LoanStep, Rest, Shown as SessionShown};
use crate::machine::process::tenancy::past::Past;
use crate::machine::process::tenancy::session::Among;
use crate::machine::process::tenancy::tenure::Tenure;
use crate::machine::semaphore::key::{Arrival, ContenderKey, KeyEvent};
use crate::machine::semaphore::settings::Settings;
use crate::machine::semaphore::steps::Along;
use crate::sequencer::Sequencer;
use crate::subject::Subject;
use crate::time::Instant;
use crate::transport::{TransportError, TransportErrorKind};
use crate::view::{Contender as Shown, ContenderFlags, Key, View};

use self::phase::{Phase, State};

pub(in crate::machine) use presence::Presence;
pub(in crate::machine) use succession::Spare;

#[derive(Clone, Debug)]
pub(in crate::machine) struct Contender {
    session: Tenure,
    key: ContenderKey,
    phase: Phase,
    presence: Presence,
}

/// Which of a contender's two machines sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::machine) enum Part {
    /// With its number among the session's requests.
    Session(u32),
    Key,
}

/// News for the participant.
#[derive(Debug)]
pub(in crate::machine) enum ContenderEvent {
    /// It no longer holds its slot.
    Lost(CommandId, Lost),
    /// It can't wait with this session any longer.
    SessionGone,
    /// Somebody else has its key.
    KeyTaken,
    /// Its key is acquired, but the view does not show it.
    Unseen,
    /// Consul will never let it in.
    Refused(RequestError),
}

impl ContenderEvent {
    /// The same, where a missing key is all that tells of the session's end.
    fn by_key_alone(mut self) -> Self {
        if let Self::Lost(_, Lost::SessionGone { key_alone, .. }) = &mut self {
            *key_alone = true;
        }
        self
    }
}

impl Contender {
    pub(in crate::machine) fn new(settings: &Settings) -> Self {
        Self {
            session: Tenure::new(&settings.session),
            key: ContenderKey::new(settings),
            phase: Phase::new(),
            presence: Presence::No,
        }
    }

    /// Whether it may enter and claim in one step: it has a session and has not sent its key.
    pub(in crate::machine) fn is_newcomer(&self, now: Instant) -> bool {
        self.is_entering() && self.key.is_unsent() && self.has_valid_lease(now)
    }

    /// The same, and its next request enters: no renewal is due.
    pub(in crate::machine) fn enters_next(&self, now: Instant) -> bool {
        let is_over = |due| due <= now;
        self.is_newcomer(now) && !self.session.timeout().is_some_and(is_over)
    }

    /// Whether its session or its key does not exist yet.
    pub(in crate::machine) fn is_entering(&self) -> bool {
        matches!(self.phase.state(), State::Entering)
    }

    /// Whether a write that admits it is under way, or the answer was lost.
    pub(in crate::machine) fn is_claiming(&self) -> bool {
        matches!(self.phase.state(), State::Claiming(_))
    }

    pub(in crate::machine) fn is_held(&self) -> bool {
        self.held_for().is_some()
    }

    /// The acquisition that has its slot.
    pub(in crate::machine) fn held_for(&self) -> Option<CommandId> {
        self.phase.held_for()
    }

    /// Whether nothing of it is left, or nothing more can be done.
    pub(in crate::machine) fn is_gone(&self) -> bool {
        matches!(self.phase.state(), State::Gone(_))
    }

    pub(in crate::machine) fn presence(&self) -> Presence {
        self.presence
    }

    pub(in crate::machine) fn session_id(&self) -> Option<&SessionId> {
        self.session.id()
    }

    /// Whether it waits for a slot, or soon will.
    pub(in crate::machine) fn is_wanting(&self) -> bool {
        matches!(
            self.phase.state(),
            State::Entering | State::Waiting(_) | State::Claiming(_)
        )
    }

    /// Whether it is in the queue, and none of its requests is about to change that.
    pub(in crate::machine) fn is_queued(&self) -> bool {
        matches!(self.phase.state(), State::Waiting(_))
    }

    pub(in crate::machine) fn is_leaving(&self) -> bool {
        self.phase.leaving().is_some()
    }

    /// Whether it may be admitted: it is in the queue, and its lease is valid.
    pub(in crate::machine) fn is_admissible(&self, now: Instant) -> bool {
        (self.is_queued() || self.is_claiming())
            && self.key.seen().is_some()
            && self.has_valid_lease(now)
    }

    fn has_valid_lease(&self, now: Instant) -> bool {
        let lease = self.session.lease();
        lease.is_some_and(|lease| lease.is_valid(now))
    }

    /// Whether the record must be written without it.
    pub(in crate::machine) fn must_withdraw(&self) -> bool {
        self.is_leaving() && self.presence != Presence::No
    }

    /// When the belief in its slot ends.
    pub(in crate::machine) fn deadline(&self) -> Option<Instant> {
        self.session.lease().map(Lease::deadline)
    }

    /// Why its last request failed.
    pub(in crate::machine) fn failure(&self) -> Option<&RequestError> {
        self.key.failure().or(self.session.failure())
    }

    /// Why it could not leave properly, if it could not.
    pub(in crate::machine) fn leave_failure(&self) -> Option<&RequestError> {
        self.phase.leave_failure()
    }

    /// When its key was created, if a view has shown it. That is its place in the queue.
    pub(in crate::machine) fn create_index(&self) -> Option<Index> {
        self.key.seen().map(|seen| seen.create_index)
    }

    /// The flags of its key when it enters.
    pub(in crate::machine) fn flags(&self) -> ContenderFlags {
        ContenderFlags::entering(self.session.lock_delay())
    }

    /// The sequencer of its key.
    pub(in crate::machine) fn sequencer(&self, settings: &Settings) -> Option<Sequencer> {
        self.key.seen().map(|seen| Sequencer {
            key: settings.prefix.contender_key(&seen.session),
            lock_index: seen.lock_index,
            session: seen.session.clone(),
        })
    }

    /// A write that admits it is sent, made from the record at `base`.
    pub(in crate::machine) fn claim(&mut self, base: Index) {
        self.phase.claimed();
        self.presence = Presence::Maybe(base);
        self.enter_by_write();
    }

    /// A write of the record is sent with which it enters, unless it has.
    pub(in crate::machine) fn enter_by_write(&mut self) {
        if self.key.is_unsent() {
            self.key.await_write();
        }
    }

    /// The record names it now, unless a later view has shown otherwise. A write's answer may come
    /// late, after the session is gone without which the record can't be settled.
    pub(in crate::machine) fn admitted(&mut self, base: Index) {
        // Otherwise a late answer would restore a presence that a view has settled.
        if self.presence != Presence::No {
            self.presence = Presence::Yes(base);
        }
    }

    /// A transaction has locked its key. `key` is its new state.
    pub(in crate::machine) fn locked(&mut self, moment: Moment, key: Shown) {
        self.key.entered_by_write(moment, key);
    }

    /// The answer to a write that was applied does not show its key.
    pub(in crate::machine) fn write_ended(&mut self) {
        self.key.write_ended();
    }

    /// The write of the record with which it wanted to enter failed.
    pub(in crate::machine) fn write_failed(
        &mut self,
        now: Instant,
        moment: Moment,
        is_unknown: bool,
    ) {
        self.key.write_failed(now, moment, is_unknown);
        self.settle(moment);
    }

    /// A write of the record is sent that deletes these keys.
    pub(in crate::machine) fn leave_by_write(&mut self, leaving: &[SessionId]) {
        if self.session.id().is_some_and(|own| leaving.contains(own)) {
            self.key.await_write();
        }
    }

    /// A transaction has deleted its key.
    pub(in crate::machine) fn key_deleted(&mut self, moment: Moment) {
        self.key.deleted_by_write(moment);
    }

    /// The index at which its key was seen, if it exists.
    pub(in crate::machine) fn key_index(&self) -> Option<Index> {
        let seen = self.key.seen().filter(|_| self.key.is_there());
        seen.map(|seen| seen.modify_index)
    }

    /// What the answer to its entry showed.
    pub(in crate::machine) fn take_arrival(&mut self) -> Option<Arrival> {
        self.key.take_arrival()
    }

    /// It holds its slot for this acquisition.
    pub(in crate::machine) fn hold(&mut self, now: Instant, acquire: CommandId, among: Among) {
        self.session.hold(now, among);
        self.phase.granted(now, acquire);
    }

    /// A request that was sent at `sent_at` has proved that its session lived then or later.
    pub(in crate::machine) fn lived(&mut self, sent_at: Instant) {
        self.session.lived(sent_at);
    }

    /// Whether its session waits for a question about many.
    pub(in crate::machine) fn awaits_confirmation(&self) -> bool {
        self.key.is_there() && self.session.awaits_confirmation()
    }

    /// Its key is not tied to its session: the leader is asked whether that lives.
    pub(in crate::machine) fn doubt_session(&mut self, now: Instant) {
        self.session.doubt(now);
    }

    /// The record certainly does not name it, and no write under way can change that.
    pub(in crate::machine) fn withdrawn(&mut self, moment: Moment) {
        self.presence = Presence::No;
        self.phase.withdrawn();
        self.settle(moment);
    }

    /// Whether it needs a view that was requested after `view_sent`.
    pub(in crate::machine) fn needs_read(&self, view_sent: Moment) -> bool {
        self.key_is_active() && self.key.needs_read(view_sent)
    }

    /// Whether only views can move its key on.
    pub(in crate::machine) fn waits_for_view(&self) -> bool {
        self.key_is_active() && self.key.waits_for_view()
    }

    /// When its next request is due.
    pub(in crate::machine) fn due_at(&self) -> Option<Instant> {
        let key = self.key_is_active().then(|| self.key.timeout());
        let session = self.session_is_active().then(|| self.session.timeout());
        key.into_iter().chain(session).flatten().min()
    }

    /// Its key, if an answer after this moment has shown that it is there.
    pub(in crate::machine) fn entered_after(&self, moment: Moment) -> Option<&Shown> {
        self.key.seen().filter(|_| self.key.is_there_since(moment))
    }

    /// Whether it enters with a read of the prefix under way.
    pub(in crate::machine) fn enters_with_read(&self) -> bool {
        self.key.enters_with_read()
    }

    /// Its key can't be read any more, for this reason.
    pub(in crate::machine) fn unreadable(&self, refusal: &RequestError) -> Option<ContenderEvent> {
        let acquire = self.held_for()?;
        let lost = Lost::Unreadable {
            session: self.session.id()?.clone(),
            refusal: refusal.clone(),
            on: Subject::default(),
        };
        Some(ContenderEvent::Lost(acquire, lost))
    }

    /// When something of it ends: the lease while it holds, the time for leaving properly, or the
    /// time in which a given-up write may come.
    pub(in crate::machine) fn ends_at(&self) -> Option<Instant> {
        match self.phase.state() {
            State::Held(..) => self.deadline(),
            State::Leaving(leaving) => {
                let until = leaving.departure().until();
                let ends = Some(until).filter(|_| !self.is_left_behind());
                ends.into_iter().chain(self.key.settles_at()).min()
            }
            _ => None,
        }
    }

    /// Whether it must create a session first.
    pub(in crate::machine) fn wants_creation(&self) -> bool {
        self.session_is_active() && self.session.wants_creation()
    }

    /// Whether this request under way creates a session.
    pub(in crate::machine) fn is_creation(&self, part: Part) -> bool {
        matches!(part, Part::Session(no) if self.session.is_creation(no))
    }

    pub(in crate::machine) fn transmit(
        &mut self,
        now: Instant,
        along: Along,
        settings: &Settings,
    ) -> Option<(Part, Request)> {
        if self.session_is_active()
            && let Some((no, request)) = self.session.transmit(now, &settings.session)
        {
            return Some((Part::Session(no), request));
        }
        if self.key_is_active()
            && let Some(session) = self.session.id()
            && let Some(request) = self
                .key
                .transmit(now, session, self.flags(), along, settings)
        {
            return Some((Part::Key, request));
        }
        None
    }

    pub(in crate::machine) fn handle(
        &mut self,
        now: Instant,
        moment: Moment,
        part: Part,
        answer: Result<&Response, RequestError>,
        settings: &Settings,
        rng: &mut fastrand::Rng,
    ) -> Option<ContenderEvent> {
        let event = match part {
            Part::Session(no) => {
                let belief = Belief::of(self.is_held());
                let settings = &settings.session;
                self.session.handle(now, no, answer, belief, settings, rng);
                None
            }
            Part::Key => {
                let session = self.session.id()?.clone();
                self.key
                    .handle(now, moment, answer, &session, settings, rng)
            }
        };
        let event = event.and_then(|event| self.key_event(event));
        match self.part_failure(part).cloned() {
            // A late renewal is no step of the way out.
            Some(failure) if self.is_leaving() && (part == Part::Key || self.key.is_deleted()) => {
                self.leaving_failed(now, moment, &failure, settings);
            }
            Some(failure) if failure.is_permanent() && self.is_wanting() => {
                return Some(ContenderEvent::Refused(failure));
            }
            _ => {}
        }
        self.settle(moment);
        event.or_else(|| self.check_session())
    }

    /// Its next wish for its shared session.
    pub(in crate::machine) fn poll_wish(&mut self) -> Option<LoanStep> {
        self.session.poll_wish()
    }

    /// Takes news of its shared session.
    pub(in crate::machine) fn learn(
        &mut self,
        moment: Moment,
        shown: &SessionShown,
    ) -> Option<ContenderEvent> {
        if self.session.id().is_none() {
            self.key.comes_after(shown.past.key());
        }
        self.session.learn(shown);
        if let Life::Gone(_) = shown.life {
            self.key.session_ended(moment);
        }
        if let Some(failure) = self.session.failure()
            && failure.is_permanent()
            && self.is_wanting()
        {
            return Some(ContenderEvent::Refused(failure.clone()));
        }
        self.settle(moment);
        self.check_session()
    }

    /// Compares with a view that was requested at `sent`. It is `confirmed` if the leader confirmed
    /// it, after the last write of this participant had ended.
    pub(in crate::machine) fn observe(
        &mut self,
        now: Instant,
        moment: Moment,
        view: &View,
        sent: Moment,
        confirmed: bool,
    ) -> Option<ContenderEvent> {
        let session = self.session.id()?.clone();
        // If the lease is over, that explains the missing key.
        let is_over = self.session.lease().is_some_and(|it| !it.is_valid(now));
        let event = match self.key.observe(view, sent, &session) {
            Some(KeyEvent::Unseen) if is_over => Some(KeyEvent::Gone),
            event => event,
        };
        let event = event.and_then(|event| self.key_event(event));
        event.or(self.observe_record(moment, view, confirmed))
    }

    /// Compares its key with a view that is older than the known one. If the record has changed
    /// since before the admission, the key existed at that time: if it is missing, it is gone.
    pub(in crate::machine) fn observe_older(
        &mut self,
        view: &View,
        sent: Moment,
    ) -> Option<ContenderEvent> {
        let session = self.session.id()?.clone();
        let is_after = matches!(self.presence, Presence::Yes(base) if base < view.record_index());
        if !is_after || matches!(view.key(&session), Key::Tied(_)) {
            return None;
        }
        let event = self.key.observe(view, sent, &session)?;
        self.key_event(event)
    }

    /// Compares with the record.
    pub(in crate::machine) fn observe_record(
        &mut self,
        moment: Moment,
        view: &View,
        confirmed: bool,
    ) -> Option<ContenderEvent> {
        let session = self.session.id()?.clone();
        let mut event = None;
        if let Some(base) = self.presence.settled_by(view, confirmed) {
            if view
                .record()
                .is_some_and(|record| record.holds(session.as_str()))
            {
                self.admitted(base);
            } else {
                if let Some(acquire) = self.held_for()
                    && !is_on(Defect::EvictionUnnoticed)
                {
                    let lost = Lost::RemovedFromHolders {
                        session,
                        on: Subject::default(),
                    };
                    event = Some(ContenderEvent::Lost(acquire, lost));
                }
                self.withdrawn(moment);
            }
        }
        self.settle(moment);
        event
    }

    /// Ends the belief when the lease is over, and the way out when its time is over.
    /// `last_failure` is the participant's, for a contender that could not send its own request.
    pub(in crate::machine) fn handle_timeout(
        &mut self,
        now: Instant,
        moment: Moment,
        last_failure: Option<&RequestError>,
    ) -> Option<ContenderEvent> {
        if self.ends_at().is_none_or(|end| now < end) {
            return None;
        }
        if let Some(acquire) = self.held_for() {
            let lost = self.session.lease_expired(now)?;
            return Some(ContenderEvent::Lost(acquire, lost));
        }
        if self.key.settles_at().is_some_and(|at| at <= now) {
            self.key.settled(moment);
            return None;
        }
        let withdrawal = self.phase.leaving()?.withdraw_failure();
        let last = withdrawal.or(self.failure()).or(last_failure).cloned();
        let timeout = || RequestError::Transport(TransportError::new(TransportErrorKind::Timeout));
        self.phase.held_up(last.unwrap_or_else(timeout));
        self.phase.end_session();
        None
    }

    /// Does what needs no request: one step of the drawing leads to the next.
    fn settle(&mut self, moment: Moment) {
        match self.phase.state() {
            State::Entering => {
                if self.session.lease().is_some() {
                    self.key.enter();
                }
                if self.key.is_there() {
                    self.phase.entered();
                }
            }
            State::Leaving(_) if self.presence == Presence::No => {
                self.key.leave(moment);
                if self.key.settles_at().is_some() {
                    self.session.settles();
                }
                if self.key.is_deleted() && !self.session.is_being_created() {
                    self.settle_session();
                }
            }
            _ => {}
        }
    }

    /// Only its session is left.
    fn settle_session(&mut self) {
        let is_in_order = self.leave_failure().is_none() && self.key.is_clean();
        if !is_in_order || !self.session.is_reusable() {
            self.phase.end_session();
        }
        if !self.phase.keeps_session() && !self.session.is_ending() {
            let past = self.create_index().map_or(Past::Nothing, Past::Key);
            let is_clean = is_in_order && !self.phase.doubts_session();
            let rest = if is_clean { Rest::Nothing } else { Rest::Key };
            self.session.end(past, rest);
        }
        if self.phase.keeps_session() || self.session.has_ended() {
            self.phase.ended();
        }
    }

    /// A session that is being created must be there before it can be destroyed. A leaving
    /// contender needs no renewals.
    fn session_is_active(&self) -> bool {
        match self.phase.state() {
            State::Leaving(_) => self.session.is_ending(),
            State::Gone(_) => false,
            _ => true,
        }
    }

    fn key_is_active(&self) -> bool {
        match self.phase.state() {
            State::Leaving(_) => self.presence == Presence::No,
            State::Gone(_) => false,
            _ => true,
        }
    }

    fn part_failure(&self, part: Part) -> Option<&RequestError> {
        match part {
            Part::Session(_) => self.session.failure(),
            Part::Key => self.key.failure(),
        }
    }

    fn key_event(&mut self, event: KeyEvent) -> Option<ContenderEvent> {
        if self.is_leaving() {
            return None;
        }
        match event {
            KeyEvent::Entered => None,
            KeyEvent::Unseen => (!self.is_held()).then_some(ContenderEvent::Unseen),
            KeyEvent::SessionGone => {
                self.session.found_gone();
                self.check_session()
            }
            KeyEvent::Gone => {
                self.session.found_gone();
                self.check_session().map(ContenderEvent::by_key_alone)
            }
            // A waiter learns it from the end of its session.
            KeyEvent::Evicted => {
                let (acquire, session) = (self.held_for()?, self.session.id()?.clone());
                let reason = self.key.seen()?.eviction.clone()?;
                let on = Subject::default();
                let lost = Lost::Evicted {
                    session,
                    reason,
                    on,
                };
                Some(ContenderEvent::Lost(acquire, lost))
            }
            // The end of its session deletes its key, so somebody has untied it.
            KeyEvent::Taken | KeyEvent::Freed => match (self.held_for(), self.session.id()) {
                (Some(acquire), Some(session)) => {
                    let session = session.clone();
                    let lost = Lost::ContenderKeyTaken {
                        session,
                        on: Subject::default(),
                    };
                    Some(ContenderEvent::Lost(acquire, lost))
                }
                _ => Some(ContenderEvent::KeyTaken),
            },
        }
    }

    fn check_session(&self) -> Option<ContenderEvent> {
        if !self.session.is_gone() || self.is_leaving() || self.is_gone() {
            return None;
        }
        Some(match (self.held_for(), self.session.id()) {
            (Some(acquire), Some(session)) => {
                let session = session.clone();
                ContenderEvent::Lost(
                    acquire,
                    Lost::SessionGone {
                        session,
                        key_alone: false,
                        on: Subject::default(),
                    },
                )
            }
            _ => ContenderEvent::SessionGone,
        })
    }
}

#[cfg(test)]
mod tests;
