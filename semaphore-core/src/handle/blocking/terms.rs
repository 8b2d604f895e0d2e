//! The loop of a service with one leader, on threads.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use super::{Election, Leadership};
use crate::error::{Error, Lost};
use crate::handle::terms::{Course, Plan, TermLimit, plan_options};
use crate::runtime::Runtime as _;

/// The options of [`Election::run`] on threads; see [`Terms`](crate::terms::Terms).
#[must_use = "nobody campaigns until it is run"]
pub struct Terms<'a> {
    election: Election,
    plan: Plan,
    on_elected: Option<Call<'a, Leadership>>,
    on_lost: Option<Call<'a, Lost>>,
}

/// A callback, which runs on the thread that leads.
type Call<'a, T> = Box<dyn FnMut(&T) + 'a>;

impl Election {
    /// Leads again and again, as [`Election::run`](crate::Election::run) does: campaigns, runs
    /// `work` with the leadership, resigns, and campaigns again, until a clone is shut down or
    /// closed. Nothing interrupts the work: it should ask [`Leadership::is_leader`] between two
    /// steps, and return when that is false.
    ///
    /// # Errors
    /// The same.
    pub fn run(&self, work: impl FnMut(&Leadership)) -> Result<(), Error> {
        self.terms().run(work)
    }

    /// The options of [`Self::run`].
    pub fn terms<'a>(&self) -> Terms<'a> {
        Terms {
            election: self.clone(),
            plan: Plan::new(),
            on_elected: None,
            on_lost: None,
        }
    }
}

impl<'a> Terms<'a> {
    plan_options! {
        /// See [`Terms::pause`](crate::terms::Terms::pause).
        fn pause(pause: Duration) = pause;

        /// See [`Terms::pause_after_refusal`](crate::terms::Terms::pause_after_refusal).
        fn pause_after_refusal(pause: Duration) = pause;

        /// See [`Terms::least`](crate::terms::Terms::least).
        fn least(least: Duration) = least;

        /// The longest term. After it, [`Leadership::is_leader`] is false and the work must return.
        /// There is no limit by default.
        fn longest(longest: Duration) = Some(longest);

        /// See [`Terms::hold_back`](crate::terms::Terms::hold_back).
        fn hold_back(time: Duration) = time;

        /// See [`Terms::at_most`](crate::terms::Terms::at_most).
        fn at_most(limit: &TermLimit) = Some(limit.clone());
    }

    /// Called when a term begins, before the work.
    pub fn on_elected(mut self, call: impl FnMut(&Leadership) + 'a) -> Self {
        self.on_elected = Some(Box::new(call));
        self
    }

    /// Called after the work has returned from a term that was lost or stepped down from. Not
    /// called for a term that reached its [longest](Self::longest) time.
    pub fn on_lost(mut self, call: impl FnMut(&Lost) + 'a) -> Self {
        self.on_lost = Some(Box::new(call));
        self
    }

    /// Leads again and again, as [`Election::run`] does, with these options. To learn who else
    /// leads, use [`Election::leaders`] on another thread.
    ///
    /// # Errors
    /// As [`Election::run`].
    pub fn run(mut self, mut work: impl FnMut(&Leadership)) -> Result<(), Error> {
        let Election { inner, thread } = self.election.clone();
        let mut course = Course::new(&inner, &self.plan);
        // The end of the runtime is an end as a closing is.
        while let Some((leadership, _place)) =
            thread.wait(course.next_term()).unwrap_or(Ok(None))?
        {
            let leadership = Leadership::new(leadership, Arc::clone(&thread));
            course.pause = self.lead(&leadership, &mut work);
        }
        Ok(())
    }

    /// Leads once. Returns how long to wait afterwards.
    fn lead(
        &mut self,
        leadership: &Leadership,
        work: &mut impl FnMut(&Leadership),
    ) -> Option<Duration> {
        let election = &self.election.inner;
        let began_at = election.runtime().now();
        if let Some(call) = &mut self.on_elected {
            call(leadership);
        }
        if let Some(longest) = self.plan.longest {
            election.step_down_after(longest, leadership.lost_signal());
        }
        work(leadership);
        let lasted = election.runtime().now().saturating_since(began_at);
        let missing = self.plan.least.saturating_sub(lasted);
        let lost = leadership.lost_timeout(missing);
        // A term that reached its longest time has ended as planned.
        let is_over = self.plan.longest.is_some_and(|longest| longest <= lasted);
        let lost = lost.filter(|lost| !(is_over && matches!(lost, Lost::SteppedDown)));
        if let (Some(lost), Some(call)) = (&lost, &mut self.on_lost) {
            call(lost);
        }
        leadership.inner.hold.release_behind();
        lost.is_none().then_some(self.plan.pause)
    }
}

impl fmt::Debug for Terms<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terms")
            .field("election", &self.election)
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}
