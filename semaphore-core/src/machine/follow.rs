//! Follows an election: every change of its leader, by blocking queries on its key.
//!
//! It follows the guide's rule ("clients should also watch the key using a blocking query for any
//! changes"). A [`Poller`] reads the key, even while it is refused or is not an election's: both
//! may pass. Consul's leader confirms a plain read, which is the first one and each restart. Any
//! server may answer a poll. If an answer's index went backwards, it is not shown: the server lags
//! behind, or a snapshot was restored. The following plain read decides. If its index is lower,
//! too, a lagging server can't be recognised by its index, so the leader must confirm polls as
//! well.
//!
//! Following needs no session and writes nothing. [`known`] has what is known, and what a listener
//! is told of it. [`attended`] and [`watch`] have what is different for the followers of one
//! client: most of them don't poll.
//!
//! Sources: Consul's documentation of blocking queries (an index that went backwards) and of consistency modes.

pub(crate) mod attended;
pub(crate) mod known;
mod watch;

use core::time::Duration;

pub use self::known::LeaderEvent;
use self::known::{Known, Told};
use self::watch::Watch;
use crate::api::ReadKey;
use crate::defect::{Defect, is_on};
use crate::error::{Error, RequestError};
use crate::http::Response;
use crate::id::{Index, RequestId};
use crate::input::{InvalidInput, LockKey, Scope};
use crate::leader::{LeaderStatus, Sighting};
use crate::machine::contract::Transmit;
use crate::machine::process::outage::RequestEnd;
use crate::machine::process::reader::budget::Budget;
use crate::machine::process::reader::check::{Check, CheckNews, Reads, Stance};
use crate::machine::process::reader::cursor::Progress;
use crate::machine::process::reader::poller::Poller;
use crate::machine::process::requests::{Requests, Sender};
use crate::machine::process::service::Service;
use crate::time::Instant;
use crate::transport::{TransportError, TransportErrorKind};

/// A sans-IO machine that follows one election's leader. It has one request under way at a time.
/// However often the key changes, it sends at most 10 at once and 10 a second in the long run.
/// While nothing changes, it sends one each third of the [greatest age](Self::with_max_age).
#[derive(Debug)]
pub struct Follow {
    key: LockKey,
    scope: Scope,
    max_age: Duration,
    watch: Watch,
    requests: Requests<Asked>,
    /// Until when the request under way may take.
    give_up_at: Instant,
    trust: Trust,
    known: Known,
    told: Told,
    rng: fastrand::Rng,
}

/// Which answers are believed.
#[derive(Debug)]
struct Trust {
    /// The highest index of an accepted answer.
    highest: Index,
    /// Whether Consul's own index is below the highest, so that only its leader is believed.
    is_behind: bool,
    /// Whether the leader must confirm the request under way.
    asks_leader: bool,
}

/// The request under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Read,
    Poll,
}

impl Sender for Asked {
    fn polls(&self) -> bool {
        *self == Self::Poll
    }
}

impl Trust {
    /// Whether an answer may be shown.
    fn takes(&mut self, index: Index, progress: Progress) -> bool {
        let is_doubted = match progress {
            Progress::Anew | Progress::Onward => false,
            Progress::Early => true,
            Progress::Backwards => !self.asks_leader,
        };
        if !is_doubted {
            self.is_behind = index < self.highest;
            self.highest = self.highest.max(index);
        }
        !is_doubted
    }
}

impl Follow {
    /// Follows the election of this key. `seed` decides the jitter of its retries.
    pub fn new(key: LockKey, scope: Scope, seed: u64) -> Self {
        Self {
            key,
            scope,
            max_age: MAX_AGE,
            watch: Watch::new(poller(MAX_AGE)),
            requests: Requests::new(REQUEST_TIMEOUT, PATIENCE),
            trust: Trust {
                highest: Index::ZERO,
                is_behind: false,
                asks_leader: false,
            },
            give_up_at: Instant::ORIGIN,
            known: Known::default(),
            told: Told::default(),
            rng: fastrand::Rng::with_seed(seed),
        }
    }

    /// Sets the greatest age of its knowledge. If it gets older, [`LeaderEvent::Interrupted`] says
    /// so. The default is 15 s. While nothing changes it sends a request each third of this time.
    /// Call it before the first request.
    ///
    /// # Errors
    /// [`InvalidInput::MaxAge`] outside three seconds to ten minutes.
    pub fn with_max_age(self, max_age: Duration) -> Result<Self, InvalidInput> {
        Self::check_max_age(max_age)?;
        Ok(self.allowing(max_age))
    }

    pub(crate) fn check_max_age(max_age: Duration) -> Result<(), InvalidInput> {
        if (LEAST_MAX_AGE..=MOST_MAX_AGE).contains(&max_age) {
            return Ok(());
        }
        Err(InvalidInput::MaxAge(max_age))
    }

    /// With a greatest age that was checked.
    pub(crate) fn allowing(mut self, max_age: Duration) -> Self {
        self.max_age = max_age;
        self.watch.poller = poller(max_age);
        self
    }

    /// The election's key.
    pub fn key(&self) -> &LockKey {
        &self.key
    }

    /// The last known state. `None` before the first answer, and after one that shows that the key
    /// has become something else's.
    pub fn current(&self) -> Option<&LeaderStatus> {
        self.known.status()
    }

    /// When the request was sent whose answer last confirmed that state. `None` before the first
    /// answer.
    pub fn known_at(&self) -> Option<Instant> {
        self.known.asked_at()
    }

    /// Whether that state may be outdated, because Consul can't be asked, refuses, or has something
    /// else at the key.
    pub fn is_interrupted(&self) -> bool {
        self.known.is_in_trouble()
    }

    /// What is known, for separate listeners.
    pub(crate) fn known(&self) -> &Known {
        &self.known
    }

    /// The greatest age of its knowledge.
    pub(crate) fn max_age(&self) -> Duration {
        self.max_age
    }

    /// The present state, if something has changed since the last call. An error says what Consul
    /// refuses, or that the key is not an election's. It ends nothing: the follower continues, and
    /// reports when that has passed.
    pub fn poll_event(&mut self) -> Option<Result<LeaderEvent, Error>> {
        self.told.next(&self.known)
    }

    /// The request to send at `now`, if there is one. There is none while an event waits to be
    /// taken.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        if self.told.is_behind(&self.known) {
            return None;
        }
        self.transmit(now)
    }

    /// The same, regardless of waiting events.
    pub(crate) fn transmit(&mut self, now: Instant) -> Option<Transmit> {
        if self.due().is_none_or(|due| due > now) {
            return None;
        }
        let is_old = |at| now.saturating_since(at) > self.max_age;
        let is_outdated = self.known.answered_at().is_some_and(is_old);
        if is_outdated {
            // Nobody has asked for long. A poll would only answer at the next change.
            self.watch.poller.restart();
        }
        let left = self.left(now);
        // Its answer would have been as old when it came.
        self.grow_old(now);
        let hold = self.hold(left);
        self.watch.poller.hold(hold);
        self.trust.asks_leader = self.trust.is_behind || self.watch.poller.is_at_start();
        let read = ReadKey {
            key: self.key.as_str(),
            wait: self.watch.poller.send(now),
            consistent: self.trust.asks_leader,
        };
        let asked = if read.wait.is_some() {
            Asked::Poll
        } else {
            Asked::Read
        };
        let request = read.request(&self.scope);
        let Transmit { id, request } = self.requests.send(now, asked, Service::Reads, request);
        // The knowledge would get too old while waiting for a slower answer.
        let most = self
            .left(now)
            .map(|left| left.saturating_sub(request.longest_wait().unwrap_or_default()));
        let is_prompt = asked == Asked::Poll && self.requests.are_prompt();
        let margin = is_prompt.then(|| self.margin());
        // Listeners don't know yet that it is too old. If no answer comes soon, they are told.
        let is_untold = is_outdated && !self.is_interrupted();
        let until_told = is_untold.then(|| self.max_age / 3);
        let request = match most.into_iter().chain(margin).chain(until_told).min() {
            Some(time) => request.answered_within(time),
            None => request,
        };
        self.give_up_at = now + request.timeout();
        Some(Transmit { id, request })
    }

    /// How long the knowledge stays valid without another answer. `None` if none is shown: before
    /// the first answer, while it counts as outdated, and if nobody has asked for long.
    fn left(&self, now: Instant) -> Option<Duration> {
        let is_recent = |at| now.saturating_since(at) <= self.max_age;
        let is_shown = !self.is_interrupted() && self.known.answered_at().is_some_and(is_recent);
        let asked_at = self.known.asked_at().filter(|_| is_shown)?;
        Some((asked_at + self.max_age).saturating_since(now))
    }

    /// How long the next poll is held. Three polls fit into the greatest age, so that one may be
    /// lost. After a slow answer less time is left.
    fn hold(&self, left: Option<Duration>) -> Duration {
        let most = left.map_or(self.max_age, |left| left.saturating_sub(self.margin()));
        (self.max_age / 3).min(most).max(LEAST_HOLD)
    }

    /// The part of the age that is reserved for an answer that does not come.
    fn margin(&self) -> Duration {
        self.max_age / 4
    }

    /// When to call [`Self::poll_transmit`] again, if no answer arrives before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.due().filter(|_| !self.told.is_behind(&self.known))
    }

    /// The same, regardless of waiting events.
    pub(crate) fn due(&self) -> Option<Instant> {
        let due = self.watch.poller.timeout()?;
        Some(self.watched_until().map_or(due, |until| due.max(until)))
    }

    /// Takes the outcome of a request. Late or repeated ones are ignored.
    pub fn handle_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: &Result<Response, TransportError>,
    ) {
        self.hear_response(now, id, result);
    }

    /// The same. Returns how the request ended.
    fn hear_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: &Result<Response, TransportError>,
    ) -> Option<RequestEnd> {
        let (received, end) = self.requests.receive(now, id, result)?;
        match received.answer {
            // It was left unhandled while nobody asked, so it shows an old state.
            _ if now > self.give_up_at + LEEWAY => {
                self.watch.poller.ended(now);
                self.watch.poller.restart();
            }
            Ok(response) => match Sighting::of(&self.key, response) {
                Ok(shown) => self.answered(now, received.sent_at, shown),
                Err(error) => self.failed(now, &error),
            },
            Err(error) => self.failed(now, &error),
        }
        end
    }

    /// For a machine set. It says who may poll: many may begin at once.
    pub(crate) fn looked_after(mut self) -> Self {
        self.watch.reads = Reads::Shared;
        self
    }

    /// Until when no poll is needed, since the machine set looks at the key.
    fn watched_until(&self) -> Option<Instant> {
        self.wanted_check()
            .filter(|_| self.watch.is_looked_after())?;
        Some(self.known.asked_at()? + self.max_age / 3 * 2)
    }

    /// What the machine set may check.
    fn wanted_check(&self) -> Option<Check> {
        let index = self.watch.index().filter(|_| !self.is_interrupted())?;
        Some(Check {
            // The candidates of the process go first.
            stance: Stance::Waits { ahead: 1 },
            record: self.key.as_str().to_owned(),
            index,
            keys: Vec::new(),
            seen_at: self.known.answered_at()?,
        })
    }

    /// Says that its knowledge is too old, if it has become so.
    fn grow_old(&mut self, now: Instant) {
        if self.left(now) == Some(Duration::ZERO) {
            let timeout = TransportError::new(TransportErrorKind::Timeout);
            self.known.fails(now, &RequestError::Transport(timeout));
        }
    }

    /// Takes the result of a check.
    fn take_check(&mut self, now: Instant, news: CheckNews) {
        match news {
            CheckNews::WaitingReads(reads) => self.watch.reads = reads,
            CheckNews::AsBefore { index, sent_at } => {
                if self.watch.is_at(index) && !self.is_interrupted() {
                    self.known.confirm(sent_at, now);
                }
            }
            CheckNews::Changed(_) if is_on(Defect::SharedChangeUnread) => {}
            CheckNews::Changed(index) => {
                if self.watch.changed(index) && !self.watch.poller.is_polling() {
                    // A snapshot may have been restored, with a lower index.
                    self.watch.poller.restart();
                }
            }
            CheckNews::Reads(_) => {}
        }
    }

    fn answered(
        &mut self,
        now: Instant,
        sent_at: Instant,
        Sighting {
            index,
            changed_at,
            found,
        }: Sighting,
    ) {
        let progress = self.watch.poller.answered(now, index);
        if !self.trust.takes(index, progress) {
            self.watch.forget();
            self.known.heard();
            return;
        }
        match found {
            Ok(status) => {
                self.watch.saw(changed_at);
                self.known.learn((sent_at, now), index, status);
            }
            Err(conflict) => {
                self.watch.forget();
                let key = self.key.to_string();
                self.known.conflicts((sent_at, now), index, key, conflict);
            }
        }
    }

    fn failed(&mut self, now: Instant, error: &RequestError) {
        self.watch.poller.failed(now, &mut self.rng);
        // A plain read tells at once that Consul is back.
        self.watch.poller.restart();
        if !is_on(Defect::SilenceUntold) {
            self.known.fails(now, error);
        }
    }
}

/// Three polls fit into the greatest age, so that one may be lost. When an answer comes, it is at
/// most one poll old. The next poll may take a third again, and a quarter is left for an answer
/// that does not come.
fn poller(max_age: Duration) -> Poller {
    let budget = Budget::new(INTERVAL, BURST);
    let mut poller = Poller::new(budget, RETRY_CAP).holding(max_age / 3);
    poller.start();
    poller
}

/// The default for the greatest age: the default TTL.
const MAX_AGE: Duration = Duration::from_secs(15);
const LEAST_MAX_AGE: Duration = Duration::from_secs(3);
const MOST_MAX_AGE: Duration = Duration::from_secs(600);

/// The limit: this many requests at once, and one more after each interval.
const INTERVAL: Duration = Duration::from_millis(100);
const BURST: u32 = 10;

/// The shortest time for which a poll is held.
const LEAST_HOLD: Duration = Duration::from_millis(100);

/// The longest time for the answer to a plain read.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// If a request ends this much later than its timeout, it was left unhandled.
const LEEWAY: Duration = Duration::from_secs(1);

/// How long a refusal of a known key is retried before it is reported.
const PATIENCE: Duration = Duration::from_secs(60);

/// The longest wait after a failure.
const RETRY_CAP: Duration = Duration::from_secs(5);
