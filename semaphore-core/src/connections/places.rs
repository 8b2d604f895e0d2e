//! Which lane a request gets, and who waits for one.
//!
//! ```text
//!            admitted                       answered, failed, refused
//!   (free) ───────────▶ taken by a request ───────────────────────────▶ (free)
//!     ▲                        │ a poll that was given up
//!     └── its wait is over ────┘
//! ```
//! After a refusal no connection is opened for a time, which doubles with each further refusal.
//! Afterwards half as many polls may be under way as there were then, and twice as many after each
//! success.

use core::time::Duration;
use std::collections::BTreeMap;

use super::lanes::Lane;
use super::rates::Rates;
use super::silence::Silence;
use crate::defect::{Defect, is_on};
use crate::http::Priority;
use crate::machine::jitter;
use crate::time::Instant;

/// An agent closes a refused connection within this time.
pub(super) const AT_ONCE: Duration = Duration::from_secs(1);

/// The lanes, and everyone who waits for one.
#[derive(Debug)]
pub(super) struct Places<W> {
    shorts: Vec<Place>,
    polls: Vec<Place>,
    /// The numbers of short and poll lanes when each lane has its own connection.
    own: (usize, usize),
    /// How many polls share a connection.
    polls_per_connection: usize,
    queue: BTreeMap<Ticket, W>,
    parked: BTreeMap<Ticket, Parked<W>>,
    last_ticket: u64,
    /// No further connection before this time.
    shut_until: Instant,
    refusals: u32,
    /// The most polls that may be under way at once.
    most_polls: usize,
    /// For each short request that was given up: until when the agent may count it.
    held: Vec<Instant>,
    rates: Rates,
    silence: Silence,
    /// The latest known time.
    now: Instant,
    rng: fastrand::Rng,
}

/// A waiter for a lane.
pub(super) trait Waiter {
    /// Whether it no longer waits.
    fn has_gone(&self) -> bool;
}

/// The order of the waiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket {
    priority: Priority,
    no: u64,
}

/// One lane.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    state: State,
    /// When its last request was answered, unless its connection was closed since.
    answered_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Free,
    /// Since when.
    Taken(Instant),
    /// Until when the agent counts it.
    GivenUp(Instant),
}

/// A poll without a lane.
#[derive(Debug)]
struct Parked<W> {
    place: W,
    /// The path that it reads.
    path: String,
    recurses: bool,
    /// Dropped when the data may have changed. `has_changed` remembers a change since the last
    /// read.
    hint: Option<W>,
    has_changed: bool,
}

/// How the use of a lane ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nothing was sent.
    Unused,
    /// There was an answer, at this time.
    Answered(Instant),
    /// The connection is gone, or its state is unknown.
    Failed,
    /// No connection could be had, at this time.
    Refused(Instant),
    /// A poll was given up. The agent counts it until this time.
    GivenUp(Instant),
    /// There was no answer in time, at this time.
    TimedOut(Instant),
    /// Nobody waits for the answer any more.
    Dropped,
}

/// The priority with which a short request waits.
fn in_line(priority: Priority) -> Priority {
    if is_on(Defect::RenewalsBehindPolls) {
        Priority::Read
    } else {
        priority
    }
}

/// Whether the agent counts a connection on when its poll is given up.
fn counts_on() -> bool {
    !is_on(Defect::GivenUpPollForgotten)
}

impl<W: Waiter> Places<W> {
    pub(super) fn new(shorts: usize, polls: usize, seed: u64) -> Self {
        Self {
            shorts: vec![Place::default(); shorts],
            polls: vec![Place::default(); polls],
            own: (shorts, polls),
            polls_per_connection: 1,
            queue: BTreeMap::new(),
            parked: BTreeMap::new(),
            last_ticket: 0,
            shut_until: Instant::ORIGIN,
            refusals: 0,
            most_polls: polls,
            held: Vec::new(),
            rates: Rates::default(),
            silence: Silence::NONE,
            now: Instant::ORIGIN,
            rng: fastrand::Rng::with_seed(seed),
        }
    }

    /// Sets how many polls share a connection, see
    /// [`Lanes`](super::lanes::Lanes::polls_per_connection). A lane that no longer exists leaves no
    /// trace.
    pub(super) fn share(&mut self, polls_per_connection: usize) {
        if polls_per_connection == self.polls_per_connection {
            return;
        }
        self.polls_per_connection = polls_per_connection;
        let (own_shorts, own_polls) = self.own;
        let (shorts, polls) = if self.is_shared() {
            let polls = own_polls.saturating_mul(polls_per_connection);
            (own_shorts.max(SHARED_SHORTS), polls.min(MOST_POLLS))
        } else {
            self.own
        };
        tracing::debug!(name: "lanes-changed", shorts, polls, polls_per_connection, "requests share connections, or no longer");
        self.shorts.resize(shorts, Place::default());
        self.polls.resize(polls, Place::default());
        self.most_polls = polls;
    }

    /// Whether lanes share connections.
    pub(super) fn is_shared(&self) -> bool {
        self.polls_per_connection > 1
    }

    /// Waits for a short lane.
    pub(super) fn queue(&mut self, now: Instant, priority: Priority, waiter: W) {
        self.pass_time(now);
        let ticket = self.ticket(in_line(priority));
        self.queue.insert(ticket, waiter);
    }

    /// Waits for a poll's lane.
    pub(super) fn park(
        &mut self,
        now: Instant,
        priority: Priority,
        path: &str,
        recurses: bool,
        place: W,
    ) -> Ticket {
        self.pass_time(now);
        let ticket = self.ticket(priority);
        let parked = Parked {
            place,
            path: path.to_owned(),
            recurses,
            hint: None,
            // What the poll knows may be older than its place in the queue.
            has_changed: true,
        };
        self.parked.insert(ticket, parked);
        ticket
    }

    /// Sets the hint of a parked poll, which is dropped when the data may have changed since its
    /// last read.
    pub(super) fn await_hint(&mut self, now: Instant, ticket: Ticket, hint: W) {
        self.pass_time(now);
        if let Some(parked) = self.parked.get_mut(&ticket) {
            let has_changed = core::mem::take(&mut parked.has_changed);
            parked.hint = Some(hint).filter(|_| !has_changed);
        }
    }

    /// It waits no longer.
    pub(super) fn unpark(&mut self, ticket: Ticket) {
        self.parked.remove(&ticket);
    }

    /// The hints for changes of these paths.
    pub(super) fn changed<'a>(&mut self, paths: impl Iterator<Item = &'a str>) -> Vec<W> {
        if self.parked.is_empty() {
            return Vec::new();
        }
        let paths: Vec<_> = paths.collect();
        let mut hints = Vec::new();
        for parked in self.parked.values_mut() {
            if paths.iter().any(|path| parked.reads(path)) {
                parked.has_changed |= parked.hint.is_none();
                hints.extend(parked.hint.take());
            }
        }
        hints
    }

    /// A lane is no longer used.
    pub(super) fn leave(&mut self, lane: Lane, fate: Fate) {
        if let Fate::Answered(now) | Fate::Refused(now) | Fate::TimedOut(now) = fate {
            self.pass_time(now);
        }
        let now = self.now;
        // The agent does not count a stream as a connection.
        let counts = !(self.is_shared() && matches!(lane, Lane::Poll(_)));
        let Some(place) = self.place(lane) else {
            return;
        };
        let held_until = match (fate, place.state) {
            _ if !counts => None,
            (Fate::TimedOut(_), State::Taken(since)) => Some(since + HELD),
            // A request that was dropped sooner counts as answered.
            (Fate::Dropped, State::Taken(since)) if now.saturating_since(since) >= AT_ONCE => {
                Some(since + HELD)
            }
            _ => None,
        };
        let was_open = place.answered_at.is_some();
        place.state = match (fate, lane) {
            (Fate::GivenUp(until), Lane::Poll(_)) if counts_on() => {
                tracing::debug!(name: "poll-given-up", ?lane, %until, "a poll's connection counts on");
                State::GivenUp(until)
            }
            _ => State::Free,
        };
        match fate {
            Fate::Unused => {}
            Fate::Answered(now) => place.answered_at = Some(now),
            Fate::Failed
            | Fate::Refused(_)
            | Fate::GivenUp(_)
            | Fate::TimedOut(_)
            | Fate::Dropped => place.answered_at = None,
        }
        self.held.extend(held_until);
        if let (Fate::Answered(_) | Fate::Refused(_) | Fate::Failed, Lane::Short(_)) = (fate, lane)
        {
            self.silence.ends();
        }
        match (fate, lane) {
            (Fate::Answered(_), _) if !was_open => {
                self.refusals = 0;
                if matches!(lane, Lane::Poll(_)) {
                    let twice = self.most_polls.max(1).saturating_mul(2);
                    self.most_polls = twice.min(self.polls.len());
                }
            }
            (Fate::Refused(_), _) => self.shut(),
            _ => {}
        }
        if let (Fate::Answered(now), Lane::Short(_)) = (fate, lane) {
            // There is a leader, so held requests are answered soon.
            let soon = now + LET_GO;
            self.held.iter_mut().for_each(|it| *it = soon.min(*it));
        }
    }

    /// A request of this priority was answered, or refused by a rate limit.
    pub(super) fn answered(&mut self, now: Instant, priority: Priority, is_refused: bool) {
        self.pass_time(now);
        self.rates.answered(now, priority, is_refused);
    }

    /// When a request of this priority that waits should look again: after the agent's rate limit, or in a
    /// silence.
    pub(super) fn waits_until(&self, priority: Priority) -> Option<Instant> {
        let until = self.rates.waits_until(self.now);
        let until = until.filter(|_| priority != Priority::Renewal);
        until.or_else(|| self.silence.waits_until(self.now))
    }

    /// Everyone who has a lane now, and whether its connection is open.
    pub(super) fn admit(&mut self) -> Vec<(W, Lane, bool)> {
        let mut admitted = Vec::new();
        while let Some(entry) = self.queue.first_entry() {
            if entry.get().has_gone() {
                entry.remove();
                continue;
            }
            let priority = entry.key().priority;
            if !self.rates.allows(self.now, priority) {
                break;
            }
            let Some(no) = self.free_short(priority) else {
                break;
            };
            if let Some((_, waiter)) = self.queue.pop_first() {
                admitted.push(self.take(Lane::Short(no), waiter));
            }
        }
        while !self.parked.is_empty()
            && let Some(no) = self.free_poll()
        {
            let Some((_, parked)) = self.parked.pop_first() else {
                break;
            };
            if !parked.place.has_gone() {
                admitted.push(self.take(Lane::Poll(no), parked.place));
            }
        }
        admitted
    }

    /// Whether a request could use an open connection.
    pub(super) fn has_open(&self) -> bool {
        (0..self.shorts.len()).any(|no| self.is_open(Lane::Short(no)))
    }

    /// The idle poll lanes with an open connection. Closing them makes room for others, and they
    /// count as closed from now on.
    pub(super) fn close_idle_polls(&mut self) -> Vec<Lane> {
        let idle = self.polls.iter_mut().enumerate();
        idle.filter(|(_, place)| matches!(place.state, State::Free))
            .filter_map(|(no, place)| place.answered_at.take().map(|_| Lane::Poll(no)))
            .collect()
    }

    /// `least` and up to a quarter more.
    pub(super) fn jitter(&mut self, least: Duration) -> Duration {
        jitter(least, least / 4, &mut self.rng)
    }

    /// When a parked poll reads next. All of them together read twice a second, unless they are many.
    pub(super) fn look_in(&mut self) -> Duration {
        let parked = u32::try_from(self.parked.len()).unwrap_or(u32::MAX);
        self.jitter(PARKED.min(PARKED_EACH.saturating_mul(parked.max(1))))
    }

    fn ticket(&mut self, priority: Priority) -> Ticket {
        self.last_ticket += 1;
        let no = self.last_ticket;
        Ticket { priority, no }
    }

    pub(super) fn pass_time(&mut self, now: Instant) {
        self.now = self.now.max(now);
        let now = self.now;
        self.held.retain(|until| now < *until);
        for place in &mut self.polls {
            if matches!(place.state, State::GivenUp(until) if until <= now) {
                place.state = State::Free;
            }
        }
    }

    fn shut(&mut self) {
        if self.is_shut() {
            return;
        }
        let step = FIRST_SHUT * 2_u32.pow(self.refusals.min(MOST_DOUBLINGS));
        self.refusals = self.refusals.saturating_add(1);
        let time = self.jitter(step);
        self.shut_until = self.now + time;
        if self.refusals == 1 {
            tracing::warn!(
                name: "connections-shut",
                ?time,
                "the agent, or the system, gives no further connection: requests share those that are open, and \
                 polls are replaced by reads; if the program makes more than one transport, share a transport: its clones use \
                 the same connections"
            );
        } else {
            tracing::debug!(name: "connections-shut", ?time, "there is still no further connection");
        }
        self.most_polls = self.busy_polls() / 2;
    }

    fn is_shut(&self) -> bool {
        self.now < self.shut_until
    }

    fn busy_polls(&self) -> usize {
        let is_busy = |it: &&Place| !matches!(it.state, State::Free);
        self.polls.iter().filter(is_busy).count()
    }

    fn busy_shorts(&self) -> usize {
        let is_busy = |it: &&Place| !matches!(it.state, State::Free);
        self.shorts.iter().filter(is_busy).count()
    }

    fn take(&mut self, lane: Lane, waiter: W) -> (W, Lane, bool) {
        let is_open = self.is_open(lane);
        let now = self.now;
        if let Lane::Short(_) = lane {
            let is_first = self.busy_shorts() == 0 && self.held.is_empty();
            self.silence.sent(now, is_first);
        }
        if let Some(place) = self.place(lane) {
            place.state = State::Taken(now);
            if !is_open {
                place.answered_at = None;
            }
        }
        (waiter, lane, is_open)
    }

    /// The short lane for a request of this priority, if it may have one.
    fn free_short(&self, priority: Priority) -> Option<usize> {
        let most_held = match priority {
            Priority::Renewal => MOST_HELD + HELD_BY_RENEWALS,
            _ => MOST_HELD,
        };
        if self.held.len() >= most_held || !self.silence.allows(self.now) {
            return None;
        }
        if self.silence.lasts(self.now) && self.busy_shorts() >= self.shorts.len().div_ceil(2) {
            return None;
        }
        let is_open = |no: &usize| self.is_open(Lane::Short(*no));
        let numbers = 0..self.shorts.len();
        // A stream needs no new connection.
        let usable: Vec<usize> = if self.is_shut() && !self.is_shared() {
            numbers.filter(is_open).collect()
        } else {
            numbers.collect()
        };
        if usable.is_empty() {
            // One request at a time checks whether a connection can be had. A request that has
            // waited longer than a refusal takes has a connection, though it may never get an
            // answer.
            let is_settled = |it: &Place| match it.state {
                State::Free => true,
                State::Taken(since) => self.now.saturating_since(since) >= AT_ONCE,
                State::GivenUp(_) => false,
            };
            let is_free = |it: &Place| matches!(it.state, State::Free);
            let all_settled = self.shorts.iter().all(is_settled);
            return all_settled.then(|| self.shorts.iter().position(is_free))?;
        }
        let kept_free = match priority {
            Priority::Renewal | Priority::Urgent => 0,
            _ => usable.len() / KEPT_FREE,
        };
        let is_free = |no: &usize| matches!(self.shorts[*no].state, State::Free);
        let mut free = usable.iter().copied().filter(is_free);
        if free.clone().count() <= kept_free {
            return None;
        }
        free.clone().find(is_open).or_else(|| free.next())
    }

    fn free_poll(&self) -> Option<usize> {
        let most = self.most_polls.clamp(1, self.polls.len().max(1));
        let is_limited = self.rates.waits_until(self.now).is_some();
        if is_limited || self.is_shut() || self.busy_polls() >= most {
            return None;
        }
        let is_free = |no: &usize| matches!(self.polls[*no].state, State::Free);
        let is_open = |no: &usize| self.is_open(Lane::Poll(*no));
        let mut free = (0..self.polls.len()).filter(is_free);
        free.clone().find(is_open).or_else(|| free.next())
    }

    fn is_open(&self, lane: Lane) -> bool {
        let place = match lane {
            Lane::Short(no) => self.shorts.get(no),
            Lane::Poll(no) => self.polls.get(no),
        };
        place.is_some_and(|place| {
            let idle = place.answered_at.map(|at| self.now.saturating_since(at));
            let is_taken = matches!(place.state, State::Taken(_));
            idle.is_some_and(|idle| is_taken || idle < lane.idle_time())
        })
    }

    fn place(&mut self, lane: Lane) -> Option<&mut Place> {
        match lane {
            Lane::Short(no) => self.shorts.get_mut(no),
            Lane::Poll(no) => self.polls.get_mut(no),
        }
    }
}

impl<W> Parked<W> {
    fn reads(&self, changed: &str) -> bool {
        if self.recurses {
            changed.starts_with(&self.path)
        } else {
            changed == self.path
        }
    }
}

/// The most long polls on shared connections. An agent keeps memory for each.
pub(super) const MOST_POLLS: usize = 1_000;

/// The least number of short lanes on a shared connection: as many as 64 separate connections have.
const SHARED_SHORTS: usize = 30;

/// One in 8 of the usable short lanes is reserved for urgent requests.
const KEPT_FREE: usize = 8;

/// The longest time for which an agent without a leader holds a request, measured on 1.23, plus an
/// eighth for the clocks.
const HELD: Duration = Duration::from_millis(20_250);

/// With this many given-up requests that an agent may hold, no other short request is sent.
/// Together with those under way that is less than the 200 that an agent allows.
const MOST_HELD: usize = 60;

/// Renewals may be sent up to this number beyond that.
const HELD_BY_RENEWALS: usize = 40;

/// How long an agent keeps applying held requests after an election: 4.7 s were measured.
const LET_GO: Duration = Duration::from_secs(5);

/// The longest time between two reads of a parked poll, plus up to a quarter of jitter, and its
/// part for each that is parked.
pub(super) const PARKED: Duration = Duration::from_secs(4);
const PARKED_EACH: Duration = Duration::from_millis(500);

/// How long no connection is opened after a refusal. It doubles with each refusal, up to sixteen
/// times.
const FIRST_SHUT: Duration = Duration::from_secs(2);
const MOST_DOUBLINGS: u32 = 4;
