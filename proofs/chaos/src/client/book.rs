//! Records a process's beliefs.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{io, process, slice};

use fastrand::Rng;
use semaphore_core::{Error, LeaderEvent, Leadership, Lost, Permit, Sequencer, blocking};

use super::Plan;
use super::turn::Turn;
use crate::diary::Diary;
use crate::failure::in_words;
use crate::moment::Moment;
use crate::record::{Belief, Change, Outcome, Place, Reason, Sight};

/// The log of a process, and when the process must stop.
pub(super) struct Book {
    diary: Diary<Belief>,
    stop: AtomicBool,
    leave: AtomicBool,
    closers: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
    acquires: AtomicU64,
    seed: u64,
    name: String,
    pub(super) holds_long: bool,
}

/// One acquisition in the log.
#[derive(Clone, Copy)]
pub(super) struct Entry<'b> {
    book: &'b Book,
    acquire: u64,
}

impl Book {
    pub(super) fn open(path: &Path, plan: &Plan) -> io::Result<Self> {
        Ok(Self {
            diary: Diary::open(path)?,
            stop: AtomicBool::default(),
            leave: AtomicBool::default(),
            closers: Mutex::default(),
            acquires: AtomicU64::new(0),
            seed: plan.seed,
            name: plan.name(),
            holds_long: plan.holds_long,
        })
    }

    /// Whether nothing new may begin.
    pub(super) fn must_stop(&self) -> bool {
        self.stop.load(Ordering::SeqCst) || self.must_leave()
    }

    /// Whether nothing may be waited for either.
    pub(super) fn must_leave(&self) -> bool {
        self.leave.load(Ordering::SeqCst)
    }

    /// From now on, the process ends in order.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    /// From now on, the process ends in a hurry. Waiters learn that it is closed.
    pub(super) fn leave(&self) {
        self.leave.store(true, Ordering::SeqCst);
        for close in core::mem::take(&mut *self.closers()) {
            close();
        }
    }

    /// What must be closed when the process leaves.
    pub(super) fn closes(&self, close: impl FnOnce() + Send + 'static) {
        self.closers().push(Box::new(close));
    }

    fn closers(&self) -> MutexGuard<'_, Vec<Box<dyn FnOnce() + Send>>> {
        self.closers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The random numbers of the contender with this number.
    pub(super) fn rng(&self, contender: u32) -> Rng {
        Rng::with_seed(self.seed ^ (u64::from(contender) << 32))
    }

    pub(super) fn wanted(&self, place: &Place, turn: &Turn) -> Entry<'_> {
        let acquire = self.acquires.fetch_add(1, Ordering::Relaxed);
        let (prefix, permits, way) = (place.prefix.clone(), turn.permits, turn.way);
        self.write(
            Moment::now(),
            Belief::Wanted {
                acquire,
                prefix,
                permits,
                way,
            },
        );
        Entry {
            book: self,
            acquire,
        }
    }

    pub(super) fn saw(&self, place: &Place, event: &Result<LeaderEvent, Error>) {
        let prefix = place.prefix.clone();
        let sight = sight(event);
        self.write(Moment::now(), Belief::Saw { prefix, sight });
    }

    /// Writes the last line.
    pub(super) fn end(&self) {
        let last = if self.must_leave() {
            Belief::Left
        } else {
            Belief::Stopped
        };
        self.write(Moment::now(), last);
    }

    /// If a belief can't be written, the process ends, since the judgement would lack it.
    fn write(&self, at: Moment, event: Belief) {
        if let Err(error) = self.diary.write(at, event) {
            eprintln!("a belief could not be written: {error}");
            process::exit(1);
        }
    }
}

impl Entry<'_> {
    pub(super) fn granted(self, permit: &impl Hold) {
        let (at, until) = ask(permit);
        let sessions = permit.sequencers().iter();
        let event = Belief::Granted {
            acquire: self.acquire,
            token: permit.token(),
            sessions: sessions.map(|found| found.session.to_string()).collect(),
            until,
        };
        self.book.write(at, event);
    }

    /// Asks whether it still holds, as before each action.
    pub(super) fn beat(self, permit: &impl Hold) {
        let acquire = self.acquire;
        let (at, until) = ask(permit);
        let event = match until {
            Some(until) => Belief::Held { acquire, until },
            None => Belief::NotHeld { acquire },
        };
        self.book.write(at, event);
    }

    pub(super) fn lost(self, lost: &Lost) {
        let event = Belief::Lost {
            acquire: self.acquire,
            reason: reason(lost),
            words: in_words(lost),
        };
        self.book.write(Moment::now(), event);
    }

    /// The `number`th value that the election's key should show.
    pub(super) fn words(self, number: u32) -> String {
        let (name, acquire) = (&self.book.name, self.acquire);
        format!("{name} acquire {acquire} says {number}")
    }

    pub(super) fn said(self, value: String, result: &Result<(), Error>) {
        let event = Belief::Said {
            acquire: self.acquire,
            value,
            outcome: match result {
                Ok(()) => Change::Done,
                Err(Error::Lost(_)) => Change::Lost,
                Err(_) => Change::Failed,
            },
            words: result.as_ref().err().map(|error| in_words(error)),
        };
        self.book.write(Moment::now(), event);
    }

    pub(super) fn ending(self, permit: &impl Hold) {
        let (at, until) = ask(permit);
        let event = Belief::Ending {
            acquire: self.acquire,
            held: until.is_some(),
        };
        self.book.write(at, event);
    }

    pub(super) fn ended(self, result: &Result<(), Error>) {
        let event = Belief::Ended {
            acquire: self.acquire,
            error: result.as_ref().err().map(|error| in_words(error)),
        };
        self.book.write(Moment::now(), event);
    }

    pub(super) fn refused(self) {
        self.not_granted(Outcome::Refused, None);
    }

    pub(super) fn cancelled(self) {
        self.not_granted(Outcome::Cancelled, None);
    }

    pub(super) fn failed(self, error: &Error) {
        // A leaving process gave it up, which says nothing about Consul.
        if matches!(error, Error::Closed { .. }) {
            return self.cancelled();
        }
        let outcome = match error {
            Error::Timeout { .. } => Outcome::TimedOut,
            _ => Outcome::Failed,
        };
        self.not_granted(outcome, Some(in_words(error)));
    }

    fn not_granted(self, outcome: Outcome, words: Option<String>) {
        let event = Belief::NotGranted {
            acquire: self.acquire,
            outcome,
            words,
        };
        self.book.write(Moment::now(), event);
    }
}

/// The questions to a permit or a leadership, for tasks and for threads.
pub(super) trait Hold {
    fn is_held(&self) -> bool;
    fn remaining(&self) -> Duration;
    fn token(&self) -> u64;
    fn sequencers(&self) -> &[Sequencer];
}

macro_rules! hold {
    ($hold:ty, $is_held:ident, |$it:ident| $sequencers:expr) => {
        impl Hold for $hold {
            fn is_held(&self) -> bool {
                self.$is_held()
            }
            fn remaining(&self) -> Duration {
                self.remaining()
            }
            fn token(&self) -> u64 {
                self.fencing_token().0
            }
            fn sequencers(&self) -> &[Sequencer] {
                let $it = self;
                $sequencers
            }
        }
    };
}

hold!(Permit, is_held, |it| it.sequencers());
hold!(blocking::Permit, is_held, |it| it.sequencers());
hold!(Leadership, is_leader, |it| slice::from_ref(it.sequencer()));
hold!(blocking::Leadership, is_leader, |it| slice::from_ref(
    it.sequencer()
));

/// The moment just before asking, and the end of the lease if it is held. A pause between the two
/// can only make the end too early.
fn ask(permit: &impl Hold) -> (Moment, Option<Moment>) {
    let at = Moment::now();
    let remaining = permit.remaining();
    (at, permit.is_held().then(|| at.plus(remaining)))
}

fn reason(lost: &Lost) -> Reason {
    match lost {
        Lost::SessionGone { .. } => Reason::SessionGone,
        Lost::RemovedFromHolders { .. } => Reason::RemovedFromHolders,
        Lost::ContenderKeyTaken { .. } => Reason::ContenderKeyTaken,
        Lost::KeyReleased { .. } => Reason::KeyReleased,
        Lost::KeyTaken { .. } => Reason::KeyTaken,
        Lost::KeyDeleted { .. } => Reason::KeyDeleted,
        Lost::KeyOverwritten { .. } => Reason::KeyOverwritten,
        Lost::LeaseExpired { .. } => Reason::LeaseExpired,
        Lost::RuntimeEnded { .. } => Reason::RuntimeEnded,
        _ => Reason::Unknown,
    }
}

fn sight(event: &Result<LeaderEvent, Error>) -> Sight {
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    match event {
        Ok(LeaderEvent::Elected(leader) | LeaderEvent::ValueChanged(leader)) => Sight::Led {
            session: leader.session.to_string(),
            term: leader.lock_index,
            value: text(&leader.value),
        },
        Ok(LeaderEvent::Leaderless { last_value }) => Sight::Leaderless {
            value: last_value.as_deref().map(text),
        },
        Ok(LeaderEvent::Interrupted(_)) => Sight::Interrupted,
        Ok(LeaderEvent::Resumed) => Sight::Resumed,
        Ok(other) => Sight::Failed {
            words: format!("unknown: {other:?}"),
        },
        Err(error) => Sight::Failed {
            words: in_words(error),
        },
    }
}
