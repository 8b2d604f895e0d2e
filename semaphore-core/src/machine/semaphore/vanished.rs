//! Holders whose contender key has gone, and when others may have their place.
//!
//! ```text
//!  a view lacks the key ─▶ Waits ──its time is over──▶ asked ──nobody has the key──▶ dead: may be pruned
//!                            ▲                           │
//!                            └────── not yet, failed ────┘
//! ```
//! A session ends with its node, whatever its TTL: if a server dies or is cut off, Consul removes
//! its node some ten seconds later (hashicorp/consul #6793, #20424). Its holder, cut off like the
//! server, believes until its lease is over. So nobody is pruned before its belief must have ended
//! (S1). Two clocks decide that, and both must agree:
//!
//! - *Our own.* A contender that has seen the key waits for the lock delay of its session, which is
//!   in the key's [flags](ContenderFlags), from the first view without the key. This also works if
//!   a key was deleted by hand, or if Consul's leader has forgotten the lock delay.
//! - *Consul's.* The lock delay counts from the end of the session, for everybody, including those
//!   who come later. A transaction asks whether the key could be acquired now, and is always rolled
//!   back: see [`steps::probe`].
//!
//! The question also distinguishes dead holders from hidden ones (S3). A list leaves out what the
//! token may not read. Consul 1.11 and newer say so, older ones don't. But a separate request for a
//! hidden key is refused.
//!
//! Only a restored snapshot revives sessions, and it interrupts every poll. Until then a dead
//! holder needs only one question.
//!
//! Sources: Consul's documentation of sessions (a lock delay prevents an acquisition of the key
//! after an invalidation, for at most 60 s); docs/CONSUL.md, "What ends a session" and the rows of
//! "Limits and timeouts" on what a token may not see.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use crate::api::Txn;
use crate::defect::{Defect, is_on};
use crate::error::RequestError;
use crate::http::{Request, Response};
use crate::id::SessionId;
use crate::input::SessionOptions;
use crate::machine::process::reader::backoff::jitter;
use crate::machine::process::reader::pause::Pause;
use crate::machine::semaphore::settings::Settings;
use crate::machine::semaphore::steps::{self, Probed};
use crate::record::Record;
use crate::time::Instant;
use crate::view::{ContenderFlags, Key, View};

#[derive(Clone, Debug)]
pub(in crate::machine) struct Vanished {
    /// All whom the record names and the views lack.
    missing: BTreeMap<SessionId, Missing>,
    /// Those of them whom a complete list lacks. Only they are asked for.
    suspects: BTreeSet<SessionId>,
    /// The question under way: whether the keys of these sessions could be acquired.
    asked: Option<Vec<SessionId>>,
    /// Whether the question under way is from before an interruption.
    is_outdated: bool,
    dead: BTreeSet<SessionId>,
    /// Those whose end was logged.
    told: BTreeSet<SessionId>,
    /// The pause after a failed question.
    rest: Pause,
}

/// A holder without its contender key.
#[derive(Clone, Debug)]
struct Missing {
    /// When the first view without it came.
    since: Instant,
    /// How long its place is left alone from then on, if an earlier view had shown its key.
    seen_lock_delay: Option<Duration>,
    /// The beginning of its value in that view, for people.
    value: Option<Box<str>>,
    /// Whether its key exists and is tied to another session, which has acquired it.
    is_taken: bool,
    /// After Consul has said "not yet": when to ask again.
    ask_again_at: Option<Instant>,
}

/// What an answer says.
#[derive(Debug)]
pub(in crate::machine) enum Finding {
    /// Some are dead, or not yet, or alive, which the next view will show.
    Settled,
    /// A key may not be read.
    Hidden,
    /// The question failed.
    Failed(RequestError),
}

impl Vanished {
    pub(in crate::machine) fn new(settings: &Settings) -> Self {
        Self {
            missing: BTreeMap::new(),
            suspects: BTreeSet::new(),
            asked: None,
            is_outdated: false,
            dead: BTreeSet::new(),
            told: BTreeSet::new(),
            rest: Pause::new(settings.retry_cap()),
        }
    }

    /// Compares a view with the one before it.
    pub(in crate::machine) fn observe(&mut self, now: Instant, before: Option<&View>, view: &View) {
        let Some(record) = view.record() else {
            return;
        };
        self.missing.retain(|it, _| !view.is_alive(it.as_str()));
        self.dead.retain(|it| !view.is_alive(it.as_str()));
        self.told.retain(|it| !view.is_alive(it.as_str()));
        for holder in view.keyless() {
            let Some(session) = SessionId::read(holder) else {
                continue;
            };
            let is_taken = view.key(&session) == Key::Taken;
            if view.is_filtered() && !is_taken && !self.missing.contains_key(&session) {
                // It may be hidden, and alive.
                continue;
            }
            let missing = self
                .missing
                .entry(session.clone())
                .or_insert_with_key(|session| {
                    let value = before.and_then(|it| it.value_of(session.as_str()));
                    Missing {
                        since: now,
                        seen_lock_delay: before.and_then(|it| seen_lock_delay(it, session)),
                        value: value.map(Box::from),
                        is_taken,
                        ask_again_at: None,
                    }
                });
            if is_taken && !missing.is_taken {
                missing.since = now;
            }
            missing.is_taken = is_taken;
            if is_taken {
                self.tell(&session, "a holder has lost its contender key to another session, and its place is free after its lock delay");
            }
        }
        self.forget_the_removed(record);
    }

    /// Replaces those to ask for.
    pub(in crate::machine) fn suspect(&mut self, suspects: BTreeSet<SessionId>) {
        self.suspects = suspects;
        if self.suspects.is_empty() {
            self.rest.end();
            self.rest.reset();
        }
    }

    pub(in crate::machine) fn suspects(&self) -> &BTreeSet<SessionId> {
        &self.suspects
    }

    /// The poll was interrupted: those who were dead may be alive again.
    pub(in crate::machine) fn forget(&mut self) {
        self.dead.clear();
        self.is_outdated = self.asked.is_some();
    }

    /// Forgets those who are no longer in the record, in any spelling.
    pub(in crate::machine) fn forget_the_removed(&mut self, record: &Record) {
        if self.missing.is_empty() && self.dead.is_empty() && self.told.is_empty() {
            return;
        }
        let holders: BTreeSet<_> = record
            .holders()
            .filter_map(|holder| SessionId::new(holder).ok())
            .collect();
        self.missing.retain(|session, _| holders.contains(session));
        self.dead.retain(|session| holders.contains(session));
        self.told.retain(|session| holders.contains(session));
    }

    /// Logs the end of a holder once, however often it is found.
    fn tell(&mut self, session: &SessionId, what: &'static str) {
        if !self.told.insert(session.clone()) {
            return;
        }
        let missing = self.missing.get(session);
        let value = missing.and_then(|it| it.value.as_deref());
        let lock_delay = missing.and_then(|it| it.seen_lock_delay);
        tracing::info!(name: "vanished", target: "semaphore_core", %session, value, ?lock_delay, "{what}");
    }

    /// Those who may be pruned.
    pub(in crate::machine) fn dead(&self, now: Instant) -> BTreeSet<SessionId> {
        let is_over = |it: &Missing| it.only_waits() && it.until() <= now;
        let over = self.missing.iter().filter(|(_, it)| is_over(it));
        let over = over.map(|(session, _)| session);
        self.dead.iter().chain(over).cloned().collect()
    }

    /// Those whose place is certainly not available at present.
    pub(in crate::machine) fn withheld(&self, now: Instant) -> BTreeSet<SessionId> {
        let waits = |it: &Missing| it.only_waits() || it.was_seen();
        // When it is time to ask again, the place may be free: an instant try waits for that
        // answer.
        let is_put_off = |at: Instant| at > now;
        let is_withheld =
            |it: &Missing| waits(it) && it.until() > now || it.ask_again_at.is_some_and(is_put_off);
        let withheld = self.missing.iter().filter(|(_, it)| is_withheld(it));
        let withheld = withheld.map(|(session, _)| session);
        withheld
            .filter(|session| !self.dead.contains(session))
            .cloned()
            .collect()
    }

    /// When the first lock delay is over by our own clock.
    pub(in crate::machine) fn lock_delay_until(&self) -> Option<Instant> {
        let waiting = self.missing.values().filter(|it| it.only_waits());
        waiting.map(Missing::until).min()
    }

    /// When the next question is due.
    pub(in crate::machine) fn asks_at(&self) -> Option<Instant> {
        if self.asked.is_some() {
            return None;
        }
        let due = self.pending().map(|(_, it)| it.due()).min()?;
        Some(due.max(self.rest.due()))
    }

    /// The next question. `own` is a session of ours that is tied to its contender key.
    pub(in crate::machine) fn transmit(
        &mut self,
        now: Instant,
        own: Option<&SessionId>,
        settings: &Settings,
    ) -> Option<Request> {
        if self.asks_at().is_none_or(|at| at > now) {
            return None;
        }
        let due = self.pending().filter(|(_, it)| it.due() <= now);
        let mut due: Vec<_> = due.map(|(session, _)| session.clone()).collect();
        due.truncate(MOST_ASKED);
        let request = steps::probe(&due, own?, settings)?;
        tracing::debug!(name: "inquiry", asked = ?due, "asks whether holders without a key are dead");
        self.asked = Some(due);
        self.rest.end();
        Some(request)
    }

    /// Takes the answer to the question under way. `ahead` is the number of waiters ahead of us,
    /// who ask, too.
    pub(in crate::machine) fn handle(
        &mut self,
        now: Instant,
        answer: Result<&Response, RequestError>,
        ahead: u32,
        rng: &mut fastrand::Rng,
    ) -> Finding {
        let Some(asked) = self.asked.take() else {
            return Finding::Settled;
        };
        let is_outdated = core::mem::take(&mut self.is_outdated);
        let probed = answer.and_then(|response| steps::probed(response, asked.len()));
        match probed {
            // An outdated question is repeated at once.
            Ok(_) if is_outdated => Finding::Settled,
            Ok(probed) => {
                self.was_probed(asked, probed, now, ahead, rng);
                Finding::Settled
            }
            Err(RequestError::Denied { .. }) => {
                tracing::debug!(name: "hidden-holder", "a holder's key may not be read");
                self.suspects.clear();
                // Views lack hidden holders, too, so none of them has told since when anybody is
                // gone.
                self.missing.clear();
                // It stays a suspect in every view.
                self.rest.begin(now, rng);
                Finding::Hidden
            }
            // Our session has ended meanwhile. Another one will ask.
            Err(RequestError::InvalidSession { .. }) => {
                self.rest.begin(now, rng);
                Finding::Settled
            }
            Err(error) => {
                self.rest.begin(now, rng);
                Finding::Failed(error)
            }
        }
    }

    fn was_probed(
        &mut self,
        sessions: Vec<SessionId>,
        probed: Vec<Probed>,
        now: Instant,
        ahead: u32,
        rng: &mut fastrand::Rng,
    ) {
        self.rest.reset();
        for (session, probed) in sessions.into_iter().zip(probed) {
            match probed {
                Probed::Free => {
                    self.tell(&session, "a holder has died: it has no contender key any more, and its place is free");
                    self.dead.insert(session);
                }
                Probed::NotYet => self.put_off(&session, now, ahead, rng),
                Probed::Unknown => {}
            }
        }
    }

    /// The first waiter asks again soon, and the others later, depending on how many are ahead. All
    /// see what one of them changes.
    fn put_off(&mut self, session: &SessionId, now: Instant, ahead: u32, rng: &mut fastrand::Rng) {
        tracing::debug!(name: "lock-delay", %session, "a holder's lock delay is not over");
        let wait = jitter(ASK_AGAIN / 2, ASK_AGAIN / 2, rng);
        let wait = wait.saturating_mul(ahead.saturating_add(1));
        if let Some(missing) = self.missing.get_mut(session) {
            missing.ask_again_at = Some(now + wait.min(ASK_AGAIN_AT_MOST));
        }
    }

    /// The suspects that are to be asked for.
    fn pending(&self) -> impl Iterator<Item = (&SessionId, &Missing)> {
        let of = |session| self.missing.get_key_value(session);
        let pending = self.suspects.iter().filter_map(of);
        pending.filter(|(session, it)| !it.only_waits() && !self.dead.contains(session))
    }
}

impl Missing {
    /// Until when its place is left alone by our own clock.
    fn until(&self) -> Instant {
        if is_on(Defect::PruneAtOnce) {
            return self.since;
        }
        // If its key was never seen, it is left alone for the longest lock delay.
        let longest = SessionOptions::MAX_LOCK_DELAY;
        self.since + self.seen_lock_delay.unwrap_or(longest)
    }

    fn was_seen(&self) -> bool {
        self.seen_lock_delay.is_some()
    }

    /// Whether there is nothing to ask: it is dead when its time is over.
    fn only_waits(&self) -> bool {
        self.is_taken || is_on(Defect::PruneAtOnce)
    }

    /// When to ask for it.
    fn due(&self) -> Instant {
        let until = if self.was_seen() {
            self.until()
        } else {
            self.since
        };
        self.ask_again_at.map_or(until, |at| until.max(at))
    }
}

/// The lock delay of a holder, from its key in this view.
fn seen_lock_delay(view: &View, session: &SessionId) -> Option<Duration> {
    match view.key(session) {
        Key::Tied(contender) => Some(ContenderFlags::lock_delay_of(contender.flags)),
        _ => view
            .is_alive(session.as_str())
            .then(|| ContenderFlags::lock_delay_of(0)),
    }
}

/// The longest time between two questions of the first in the queue about one holder. The least is
/// half of it.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The same for a waiter that is far behind.
const ASK_AGAIN_AT_MOST: Duration = Duration::from_secs(30);

/// How many keys one question is about. Each is an operation, and one more ensures that nothing is
/// changed.
const MOST_ASKED: usize = Txn::MAX_OPERATIONS - 1;

#[cfg(test)]
mod tests;
