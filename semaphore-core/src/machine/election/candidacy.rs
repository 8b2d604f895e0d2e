//! What one candidate does with one session of a pool, from its first request to its last.
//!
//! [`phase`] has the drawing of its states, and alone changes them.
//!
//! - *Campaigning*: the pool creates and renews the session while the key is watched. When the key is
//!   free, it is acquired. If that is refused, a lock delay after the former leader may run, so the
//!   next attempt waits between half a second and a second, unless somebody else was seen to lead,
//!   which explains the refusal. If the key has changed before an attempt, the attempt is repeated
//!   at once from the present state, but only once until somebody else was seen to lead. [`pace`]
//!   has the times.
//! - *Unresolved*: the answer to an attempt, or to a change of the value, does not tell the
//!   outcome. Nothing is written until a later read shows it. An attempt may arrive even after
//!   that: any view that shows our session makes us the leader. A candidacy that leaves releases
//!   the key for as long as an attempt may arrive. A destroyed session acquires nothing.
//! - *Leading*: the belief ends with the lease (S2), or with the first view that was requested
//!   after the election and shows another term. The value is written whenever the key shows another
//!   one.
//! - *Leaving* and *Settling*: see [`leaving`].
//!
//! Sources: Consul's guide to leader elections; its documentation of the KV endpoint (`release` by
//! a session that does not have the key returns `false` and changes nothing); docs/CONSUL.md,
//! "Limits and timeouts", on writes that were given up.

mod departure;
mod leaving;
mod pace;
mod phase;
mod race;
mod seen;
mod views;
mod writes;

use self::pace::Pace;
pub(super) use self::phase::Way;
use self::phase::{Phase, State};
use self::race::Race;
pub(super) use self::seen::View;
use self::seen::{Seen, Sight};
use crate::api::ReadKey;
use crate::defect::{Defect, is_on};
use crate::election_key::TermIndexes;
use crate::error::{Conflict, Lost, Refusal, RequestError};
use crate::http::{Request, Response};
use crate::id::{FencingToken, Index};
use crate::input::Value;
use crate::machine::election::candidacy::departure::rest_after_failure;
use crate::machine::election::settings::ElectionSettings;
use crate::machine::process::failed::Failed;
use crate::machine::process::late::GivenUp;
use crate::machine::process::moment::Moment;
use crate::machine::process::reader::pause::Pause;
use crate::machine::process::reader::poller::Poller;
use crate::machine::process::tenancy::lease::Lease;
use crate::machine::process::tenancy::loan::{Loan, LoanStep, Shown};
use crate::sequencer::Sequencer;
use crate::subject::Subject;
use crate::time::Instant;
use crate::transport::{TransportError, TransportErrorKind};

#[derive(Clone, Debug)]
pub(super) struct Candidacy {
    session: Loan,
    /// Since when its session is known. It may have led here before, for another candidacy.
    known_since: Moment,
    phase: Phase,
    /// The key as it was last seen. `None` before the first answer.
    seen: Option<Seen>,
    /// The write under way.
    writing: Option<Writing>,
    /// When the next write is due.
    pace: Pace,
    /// The race with others who also see the key free.
    race: Race,
    /// Since when the outcome of a write is unknown. Only a later read tells.
    unresolved: Option<Moment>,
    /// Writes that may be applied even after such a read.
    given_up: GivenUp,
    /// Whether the last view of the key is known to be outdated.
    sight: Sight,
    is_reading: bool,
    /// The pause after a failed read.
    rest: Pause,
    /// The value that the key should show.
    value: Vec<u8>,
    /// The last of our values that the key was seen to show. A late copy of an older write may have
    /// followed.
    last_shown: Option<Vec<u8>>,
    /// Whether the key may be tied to the session.
    may_hold: bool,
    /// The last term of this session.
    led: Option<TermIndexes>,
    fencing: Fencing,
    names: Names,
    /// Why the last request failed, if it did.
    failure: Option<RequestError>,
}

#[derive(Clone, Debug)]
enum Writing {
    /// An acquisition of the key whose last change was at `base`.
    Acquisition {
        value: Vec<u8>,
        base: Index,
    },
    Release,
    /// A release that only applies to the key as it was seen. So no late copy of it unties the key
    /// in a later term.
    HandOn {
        value: Vec<u8>,
    },
}

/// Whether every write so far named the key as it was seen, so that late copies change nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fencing {
    Whole,
    Partial,
}

/// Whether a term of this session would have a unique name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    Unused,
    /// Its terms are counted again.
    Spent,
}

/// When an answer comes, and when it was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) moment: Moment,
    pub(super) sent: Moment,
    pub(super) sent_at: Instant,
}

/// Identifies a request of a candidacy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Write,
    Read,
}

/// The answer to one of them.
#[derive(Debug)]
pub(super) enum Answer<'a> {
    Written(Result<&'a Response, RequestError>),
    Read(Result<View, RequestError>),
}

/// News for the candidate.
#[derive(Debug)]
pub(super) enum CandidacyEvent {
    /// It leads.
    Elected(Term),
    /// Another one leads, or a lock delay may run.
    NotAvailable(Refusal),
    /// It no longer leads.
    Lost(Lost),
    /// It has given the key back, and can campaign again.
    HandedOn,
    /// It can't campaign with this session any more.
    SessionGone,
    /// The key is not an election's.
    Conflict(Conflict),
    /// It can never be elected, as far as those know who came before.
    Refused(Failed),
    /// The value is refused permanently.
    ValueRefused(RequestError),
}

/// The content of a leadership.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Term {
    /// `ModifyIndex` of the key when it was first seen in this term. It is higher than in any
    /// earlier term.
    pub token: FencingToken,
    /// Proof of the term for everybody who can read the key.
    pub sequencer: Sequencer,
}

impl Candidacy {
    /// If no answer will soon show the key, it must be read: `unseen_since` says since when.
    pub(super) fn new(settings: &ElectionSettings, unseen_since: Option<Moment>) -> Self {
        let cap = settings.session.retry_cap();
        Self {
            session: Loan::new(&settings.session),
            known_since: Moment::START,
            phase: Phase::new(),
            seen: None,
            writing: None,
            pace: Pace::new(cap),
            race: Race::new(),
            unresolved: unseen_since,
            given_up: GivenUp::default(),
            sight: Sight::Current,
            is_reading: false,
            rest: Pause::new(cap),
            value: settings.value.as_bytes().to_vec(),
            last_shown: None,
            may_hold: false,
            led: None,
            fencing: Fencing::Whole,
            names: Names::Unused,
            failure: None,
        }
    }

    pub(super) fn is_leading(&self) -> bool {
        matches!(self.phase.state(), State::Leading(_))
    }

    pub(super) fn is_campaigning(&self) -> bool {
        matches!(self.phase.state(), State::Campaigning)
    }

    pub(super) fn is_gone(&self) -> bool {
        matches!(self.phase.state(), State::Gone(_))
    }

    /// When the belief that it leads ends.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.session.lease().map(Lease::deadline)
    }

    pub(super) fn failure(&self) -> Option<&RequestError> {
        self.failure.as_ref()
    }

    /// Sets the value that the key should show.
    pub(super) fn set_value(&mut self, value: Vec<u8>) {
        self.value = value;
        self.note_shown_value();
        self.pace.reset();
    }

    /// Whether the key shows that value, and nothing under way may change it.
    pub(super) fn is_value_set(&self) -> bool {
        let shown = self.shown().is_some_and(|it| it.value == self.value);
        let is_set = shown && self.writing.is_none() && self.unresolved.is_none();
        is_set || is_on(Defect::ValueToldUnshown)
    }

    /// Whether its session lives or will soon, and none of its writes can come back later and act
    /// in the session's name.
    fn may_be_kept(&self, now: Instant) -> bool {
        self.fencing == Fencing::Whole
            && self.writing.is_none()
            && !self.given_up.may_come(now)
            && self.has_valid_lease(now)
    }

    /// Its next wish for the pool of sessions.
    pub(super) fn poll_wish(&mut self) -> Option<LoanStep> {
        self.session.poll_wish()
    }

    /// Somebody campaigns with its session again. Its view of the key is outdated. If no answer
    /// will soon show the key, it must be read: `unseen_since` says since when.
    pub(super) fn take_up(&mut self, value: &Value, unseen_since: Option<Moment>) {
        self.phase.taken_up();
        self.session.stay();
        self.value = value.as_bytes().to_vec();
        if views::is_former_forgotten() {
            self.seen = None;
        } else if let Some(seen) = &mut self.seen {
            seen.outlive_campaign();
        }
        self.sight = Sight::Current;
        self.unresolved = unseen_since;
        self.pace.reset();
    }

    /// Decides when the watch looks next, if the key changes more often than it may look.
    pub(super) fn pace_watch(&mut self, now: Instant, watch: &mut Poller, rng: &mut fastrand::Rng) {
        let is_paced = watch.spread(now, self.race.spread(), rng);
        self.race.watch_is_paced(is_paced);
    }

    /// Until when it lets others go first.
    pub(super) fn yields_until(&self) -> Instant {
        self.race.until()
    }

    /// It has no time to let others go first.
    pub(super) fn hurry(&mut self) {
        self.race.hurry();
    }

    /// What it waits for.
    pub(super) fn timers(&self, now: Instant) -> [Option<Instant>; 3] {
        let end = match self.phase.state() {
            State::Leading(_) => self.deadline(),
            State::Settling(_) => self.given_up.latest(),
            _ => self.leaves_until(),
        };
        let write = self.wants_write(now).then(|| self.write_due());
        let read = self.wants_read().then(|| self.read_due());
        [end, write, read]
    }

    pub(super) fn transmit(
        &mut self,
        now: Instant,
        settings: &ElectionSettings,
    ) -> Option<(Part, Request)> {
        if self.wants_write(now) && self.write_due() <= now {
            let request = self.write(now, settings)?;
            self.pace.clear();
            self.race.enter();
            return Some((Part::Write, request));
        }
        if self.wants_read() && self.read_due() <= now {
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

    fn read_due(&self) -> Instant {
        let due = self.rest.due();
        match self.sight {
            Sight::Outdated { wanted_from } if self.unresolved.is_none() => due.max(wanted_from),
            _ => due,
        }
    }

    fn write_due(&self) -> Instant {
        let due = self.pace.due();
        if self.is_campaigning() {
            due.max(self.race.until())
        } else {
            due
        }
    }

    /// Takes the answer to a request.
    pub(super) fn handle(
        &mut self,
        now: Instant,
        asked: Asked,
        answer: Answer<'_>,
        settings: &ElectionSettings,
        rng: &mut fastrand::Rng,
    ) -> Option<CandidacyEvent> {
        let event = match answer {
            Answer::Written(answer) => self.handle_write(now, asked, answer, settings, rng),
            Answer::Read(answer) => {
                self.is_reading = false;
                match answer {
                    Ok(view) => {
                        self.rest.reset();
                        self.observe(now, view, asked, settings, rng)
                    }
                    Err(error) => {
                        self.rest.begin(now, rng);
                        self.leaving_failed(now, &error, settings);
                        let sent_at = asked.sent_at;
                        self.fail(Failed { sent_at, error })
                    }
                }
            }
        };
        self.settle();
        if self.phase.is_left_behind()
            && (self.failure.is_some() || self.session.failure().is_some())
            && let Some(departure) = self.phase.departure()
        {
            let began_at = departure.began_at(&settings.session);
            let until = rest_after_failure(began_at, now, &settings.session);
            self.phase.rest(until);
        }
        event.or_else(|| self.check_session())
    }

    /// Takes news of its session, at this moment.
    pub(super) fn learn(&mut self, moment: Moment, shown: &Shown) -> Option<CandidacyEvent> {
        let was_unknown = self.session.id().is_none();
        self.session.learn(shown);
        if was_unknown {
            self.led = self.led.or(shown.past.term());
            if self.session.id().is_some() {
                self.known_since = moment;
                self.forget_former_term(moment);
            }
        }
        self.failure = self.session.failure().cloned();
        self.settle();
        let refused = self
            .session
            .failed()
            .filter(|it| self.is_campaigning() && it.error.is_permanent());
        // Another session may not be refused.
        self.check_session()
            .or_else(|| refused.cloned().map(CandidacyEvent::Refused))
    }

    /// Forgets what was seen of its session before it was lent: that belonged to another candidacy.
    fn forget_former_term(&mut self, moment: Moment) {
        if self.shown_as_own().is_some() {
            if let Some(seen) = &mut self.seen {
                seen.outlive_campaign();
            }
            self.last_shown = None;
            self.unresolved = Some(moment);
        }
    }

    /// Ends the belief when the lease is over, and the way out when its time is over, at this
    /// moment.
    pub(super) fn handle_timeout(
        &mut self,
        now: Instant,
        moment: Moment,
    ) -> Option<CandidacyEvent> {
        match self.phase.state() {
            State::Leading(_) => {
                let is_over = !self.session.lease()?.is_valid(now);
                let lost = self.session.lease_expired(now).filter(|_| is_over)?;
                Some(CandidacyEvent::Lost(lost))
            }
            // If it came, a read shows it. It can still come later: only time says otherwise, and
            // nobody new uses the session.
            State::Settling(_) if self.given_up.latest().is_some_and(|at| at <= now) => {
                self.given_up.end();
                self.fencing = Fencing::Partial;
                self.phase.comes_back();
                self.may_hold = true;
                self.unresolved = Some(moment);
                None
            }
            State::Leaving(_) if self.leaves_until().is_some_and(|until| until <= now) => {
                let timeout = TransportError::new(TransportErrorKind::Timeout);
                let last = self.session.failure().or(self.failure.as_ref()).cloned();
                let last = last.unwrap_or(RequestError::Transport(timeout));
                self.phase.refused(last.clone());
                self.phase.held_up(last);
                None
            }
            _ => None,
        }
    }

    /// Whether Consul keeps its session, as far as renewals tell. To lead takes a proof besides.
    fn has_valid_lease(&self, now: Instant) -> bool {
        let lease = self.session.lease();
        lease.is_some_and(|it| now < it.kept_until())
    }

    fn wants_write(&self, now: Instant) -> bool {
        if self.writing.is_some() {
            return false;
        }
        let is_resolved = self.unresolved.is_none() && self.sight == Sight::Current;
        match self.phase.state() {
            State::Campaigning => is_resolved && self.is_free() && self.has_valid_lease(now),
            State::Leading(_) => {
                is_resolved && self.shown().is_some_and(|key| key.value != self.value)
            }
            State::Leaving(_) => self.must_release(),
            State::Settling(_) | State::Gone(_) => false,
        }
    }

    /// Whether to read: only if no answer under way will tell. The watch shows changes.
    fn wants_read(&self) -> bool {
        if self.is_reading || self.writing.is_some() {
            return false;
        }
        match self.phase.state() {
            State::Campaigning | State::Leading(_) => {
                self.unresolved.is_some() || self.sight != Sight::Current
            }
            State::Leaving(_) => self.must_look() && !self.session.is_gone(),
            State::Settling(_) | State::Gone(_) => false,
        }
    }

    fn check_session(&self) -> Option<CandidacyEvent> {
        if !self.session.is_gone() {
            return None;
        }
        match self.phase.state() {
            State::Campaigning => Some(CandidacyEvent::SessionGone),
            State::Leading(_) => {
                let session = self.session.id()?.clone();
                Some(CandidacyEvent::Lost(Lost::SessionGone {
                    session,
                    key_alone: false,
                    on: Subject::default(),
                }))
            }
            State::Leaving(_) | State::Settling(_) | State::Gone(_) => None,
        }
    }
}
