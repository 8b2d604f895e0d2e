//! One term after the other, until the election is closed: what a service writes that has one leader.
//!
//! ```text
//!             elected                    the work has ended
//!  campaign ───────────▶ work, resign ─────────────────────▶ pause ──┐
//!   ▲ ▲ │                     │ lost: the work is dropped first      │
//!   │ └─┼─────────────────────┘                                      │
//!   │   │ refused: told at the beginning, waited out later           │
//!   └───┴────────────────────────────────────────────────────────────┘
//! ```

use core::future::Future;
use core::pin::pin;
use core::time::Duration;
use std::sync::Arc;

use futures_util::future::{Either, select};

use super::election::Election;
use super::leadership::Leadership;
use crate::error::Error;
use crate::time::Instant;

/// How long another candidate has to be first after work that has ended on its own.
pub(super) const PAUSE_AFTER_WORK: Duration = Duration::from_secs(1);

/// How long it waits after a refusal.
const PAUSE_AFTER_REFUSAL: Duration = Duration::from_secs(5);

/// What is refused so soon has been wrong from the beginning.
const AT_ONCE: Duration = Duration::from_secs(5);

impl Election {
    /// Leads again and again: campaigns, does `work` with the leadership, resigns, and campaigns again, until the election is
    /// [shut down](Self::shutdown) or [closed](Self::close), by any clone.
    ///
    /// - **Loss**: when the leadership is lost, the future of the work is dropped at once, and only then it campaigns again. What
    ///   the work has spawned is its own: let that watch the leadership, too.
    /// - **The end of the work**: when its future has ended, it resigns, and campaigns again after a second, so that
    ///   another candidate has its turn.
    /// - **A shutdown** steps down first, which ends the work as a loss does. This returns within five seconds of it.
    /// - **What is refused for good**, such as a token without permission or a key that is something else's, is returned when it is so
    ///   from the beginning. Later it does not end the loop: it is logged, and tried again after five seconds.
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
    pub async fn run<W, F>(&self, mut work: W) -> Result<(), Error>
    where
        W: FnMut(Arc<Leadership>) -> F,
        F: Future<Output = ()>,
    {
        let mut refusals = Refusals::new(self.now());
        loop {
            let pause = match self.campaign().await {
                Ok(leadership) => {
                    refusals.has_led();
                    lead(leadership, &mut work).await
                }
                Err(error) => match refusals.judge(self.now(), error) {
                    Verdict::Over(end) => return end,
                    Verdict::Later(pause) => Some(pause),
                },
            };
            if let Some(pause) = pause {
                self.sleep(pause).await;
            }
        }
    }
}

/// Leads once. How long to wait afterwards.
async fn lead<W, F>(leadership: Leadership, work: &mut W) -> Option<Duration>
where
    W: FnMut(Arc<Leadership>) -> F,
    F: Future<Output = ()>,
{
    let leadership = Arc::new(leadership);
    let has_ended = {
        let work = pin!(work(Arc::clone(&leadership)));
        let lost = pin!(leadership.lost());
        // The loss first: work that has lost does nothing more.
        matches!(select(lost, work).await, Either::Right(_))
    };
    // Why it was lost, or could not be cleaned up at once, is in the log; the rest goes on in the background.
    let _ = leadership.resign().await;
    has_ended.then_some(PAUSE_AFTER_WORK)
}

/// What is refused, and since when it could have been told.
pub(super) struct Refusals {
    began_at: Instant,
    has_led: bool,
}

/// What follows from a campaign that failed.
pub(super) enum Verdict {
    /// The loop ends so.
    Over(Result<(), Error>),
    /// It goes on after so long.
    Later(Duration),
}

impl Refusals {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            began_at: now,
            has_led: false,
        }
    }

    pub(super) fn has_led(&mut self) {
        self.has_led = true;
    }

    pub(super) fn judge(&self, now: Instant, error: Error) -> Verdict {
        let is_at_once = !self.has_led && now.saturating_since(self.began_at) < AT_ONCE;
        match error {
            Error::Closed { .. } => Verdict::Over(Ok(())),
            error if is_at_once => Verdict::Over(Err(error)),
            error => {
                let error: &dyn core::error::Error = &error;
                tracing::warn!(name: "campaign-refused", error, "a campaign was refused, and follows again");
                Verdict::Later(PAUSE_AFTER_REFUSAL)
            }
        }
    }
}
