//! The invariants. Each is judged after every step, from the events and from who believes what.
//!
//! The crate `judge` judges everything that can be judged without looking into Consul, as for
//! chaos. `told` translates for it. Each of the other files is a check that needs more.

mod callers;
mod clean_end;
mod clouded;
mod everybody_gets_in;
mod farewells;
mod in_order;
mod key_through_acquire;
mod loss_is_noticed;
mod lost_is_kept;
mod no_live_holder_removed;
mod nothing_fails;
mod notices_are_true;
mod record_by_check_and_set;
mod release_goes_on;
mod request_rate;
mod slot_is_filled;
mod told;
mod troubles;
mod vacancy_filled;
mod vigour;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use semaphore_core::sans_io::Instant;

use crate::history::{Belief, Happening};
use crate::plan::Plan;

/// The invariants that the project promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "their documentation is the core's")]
pub enum Invariant {
    S1,
    S2,
    S3,
    S4,
    S5,
    L1,
    L2,
    L3,
    L4,
    Queue,
    /// The library's code did not panic, everything ended, and observers were told the truth.
    Soundness,
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}"))
    }
}

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which invariant was broken.
    pub invariant: Invariant,
    /// The moment on the true clock.
    pub at: Instant,
    /// A description.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.invariant, self.at, self.what)
    }
}

/// The result of a check: nothing, or how its invariant is broken.
type Verdict = Result<(), String>;

/// What a check has done. One that is never armed, or that always has an excuse, proves nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// How often something came that it is there for.
    pub armed: u64,
    /// How often it judged that, because there was no excuse.
    pub decided: u64,
}

impl Counts {
    /// Something came that the check is there for. `is_judged` says whether it has no excuse.
    fn came(&mut self, is_judged: bool) {
        self.armed += 1;
        self.decided += u64::from(is_judged);
    }

    /// Adds those of another run.
    pub fn add(&mut self, other: Self) {
        self.armed += other.armed;
        self.decided += other.decided;
    }
}

/// How often each check must decide in 600 worlds: about half as often as it was seen to.
pub const LEAST_DECIDED: &[(&str, u64)] = &[
    ("belief ends with its session", 150),
    ("clean end", 3_000),
    ("everybody gets in", 3_000),
    ("farewell gives back", 8),
    ("in order", 300),
    ("key through acquire", 5_000),
    ("leaders in their order", 6_000),
    ("leaders in time", 60_000),
    ("limit", 5_000),
    ("lock delay", 2_500),
    ("loss is noticed", 50),
    ("losses by the lease", 90),
    ("losses that were taken", 80),
    ("lost is kept", 6),
    ("no live holder removed", 5_000),
    ("nothing fails", 4_000),
    ("notices are true", 10_000),
    ("record by check-and-set", 5_000),
    ("release goes on", 3_500),
    ("request rate", 80_000),
    ("slot is filled", 2_500),
    ("tokens rise", 5_000),
    ("vacancy is filled", 1_300),
];

/// One invariant.
trait Check: Send {
    fn invariant(&self) -> Invariant;

    /// Its name in the figures, and what it has done.
    fn counts(&self) -> (&'static str, Counts);

    /// An event.
    fn happen(&mut self, at: Instant, what: &Happening) -> Verdict;

    /// The end of a step. All its events are known, and these are the beliefs now.
    fn settle(&mut self, _at: Instant, _held: &[&Belief]) -> Verdict {
        Ok(())
    }
}

/// The facts that the limits of the checks depend on.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The limit of a record that does not exist yet.
    pub limit: u32,
    /// Whether somebody writes another limit when nobody holds.
    pub changes_limits: bool,
    /// The longest wait of a participant between two attempts of a request.
    pub retry_cap: Duration,
    /// The longest that a message travels.
    pub latency: Duration,
    /// The shortest lock delay of our sessions in elections.
    pub lock_delay: Duration,
    /// The longest lock delay of all sessions.
    pub longest_lock_delay: Duration,
    /// The longest that a session outlives its process.
    pub longest_session: Duration,
    /// The longest time without contact after a lost poll.
    pub lost_poll: Duration,
    /// The longest lease that a former leader can give, if there is one. On a separate node, the
    /// session does not end with that leader's server.
    pub of_yesterday: Option<Duration>,
    /// The longest that a request of ours takes.
    pub request_timeout: Duration,
    /// Whether messages are so slow that an answer may come after its request was given up.
    pub is_slow: bool,
}

impl Bounds {
    /// The bounds of a plan.
    pub fn of(plan: &Plan) -> Self {
        Self {
            limit: plan.limit,
            changes_limits: plan.hosts.iter().any(|it| it.rolling.is_some()),
            retry_cap: plan.retry_cap(),
            latency: plan.latency,
            lock_delay: plan.shortest_lock_delay(),
            longest_lock_delay: plan.longest_lock_delay(),
            longest_session: plan.longest_session(),
            lost_poll: plan.lost_poll(),
            of_yesterday: plan.lease_of_yesterday(),
            request_timeout: plan.request_timeout(),
            is_slow: plan.is_slow(),
        }
    }
}

/// All checks of one run.
pub struct Judge {
    told: told::Told,
    checks: Vec<Box<dyn Check>>,
}

impl Judge {
    /// A judge that has seen nothing yet.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            told: told::Told::new(bounds),
            checks: vec![
                Box::new(loss_is_noticed::LossIsNoticed::default()),
                Box::new(lost_is_kept::LostIsKept::default()),
                Box::new(no_live_holder_removed::NoLiveHolderRemoved::default()),
                Box::new(record_by_check_and_set::RecordByCheckAndSet::new(bounds)),
                Box::new(release_goes_on::ReleaseGoesOn::new(bounds)),
                Box::new(farewells::Farewells::new(bounds)),
                Box::new(key_through_acquire::KeyThroughAcquire::default()),
                Box::new(everybody_gets_in::EverybodyGetsIn::default()),
                Box::new(in_order::InOrder::new(bounds)),
                Box::new(slot_is_filled::SlotIsFilled::new(bounds)),
                Box::new(vacancy_filled::VacancyFilled::new(bounds)),
                Box::new(clean_end::CleanEnd::new(bounds)),
                Box::new(request_rate::RequestRate::new(bounds)),
                Box::new(nothing_fails::NothingFails::new(bounds)),
                Box::new(notices_are_true::NoticesAreTrue::default()),
            ],
        }
    }

    /// Judges an event.
    ///
    /// # Errors
    /// The first invariant that it breaks.
    pub fn happen(&mut self, at: Instant, what: &Happening) -> Result<(), Violation> {
        self.told.happen(at, what)?;
        self.ask(at, |check| check.happen(at, what))
    }

    /// Judges the end of a step, with the beliefs at this moment.
    ///
    /// # Errors
    /// The first invariant that is broken.
    pub fn settle(&mut self, at: Instant, held: &[&Belief]) -> Result<(), Violation> {
        self.told.settle(at, held)?;
        self.ask(at, |check| check.settle(at, held))
    }

    /// What each check has done so far.
    pub fn counts(&self) -> BTreeMap<&'static str, Counts> {
        let own = self.checks.iter().map(|check| check.counts());
        self.told.counts().into_iter().chain(own).collect()
    }

    fn ask(
        &mut self,
        at: Instant,
        mut ask: impl FnMut(&mut dyn Check) -> Verdict,
    ) -> Result<(), Violation> {
        for check in &mut self.checks {
            let invariant = check.invariant();
            let Err(what) = ask(&mut **check) else {
                continue;
            };
            return Err(Violation {
                invariant,
                at,
                what,
            });
        }
        Ok(())
    }
}
