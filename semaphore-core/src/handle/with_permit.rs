//! Work that runs while a permit is held, and ends with it.

use core::future::Future;
use core::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, select};

use super::{Permit, Semaphore};
use crate::error::Error;

impl Semaphore {
    /// Acquires a slot as [`Self::acquire`] does, runs `work` with it, and returns the work's output at
    /// once. It is given back in the background, for which [`Self::shutdown`] waits. [`Permit::run`]
    /// does the same with an existing permit.
    ///
    /// ```
    /// use semaphore_core::{Error, Semaphore};
    /// # use transport_mock::MockConsul;
    /// # let world = MockConsul::new(1);
    /// # let transport = world.client("node-1");
    /// # world.run(async {
    /// let semaphore = Semaphore::builder("service/db", 3).connect(transport)?;
    /// let answer = semaphore
    ///     .with_permit(|permit| async move {
    ///         println!("works with {}", permit.fencing_token());
    ///         42
    ///     })
    ///     .await?;
    /// assert_eq!(answer, 42);
    /// # Ok::<(), Error>(())
    /// # })?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::acquire`] and [`Permit::run`].
    ///
    /// # Cancel safety
    /// Dropping the future drops the work, and gives back in the background.
    pub async fn with_permit<W, F>(&self, work: W) -> Result<F::Output, Error>
    where
        W: FnOnce(Arc<Permit>) -> F,
        F: Future,
    {
        self.acquire().await?.run(work).await
    }
}

impl Permit {
    /// Runs `work` with this permit, and returns the work's output at once: it waits for no answer of
    /// Consul. The permit is given back in the background, as with a drop, and
    /// [`Semaphore::shutdown`] waits for that.
    ///
    /// If the permit is lost, the work's future is dropped and this returns, both at once. What is left in Consul is cleaned up in
    /// the background. Tasks that the work has spawned continue: give them a [`lost_signal`](Self::lost_signal). If the work
    /// panics, the permit is given back in the background, as with a drop.
    ///
    /// # Errors
    /// [`Error::Lost`] if the permit was lost before the work ended.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work, and gives back in the background.
    pub async fn run<W, F>(self, work: W) -> Result<F::Output, Error>
    where
        W: FnOnce(Arc<Self>) -> F,
        F: Future,
    {
        let permit = Arc::new(self);
        let output = {
            let work = pin!(work(Arc::clone(&permit)));
            let lost = pin!(permit.lost());
            // The loss comes first: the work must do nothing after it. Dropping the permit gives it back in the background.
            match select(lost, work).await {
                Either::Left((lost, _)) => return Err(Error::Lost(lost)),
                Either::Right((output, _)) => output,
            }
        };
        // The clock may have ended it, though nobody was told yet.
        if let Some(lost) = permit.hold.lost_by_now() {
            return Err(Error::Lost(lost));
        }
        // Others may still have a clone.
        permit.hold.release_behind();
        Ok(output)
    }
}
