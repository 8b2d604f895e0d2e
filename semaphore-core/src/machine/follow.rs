//! Following an election: every change of its leader, by blocking queries on its key.
//!
//! ```text
//!            due, within the budget
//!   Waiting ───────────────────────▶ Polling ── refused for good, or no election's ──▶ Ended
//!      ▲                               │
//!      └──── answered, or failed ──────┘
//! ```
//! The guide's rule ("clients should also watch the key using a blocking query for any changes") with
//! the index rules of [`Cursor`]. A plain read, which is the first and whatever starts again, asks for
//! the word of Consul's leader; a poll may be answered by any server. An answer whose index went
//! backwards is not shown: it comes from a server that lags behind, or after a snapshot was restored.
//! The plain read that follows decides. Where its index is lower, too, a server that lags can't be
//! told by its index any more, and polls ask for the leader's word as well.
//!
//! Following needs no session and writes nothing.

use core::time::Duration;
use std::collections::VecDeque;

use crate::api::ReadKey;
use crate::error::{Conflict, Error, RequestError};
use crate::http::{Request, Response, longest_wait};
use crate::id::{Index, RequestId};
use crate::input::{LockKey, Scope};
use crate::leader::{Leader, LeaderStatus};
use crate::machine::contract::Transmit;
use crate::machine::process::reader::backoff::Backoff;
use crate::machine::process::reader::budget::Budget;
use crate::machine::process::reader::cursor::{Cursor, Progress};
use crate::time::Instant;
use crate::transport::TransportError;

/// What a follower learns.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LeaderEvent {
    /// Somebody leads: the first thing learned, another leader, or the same one in a new term.
    Elected(Leader),
    /// The leader says something else of itself.
    ValueChanged(Leader),
    /// Nobody leads, or what was left there changed.
    Leaderless {
        /// What the key says all the same, none where there is no key.
        last_value: Option<Vec<u8>>,
    },
    /// Consul can't be asked for now, for this reason. What was learned last may be outdated. The
    /// follower goes on trying; told once, until it [resumes](Self::Resumed).
    Interrupted(RequestError),
    /// Consul answers again. Whatever changed meanwhile follows.
    Resumed,
}

/// A sans-IO machine that follows one election's leader. It has one request under way at a time, at
/// most 10 at once and 10 a second in the long run, however often the key changes; while nothing
/// changes, one each 15 s.
///
/// It ends with the first failure that no retry mends, which its last event tells.
#[derive(Debug)]
pub struct Follow {
    key: LockKey,
    scope: Scope,
    state: State,
    cursor: Cursor,
    /// The highest index of an answer that was shown.
    highest: Index,
    /// Whether Consul's own index is below the highest, so that none but its leader is believed.
    is_behind: bool,
    /// Whether the request under way asks for the leader's word.
    asks_leader: bool,
    current: Option<LeaderStatus>,
    is_interrupted: bool,
    events: VecDeque<Result<LeaderEvent, Error>>,
    last_request: RequestId,
    budget: Budget,
    backoff: Backoff,
    rng: fastrand::Rng,
}

#[derive(Debug)]
enum State {
    Waiting { until: Instant },
    Polling { give_up_at: Instant },
    Ended,
}

impl Follow {
    /// Follows the election on this key. `seed` decides the jitter of its retries.
    pub fn new(key: LockKey, scope: Scope, seed: u64) -> Self {
        Self {
            key,
            scope,
            state: State::Waiting {
                until: Instant::ORIGIN,
            },
            cursor: Cursor::new(),
            highest: Index::ZERO,
            is_behind: false,
            asks_leader: false,
            current: None,
            is_interrupted: false,
            events: VecDeque::new(),
            last_request: RequestId(0),
            budget: Budget::new(INTERVAL, BURST),
            backoff: Backoff::new(Duration::from_millis(100), RETRY_CAP),
            rng: fastrand::Rng::with_seed(seed),
        }
    }

    /// The election's key.
    pub fn key(&self) -> &LockKey {
        &self.key
    }

    /// What was learned last; none before the first answer.
    pub fn current(&self) -> Option<&LeaderStatus> {
        self.current.as_ref()
    }

    /// Whether what was learned last may be outdated, since Consul can't be asked.
    pub fn is_interrupted(&self) -> bool {
        self.is_interrupted
    }

    /// What happened, in order. An error is the last.
    pub fn poll_event(&mut self) -> Option<Result<LeaderEvent, Error>> {
        self.events.pop_front()
    }

    /// Whether nothing will happen any more.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended) && self.events.is_empty()
    }

    /// The request to send at `now`, if there is one. There is none while events wait to be taken.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        if self.poll_timeout().is_none_or(|due| due > now) {
            return None;
        }
        self.asks_leader = self.is_behind || self.cursor.is_at_start();
        let request = self.request();
        self.budget.take(now);
        self.cursor.sent(now);
        let give_up_at = now + request.timeout();
        self.state = State::Polling { give_up_at };
        self.last_request = RequestId(self.last_request.0 + 1);
        let id = self.last_request;
        Some(Transmit { id, request })
    }

    /// When to call [`Self::poll_transmit`] again, if no answer comes before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Waiting { until } if self.events.is_empty() => {
                Some(until.max(self.budget.ready_at()))
            }
            _ => None,
        }
    }

    /// Takes what came back for a request. What comes late or twice is ignored.
    pub fn handle_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: &Result<Response, TransportError>,
    ) {
        let State::Polling { give_up_at } = self.state else {
            return;
        };
        if id != self.last_request {
            return;
        }
        self.state = State::Waiting { until: now };
        match result {
            // It lay there while nobody asked, and tells of then.
            _ if now > give_up_at + LEEWAY => self.cursor.restart(),
            Ok(response) => match LeaderStatus::read(&self.key, response) {
                Ok((index, found)) => self.answered(now, index, found),
                Err(error) => self.failed(now, error),
            },
            Err(error) => self.failed(now, RequestError::Transport(error.clone())),
        }
    }

    fn request(&self) -> Request {
        let index = self.cursor.index();
        let wait = Some((index, WAIT)).filter(|_| !self.cursor.is_at_start());
        let held_open = wait.map_or(Duration::ZERO, |(_, wait)| longest_wait(wait));
        ReadKey {
            key: self.key.as_str(),
            wait,
            consistent: self.asks_leader,
        }
        .request(&self.scope)
        .with_timeout(held_open + REQUEST_TIMEOUT)
    }

    fn answered(&mut self, now: Instant, index: Index, found: Result<LeaderStatus, Conflict>) {
        self.backoff.reset();
        if core::mem::take(&mut self.is_interrupted) {
            self.events.push_back(Ok(LeaderEvent::Resumed));
        }
        let progress = self.cursor.answered(now, index, WAIT);
        let is_doubted = match progress {
            Progress::Anew | Progress::Onward => false,
            Progress::Early => true,
            Progress::Backwards => !self.asks_leader,
        };
        if is_doubted {
            return;
        }
        self.is_behind = index < self.highest;
        self.highest = self.highest.max(index);
        match found {
            Ok(status) => self.show(status),
            Err(conflict) => {
                let key = self.key.to_string();
                self.end(Error::NotAnElection { key, conflict });
            }
        }
    }

    fn show(&mut self, status: LeaderStatus) {
        if self.current.as_ref() == Some(&status) {
            return;
        }
        let event = match (
            &status,
            self.current.as_ref().and_then(LeaderStatus::leader),
        ) {
            (LeaderStatus::Led(leader), Some(former)) if leader.is_same_term(former) => {
                LeaderEvent::ValueChanged(leader.clone())
            }
            (LeaderStatus::Led(leader), _) => LeaderEvent::Elected(leader.clone()),
            (LeaderStatus::Leaderless { last_value }, _) => LeaderEvent::Leaderless {
                last_value: last_value.clone(),
            },
        };
        self.events.push_back(Ok(event));
        self.current = Some(status);
    }

    fn failed(&mut self, now: Instant, error: RequestError) {
        if error.is_permanent() {
            return self.end(error.into());
        }
        let until = now + self.backoff.next(&mut self.rng);
        self.state = State::Waiting { until };
        // A plain read tells at once that Consul is back.
        self.cursor.restart();
        if !core::mem::replace(&mut self.is_interrupted, true) {
            self.events.push_back(Ok(LeaderEvent::Interrupted(error)));
        }
    }

    fn end(&mut self, error: Error) {
        self.events.push_back(Err(error));
        self.state = State::Ended;
    }
}

/// The ceiling: at most so many requests at once, and one each so long after that.
const INTERVAL: Duration = Duration::from_millis(100);
const BURST: u32 = 10;

/// How long the server may hold a poll open without a change.
const WAIT: Duration = Duration::from_secs(15);

/// How long an answer may take beyond that.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// How much later than its timeout a request may end before it is said to have lain there.
const LEEWAY: Duration = Duration::from_secs(1);

/// The longest wait after a failure.
const RETRY_CAP: Duration = Duration::from_secs(5);
