//! All contenders, each on a separate host.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use semaphore_core::adapter::{Runtime, Transport};
use semaphore_core::{Error, Semaphore};

use crate::flags::Flags;
use crate::story::{Story, name};

/// What the contenders have in common.
pub(crate) struct Contest<H> {
    pub(crate) hosts: Vec<H>,
    /// How long each holds its slot.
    pub(crate) holds: Vec<Duration>,
    pub(crate) story: Arc<Story>,
}

/// How long each contender holds its slot: between a third of the longest time and that.
pub(crate) fn holds(flags: &Flags, longest: Duration, seed: u64) -> Vec<Duration> {
    let mut random = fastrand::Rng::with_seed(seed);
    let hold = |_| longest.mul_f64((1.0 + 2.0 * random.f64()) / 3.0);
    (0..flags.contenders).map(hold).collect()
}

impl<H: Transport + Runtime + Clone + 'static> Contest<H> {
    /// Runs it until nothing is left in Consul. Returns the failures.
    pub(crate) async fn run(&self, flags: &Flags) -> Result<Vec<Error>, Error> {
        let mut semaphores = Vec::new();
        for (number, host) in self.hosts.iter().enumerate() {
            let builder = Semaphore::builder(&flags.prefix, flags.limit.get()).value(name(number));
            semaphores.push(builder.connect(host.clone())?);
        }
        let contenders = semaphores.iter().zip(&self.holds).enumerate();
        let contenders =
            contenders.map(|(number, (semaphore, hold))| self.contend(number, semaphore, *hold));
        let ended = join_all(contenders).await;
        join_all(semaphores.iter().map(Semaphore::shutdown)).await;
        if let Some(first) = semaphores.first() {
            match first.destroy().await {
                // Others use it, or have removed it.
                Ok(()) | Err(Error::InUse { .. } | Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(ended.into_iter().filter_map(Result::err).collect())
    }

    async fn contend(
        &self,
        number: usize,
        semaphore: &Semaphore,
        hold: Duration,
    ) -> Result<(), Error> {
        // All use one clock.
        let Some(clock) = self.hosts.first() else {
            return Ok(());
        };
        // The time of all holds one after the other, plus some for a slow agent.
        let patience = Duration::from_secs(120) + self.holds.iter().sum::<Duration>();
        let permit = semaphore.acquire_timeout(patience).await?;
        let token = permit.fencing_token();
        self.story.granted(clock.now(), number, hold, token);
        let work = clock.sleep(hold);
        let lost = match select(pin!(permit.lost()), work).await {
            Either::Left((lost, _)) => Some(lost),
            Either::Right(_) => None,
        };
        self.story.ended(clock.now(), number, lost.is_some());
        match lost {
            // The contender that is cut off for the demonstration.
            Some(_) if self.story.is_cut_off(number) => Ok(()),
            Some(lost) => Err(Error::Lost(lost)),
            None => permit.release().await,
        }
    }
}
