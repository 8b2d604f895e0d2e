//! What is read: at most one read that is answered at once, and one poll (rule 6).

use core::time::Duration;

use super::Settings;
use super::rules::POLL;
use crate::api::{ListKeys, ReadKey};
use crate::defect::{Defect, is_on};
use crate::http::{Priority, Request};
use crate::id::{Index, SessionId};
use crate::machine::process::moment::Moment;
use crate::machine::process::reader::budget::Budget;
use crate::machine::process::reader::check::Reads as Readers;
use crate::machine::process::reader::pause::Pause;
use crate::time::Instant;

/// What must be read before anything else follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    Nothing,
    /// The record, which others have moved on.
    Record,
    List,
    /// A list that the leader confirms with the majority: what another one said was older than what
    /// we know, or lacks a key of ours.
    ConfirmedList,
}

/// A read that is answered at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    Record,
    List { is_confirmed: bool },
}

/// Whom a poll watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Record,
    Prefix,
    /// The waiter just ahead.
    Ahead(SessionId),
    /// The key of a holder of ours, while nobody of ours waits.
    Own(SessionId),
}

#[derive(Clone, Debug)]
pub(super) struct Reads {
    /// Who looks after a participant that only waits: itself, or the process.
    pub(super) readers: Readers,
    due: Due,
    /// A key ahead was seen touched: the record is read before the next claim (rule 5).
    pub(super) is_touched: bool,
    read: Option<(Read, Moment, Instant)>,
    poll: Option<Poll>,
    /// After an error, or an answer that was ignored.
    pause: Pause,
    poll_pause: Pause,
    budget: Budget,
    /// How long the last read took.
    round_trip: Duration,
    /// When a tree last showed a name without a key, so that a list was asked for.
    keyless_at: Option<Instant>,
}

/// The poll under way.
#[derive(Clone, Debug)]
struct Poll {
    target: Target,
    from: Index,
    sent_at: Instant,
    wait: Duration,
}

/// How long a holder's key is polled at a time.
const HOLDER_POLL: Duration = Duration::from_secs(60);

/// A participant begins at most 300 reads a second, over ten seconds (rule 10).
const READ_INTERVAL: Duration = Duration::from_micros(3_333);
const READ_BURST: u32 = 3_000;

impl Reads {
    pub(super) fn new(settings: &Settings) -> Self {
        let longest = settings.session.request_timeout();
        Self {
            readers: Readers::at_first(&settings.session),
            due: Due::Nothing,
            is_touched: false,
            read: None,
            poll: None,
            pause: Pause::new(longest),
            poll_pause: Pause::new(longest),
            budget: Budget::new(READ_INTERVAL, READ_BURST),
            round_trip: Duration::ZERO,
            keyless_at: None,
        }
    }

    pub(super) fn due(&self) -> Due {
        self.due
    }

    /// This, or more, must be read.
    pub(super) fn require(&mut self, due: Due) {
        self.due = self.due.max(due);
    }

    /// What was required was read.
    pub(super) fn satisfied(&mut self, by: Due) {
        if self.due <= by {
            self.due = Due::Nothing;
        }
    }

    pub(super) fn is_reading(&self) -> bool {
        self.read.is_some()
    }

    pub(super) fn round_trip(&self) -> Duration {
        self.round_trip
    }

    /// The read that is due, if it may be sent now.
    pub(super) fn next(&mut self, now: Instant, reads_record: bool) -> Option<Read> {
        if self.read.is_some() || !self.pause.is_over(now) {
            return None;
        }
        match self.due {
            Due::ConfirmedList => Some(Read::List { is_confirmed: true }),
            Due::List => Some(Read::List {
                is_confirmed: false,
            }),
            Due::Record => Some(Read::Record),
            Due::Nothing => reads_record.then_some(Read::Record),
        }
    }

    pub(super) fn sent(&mut self, read: Read, moment: Moment, now: Instant) {
        self.budget.take(now);
        self.read = Some((read, moment, now));
    }

    /// Its answer is here.
    pub(super) fn answered(&mut self, now: Instant) -> Option<(Read, Moment, Instant)> {
        let read = self.read.take()?;
        self.round_trip = now.saturating_since(read.2);
        Some(read)
    }

    pub(super) fn failed(&mut self, now: Instant, rng: &mut fastrand::Rng) {
        self.pause.begin(now, rng);
    }

    pub(super) fn succeeded(&mut self) {
        self.pause.end();
        self.pause.reset();
    }

    /// Whether a tree with a name without a key asks for a list, not again within `patience`.
    pub(super) fn saw_keyless(&mut self, now: Instant, patience: Duration) -> bool {
        let is_new = self.keyless_at.is_none_or(|at| at + patience <= now);
        if is_new {
            self.keyless_at = Some(now);
        }
        is_new
    }

    /// Whom the poll under way watches.
    pub(super) fn polled(&self) -> Option<&Target> {
        self.poll.as_ref().map(|poll| &poll.target)
    }

    /// Whether a poll may begin now.
    pub(super) fn may_poll(&mut self, now: Instant) -> bool {
        self.poll.is_none()
            && self.read.is_none()
            && self.due == Due::Nothing
            && self.poll_pause.is_over(now)
            && self.budget.ready_at() <= now
    }

    pub(super) fn poll_sent(&mut self, now: Instant, target: Target, from: Index) {
        let wait = wait(&target);
        self.budget.take(now);
        self.poll = Some(Poll {
            target,
            from,
            sent_at: now,
            wait,
        });
    }

    /// It has ended: whom it watched, from which index, and whether that was before its time.
    pub(super) fn poll_ended(&mut self, now: Instant) -> Option<(Target, Index, bool)> {
        let poll = self.poll.take()?;
        // Its clock may run slow by as much.
        let is_early = now.saturating_since(poll.sent_at) < poll.wait / 10 * 9;
        Some((poll.target, poll.from, is_early))
    }

    pub(super) fn poll_failed(&mut self, now: Instant, rng: &mut fastrand::Rng) {
        self.poll_pause.begin(now, rng);
        if is_on(Defect::WatchStoppedAfterTransient) {
            self.poll_pause.hold_until(now + HOLDER_POLL * 60);
        }
    }

    pub(super) fn poll_succeeded(&mut self) {
        self.poll_pause.reset();
    }

    /// When a poll is given up that was not answered. It may have waited for a connection all the time.
    pub(super) fn poll_late_at(&self) -> Option<Instant> {
        self.poll.as_ref().map(|poll| poll.sent_at + poll.wait * 2)
    }

    /// Gives the poll up.
    pub(super) fn drop_poll(&mut self) -> bool {
        self.poll.take().is_some()
    }

    pub(super) fn forget(&mut self, settings: &Settings) {
        *self = Self {
            readers: self.readers,
            budget: self.budget.clone(),
            ..Self::new(settings)
        };
    }

    /// When the next read or poll may begin, if one waits for its time. `wants_poll`: whether one is
    /// wanted.
    pub(super) fn timeout(&self, now: Instant, wants_poll: bool) -> Option<Instant> {
        let read = self.pause.timeout().filter(|_| self.read.is_none());
        let wants_poll = wants_poll && self.poll.is_none() && self.read.is_none();
        let poll = wants_poll.then(|| self.poll_pause.due().max(self.budget.ready_at()));
        let late = self.poll_late_at();
        let later = [read, poll, late]
            .into_iter()
            .flatten()
            .filter(|at| *at > now);
        later.min()
    }
}

fn wait(target: &Target) -> Duration {
    match target {
        Target::Own(_) => HOLDER_POLL,
        Target::Record | Target::Prefix | Target::Ahead(_) => POLL,
    }
}

impl Read {
    pub(super) fn request(self, settings: &Settings) -> Request {
        let request = match self {
            Self::Record => ReadKey {
                key: &settings.prefix.record_key(),
                wait: None,
                consistent: false,
            }
            .request(settings.scope()),
            Self::List { is_confirmed } => ListKeys {
                prefix: &settings.prefix,
                wait: None,
                consistent: is_confirmed,
            }
            .request(settings.scope()),
        };
        // A write waits for it.
        request.with_priority(Priority::Write)
    }
}

impl Target {
    /// The poll of it from this index. `ahead`: how many wait ahead of us.
    pub(super) fn request(&self, from: Index, ahead: u32, settings: &Settings) -> Request {
        let wait = Some((from, wait(self)));
        let key = match self {
            Self::Record => settings.prefix.record_key(),
            Self::Ahead(session) | Self::Own(session) => settings.prefix.contender_key(session),
            Self::Prefix => String::new(),
        };
        let request = match self {
            Self::Prefix => ListKeys {
                prefix: &settings.prefix,
                wait,
                consistent: false,
            }
            .request(settings.scope()),
            Self::Record | Self::Ahead(_) | Self::Own(_) => ReadKey {
                key: &key,
                wait,
                consistent: false,
            }
            .request(settings.scope()),
        };
        if request.is_long_poll() {
            request.with_priority(Priority::Poll { ahead })
        } else {
            request
        }
    }
}
