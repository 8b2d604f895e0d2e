//! One term after the other, until the election is closed: the loop of a service that has one leader.
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
//! | this one | the options, and the loop |
//! | `standby` | how those campaign who let others go first, or lead few elections at once |
//! | `limit` | how many elections one process leads |
//! | `refusals` | what becomes of a campaign that fails |

mod limit;
mod refusals;
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
pub(super) use self::refusals::{Refusals, Verdict};
use super::election::Election;
use super::leadership::Leadership;
use super::lost_signal::LostSignal;
use crate::error::{Error, Lost};
use crate::leader::Leader;
use crate::machine::LeaderEvent;

/// How one term follows the other: the options of a service that leads again and again. Made by [`Election::terms`].
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
/// let few = TermLimit::new(NonZeroUsize::new(8).unwrap()); // of 32 shards and four processes, say
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

/// What is called with one of those.
type Call<'a, T> = Box<dyn FnMut(&T) + Send + 'a>;

/// What the loop goes by.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// How long another candidate has to be first after a term that was not lost.
    pub(super) pause: Duration,
    /// How long it waits after a refusal.
    pub(super) pause_after_refusal: Duration,
    pub(super) least: Duration,
    pub(super) longest: Option<Duration>,
    hold_back: Duration,
    limit: Option<TermLimit>,
}

impl Plan {
    pub(super) fn new() -> Self {
        Self {
            pause: Duration::from_secs(1),
            pause_after_refusal: Duration::from_secs(5),
            least: Duration::ZERO,
            longest: None,
            hold_back: Duration::ZERO,
            limit: None,
        }
    }

    pub(super) fn with_hold_back(self, hold_back: Duration) -> Self {
        Self { hold_back, ..self }
    }

    pub(super) fn with_limit(self, limit: &TermLimit) -> Self {
        let limit = Some(limit.clone());
        Self { limit, ..self }
    }

    /// Campaigns as the plan says. What it leads under the limit for comes along.
    pub(super) async fn campaign(
        &self,
        election: &Election,
    ) -> Result<(Leadership, Option<TermPlace>), Error> {
        if self.limit.is_none() && self.hold_back.is_zero() {
            return Ok((election.campaign().await?, None));
        }
        standby::campaign(election, self.hold_back, self.limit.as_ref()).await
    }
}

impl Election {
    /// Leads again and again: campaigns, does `work` with the leadership, resigns, and campaigns again, until the election is
    /// [shut down](Self::shutdown) or [closed](Self::close), by any clone. [`Self::terms`] has options for it.
    ///
    /// - **Loss**: when the leadership is lost, the future of the work is dropped at once, and only then it campaigns again. What
    ///   the work has spawned goes on: let that watch the leadership, too.
    /// - **The end of the work**: when its future has ended, it resigns, and campaigns again after a second, so that
    ///   another candidate has its turn.
    /// - **A shutdown** steps down first, which ends the work as a loss does. The loop returns within five seconds after it.
    /// - **A permanent refusal**, such as a token without permission or a key that is not an election's, ends the loop with an error if
    ///   it is the first answer. Later it does not: it is logged, and the loop tries again after five seconds.
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
    /// As [`Self::campaign`], but for [`Error::Closed`], which is its end.
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

    /// Ends the term of this signal after so long, from the background.
    pub(super) fn step_down_after(&self, longest: Duration, lost: LostSignal) {
        let election = self.clone();
        let ends = async move {
            let passed = pin!(election.sleep(longest));
            if matches!(select(lost, passed).await, Either::Right(_)) {
                // What could not be cleaned up goes on in the background.
                let _ = election.step_down().await;
            }
        };
        // Where no task can be run the term goes on, as its driver can't either.
        let _ = self.spawn(Box::pin(ends));
    }

    /// The options of [`Self::run`]: how long terms are, who goes first, how many elections this process leads, and what is to be
    /// called when.
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
    /// How long it does not campaign after a term that was not lost, so that another candidate has its turn: 1 s.
    pub fn pause(mut self, pause: Duration) -> Self {
        self.plan.pause = pause;
        self
    }

    /// How long it waits after a campaign that Consul refused: 5 s.
    pub fn pause_after_refusal(mut self, pause: Duration) -> Self {
        self.plan.pause_after_refusal = pause;
        self
    }

    /// How long a term lasts at least, if it is not lost: where the work ends sooner, the key is kept until then. Work that fails
    /// at once then does not go round all candidates without a rest. None by default.
    pub fn least(mut self, least: Duration) -> Self {
        self.plan.least = least;
        self
    }

    /// How long a term lasts at most: then the work is dropped, and it resigns. No end by default.
    pub fn longest(mut self, longest: Duration) -> Self {
        self.plan.longest = Some(longest);
        self
    }

    /// Lets others go first: it campaigns when nobody has led for so long. Give 0 to the preferred candidate, and more to
    /// those that lead only where it can't; with [`Self::longest`] the preferred one leads again after a while. None by default.
    ///
    /// Where another candidate is faster, this one may follow without waiting within that one's first five seconds.
    pub fn hold_back(mut self, time: Duration) -> Self {
        self.plan = self.plan.with_hold_back(time);
        self
    }

    /// Campaigns only while this process leads fewer elections than `limit` allows, counted over all elections that share it.
    /// This spreads shards over processes: choose the number of shards divided by the number of processes, rounded up. If
    /// processes are missing and the limit is too low for the rest, some shards have no leader.
    pub fn at_most(mut self, limit: &TermLimit) -> Self {
        self.plan = self.plan.with_limit(limit);
        self
    }

    /// Is called when a term begins, before the work is asked for.
    pub fn on_elected(mut self, call: impl FnMut(&Leadership) + Send + 'a) -> Self {
        self.on_elected = Some(Box::new(call));
        self
    }

    /// Is called when a term is lost or was stepped down from, after the work was dropped; not where the work has ended, or
    /// the term was as long as it may be.
    pub fn on_lost(mut self, call: impl FnMut(&Lost) + Send + 'a) -> Self {
        self.on_lost = Some(Box::new(call));
        self
    }

    /// Is called for each new leader of the election, wherever that is, from the present one on. It costs a read of the key that
    /// stays open, which all followers of this election share.
    pub fn on_new_leader(mut self, call: impl FnMut(&Leader) + Send + 'a) -> Self {
        self.on_new_leader = Some(Box::new(call));
        self
    }

    /// Leads again and again, as [`Election::run`] does, by these options.
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
        let mut refusals = Refusals::new(self.election.now());
        loop {
            let pause = match self.plan.campaign(&self.election).await {
                Ok((leadership, place)) => {
                    refusals.has_led();
                    let pause = self.lead(leadership, &mut work).await;
                    drop(place);
                    pause
                }
                Err(error) => match refusals.judge(self.election.now(), error) {
                    Verdict::Over(end) => return end,
                    Verdict::Later => Some(self.plan.pause_after_refusal),
                },
            };
            if let Some(pause) = pause {
                self.election.sleep(pause).await;
            }
        }
    }

    /// Leads once. How long to wait afterwards.
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
            // The loss first: who has lost does nothing more.
            match select(pin!(leadership.lost()), term).await {
                Either::Left((lost, _)) => Some(lost),
                Either::Right(_) => None,
            }
        };
        if let (Some(lost), Some(call)) = (&lost, &mut self.on_lost) {
            call(lost);
        }
        // Why it was lost, or could not be cleaned up at once, is in the log; the rest goes on in the background.
        let _ = leadership.resign().await;
        lost.is_none().then_some(self.plan.pause)
    }
}

/// The work, and then the rest of the least term.
async fn least(election: &Election, plan: &Plan, work: impl Future<Output = ()>) {
    let began_at = election.now();
    work.await;
    let lasted = election.now().saturating_since(began_at);
    let missing = plan.least.saturating_sub(lasted);
    if !missing.is_zero() {
        election.sleep(missing).await;
    }
}

async fn longest(election: &Election, plan: &Plan) {
    match plan.longest {
        Some(longest) => election.sleep(longest).await,
        None => pending().await,
    }
}

/// Tells of each leader.
async fn watch(election: Election, call: Option<Call<'_, Leader>>) -> Infallible {
    let Some(mut call) = call else {
        return pending().await;
    };
    let mut leaders = election.leaders();
    loop {
        // What goes wrong the campaign meets, too.
        if let Some(Ok(LeaderEvent::Elected(leader))) = leaders.next().await {
            call(&leader);
        }
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
