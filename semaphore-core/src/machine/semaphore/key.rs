//! The life of one contender key `<prefix>/<session>`.
//!
//! ```text
//!  Absent ─▶ Reserving ─▶ Acquiring ─▶ There ─▶ Deleting ─▶ Deleted
//!     └──────────────────────▲ (a session of ours) ▲│
//!                                                  │▼
//!                                               Settling (a session that lives on)
//!                 └─▶ Contested ─▶ Reserving, Acquiring, or refused
//! ```
//! A session that we made is ours alone, and so is its key: it is acquired at once. A session of
//! the caller's may already contend here, and acquiring its key again would succeed: the same
//! session would be counted once and used twice. So its key is first *reserved*, created by `cas=0`
//! with a random number for flags; the one that reserved it acquires it. Where the reservation is
//! refused, or its answer is lost, the key in the next view tells by its flags whose it is.
//!
//! No read settles a write that was given up: it may be applied later. A session of ours takes such a key along when it is
//! destroyed. One of the caller's lives on, as does one that serves other semaphores of the process, so that the key is looked for
//! until no such write can come any more (*Settling*): for so long, or until the session ends that serves no other any more.
//!
//! Sources: Consul's documentation of the KV endpoint (`acquire` by the session that has the key already succeeds again,
//! and leaves `LockIndex` as it is).

use core::time::Duration;

use crate::api::{CasKey, DeleteKey};
use crate::defect::{Defect, is_on};
use crate::error::RequestError;
use crate::http::{Request, Response};
use crate::id::{Index, SessionId};
use crate::machine::process::encoding::Encoding;
use crate::machine::process::late::LATEST;
use crate::machine::process::moment::Moment;
use crate::machine::process::reader::backoff::Backoff;
use crate::machine::semaphore::settings::Settings;
use crate::machine::semaphore::steps::{Along, Entered};
use crate::record::Record;
use crate::time::Instant;
use crate::view::{Contender, ContenderFlags, Key, View};

#[derive(Clone, Debug)]
pub(in crate::machine) struct ContenderKey {
    state: State,
    in_flight: Option<KeyRequest>,
    retry_at: Option<Instant>,
    backoff: Backoff,
    /// Marks a reservation as ours.
    nonce: u64,
    /// When the key of the same session was created for the turn before: a view may still show that one.
    former: Index,
    ownership: Ownership,
    /// The key as the last view showed it.
    seen: Option<Contender>,
    /// What a deletion names as `cas`.
    deletable: Option<Index>,
    /// What the answer to entering showed.
    arrival: Option<Arrival>,
    /// Until when a write of it that was not answered may still be applied.
    unsettled_until: Option<Instant>,
    failure: Option<RequestError>,
}

/// Whose the key is, if it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ownership {
    /// Ours: its session is ours alone, and takes it along when it ends.
    OfSession,
    /// Ours: at this place the session is ours alone. Elsewhere it serves others, so that it lives on.
    OfPlace,
    /// Ours, although the session is the caller's: nobody else has reserved it.
    Reserved,
    /// It may be another contender's with the same session.
    Unproven,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Absent,
    Reserving,
    /// The reservation met a key, or its answer was lost, at this moment.
    Contested(Moment),
    Acquiring,
    /// Acquired; the acknowledgement came at this moment.
    There(Moment),
    /// Left at this moment.
    Deleting(Moment),
    /// Nothing is there to delete, as was seen at this moment. What was given up may still be applied.
    Settling(Moment),
    Deleted,
}

/// What the answer to entering showed.
#[derive(Clone, Debug)]
pub(in crate::machine) enum Arrival {
    /// The whole prefix.
    Seen(Box<View>),
    /// The key alone.
    Unseen(Contender),
}

/// What an answer or a view changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::machine) enum KeyEvent {
    /// The key is ours now.
    Entered,
    /// Another session, or another user of this session, has the key.
    Taken,
    /// The key is there and tied to no session.
    Freed,
    /// The session behind it is gone.
    SessionGone,
    /// Somebody asks its holder to go.
    Evicted,
    /// The key was acquired, yet the view does not show it.
    Unseen,
}

impl ContenderKey {
    pub(in crate::machine) fn new(settings: &Settings, rng: &mut fastrand::Rng) -> Self {
        Self {
            state: State::Absent,
            in_flight: None,
            retry_at: None,
            backoff: Backoff::new(Duration::from_millis(100), settings.retry_cap()),
            nonce: rng.u64(..),
            former: Index::ZERO,
            ownership: match (settings.owns_sessions(), settings.shares_sessions()) {
                (true, false) => Ownership::OfSession,
                (true, true) => Ownership::OfPlace,
                (false, _) => Ownership::Unproven,
            },
            seen: None,
            deletable: None,
            arrival: None,
            unsettled_until: None,
            failure: None,
        }
    }

    /// One whose session had a key before, which was created at `former` and is deleted.
    pub(in crate::machine) fn after(
        former: Index,
        settings: &Settings,
        rng: &mut fastrand::Rng,
    ) -> Self {
        Self {
            former,
            ..Self::new(settings, rng)
        }
    }

    /// Its session had a key here before, which was created at `former` and is deleted.
    pub(in crate::machine) fn comes_after(&mut self, former: Index) {
        self.former = former;
    }

    /// Enters the queue.
    pub(in crate::machine) fn enter(&mut self) {
        if self.state == State::Absent {
            self.proceed(match self.ownership {
                Ownership::OfSession | Ownership::OfPlace => State::Acquiring,
                Ownership::Reserved | Ownership::Unproven => State::Reserving,
            });
        }
    }

    /// Leaves the queue. Deletes the key where it may exist.
    pub(in crate::machine) fn leave(&mut self, moment: Moment) {
        match self.state {
            State::Absent => self.forget(),
            State::Deleting(_) | State::Settling(_) | State::Deleted => {}
            _ if is_on(Defect::KeyLeftBehind) => self.forget(),
            // Nobody has asked for it yet.
            _ if self.ownership == Ownership::OfPlace && self.is_unsent() && self.is_clean() => {
                self.forget();
            }
            _ => {
                // The session may serve another turn, whose key has the same name: a deletion that is repeated on the way
                // must not take that one.
                let is_ours_alone =
                    matches!(self.ownership, Ownership::OfSession | Ownership::OfPlace);
                let seen = self.seen.as_ref().filter(|_| is_ours_alone);
                self.deletable = seen.map(|seen| seen.modify_index).or(self.deletable);
                self.proceed(State::Deleting(moment));
            }
        }
    }

    /// Gives the deletion up, or knows that there is nothing left to delete.
    pub(in crate::machine) fn forget(&mut self) {
        self.state = State::Deleted;
        self.retry_at = None;
        self.failure = None;
    }

    /// Whether it may be acquired at once, and no request to do so is under way.
    pub(in crate::machine) fn is_unsent(&self) -> bool {
        self.state == State::Acquiring && self.in_flight.is_none() && self.retry_at.is_none()
    }

    /// Whether each of its requests has been answered: none can come true later.
    pub(in crate::machine) fn is_clean(&self) -> bool {
        self.unsettled_until.is_none()
    }

    /// Until when it is looked for again, although there is nothing to delete: what was given up may come late.
    pub(in crate::machine) fn settles_at(&self) -> Option<Instant> {
        let is_settling = matches!(self.state, State::Settling(_));
        self.unsettled_until.filter(|_| is_settling)
    }

    /// What was given up is not applied any more: the next view tells what there is to delete.
    pub(in crate::machine) fn settled(&mut self, moment: Moment) {
        self.unsettled_until = None;
        self.state = State::Deleting(moment);
    }

    /// Its session has ended, be it for the others that stood on it: a write that was given up is not applied any more.
    pub(in crate::machine) fn session_ended(&mut self, moment: Moment) {
        if self.ownership == Ownership::OfPlace && matches!(self.state, State::Settling(_)) {
            self.settled(moment);
        }
    }

    pub(in crate::machine) fn is_there(&self) -> bool {
        matches!(self.state, State::There(_))
    }

    pub(in crate::machine) fn is_deleted(&self) -> bool {
        self.state == State::Deleted && self.in_flight.is_none()
    }

    /// The key as the last view showed it.
    pub(in crate::machine) fn seen(&self) -> Option<&Contender> {
        self.seen.as_ref()
    }

    /// Whether only views tell how it goes on.
    pub(in crate::machine) fn waits_for_view(&self) -> bool {
        match self.state {
            State::Contested(_) | State::Settling(_) => true,
            State::Deleting(_) => !self.owns_session() && self.deletable.is_none(),
            _ => false,
        }
    }

    /// Whether it can only go on with a view newer than one that was asked for at `view_sent`.
    pub(in crate::machine) fn needs_read(&self, view_sent: Moment) -> bool {
        match self.state {
            State::Contested(since) => view_sent <= since,
            State::Deleting(since) => {
                let is_stuck = !self.owns_session() && self.deletable.is_none();
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
            // The key of a caller's session may be a later contender's by the time that a late
            // request arrives: it is only ever deleted at the index where a view showed it.
            State::Deleting(_) if !self.owns_session() && self.deletable.is_none() => None,
            State::Reserving | State::Acquiring | State::Deleting(_) => {
                Some(self.retry_at.unwrap_or(Instant::ORIGIN))
            }
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
            State::Reserving => {
                let reservation = CasKey {
                    key,
                    index: Index::ZERO,
                    value: settings.value.as_bytes(),
                    flags: self.nonce,
                };
                let request = reservation.request(scope);
                (KeyRequest::Reservation, request)
            }
            State::Acquiring => {
                let (encoding, request) = Encoding::enter(session, flags, along, settings);
                (KeyRequest::Acquisition { encoding, along }, request)
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

    /// The contender enters or leaves by a write of the record.
    pub(in crate::machine) fn await_write(&mut self) {
        self.in_flight = Some(KeyRequest::Write);
        self.retry_at = None;
    }

    /// That write was applied, and has deleted the key.
    pub(in crate::machine) fn deleted_by_write(&mut self, moment: Moment) {
        self.in_flight = None;
        self.is_gone(moment);
    }

    /// That write was applied. The key is what it shows.
    pub(in crate::machine) fn entered_by_write(&mut self, moment: Moment, shown: Contender) {
        self.in_flight.take_if(|sent| *sent == KeyRequest::Write);
        if matches!(self.state, State::Acquiring | State::There(_)) {
            self.seen = Some(shown);
            self.proceed(State::There(moment));
        }
    }

    /// The request under way is sent again.
    pub(in crate::machine) fn take_back(&mut self) {
        self.in_flight = None;
    }

    /// That write was not applied, or its outcome is unknown.
    pub(in crate::machine) fn write_failed(&mut self, now: Instant, is_unknown: bool) {
        let was_part_of_it = self.in_flight.take_if(|sent| *sent == KeyRequest::Write);
        if was_part_of_it.is_some() && is_unknown {
            self.unsettled_until = Some(now + LATEST);
        }
    }

    /// What the answer to entering showed.
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
            KeyRequest::Reservation => answer.and_then(CasKey::parse),
            KeyRequest::Acquisition { encoding, along } => answer
                .and_then(|response| encoding.entered(response, session, along, settings))
                .map(|entered| self.arrive(entered)),
            KeyRequest::Write => return None,
            KeyRequest::Deletion => answer.and_then(DeleteKey::parse),
        };
        // A deletion that names an index comes too late for every other.
        let may_come_late = self.owns_session() || sent != KeyRequest::Deletion;
        if let Err(error) = &outcome
            && !error.was_not_applied()
            && may_come_late
        {
            self.unsettled_until = Some(now + LATEST);
        }
        // It has left meanwhile: what a view has shown since is not what this has made.
        if matches!(self.state, State::Deleting(_)) && sent != KeyRequest::Deletion {
            self.state = State::Deleting(moment);
        }
        match (sent, outcome) {
            (KeyRequest::Reservation, Ok(true)) => {
                self.ownership = Ownership::Reserved;
                self.proceed_from(State::Reserving, State::Acquiring);
            }
            (KeyRequest::Reservation, Ok(false)) => {
                self.contest(now, moment, rng);
            }
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
            // The key has changed since it was seen: the next view tells what it is now.
            (KeyRequest::Deletion, Ok(false)) => {
                self.deletable = None;
                self.state = State::Deleting(moment);
                self.retry_at = Some(now + self.backoff.next(rng));
            }
            (KeyRequest::Reservation, Err(error)) if !error.was_not_applied() => {
                self.contest(now, moment, rng);
                self.failure = Some(error);
            }
            // The view has shown that it was applied.
            (KeyRequest::Acquisition { .. }, Err(_)) if self.is_there() => {}
            (_, Err(error)) => {
                self.retry_at = Some(now + self.backoff.next(rng));
                self.failure = Some(error);
            }
            // Nothing of the kind is answered.
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
                }
                true
            }
            Entered::Tied(None) => true,
            Entered::Taken => false,
        }
    }

    /// Compares with a view that was asked for at `sent`.
    pub(in crate::machine) fn observe(
        &mut self,
        view: &View,
        sent: Moment,
        session: &SessionId,
    ) -> Option<KeyEvent> {
        let key = view.key(session);
        let is_former = matches!(key, Key::Tied(found) if found.create_index == self.former);
        // One that is back is to be deleted like any other where its session lives on.
        let is_to_go =
            matches!(self.state, State::Deleting(_)) && self.ownership == Ownership::OfPlace;
        if is_former && !is_to_go {
            // A view from before, or the key is back with a restored snapshot: then another session is
            // needed for a place that nobody takes for the former one.
            let is_back = matches!(self.state, State::There(since) if sent > since);
            return (is_back && self.seen.is_none()).then_some(KeyEvent::Unseen);
        }
        match self.state {
            State::Contested(since) if sent > since => match key {
                // Still in the pace that the attempt before it has set.
                Key::Absent => self.state = State::Reserving,
                Key::Free(orphan) if orphan.flags == self.nonce => {
                    self.ownership = Ownership::Reserved;
                    self.proceed(State::Acquiring);
                }
                Key::Tied(_) | Key::Free(_) | Key::Taken => {
                    self.is_gone(sent);
                    return Some(KeyEvent::Taken);
                }
            },
            // The view may overtake the answer, or show what the lost answer would have said.
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
                Key::Absent if self.seen.is_some() => return Some(KeyEvent::SessionGone),
                Key::Free(_) | Key::Absent if sent > since => {
                    return Some(KeyEvent::Unseen);
                }
                Key::Free(_) | Key::Absent => {}
            },
            State::Deleting(since) | State::Settling(since)
                if sent > since && self.in_flight.is_none() =>
            {
                // The holder by the caller's session is another handle of the caller.
                let is_settling = matches!(self.state, State::Settling(_));
                let holds = |record: &Record| record.holds(session.as_str());
                if is_settling && view.record().is_some_and(holds) {
                    return None;
                }
                self.look_for(key, view, since);
            }
            _ => {}
        }
        None
    }

    fn owns_session(&self) -> bool {
        self.ownership == Ownership::OfSession
    }

    fn is_ours(&self) -> bool {
        self.ownership != Ownership::Unproven
    }

    /// Finds what there is to delete.
    fn look_for(&mut self, key: Key<'_>, view: &View, since: Moment) {
        let found = match key {
            Key::Tied(found) if self.is_ours() => found.modify_index,
            Key::Free(orphan) if self.is_ours() || orphan.flags == self.nonce => {
                orphan.modify_index
            }
            Key::Absent if view.is_filtered() => return,
            // Gone already, or somebody else's.
            Key::Tied(_) | Key::Free(_) | Key::Taken | Key::Absent => return self.is_gone(since),
        };
        if matches!(self.state, State::Settling(_)) {
            tracing::debug!(name: "late-key", "a key came late that had been given up");
        }
        self.state = State::Deleting(since);
        self.deletable = Some(found);
    }

    /// There is nothing of ours to delete, for now at least: what was seen at `moment` shows no write that comes later.
    fn is_gone(&mut self, moment: Moment) {
        self.deletable = None;
        if self.owns_session() || self.is_clean() || is_on(Defect::ReadSettles) {
            self.forget();
        } else {
            self.state = State::Settling(moment);
        }
    }

    /// Only a view tells what became of the reservation. Another one has to wait.
    fn contest(&mut self, now: Instant, moment: Moment, rng: &mut fastrand::Rng) {
        if self.state == State::Reserving {
            self.state = State::Contested(moment);
            self.retry_at = Some(now + self.backoff.next(rng));
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

/// Which request is under way: the state may have moved on since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyRequest {
    Reservation,
    Acquisition {
        encoding: Encoding,
        along: Along,
    },
    /// A write of the record, of which entering or leaving is a part.
    Write,
    Deletion,
}

#[cfg(test)]
mod tests;
