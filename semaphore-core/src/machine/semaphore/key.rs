//! The life of one contender key `<prefix>/<session>`.
//!
//! ```text
//!  Absent ─▶ Acquiring ─▶ There ─▶ Deleting ─▶ Deleted
//!                                   ▲│
//!                                   │▼
//!                                Settling (a session that lives on)
//! ```
//! A session is used by one contender of a prefix, so its key is acquired at once.
//!
//! No read settles a given-up write: it may be applied later. If our session is destroyed, it takes
//! the key with it. One that serves other semaphores of the process lives on. Then the key is looked
//! for until no such write can come any more (*Settling*): for
//! a fixed time, or until the session ends because it serves nothing else.
//!
//! Sources: Consul's documentation of the KV endpoint (a second `acquire` by the session that has
//! the key succeeds, and does not change `LockIndex`).

use core::time::Duration;

use crate::api::DeleteKey;
use crate::defect::{Defect, is_on};
use crate::error::RequestError;
use crate::http::{Request, Response};
use crate::id::{Index, SessionId};
use crate::machine::process::late::LATEST;
use crate::machine::process::moment::Moment;
use crate::machine::process::reader::backoff::Backoff;
use crate::machine::semaphore::settings::Settings;
use crate::machine::semaphore::steps::{self, Along, Entered};
use crate::time::Instant;
use crate::view::{Contender, ContenderFlags, Key, View};

#[derive(Clone, Debug)]
pub(in crate::machine) struct ContenderKey {
    state: State,
    in_flight: Option<KeyRequest>,
    retry_at: Option<Instant>,
    backoff: Backoff,
    /// The creation index of the session's key of the last turn. A view may still show that key.
    former: Index,
    /// Whether its session serves others, so that it lives on after this turn. Otherwise its end
    /// deletes the key.
    lives_on: bool,
    /// The key in the last view.
    seen: Option<Contender>,
    /// The index for a deletion by check-and-set.
    deletable: Option<Index>,
    /// What the answer to its entry showed.
    arrival: Option<Arrival>,
    /// Until when an unanswered write of it may still be applied.
    unsettled_until: Option<Instant>,
    failure: Option<RequestError>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Absent,
    Acquiring,
    /// It is acquired. The acknowledgement came at this moment.
    There(Moment),
    /// It was left at this moment.
    Deleting(Moment),
    /// At this moment nothing was there to delete. A given-up write may still be applied.
    Settling(Moment),
    Deleted,
}

/// What the answer to the entry showed.
#[derive(Clone, Debug)]
pub(in crate::machine) enum Arrival {
    /// The whole prefix.
    Seen(Box<View>),
    /// Only the key.
    Unseen(Contender),
}

/// The effect of an answer or a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::machine) enum KeyEvent {
    /// The key is ours now.
    Entered,
    /// Another session has the key.
    Taken,
    /// The key exists and is tied to no session.
    Freed,
    /// Its session is gone.
    SessionGone,
    /// The key is gone, as after the end of its session.
    Gone,
    /// Somebody asks its holder to leave.
    Evicted,
    /// The key was acquired, but the view does not show it.
    Unseen,
}

impl ContenderKey {
    pub(in crate::machine) fn new(settings: &Settings) -> Self {
        Self {
            state: State::Absent,
            in_flight: None,
            retry_at: None,
            backoff: Backoff::new(Duration::from_millis(100), settings.retry_cap()),
            former: Index::ZERO,
            lives_on: settings.shares_sessions(),
            seen: None,
            deletable: None,
            arrival: None,
            unsettled_until: None,
            failure: None,
        }
    }

    /// A key whose session had one before, which was created at `former` and is deleted.
    pub(in crate::machine) fn after(former: Index, settings: &Settings) -> Self {
        Self {
            former,
            ..Self::new(settings)
        }
    }

    /// Its session had a key here before, which was created at `former` and is deleted.
    pub(in crate::machine) fn comes_after(&mut self, former: Index) {
        self.former = former;
    }

    /// The creation index of its session's last key here: its own, or that of the last turn.
    pub(in crate::machine) fn last_created(&self) -> Index {
        let own = self.seen.as_ref().map(|seen| seen.create_index);
        own.unwrap_or(self.former)
    }

    /// Enters the queue.
    pub(in crate::machine) fn enter(&mut self) {
        if self.state == State::Absent {
            self.proceed(State::Acquiring);
        }
    }

    /// Leaves the queue. Deletes the key if it may exist.
    pub(in crate::machine) fn leave(&mut self, moment: Moment) {
        match self.state {
            State::Absent => self.forget(),
            State::Deleting(_) | State::Settling(_) | State::Deleted => {}
            // Nothing was sent for it yet.
            _ if self.is_unsent() && self.is_clean() => self.forget(),
            _ => {
                // The session may serve another turn with a key of the same name. A repeated
                // deletion must not delete that key.
                let seen = self.seen.as_ref();
                self.deletable = seen.map(|seen| seen.modify_index).or(self.deletable);
                self.proceed(State::Deleting(moment));
            }
        }
    }

    /// Gives the deletion up, or knows that nothing is left to delete.
    pub(in crate::machine) fn forget(&mut self) {
        self.state = State::Deleted;
        self.retry_at = None;
        self.failure = None;
    }

    /// Whether it may be acquired at once, and no request for that is under way.
    pub(in crate::machine) fn is_unsent(&self) -> bool {
        self.state == State::Acquiring && self.in_flight.is_none() && self.retry_at.is_none()
    }

    /// Whether its acquisition, with a read of the prefix, is under way.
    pub(in crate::machine) fn enters_with_read(&self) -> bool {
        matches!(
            self.in_flight,
            Some(KeyRequest::Acquisition {
                along: Along::Prefix,
                ..
            })
        )
    }

    /// Whether all its requests were answered: none can be applied later.
    pub(in crate::machine) fn is_clean(&self) -> bool {
        self.unsettled_until.is_none()
    }

    /// Until when it is looked for, although there is nothing to delete, because a given-up write
    /// may come late.
    pub(in crate::machine) fn settles_at(&self) -> Option<Instant> {
        let is_settling = matches!(self.state, State::Settling(_));
        self.unsettled_until.filter(|_| is_settling)
    }

    /// A given-up write can no longer be applied: the next view shows what to delete.
    pub(in crate::machine) fn settled(&mut self, moment: Moment) {
        self.unsettled_until = None;
        self.state = State::Deleting(moment);
    }

    /// Its session has ended, also for its other users: a given-up write can no longer be applied.
    pub(in crate::machine) fn session_ended(&mut self, moment: Moment) {
        if self.lives_on && matches!(self.state, State::Settling(_)) {
            self.settled(moment);
        }
    }

    pub(in crate::machine) fn is_there(&self) -> bool {
        matches!(self.state, State::There(_))
    }

    /// Whether an answer after this moment has shown that it is there.
    pub(in crate::machine) fn is_there_since(&self, moment: Moment) -> bool {
        matches!(self.state, State::There(since) if since > moment)
    }

    pub(in crate::machine) fn is_deleted(&self) -> bool {
        self.state == State::Deleted && self.in_flight.is_none()
    }

    /// The key in the last view.
    pub(in crate::machine) fn seen(&self) -> Option<&Contender> {
        self.seen.as_ref()
    }

    /// Whether only views can move it on.
    pub(in crate::machine) fn waits_for_view(&self) -> bool {
        match self.state {
            State::Settling(_) => true,
            State::Deleting(_) => self.lives_on && self.deletable.is_none(),
            _ => false,
        }
    }

    /// Whether it needs a view that was requested after `view_sent`.
    pub(in crate::machine) fn needs_read(&self, view_sent: Moment) -> bool {
        match self.state {
            State::Deleting(since) => {
                let is_stuck = self.lives_on && self.deletable.is_none();
                is_stuck && self.in_flight.is_none() && view_sent <= since
            }
            _ => false,
        }
    }

    pub(in crate::machine) fn failure(&self) -> Option<&RequestError> {
        self.failure.as_ref()
    }

    pub(in crate::machine) fn is_due(&self, now: Instant) -> bool {
        self.timeout().is_some_and(|due| due <= now)
    }

    pub(in crate::machine) fn timeout(&self) -> Option<Instant> {
        if self.in_flight.is_some() {
            return None;
        }
        match self.state {
            // When a late request arrives, the key of a session that lives on may belong to a later
            // contender. So it is only deleted at the index at which a view showed it.
            State::Deleting(_) if self.lives_on && self.deletable.is_none() => None,
            State::Acquiring | State::Deleting(_) => Some(self.retry_at.unwrap_or(Instant::ORIGIN)),
            _ => None,
        }
    }

    pub(in crate::machine) fn transmit(
        &mut self,
        now: Instant,
        session: &SessionId,
        flags: ContenderFlags,
        along: Along,
        settings: &Settings,
    ) -> Option<Request> {
        if !self.is_due(now) {
            return None;
        }
        let key = &settings.prefix.contender_key(session);
        let scope = settings.scope();
        let (sent, request) = match self.state {
            State::Acquiring => {
                let request = steps::enter(session, flags, along, settings);
                (KeyRequest::Acquisition { along }, request)
            }
            State::Deleting(_) => {
                let index = self.deletable;
                if index.is_none() {
                    self.unsettled_until = Some(now + LATEST);
                }
                let request = DeleteKey { key, index }.request(scope);
                (KeyRequest::Deletion, request)
            }
            _ => return None,
        };
        self.in_flight = Some(sent);
        self.retry_at = None;
        Some(request)
    }

    /// A write of the record also enters or leaves.
    pub(in crate::machine) fn await_write(&mut self) {
        self.in_flight = Some(KeyRequest::Write);
        self.retry_at = None;
    }

    /// That write was applied, and has deleted the key.
    pub(in crate::machine) fn deleted_by_write(&mut self, moment: Moment) {
        self.in_flight = None;
        self.is_gone(moment);
    }

    /// That write was applied. `shown` is the new state of the key.
    pub(in crate::machine) fn entered_by_write(&mut self, moment: Moment, shown: Contender) {
        self.in_flight.take_if(|sent| *sent == KeyRequest::Write);
        if matches!(self.state, State::Acquiring | State::There(_)) {
            self.seen = Some(shown);
            self.proceed(State::There(moment));
        } else {
            self.entered_late(shown);
        }
    }

    /// It was left while it entered: now it is known what to delete.
    fn entered_late(&mut self, shown: Contender) {
        if matches!(self.state, State::Deleting(_)) {
            self.deletable = Some(shown.modify_index);
            self.seen = Some(shown);
        }
    }

    /// That write is no longer under way. Returns whether it was.
    pub(in crate::machine) fn write_ended(&mut self) -> bool {
        let ended = self.in_flight.take_if(|sent| *sent == KeyRequest::Write);
        ended.is_some()
    }

    /// That write was not applied, or its outcome is unknown.
    pub(in crate::machine) fn write_failed(
        &mut self,
        now: Instant,
        moment: Moment,
        is_unknown: bool,
    ) {
        if !self.write_ended() {
            return;
        }
        if is_unknown {
            self.unsettled_until = Some(now + LATEST);
        } else if matches!(self.state, State::Deleting(_)) && self.deletable.is_none() {
            // It was left while it entered. Views from before could not know what would come of it.
            self.is_gone(moment);
        }
    }

    /// What the answer to its entry showed.
    pub(in crate::machine) fn take_arrival(&mut self) -> Option<Arrival> {
        self.arrival.take()
    }

    /// Takes the answer to the request under way.
    pub(in crate::machine) fn handle(
        &mut self,
        now: Instant,
        moment: Moment,
        answer: Result<&Response, RequestError>,
        session: &SessionId,
        settings: &Settings,
        rng: &mut fastrand::Rng,
    ) -> Option<KeyEvent> {
        let sent = self.in_flight.take()?;
        let outcome = match sent {
            KeyRequest::Acquisition { along } => answer
                .and_then(|response| steps::entered(response, session, along, settings))
                .map(|entered| self.arrive(entered)),
            KeyRequest::Write => return None,
            KeyRequest::Deletion => answer.and_then(DeleteKey::parse),
        };
        // A late deletion with an index affects no other key.
        let may_come_late = !self.lives_on || sent != KeyRequest::Deletion;
        if let Err(error) = &outcome
            && !error.was_not_applied()
            && may_come_late
        {
            self.unsettled_until = Some(now + LATEST);
        }
        // It was left meanwhile: what a view has shown since may not include the effect of this
        // request.
        if matches!(self.state, State::Deleting(_)) && sent != KeyRequest::Deletion {
            self.state = State::Deleting(moment);
        }
        match (sent, outcome) {
            (KeyRequest::Acquisition { .. }, Ok(true)) => {
                if self.proceed_from(State::Acquiring, State::There(moment)) {
                    return Some(KeyEvent::Entered);
                }
            }
            (KeyRequest::Acquisition { .. }, Ok(false)) => {
                self.is_gone(moment);
                return Some(KeyEvent::Taken);
            }
            (KeyRequest::Acquisition { .. }, Err(RequestError::InvalidSession { .. })) => {
                return Some(KeyEvent::SessionGone);
            }
            (KeyRequest::Deletion, Ok(true)) => self.is_gone(moment),
            // The key has changed since it was seen: the next view shows its state.
            (KeyRequest::Deletion, Ok(false)) => {
                self.deletable = None;
                self.state = State::Deleting(moment);
                self.retry_at = Some(now + self.backoff.next(rng));
            }
            // A view has shown that it was applied.
            (KeyRequest::Acquisition { .. }, Err(_)) if self.is_there() => {}
            (_, Err(error)) => {
                self.retry_at = Some(now + self.backoff.next(rng));
                self.failure = Some(error);
            }
            // A write has no such answer.
            (KeyRequest::Write, Ok(_)) => {}
        }
        None
    }

    /// Whether the key is ours now.
    fn arrive(&mut self, entered: Entered) -> bool {
        match entered {
            Entered::Tied(Some(arrival)) => {
                let (own, view) = *arrival;
                if self.state == State::Acquiring || self.is_there() {
                    self.arrival = Some(match view {
                        Some(view) => Arrival::Seen(Box::new(view)),
                        None => Arrival::Unseen(own.clone()),
                    });
                    self.seen = Some(own);
                } else {
                    self.entered_late(own);
                }
                true
            }
            Entered::Tied(None) => true,
            Entered::Taken => false,
        }
    }

    /// Compares with a view that was requested at `sent`.
    pub(in crate::machine) fn observe(
        &mut self,
        view: &View,
        sent: Moment,
        session: &SessionId,
    ) -> Option<KeyEvent> {
        let key = view.key(session);
        let is_former = matches!(key, Key::Tied(found) if found.create_index == self.former);
        // If its session lives on, a key that is back must be deleted like any other.
        let is_to_go = matches!(self.state, State::Deleting(_)) && self.lives_on;
        if is_former && !is_to_go {
            // The view is older, or a restored snapshot brought the key back. In the latter case
            // another session is needed, so that nobody takes its place for the former one.
            let is_back = matches!(self.state, State::There(since) if sent > since);
            return (is_back && self.seen.is_none()).then_some(KeyEvent::Unseen);
        }
        match self.state {
            // The view may overtake the answer, or show what a lost answer would have said.
            State::Acquiring => {
                if let Key::Tied(found) = key {
                    self.seen = Some(found.clone());
                    self.proceed(State::There(sent));
                }
            }
            State::There(since) => match key {
                Key::Tied(found) => {
                    self.seen = Some(found.clone());
                    return found.eviction.is_some().then_some(KeyEvent::Evicted);
                }
                Key::Absent if view.is_filtered() => {}
                Key::Taken => {
                    self.is_gone(sent);
                    return Some(KeyEvent::Taken);
                }
                Key::Free(_) if self.seen.is_some() => return Some(KeyEvent::Freed),
                Key::Absent if self.seen.is_some() => return Some(KeyEvent::Gone),
                Key::Free(_) | Key::Absent if sent > since => {
                    return Some(KeyEvent::Unseen);
                }
                Key::Free(_) | Key::Absent => {}
            },
            State::Deleting(since) | State::Settling(since)
                if sent > since && self.in_flight.is_none() =>
            {
                self.look_for(key, view, since);
            }
            _ => {}
        }
        None
    }

    /// Whether it is still there, and the end of its session deletes it.
    pub(in crate::machine) fn ends_with_session(&self) -> bool {
        !self.is_deleted() && !self.lives_on
    }

    /// Finds the key to delete.
    fn look_for(&mut self, key: Key<'_>, view: &View, since: Moment) {
        let found = match key {
            Key::Tied(found) => found.modify_index,
            Key::Free(index) => index,
            Key::Absent if view.is_filtered() => return,
            // It is already gone, or somebody else's.
            Key::Taken | Key::Absent => return self.is_gone(since),
        };
        if matches!(self.state, State::Settling(_)) {
            tracing::debug!(name: "late-key", "a key came late that had been given up");
        }
        self.state = State::Deleting(since);
        self.deletable = Some(found);
    }

    /// There is nothing of ours to delete, at least for now: what was seen at `moment` can't show
    /// later writes.
    fn is_gone(&mut self, moment: Moment) {
        self.deletable = None;
        if !self.lives_on || self.is_clean() || is_on(Defect::ReadSettles) {
            self.forget();
        } else {
            self.state = State::Settling(moment);
        }
    }

    fn proceed_from(&mut self, from: State, to: State) -> bool {
        let expected = self.state == from;
        if expected {
            self.proceed(to);
        }
        expected
    }

    fn proceed(&mut self, to: State) {
        self.state = to;
        self.retry_at = None;
        self.failure = None;
        self.backoff.reset();
    }
}

/// The request under way. The state may have changed since it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyRequest {
    Acquisition {
        along: Along,
    },
    /// A write of the record that also enters or leaves.
    Write,
    Deletion,
}

#[cfg(test)]
mod tests;
