//! One session's part in an election: from its first request to its last.
//!
//! ```text
//!                 key free, lease valid: acquire          the key shows our session
//!  Campaigning ────────────────────────────▶ (unresolved) ─────────────────────────▶ Leading
//!     │   ▲             refused: wait ◀──────────┘  │ it shows another: watch on       │  │ lost,
//!     │   └─────────────────────────────────────────┘                                  │  │ resigned
//!     └────────────── leave() ──────────────┬─────────────────────────────────────────┴──┘
//!                                           ▼
//!                    Leaving: key released ─▶ session destroyed ─▶ Gone
//! ```
//! - *Campaigning*: the session is made and renewed while the key is watched. When the key is free
//!   it is acquired; when that is refused, the lock delay of the leader before may be on, so the next
//!   attempt waits between half a second and a whole one, unless somebody else is seen to have led: that
//!   explains it. An attempt that came too late, since the key has changed under it, is repeated at once
//!   from what is there now, but only once until somebody else is seen to have led. [`pace`] has the times.
//! - *Unresolved*: an attempt, or a change of the value, whose answer does not tell what became of it.
//!   Nothing is written until a read shows it that was sent afterwards. An attempt that arrives
//!   later than that still is one of ours: whatever view shows our session makes us the leader, whoever leaves
//!   releases the key for as long as one may arrive, and a session that is destroyed acquires nothing.
//! - *Leading*: belief ends with the lease (S2), or with the first view that was asked for after the
//!   election and shows another term. The value is written whenever the key shows another one.
//! - *Leaving*: releasing is repeated until it is answered: it does nothing to a key that is not ours. A key
//!   of ours that has become something else than an election's is left alone.

mod pace;
mod views;
mod writes;

use core::time::Duration;

use self::pace::Pace;
use crate::api::ReadKey;
use crate::defect::{Defect, is_on};
use crate::election_key::ElectionKey;
use crate::error::{Error, Lost, Refusal, RequestError};
use crate::http::{Request, Response};
use crate::id::{FencingToken, Index};
use crate::machine::election::settings::ElectionSettings;
use crate::machine::election::term::TermIndexes;
use crate::machine::process::encoding::Encoding;
use crate::machine::process::late::GivenUp;
use crate::machine::process::moment::Moment;
use crate::machine::process::reader::pause::Pause;
use crate::machine::process::tenancy::lease::Lease;
use crate::machine::process::tenancy::session::Session;
use crate::sequencer::Sequencer;
use crate::time::Instant;
use crate::transport::{TransportError, TransportErrorKind};

#[derive(Clone, Debug)]
pub(super) struct Candidacy {
    session: Session,
    phase: Phase,
    /// The key as it was last seen; none before the first answer.
    seen: Option<Seen>,
    /// The write under way.
    writing: Option<Writing>,
    /// When the next one is due.
    pace: Pace,
    /// Since when only a read tells what became of a write.
    unresolved: Option<Moment>,
    /// What may be applied even after such a read.
    given_up: GivenUp,
    /// Whether the key has changed since it was seen.
    is_outdated: bool,
    is_reading: bool,
    /// After a read that failed.
    rest: Pause,
    /// What the key is to show.
    value: Vec<u8>,
    /// What of ours it was last seen to show. A late copy of an older write may have come after that.
    last_shown: Option<Vec<u8>>,
    /// Whether the key may be tied to the session.
    may_hold: bool,
    /// Why the last request failed, where it did.
    failure: Option<RequestError>,
    /// Why it could not leave in order.
    leave_failure: Option<RequestError>,
    /// Until when it rests on its way out.
    rest_behind: Option<Instant>,
}

/// The longest rest after a failure of what is left behind.
const LONGEST_REST: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
struct Seen {
    key: Option<ElectionKey>,
    /// When the answer had come. A poll tells of the moment at which it is answered: what was asked for
    /// after the poll may be older.
    at: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Campaigning,
    Leading(TermIndexes),
    /// On its way out, until nothing is left. At this time whoever resigned is told that it takes longer.
    Leaving {
        until: Instant,
    },
    /// Nothing of it is left, or nothing more can be done.
    Gone,
}

#[derive(Clone, Debug)]
enum Writing {
    /// Of the key as it was changed last at `base`.
    Acquisition {
        encoding: Encoding,
        value: Vec<u8>,
        base: Index,
    },
    Release,
}

/// Which request of a candidacy is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// With its number among those of the session.
    Session(u32),
    Write,
    Read,
}

/// What the candidate must know.
#[derive(Debug)]
pub(super) enum CandidacyEvent {
    /// It leads.
    Elected(Term),
    /// Another one leads, or may not be followed yet.
    NotAvailable(Refusal),
    /// It led, and does so no longer.
    Lost(Lost),
    /// It can't campaign any longer with this session.
    SessionGone,
    /// It will never be elected.
    Refused(Error),
    /// The value will never be taken.
    ValueRefused(RequestError),
}

/// What a leader has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Term {
    /// `ModifyIndex` of the key as it was first seen in this term: higher than in any term before.
    pub token: FencingToken,
    /// Proof of the term, for whoever can read the key.
    pub sequencer: Sequencer,
}

impl Candidacy {
    /// `is_blind` says that no answer will show the key at once, so that it must be read.
    pub(super) fn new(settings: &ElectionSettings, moment: Moment, is_blind: bool) -> Self {
        let cap = settings.session.retry_cap();
        Self {
            session: Session::new(&settings.session),
            phase: Phase::Campaigning,
            seen: None,
            writing: None,
            pace: Pace::new(cap),
            unresolved: is_blind.then_some(moment),
            given_up: GivenUp::default(),
            is_outdated: false,
            is_reading: false,
            rest: Pause::new(cap),
            value: settings.value.as_bytes().to_vec(),
            last_shown: None,
            may_hold: false,
            failure: None,
            leave_failure: None,
            rest_behind: None,
        }
    }

    pub(super) fn is_leading(&self) -> bool {
        matches!(self.phase, Phase::Leading(_))
    }

    pub(super) fn is_campaigning(&self) -> bool {
        self.phase == Phase::Campaigning
    }

    pub(super) fn is_gone(&self) -> bool {
        self.phase == Phase::Gone
    }

    /// Until when it may believe that it leads.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.session.lease().map(Lease::deadline)
    }

    pub(super) fn failure(&self) -> Option<&RequestError> {
        self.failure.as_ref()
    }

    /// Why it could not leave in order, if it could not.
    pub(super) fn leave_failure(&self) -> Option<&RequestError> {
        self.leave_failure.as_ref().map(RequestError::at_face_value)
    }

    /// What the key is to show from now on.
    pub(super) fn set_value(&mut self, value: Vec<u8>) {
        self.value = value;
        self.note_shown_value();
        self.pace.reset();
    }

    /// Whether the key shows what it is to show, and nothing under way may change that.
    pub(super) fn is_value_set(&self) -> bool {
        if is_on(Defect::ValueToldUnshown) {
            return true;
        }
        let shown = self.shown().is_some_and(|it| it.value == self.value);
        shown && self.writing.is_none() && self.unresolved.is_none()
    }

    /// Starts on the way out, from wherever it is.
    pub(super) fn leave(&mut self, now: Instant, settings: &ElectionSettings) {
        if matches!(self.phase, Phase::Leaving { .. } | Phase::Gone) {
            return;
        }
        self.phase = Phase::Leaving {
            until: now + settings.session.cleanup_time(),
        };
        self.session.let_go();
        self.pace.reset();
        self.may_hold &= !is_on(Defect::KeyLeftLocked);
        self.settle(settings);
    }

    /// The write under way is sent again, in another way.
    pub(super) fn take_back(&mut self) {
        self.writing = None;
    }

    /// Whether it has to ask for a session first of all.
    pub(super) fn wants_creation(&self) -> bool {
        self.session_is_active() && self.session.wants_creation()
    }

    /// Whether a request under way asks for a session.
    pub(super) fn is_creation(&self, part: Part) -> bool {
        matches!(part, Part::Session(no) if self.session.is_creation(no))
    }

    pub(super) fn timeout(&self, now: Instant) -> Option<Instant> {
        let session = self.session_is_active().then(|| self.session.timeout());
        let write = self.wants_write(now).then(|| self.pace.due());
        let read = self.wants_read().then(|| self.rest.due());
        let end = match self.phase {
            Phase::Leading(_) => self.deadline(),
            Phase::Leaving { until } => Some(until).filter(|_| !self.is_left_behind()),
            Phase::Campaigning | Phase::Gone => None,
        };
        [session.flatten(), write, read, end]
            .into_iter()
            .flatten()
            .min()
    }

    pub(super) fn transmit(
        &mut self,
        now: Instant,
        settings: &ElectionSettings,
    ) -> Option<(Part, Request)> {
        if self.session_is_active()
            && let Some((no, request)) = self.session.transmit(now, &settings.session)
        {
            return Some((Part::Session(no), request));
        }
        if self.wants_write(now) && self.pace.due() <= now {
            let request = self.write(settings)?;
            self.pace.clear();
            return Some((Part::Write, request));
        }
        if self.wants_read() && self.rest.due() <= now {
            self.is_reading = true;
            self.rest.end();
            let read = ReadKey {
                key: settings.key.as_str(),
                wait: None,
                consistent: true,
            };
            let request = read.request(settings.scope());
            return Some((Part::Read, request));
        }
        None
    }

    /// Takes the answer to a request that was sent at the second of these moments. It is the first now.
    pub(super) fn handle(
        &mut self,
        now: Instant,
        moments: (Moment, Moment),
        part: Part,
        answer: Result<&Response, RequestError>,
        settings: &ElectionSettings,
        rng: &mut fastrand::Rng,
    ) -> Option<CandidacyEvent> {
        let event = match part {
            Part::Session(no) => self.handle_session(now, no, answer, settings, rng),
            Part::Write => self.handle_write(now, moments, answer, settings, rng),
            Part::Read => {
                self.is_reading = false;
                let shown = answer.and_then(|response| {
                    let found = ReadKey::parse(response)?;
                    found.as_ref().map(ElectionKey::new).transpose()
                });
                match shown {
                    Ok(shown) => {
                        self.rest.reset();
                        self.observe(now, shown, moments, settings)
                    }
                    Err(error) => {
                        self.rest.begin(now, rng);
                        self.fail(error)
                    }
                }
            }
        };
        self.settle(settings);
        if self.is_left_behind() && (self.failure.is_some() || self.session.failure().is_some()) {
            self.rest_after_failure(now, settings);
        }
        event.or_else(|| self.check_session())
    }

    /// Ends belief when the lease is over, and the way out when its time is.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> Option<CandidacyEvent> {
        match self.phase {
            Phase::Leading(_) => {
                let lease = self.session.lease()?;
                if lease.is_valid(now) {
                    return None;
                }
                Some(CandidacyEvent::Lost(Lost::LeaseExpired {
                    session: self.session.id()?.clone(),
                    last_failure: self
                        .session
                        .failure()
                        .map(RequestError::at_face_value)
                        .cloned(),
                }))
            }
            Phase::Leaving { until } if until <= now && !self.is_left_behind() => {
                let timeout = TransportError::new(TransportErrorKind::Timeout);
                let last = self.session.failure().or(self.failure.as_ref()).cloned();
                self.leave_failure = Some(last.unwrap_or(RequestError::Transport(timeout)));
                None
            }
            _ => None,
        }
    }

    /// A step of the way out failed. What is refused may be refused for long: whoever resigned is told at once.
    fn leaving_failed(&mut self) {
        let is_held_up = |failure: &&RequestError| {
            matches!(failure, RequestError::RefusedForNow(_)) || failure.is_anothers()
        };
        if let Some(failure) = self.failure.as_ref().filter(is_held_up)
            && self.is_leaving()
        {
            self.leave_failure.get_or_insert_with(|| failure.clone());
        }
    }

    /// Whether Consul has refused what it leaves by, and not for now.
    pub(super) fn is_refused_for_good(&self) -> bool {
        let is_for_good = |it: &RequestError| it.is_permanent() && !it.is_anothers();
        self.leave_failure.as_ref().is_some_and(is_for_good)
    }

    /// Whether it leaves in the background: whoever resigned has been told why that takes longer.
    pub(super) fn is_left_behind(&self) -> bool {
        self.is_leaving() && self.leave_failure.is_some()
    }

    /// Gives up: its session's TTL does the rest.
    pub(super) fn abandon(&mut self) {
        self.phase = Phase::Gone;
    }

    /// Whether nothing is sent, for a while after a failure: nobody here waits for it.
    pub(super) fn rests(&self, now: Instant) -> bool {
        self.rests_until().is_some_and(|until| now < until)
    }

    pub(super) fn rests_until(&self) -> Option<Instant> {
        self.rest_behind.filter(|_| self.is_left_behind())
    }

    /// A request failed while it is left behind: the next one comes after an eighth of the time for which it has
    /// tried, as a semaphore's does.
    fn rest_after_failure(&mut self, now: Instant, settings: &ElectionSettings) {
        let Phase::Leaving { until } = self.phase else {
            return;
        };
        let tried_for = now.saturating_since(until - settings.session.cleanup_time());
        let rest = (tried_for / 8).clamp(settings.session.retry_cap(), LONGEST_REST);
        self.rest_behind = Some(now + rest);
    }

    fn shown(&self) -> Option<&ElectionKey> {
        self.seen.as_ref()?.key.as_ref()
    }

    /// The key as it was last seen, if that was with our session.
    fn shown_as_own(&self) -> Option<&ElectionKey> {
        let own = self.session.id()?;
        self.shown().filter(|key| key.session.as_ref() == Some(own))
    }

    fn is_leaving(&self) -> bool {
        matches!(self.phase, Phase::Leaving { .. })
    }

    /// A session that is being made is waited for before it is destroyed.
    fn session_is_active(&self) -> bool {
        match self.phase {
            Phase::Leaving { .. } => self.session.is_ending(),
            Phase::Gone => false,
            Phase::Campaigning | Phase::Leading(_) => true,
        }
    }

    fn has_valid_lease(&self, now: Instant) -> bool {
        self.session.lease().is_some_and(|it| it.is_valid(now))
    }

    /// Whether the key is there to be taken, for all that is known.
    fn is_free(&self) -> bool {
        let is_free = |seen: &Seen| seen.key.as_ref().is_none_or(|key| key.session.is_none());
        self.seen.as_ref().is_some_and(is_free)
    }

    fn wants_write(&self, now: Instant) -> bool {
        if self.writing.is_some() {
            return false;
        }
        let is_resolved = self.unresolved.is_none() && !self.is_outdated;
        match self.phase {
            Phase::Campaigning => is_resolved && self.is_free() && self.has_valid_lease(now),
            Phase::Leading(_) => {
                is_resolved && self.shown().is_some_and(|key| key.value != self.value)
            }
            Phase::Leaving { .. } => self.must_release(),
            Phase::Gone => false,
        }
    }

    /// Whether the key may be tied to the session and is to be untied by a write. What has become something
    /// else is not written: it is untied with the end of the session.
    fn must_release(&self) -> bool {
        let is_own = |key: &ElectionKey| key.session.as_ref() == self.session.id();
        let is_something_else = |key: &ElectionKey| is_own(key) && key.foreign_flags().is_some();
        // A write of ours may have come after what was seen.
        let is_left_alone =
            self.unresolved.is_none() && self.shown().is_some_and(is_something_else);
        self.may_hold && !is_left_alone
    }

    /// Reads only where no answer under way will tell: the watch shows what changes by itself.
    fn wants_read(&self) -> bool {
        if self.is_reading || self.writing.is_some() {
            return false;
        }
        match self.phase {
            Phase::Campaigning | Phase::Leading(_) => self.unresolved.is_some() || self.is_outdated,
            Phase::Leaving { .. } | Phase::Gone => false,
        }
    }

    fn handle_session(
        &mut self,
        now: Instant,
        no: u32,
        answer: Result<&Response, RequestError>,
        settings: &ElectionSettings,
        rng: &mut fastrand::Rng,
    ) -> Option<CandidacyEvent> {
        let leads = self.is_leading();
        self.session
            .handle(now, no, answer, leads, &settings.session, rng);
        self.failure = self.session.failure().cloned();
        self.leaving_failed();
        let error = self.failure.clone().filter(RequestError::is_permanent)?;
        match self.phase {
            Phase::Campaigning => Some(CandidacyEvent::Refused(Error::Request(error))),
            Phase::Leaving { .. } => {
                if !error.is_anothers() {
                    if self.session.id().is_none() {
                        self.session.abandon();
                    }
                    self.leave_failure = Some(error);
                }
                None
            }
            // It goes on for as long as the lease does.
            Phase::Leading(_) | Phase::Gone => None,
        }
    }

    /// Does what needs no request: one step of the way out leads to the next.
    fn settle(&mut self, settings: &ElectionSettings) {
        let is_undecided =
            self.must_release() && self.session.id().is_some() || self.writing.is_some();
        if !self.is_leaving() || is_undecided || self.session.is_being_created() {
            return;
        }
        if !self.session.is_ending() {
            self.session.end(&settings.session);
        }
        if self.session.has_ended() {
            self.phase = Phase::Gone;
        }
    }

    fn check_session(&self) -> Option<CandidacyEvent> {
        if !self.session.is_gone() {
            return None;
        }
        match self.phase {
            Phase::Campaigning => Some(CandidacyEvent::SessionGone),
            Phase::Leading(_) => {
                let session = self.session.id()?.clone();
                Some(CandidacyEvent::Lost(Lost::SessionGone { session }))
            }
            Phase::Leaving { .. } | Phase::Gone => None,
        }
    }
}
