//! The loop of a service with one leader: one term after the other, until the election is closed.
//!
//! ```text
//!             elected                    the work has ended, or the term is as long as it may be
//!  campaign ───────────▶ work, resign ─────────────────────▶ pause ──┐
//!   ▲ ▲ │                     │ lost: the work is dropped first      │
//!   │ └─┼─────────────────────┘                                      │
//!   │   │ refused: told at the beginning, waited out later           │
//!   └───┴────────────────────────────────────────────────────────────┘
//! ```
//! | file | has |
//! |---|---|
//! | this one | the options, the loop, and what becomes of a campaign that fails |
//! | `standby` | how those campaign who let others go first, or lead few elections at once |
//! | `limit` | how many elections one process leads |

mod limit;
mod standby;

use core::convert::Infallible;
use core::fmt;
use core::future::{Future, pending};
use core::pin::pin;
use core::time::Duration;
use std::sync::Arc;

use futures_util::future::{Either, select};

pub use self::limit::TermLimit;
use self::limit::TermPlace;
use self::standby::Watch;
use super::election::Election;
use super::leadership::Leadership;
use super::lost_signal::LostSignal;
use crate::error::{Error, Lost};
use crate::leader::Leader;
use crate::machine::LeaderEvent;
use crate::runtime::Runtime as _;
use crate::time::Instant;

/// The options of a service that leads again and again. [`Election::terms`] makes it.
///
/// ```
/// use std::num::NonZeroUsize;
/// use std::sync::Arc;
/// use std::time::Duration;
/// use semaphore_core::terms::TermLimit;
/// use semaphore_core::{Election, Error, Leadership};
/// # use transport_mock::MockConsul;
///
/// # let world = MockConsul::new(1);
/// # let transport = world.client("node-1");
/// # async fn serve(_: Arc<Leadership>) {}
/// # world.run(async {
/// let few = TermLimit::new(NonZeroUsize::new(8).unwrap()); // as many as this process can serve
/// let shard = Election::builder("shards/17/leader").connect(transport)?;
/// # shard.close();
/// shard
///     .terms()
///     .at_most(&few)
///     .longest(Duration::from_secs(3_600))
///     .on_new_leader(|leader| println!("{:?} leads", leader.text()))
///     .run(serve)
///     .await?;
/// # Ok::<(), Error>(())
/// # })?;
/// # Ok::<(), Error>(())
/// ```
#[must_use = "nobody campaigns until it is run"]
pub struct Terms<'a> {
    election: Election,
    plan: Plan,
    on_elected: Option<Call<'a, Leadership>>,
    on_lost: Option<Call<'a, Lost>>,
    on_new_leader: Option<Call<'a, Leader>>,
}

/// A callback.
type Call<'a, T> = Box<dyn FnMut(&T) + Send + 'a>;

/// A refusal within this time was there from the beginning.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Without a pause, a campaign would follow as fast as Consul refuses.
const LEAST_PAUSE_AFTER_REFUSAL: Duration = Duration::from_millis(100);

/// The settings of the loop.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The time for other candidates after a term that was not lost.
    pub(super) pause: Duration,
    pub(super) pause_after_refusal: Duration,
    pub(super) least: Duration,
    pub(super) longest: Option<Duration>,
    pub(super) hold_back: Duration,
    pub(super) at_most: Option<TermLimit>,
}

impl Plan {
    pub(super) fn new() -> Self {
        Self {
            pause: Duration::from_secs(1),
            pause_after_refusal: Duration::from_secs(5),
            least: Duration::ZERO,
            longest: None,
            hold_back: Duration::ZERO,
            at_most: None,
        }
    }

    /// Campaigns according to the plan. Also returns its place under the limit. `watch` is nothing
    /// at first, and kept for the next campaign.
    async fn campaign(
        &self,
        election: &Election,
        watch: &mut Option<Watch>,
    ) -> Result<(Leadership, TermPlace), Error> {
        if self.at_most.is_none() && self.hold_back.is_zero() {
            return Ok((election.campaign().await?, TermPlace::default()));
        }
        let campaigning = watch.get_or_insert_with(|| Watch::new(election));
        let campaigned = campaigning.campaign(self.hold_back, self.at_most.as_ref());
        let elected = campaigned.await?;
        // A leader needs none.
        *watch = None;
        Ok(elected)
    }
}

/// Writes the methods that set the option of this name in the plan.
macro_rules! plan_options {
    ($($(#[$doc:meta])* fn $option:ident($arg:ident: $type:ty) = $value:expr;)*) => {$(
        $(#[$doc])*
        pub fn $option(mut self, $arg: $type) -> Self {
            self.plan.$option = $value;
            self
        }
    )*};
}
pub(super) use plan_options;

/// One term of a candidate after the other.
pub(super) struct Course {
    election: Election,
    plan: Plan,
    watch: Option<Watch>,
    began_at: Instant,
    has_led: bool,
    /// The wait before the next campaign.
    pub(super) pause: Option<Duration>,
}

impl Course {
    /// Begins now.
    pub(super) fn new(election: &Election, plan: &Plan) -> Self {
        Self {
            election: election.clone(),
            plan: plan.clone(),
            watch: None,
            began_at: election.runtime().now(),
            has_led: false,
            pause: None,
        }
    }

    /// Campaigns until it leads. Returns the place under the limit, too. `None` if the election is
    /// closed.
    ///
    /// # Errors
    /// A refusal that was there from the beginning. Later ones are logged.
    pub(super) async fn next_term(&mut self) -> Result<Option<(Leadership, TermPlace)>, Error> {
        loop {
            let runtime = self.election.runtime();
            if let Some(pause) = self.pause.take() {
                runtime.sleep(pause).await;
            }
            let campaign = self.plan.campaign(&self.election, &mut self.watch).await;
            let lasts = runtime.now().saturating_since(self.began_at);
            match campaign {
                Ok(elected) => {
                    self.has_led = true;
                    return Ok(Some(elected));
                }
                Err(Error::Closed { .. }) => return Ok(None),
                Err(error) if !self.has_led && lasts < AT_ONCE => return Err(error),
                Err(error) => {
                    let error: &dyn core::error::Error = &error;
                    tracing::warn!(name: "campaign-refused", error, "a campaign was refused, and follows again");
                    let pause = self.plan.pause_after_refusal;
                    self.pause = Some(pause.max(LEAST_PAUSE_AFTER_REFUSAL));
                }
            }
        }
    }
}

impl Election {
    /// Leads again and again: campaigns, runs `work` with the leadership, resigns, and campaigns
    /// again, until any clone of the election is [shut down](Self::shutdown) or
    /// [closed](Self::close). [`Self::terms`] has its options.
    ///
    /// - **Loss**: when the leadership is lost, the work's future is dropped at once, and then it
    ///   campaigns again. Tasks that the work has spawned continue: they should watch the
    ///   leadership, too.
    /// - **The end of the work**: when its future has ended, it resigns. After a second, in which
    ///   another candidate can lead, it campaigns again.
    /// - **A shutdown** steps down, which ends the work as a loss does. The loop returns within
    ///   five seconds after it.
    /// - **A permanent refusal**, such as a token without permission or a key that is not an
    ///   election's: as the first answer it ends the loop with an error. Later it is logged, and
    ///   the loop tries again after five seconds.
    ///
    /// ```
    /// use semaphore_core::{Election, Error};
    /// # use transport_mock::MockConsul;
    ///
    /// # let world = MockConsul::new(1);
    /// # let transport = world.client("node-1");
    /// # world.run(async {
    /// let election = Election::builder("service/db/leader").value("node-1").connect(transport)?;
    /// let closing = election.clone();
    /// let work = |leadership: std::sync::Arc<semaphore_core::Leadership>| {
    ///     let closing = closing.clone();
    ///     async move {
    ///         println!("leads with {}", leadership.fencing_token());
    ///         closing.close(); // for instance when the service is told to stop
    ///     }
    /// };
    /// election.run(work).await?;
    /// election.shutdown().await;
    /// # Ok::<(), Error>(())
    /// # })?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::campaign`], except [`Error::Closed`], which ends the loop without an error.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work, and resigns in the background.
    pub async fn run<W, F>(&self, work: W) -> Result<(), Error>
    where
        W: FnMut(Arc<Leadership>) -> F,
        F: Future<Output = ()>,
    {
        self.terms().run(work).await
    }

    /// Ends this signal's term after the longest time, in the background.
    pub(super) fn step_down_after(&self, longest: Duration, lost: LostSignal) {
        let election = self.clone();
        let ends = async move {
            let passed = pin!(election.runtime().sleep(longest));
            if matches!(select(lost, passed).await, Either::Right(_)) {
                // What could not be cleaned up continues in the background.
                let _ = election.step_down().await;
            }
        };
        // If no task can be run, the term continues; its driver can't run either.
        let _ = self.runtime().spawn(Box::pin(ends));
    }

    /// The options of [`Self::run`]: the length of terms, who goes first, how many elections this
    /// process leads, and callbacks.
    pub fn terms<'a>(&self) -> Terms<'a> {
        Terms {
            election: self.clone(),
            plan: Plan::new(),
            on_elected: None,
            on_lost: None,
            on_new_leader: None,
        }
    }
}

impl<'a> Terms<'a> {
    plan_options! {
        /// Sets how long it does not campaign after a term that was not lost, so that another candidate
        /// can lead. The default is 1 s.
        fn pause(pause: Duration) = pause;

        /// Sets how long it waits after a campaign that Consul refused, 100 ms at least. The default is
        /// 5 s.
        fn pause_after_refusal(pause: Duration) = pause;

        /// Sets the shortest term. If the work ends sooner, the key is kept until then, unless the term
        /// is lost. So work that fails at once does not move from candidate to candidate without a
        /// rest. The default is none.
        fn least(least: Duration) = least;

        /// Sets the longest term. After it the work is dropped, and it resigns. The default is no
        /// limit.
        fn longest(longest: Duration) = Some(longest);

        /// Lets others go first: it campaigns only after nobody has led for this time. Use 0 for the
        /// preferred candidate, and more for those that lead only if it can't. With [`Self::longest`]
        /// the preferred candidate leads again after a while. The default is 0.
        ///
        /// If another candidate is faster, this one may follow without waiting within that candidate's
        /// first five seconds.
        fn hold_back(time: Duration) = time;

        /// Campaigns only while this process leads fewer elections than `limit` allows. All elections
        /// with this limit count. If the limits of all processes together are too low, some elections
        /// have no leader.
        ///
        /// It caps what a process leads, and does not spread: those that come first lead as many as
        /// they may, and keep them. To spread elections over processes, let each process
        /// [hold back](Self::hold_back) for those that are meant for others.
        fn at_most(limit: &TermLimit) = Some(limit.clone());
    }

    /// Called when a term begins, before the work is started.
    pub fn on_elected(mut self, call: impl FnMut(&Leadership) + Send + 'a) -> Self {
        self.on_elected = Some(Box::new(call));
        self
    }

    /// Called when a term was lost or stepped down from, after the work was dropped. Not called if
    /// the work has ended, or the term reached its longest time.
    pub fn on_lost(mut self, call: impl FnMut(&Lost) + Send + 'a) -> Self {
        self.on_lost = Some(Box::new(call));
        self
    }

    /// Called for each new leader of the election, wherever it is, beginning with the present one.
    /// It costs a poll of the key, which all followers of this election share.
    pub fn on_new_leader(mut self, call: impl FnMut(&Leader) + Send + 'a) -> Self {
        self.on_new_leader = Some(Box::new(call));
        self
    }

    /// Leads again and again, as [`Election::run`] does, with these options.
    ///
    /// # Errors
    /// As [`Election::run`].
    ///
    /// # Cancel safety
    /// As [`Election::run`].
    pub async fn run<W, F>(mut self, work: W) -> Result<(), Error>
    where
        W: FnMut(Arc<Leadership>) -> F,
        F: Future<Output = ()>,
    {
        let watch = pin!(watch(self.election.clone(), self.on_new_leader.take()));
        let terms = pin!(self.lead_again_and_again(work));
        match select(terms, watch).await {
            Either::Left((end, _)) => end,
            Either::Right((never, _)) => match never {},
        }
    }

    async fn lead_again_and_again<W, F>(mut self, mut work: W) -> Result<(), Error>
    where
        W: FnMut(Arc<Leadership>) -> F,
        F: Future<Output = ()>,
    {
        let mut course = Course::new(&self.election, &self.plan);
        while let Some((leadership, _place)) = course.next_term().await? {
            course.pause = self.lead(leadership, &mut work).await;
        }
        Ok(())
    }

    /// Leads once. Returns how long to wait afterwards.
    async fn lead<W, F>(&mut self, leadership: Leadership, work: &mut W) -> Option<Duration>
    where
        W: FnMut(Arc<Leadership>) -> F,
        F: Future<Output = ()>,
    {
        let leadership = Arc::new(leadership);
        if let Some(call) = &mut self.on_elected {
            call(&leadership);
        }
        let (election, plan) = (&self.election, &self.plan);
        let lost = {
            let work = work(Arc::clone(&leadership));
            let term = pin!(async {
                let work = pin!(work);
                select(
                    pin!(least(election, plan, work)),
                    pin!(longest(election, plan)),
                )
                .await;
            });
            // The loss comes first: the work must do nothing after it.
            match select(pin!(leadership.lost()), term).await {
                Either::Left((lost, _)) => Some(lost),
                Either::Right(_) => None,
            }
        };
        if let (Some(lost), Some(call)) = (&lost, &mut self.on_lost) {
            call(lost);
        }
        // The log has the reason for a loss or a failed cleanup.
        leadership.hold.release_behind();
        lost.is_none().then_some(self.plan.pause)
    }
}

/// The work, and then the rest of the shortest term.
async fn least(election: &Election, plan: &Plan, work: impl Future<Output = ()>) {
    let began_at = election.runtime().now();
    work.await;
    let lasted = election.runtime().now().saturating_since(began_at);
    let missing = plan.least.saturating_sub(lasted);
    if !missing.is_zero() {
        election.runtime().sleep(missing).await;
    }
}

async fn longest(election: &Election, plan: &Plan) {
    match plan.longest {
        Some(longest) => election.runtime().sleep(longest).await,
        None => pending().await,
    }
}

/// Reports each leader.
async fn watch(election: Election, call: Option<Call<'_, Leader>>) -> Infallible {
    let Some(mut call) = call else {
        return pending().await;
    };
    let mut leaders = election.leaders();
    while let Some(event) = leaders.next().await {
        // Failures are left to the campaign, which meets them, too.
        if let Ok(LeaderEvent::Elected(leader)) = event {
            call(&leader);
        }
    }
    // The runtime has ended, and the campaign says so.
    pending().await
}

impl fmt::Debug for Terms<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terms")
            .field("election", &self.election)
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}
