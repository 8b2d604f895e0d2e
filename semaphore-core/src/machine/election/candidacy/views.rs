//! What a candidacy sees of the key, and what follows.
//!
//! An answer is news only if it was requested after the last answer, or has a higher `ModifyIndex`.
//! A poll shows the moment of its answer, so answers overtake each other. Otherwise a leader could
//! take an older view for its loss.

use crate::defect::{Defect, is_on};
use crate::election_key::{ElectionKey, TermIndexes};
use crate::error::{Conflict, Lost, Refusal, RequestError};
use crate::id::{FencingToken, Index, SessionId};
use crate::input::{LockKey, Value};
use crate::leader::Leader;
use crate::machine::election::candidacy::phase::State;
use crate::machine::election::candidacy::seen::{Seen, Sight, View, changed};
use crate::machine::election::candidacy::writes::WATCH_TELLS;
use crate::machine::election::candidacy::{Asked, Candidacy, CandidacyEvent, Names, Term};
use crate::machine::election::settings::ElectionSettings;
use crate::machine::election::term::{loss, was_acquired_since};
use crate::machine::process::failed::Failed;
use crate::machine::process::moment::Moment;
use crate::machine::process::reader::check::{Check, Stance};
use crate::sequencer::Sequencer;
use crate::subject::Subject;
use crate::time::Instant;

impl Candidacy {
    /// Takes a view of the watch.
    pub(in crate::machine::election) fn watched(
        &mut self,
        now: Instant,
        view: View,
        asked: Asked,
        settings: &ElectionSettings,
        rng: &mut fastrand::Rng,
    ) -> Option<CandidacyEvent> {
        self.race.looked();
        let event = self.observe(now, view, asked, settings, rng);
        self.settle();
        event
    }

    /// Compares an answer with the known key. It is newer if it was requested after the known
    /// answer had come, or if its index is higher.
    pub(super) fn observe(
        &mut self,
        now: Instant,
        view: View,
        Asked {
            moment,
            sent,
            sent_at,
        }: Asked,
        settings: &ElectionSettings,
        rng: &mut fastrand::Rng,
    ) -> Option<CandidacyEvent> {
        self.failure = None;
        if self.is_of_former_term(view.key.as_ref(), sent) {
            self.sight = Sight::Outdated { wanted_from: now };
            return None;
        }
        let by = view.key.as_ref().and_then(|key| key.session.as_ref());
        if by.is_some() && by == self.session.id() {
            self.session.lived(sent_at);
        }
        let is_news = self
            .seen
            .as_ref()
            .is_none_or(|seen| is_newer(sent > seen.at || view.index() > seen.index));
        if !is_news {
            // If it is older, or of unknown age, the key must be read again, unless it is the same.
            let is_same = self.seen.as_ref().is_some_and(|seen| seen.key == view.key);
            if !is_same {
                self.sight = Sight::Outdated { wanted_from: now };
            }
            self.unresolved.take_if(|since| is_same && sent > *since);
            return None;
        }
        self.unresolved.take_if(|since| sent > *since);
        self.sight = Sight::Current;
        let former = self.seen.replace(Seen::now(now, view, moment));
        self.note_shown_value();
        let is_ours = self.shown_as_own().is_some();
        self.given_up.saw(now, self.base());
        if self.writing.is_none() && self.unresolved.is_none() {
            self.may_hold = is_ours || self.given_up.may_come(now);
        }
        let former = former.and_then(|seen| seen.key);
        if !is_ours && was_acquired_since(former.as_ref(), self.shown()) {
            self.pace.somebody_led();
            self.race.somebody_led(now);
        }
        let is_free = |key: Option<&ElectionKey>| key.is_none_or(|key| key.session.is_none());
        let is_as_before = self.base() == changed(former.as_ref());
        if is_free(self.shown()) && !(is_as_before && is_free(former.as_ref())) {
            self.race.begin(now, rng);
        }
        match self.phase.state() {
            State::Campaigning => self.judge(now, settings),
            State::Leading(term) => {
                let session = self.session.id()?.clone();
                let lost = noticed(loss(self.shown(), &session, *term))?;
                Some(CandidacyEvent::Lost(lost))
            }
            State::Leaving(_) | State::Settling(_) | State::Gone(_) => {
                self.note_term();
                None
            }
        }
    }

    /// A term that nobody was granted has a name, too: followers see it.
    fn note_term(&mut self) {
        let Some(term) = self.shown_as_own().map(TermIndexes::of) else {
            return;
        };
        let before = self.led.replace(term);
        if before.is_some_and(|led| led.is_counted_again(self.shown())) {
            self.names = Names::Spent;
        }
    }

    /// What the process may check in place of a poll: whether the key is as it was seen. `None`
    /// while something else is to be done.
    pub(in crate::machine::election) fn wanted_check(
        &self,
        settings: &ElectionSettings,
    ) -> Option<Check> {
        let seen = self.present()?;
        let key = seen.key.as_ref()?;
        let by = key.session.as_ref()?;
        let is_ours = Some(by) == self.session.id();
        let stance = match self.phase.state() {
            State::Leading(_) if is_ours && key.value == self.value => Stance::Holds,
            State::Campaigning if !is_ours && key.conflict_at(&settings.key).is_none() => {
                Stance::Waits { ahead: 0 }
            }
            _ => return None,
        };
        let is_settled = self.writing.is_none() && self.unresolved.is_none();
        let name = settings.key.as_str();
        // A restored snapshot may give its index to another leader's key.
        let keys = is_ours.then(|| (name.to_owned(), by.clone()));
        is_settled.then(|| Check {
            stance,
            record: name.to_owned(),
            index: key.modify_index,
            keys: keys.into_iter().collect(),
            seen_at: seen.checked_at,
        })
    }

    /// Whether it waits for the answer to an attempt to lead.
    pub(in crate::machine::election) fn is_attempting(&self) -> bool {
        self.is_campaigning() && self.writing.is_some()
    }

    /// Whether nothing says that the key is no longer as it was seen.
    pub(in crate::machine::election) fn is_in_sight(&self) -> bool {
        self.sight == Sight::Current && !self.is_reading
    }

    /// The key was checked, and still has this index.
    pub(in crate::machine::election) fn seen_again(&mut self, now: Instant, index: Index) {
        let is_about = self.base() == index;
        if let Some(seen) = self.seen.as_mut().filter(|_| is_about) {
            seen.checked_at = now;
            self.failure = None;
        }
    }

    /// The key was checked, and may no longer be what it was at this index. Returns whether it was
    /// seen so, and must be read.
    pub(in crate::machine::election) fn has_changed(&mut self, now: Instant, index: Index) -> bool {
        let is_news = self.base() == index && self.sight == Sight::Current;
        if is_news {
            let wanted_from = now + WATCH_TELLS;
            self.sight = Sight::Outdated { wanted_from };
        }
        is_news
    }

    /// A proof of its session has not found the key tied to it. A read tells why.
    pub(in crate::machine::election) fn is_missed(&mut self, now: Instant) {
        if self.is_leading() && self.sight == Sight::Current {
            self.sight = Sight::Outdated { wanted_from: now };
        }
    }

    /// The session with which it leads.
    pub(in crate::machine::election) fn session_id(&self) -> Option<&SessionId> {
        self.session.id()
    }

    pub(in crate::machine::election) fn led_with(&self) -> Option<&SessionId> {
        self.session.id().filter(|_| self.is_leading())
    }

    /// Whether it shows our session from before it was lent. Then another candidacy led with it,
    /// and has given the key back. It is not if it is no older than what was seen since.
    fn is_of_former_term(&self, shown: Option<&ElectionKey>, sent: Moment) -> bool {
        let Some(shown) = shown else {
            return false;
        };
        let seen = self.seen.as_ref().filter(|it| it.at > self.known_since);
        let is_as_new = seen.is_some_and(|it| shown.modify_index >= it.index);
        shown.session.is_some()
            && shown.session.as_ref() == self.session.id()
            && sent <= self.known_since
            && !is_as_new
            && !is_former_forgotten()
    }

    /// Remembers the value that the key showed for us. If it is not the wanted one, it is an older
    /// value, or an operator's.
    pub(super) fn note_shown_value(&mut self) {
        let is_wanted = |key: &ElectionKey| self.last_shown.is_none() || key.value == self.value;
        let is_ours = |key: &&ElectionKey| key.foreign_flags().is_none() && is_wanted(key);
        let says = self.shown_as_own().filter(is_ours).map(|key| &key.value);
        if let Some(says) = says.filter(|says| self.last_shown.as_ref() != Some(says)) {
            self.last_shown = Some(says.clone());
        }
    }

    /// What the new view of the key means for candidates.
    fn judge(&mut self, now: Instant, settings: &ElectionSettings) -> Option<CandidacyEvent> {
        let own = self.session.id().cloned();
        if self
            .led
            .is_some_and(|led| led.is_counted_again(self.shown()))
        {
            self.names = Names::Spent;
            return Some(CandidacyEvent::SessionGone);
        }
        let key = self.shown()?;
        if key.session.is_some() && key.session == own && key.is_overwritten() {
            // It began a term, which is over: the next one needs another session.
            self.names = Names::Spent;
            return Some(CandidacyEvent::SessionGone);
        }
        if is_ours(key, own.as_ref()) {
            return self.elect(now, own?, settings);
        }
        if let Some(conflict) = key.conflict_at(&settings.key) {
            return Some(CandidacyEvent::Conflict(conflict));
        }
        let by = key.session.clone()?;
        Some(CandidacyEvent::NotAvailable(Refusal::Led { by }))
    }

    /// The key shows our session. Without a valid lease that means nothing.
    fn elect(
        &mut self,
        now: Instant,
        session: SessionId,
        settings: &ElectionSettings,
    ) -> Option<CandidacyEvent> {
        if !self.has_valid_lease(now) {
            return Some(CandidacyEvent::SessionGone);
        }
        let lease = self.session.lease();
        if lease.is_some_and(|it| !it.is_proved_since(now - it.length() / 2)) {
            // A long poll was sent too long ago to prove that the session lives.
            self.sight = Sight::Outdated { wanted_from: now };
            return None;
        }
        let key = self.shown()?;
        let term = TermIndexes::of(key);
        let token = token_of(key);
        let sequencer = Sequencer {
            key: settings.key.as_str().to_owned(),
            lock_index: term.lock_index,
            session,
        };
        self.session.hold();
        self.phase.elected(term);
        self.led = Some(term);
        self.may_hold = true;
        self.pace.clear();
        self.race.won(now);
        Some(CandidacyEvent::Elected(Term { token, sequencer }))
    }

    /// A read failed, or the watch.
    pub(in crate::machine::election) fn fail(&mut self, failed: Failed) -> Option<CandidacyEvent> {
        if self.is_leading() && is_on(Defect::FailureTakenForLoss) {
            return Some(CandidacyEvent::Lost(as_released(self.session.id()?)));
        }
        let error = &failed.error;
        if self.is_leading() && matches!(error, RequestError::InvalidKey { .. }) {
            let (session, refusal) = (self.session.id()?.clone(), error.clone());
            return Some(CandidacyEvent::Lost(Lost::Unreadable {
                session,
                refusal,
                on: Subject::default(),
            }));
        }
        self.failure = Some(error.clone());
        let is_refused = self.is_campaigning() && error.is_permanent();
        is_refused.then_some(CandidacyEvent::Refused(failed))
    }

    /// Accepts the value that the key shows as the wanted one.
    pub(in crate::machine::election) fn keep_value(&mut self) -> Value {
        if let Some(value) = self.shown().map(|key| key.value.clone()) {
            self.set_value(value);
        }
        Value::of_consul(self.value.clone())
    }

    /// Whether it has seen the key, as an election's or missing.
    pub(in crate::machine::election) fn has_seen_election(&self, key: &LockKey) -> bool {
        self.present().is_some() && self.conflict(key).is_none()
    }

    /// What the key is instead of an election's, as last seen.
    pub(in crate::machine::election) fn conflict(&self, key: &LockKey) -> Option<Conflict> {
        let shown = self.shown()?;
        // A key of ours that was overwritten is given back.
        let is_ours = self.shown_as_own().is_some() && shown.is_overwritten();
        shown.conflict_at(key).filter(|_| !is_ours)
    }

    /// The leader, as the key was last seen.
    pub(in crate::machine::election) fn leader(&self, key: &LockKey) -> Option<Leader> {
        Leader::of(key, self.shown()?)
    }

    pub(in crate::machine::election) fn shown(&self) -> Option<&ElectionKey> {
        self.present()?.key.as_ref()
    }

    /// What this campaign has seen.
    pub(super) fn present(&self) -> Option<&Seen> {
        self.seen.as_ref().filter(|seen| seen.is_present())
    }

    /// The key as it was last seen, if it was tied to our session.
    pub(super) fn shown_as_own(&self) -> Option<&ElectionKey> {
        let own = self.session.id()?;
        self.shown().filter(|key| key.session.as_ref() == Some(own))
    }

    /// Whether the key can be acquired, as far as is known.
    pub(super) fn is_free(&self) -> bool {
        let is_free = |seen: &Seen| seen.key.as_ref().is_none_or(ElectionKey::is_free);
        self.present().is_some_and(is_free)
    }
}

/// The slip of a defect: a campaign does not know what the one before it saw.
pub(super) fn is_former_forgotten() -> bool {
    is_on(Defect::FormerTermForgotten)
}

/// Whether a view is news, if it says that it is newer than the one before.
fn is_newer(is_newer: bool) -> bool {
    is_newer || is_on(Defect::OlderViewAccepted)
}

/// A loss that the key shows ends the term.
fn noticed(loss: Option<Lost>) -> Option<Lost> {
    loss.filter(|_| !is_on(Defect::EvictionUnnoticed))
}

/// Whether the key is ours, if `own` is our session.
fn is_ours(key: &ElectionKey, own: Option<&SessionId>) -> bool {
    let by = key.session.as_ref();
    by.is_some() && (by == own || is_on(Defect::AnothersKeyBelieved))
}

/// The token of the term that the key shows.
fn token_of(key: &ElectionKey) -> FencingToken {
    FencingToken(if is_on(Defect::TokenRestarts) {
        key.lock_index
    } else {
        key.modify_index.0
    })
}

/// What a leader says whose key is no longer tied to its session.
fn as_released(session: &SessionId) -> Lost {
    Lost::KeyReleased {
        session: session.clone(),
        on: Subject::default(),
    }
}
