//! Following an election: every change of its leader, by blocking queries on its key.
//!
//! The guide's rule ("clients should also watch the key using a blocking query for any changes"): a [`Poller`] reads the
//! key until it is refused for good, or is no election's. A plain read, which is the first and whatever starts again, asks for
//! the word of Consul's leader; a poll may be answered by any server. An answer whose index went
//! backwards is not shown: it comes from a server that lags behind, or after a snapshot was restored.
//! The plain read that follows decides. Where its index is lower, too, a server that lags can't be
//! told by its index any more, and polls ask for the leader's word as well.
//!
//! Following needs no session and writes nothing.
//!
//! Sources: Consul's documentation of blocking queries (an index that went backwards) and of consistency modes.

use core::time::Duration;
use std::collections::VecDeque;

use crate::api::ReadKey;
use crate::error::{Conflict, Error, RequestError};
use crate::http::Response;
use crate::id::{Index, RequestId};
use crate::input::{LockKey, Scope};
use crate::leader::{Leader, LeaderStatus};
use crate::machine::contract::Transmit;
use crate::machine::process::reader::budget::Budget;
use crate::machine::process::reader::cursor::Progress;
use crate::machine::process::reader::poller::Poller;
use crate::machine::process::requests::{Requests, Sender};
use crate::machine::process::service::Service;
use crate::subject::Subject;
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
    /// Idle once nothing will happen any more.
    poller: Poller,
    requests: Requests<Poll>,
    trust: Trust,
    current: Option<LeaderStatus>,
    /// When the last request was sent whose answer was believed.
    known_at: Option<Instant>,
    is_interrupted: bool,
    events: VecDeque<Result<LeaderEvent, Error>>,
    rng: fastrand::Rng,
}

/// Whose answers are believed.
#[derive(Debug)]
struct Trust {
    /// The highest index of an answer that was shown.
    highest: Index,
    /// Whether Consul's own index is below the highest, so that none but its leader is believed.
    is_behind: bool,
    /// Whether the request under way asks for the leader's word.
    asks_leader: bool,
}

/// The request under way: until when it may take.
#[derive(Clone, Copy, Debug)]
struct Poll {
    give_up_at: Instant,
}

impl Sender for Poll {
    fn polls(&self) -> bool {
        true
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
    /// Follows the election on this key. `seed` decides the jitter of its retries.
    pub fn new(key: LockKey, scope: Scope, seed: u64) -> Self {
        let mut poller = Poller::new(Budget::new(INTERVAL, BURST), RETRY_CAP);
        poller.start();
        Self {
            key,
            scope,
            poller,
            requests: Requests::new(REQUEST_TIMEOUT, PATIENCE),
            trust: Trust {
                highest: Index::ZERO,
                is_behind: false,
                asks_leader: false,
            },
            current: None,
            known_at: None,
            is_interrupted: false,
            events: VecDeque::new(),
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

    /// When the request was sent whose answer has told, or confirmed, what was learned last: it is no older than that. None
    /// before the first answer.
    pub fn known_at(&self) -> Option<Instant> {
        self.known_at
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
        self.poller.is_idle() && self.events.is_empty()
    }

    /// The request to send at `now`, if there is one. There is none while events wait to be taken.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        if self.poll_timeout().is_none_or(|due| due > now) {
            return None;
        }
        self.trust.asks_leader = self.trust.is_behind || self.poller.is_at_start();
        let read = ReadKey {
            key: self.key.as_str(),
            wait: self.poller.send(now),
            consistent: self.trust.asks_leader,
        };
        let request = read.request(&self.scope).answered_within(REQUEST_TIMEOUT);
        let poll = Poll {
            give_up_at: now + request.timeout(),
        };
        Some(self.requests.send(now, poll, Service::Reads, request))
    }

    /// When to call [`Self::poll_transmit`] again, if no answer comes before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.poller.timeout().filter(|_| self.events.is_empty())
    }

    /// Takes what came back for a request. What comes late or twice is ignored.
    pub fn handle_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: &Result<Response, TransportError>,
    ) {
        let Some(received) = self.requests.receive(now, id, result) else {
            return;
        };
        match received.answer {
            // It lay there while nobody asked, and tells of then.
            _ if now > received.from.give_up_at + LEEWAY => {
                self.poller.ended(now);
                self.poller.restart();
            }
            Ok(response) => match LeaderStatus::read(&self.key, response) {
                Ok((index, found)) => self.answered(now, received.sent_at, index, found),
                Err(error) => self.failed(now, error),
            },
            Err(error) => self.failed(now, error),
        }
    }

    fn answered(
        &mut self,
        now: Instant,
        sent_at: Instant,
        index: Index,
        found: Result<LeaderStatus, Conflict>,
    ) {
        let progress = self.poller.answered(now, index);
        if core::mem::take(&mut self.is_interrupted) {
            self.events.push_back(Ok(LeaderEvent::Resumed));
        }
        if !self.trust.takes(index, progress) {
            return;
        }
        match found {
            Ok(status) => {
                self.known_at = Some(sent_at);
                self.show(status);
            }
            Err(conflict) => {
                let key = self.key.to_string();
                self.end(Error::NotAnElection {
                    key,
                    conflict,
                    on: Subject::default(),
                });
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
        self.poller.failed(now, &mut self.rng);
        // A plain read tells at once that Consul is back.
        self.poller.restart();
        if !core::mem::replace(&mut self.is_interrupted, true) {
            let error = error.at_face_value().clone();
            self.events.push_back(Ok(LeaderEvent::Interrupted(error)));
        }
    }

    /// Nothing follows this.
    pub(crate) fn end(&mut self, error: Error) {
        self.events.push_back(Err(error));
        self.poller.ended(Instant::ORIGIN);
        self.poller.pause();
    }
}

/// The ceiling: at most so many requests at once, and one each so long after that.
const INTERVAL: Duration = Duration::from_millis(100);
const BURST: u32 = 10;

/// How long an answer may take beyond that.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// How much later than its timeout a request may end before it is said to have lain there.
const LEEWAY: Duration = Duration::from_secs(1);

/// For how long the key may be refused that was shown before.
const PATIENCE: Duration = Duration::from_secs(60);

/// The longest wait after a failure.
const RETRY_CAP: Duration = Duration::from_secs(5);
