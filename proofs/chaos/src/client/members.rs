//! The common parts of semaphores and elections, for contenders that are tasks or threads.

use std::future::{Future, ready};
use std::time::Duration;

use semaphore_core::{Election, Error, Leadership, Lost, Permit, Semaphore, blocking};

use super::book::Hold;
use super::turn::Turn;
use crate::record::Way;

/// A participant or a candidate.
pub(super) trait Member: Clone + Send + Sync + 'static {
    type Held: Held;

    /// `None` if it would have to wait. An acquisition that will be cancelled waits for as long as
    /// it takes.
    fn take(&self, turn: &Turn) -> impl Future<Output = Result<Option<Self::Held>, Error>> + Send;

    /// Closes it, so that nobody gets anything any more.
    fn close(&self);

    fn shutdown(&self) -> impl Future<Output = ()> + Send;
}

/// A permit or a leadership.
pub(super) trait Held: Hold + Send + Sync {
    fn lost(&self) -> impl Future<Output = Lost> + Send;

    /// Changes the value that others see. A slot has none.
    fn say(&self, _value: &str) -> impl Future<Output = Result<(), Error>> + Send {
        ready(Ok(()))
    }

    fn give_back(self) -> impl Future<Output = Result<(), Error>> + Send;
}

impl Member for Semaphore {
    type Held = Permit;

    async fn take(&self, turn: &Turn) -> Result<Option<Permit>, Error> {
        let permits = turn.permits;
        match turn.way {
            Way::Plain | Way::Cancelled => self.acquire_many(permits).await.map(Some),
            Way::Timeout => {
                let granted = self.acquire_many_timeout(permits, turn.patience);
                granted.await.map(Some)
            }
            Way::Try => Ok(self.try_acquire_many(permits).await?.ok()),
        }
    }

    fn close(&self) {
        self.close();
    }

    async fn shutdown(&self) {
        self.shutdown().await;
    }
}

impl Held for Permit {
    async fn lost(&self) -> Lost {
        self.lost().await
    }

    async fn give_back(self) -> Result<(), Error> {
        self.release().await
    }
}

impl Member for Election {
    type Held = Leadership;

    async fn take(&self, turn: &Turn) -> Result<Option<Leadership>, Error> {
        match turn.way {
            Way::Plain | Way::Cancelled => self.campaign().await.map(Some),
            Way::Timeout => self.campaign_timeout(turn.patience).await.map(Some),
            Way::Try => Ok(self.try_campaign().await?.ok()),
        }
    }

    fn close(&self) {
        self.close();
    }

    async fn shutdown(&self) {
        self.shutdown().await;
    }
}

impl Held for Leadership {
    async fn lost(&self) -> Lost {
        self.lost().await
    }

    async fn say(&self, value: &str) -> Result<(), Error> {
        self.set_value(value).await
    }

    async fn give_back(self) -> Result<(), Error> {
        self.resign().await
    }
}

/// A [`Member`] that blocks.
pub(super) trait BlockingMember: Send + Sync + 'static {
    type Held: BlockingHeld;

    /// See [`Member::take`].
    fn take(&self, turn: &Turn) -> Result<Option<Self::Held>, Error>;

    /// See [`Member::close`].
    fn close(&self);

    fn shutdown(&self);
}

/// A [`Held`] that blocks.
pub(super) trait BlockingHeld: Hold + Send + Sync {
    fn lost_timeout(&self, timeout: Duration) -> Option<Lost>;

    /// See [`Held::say`].
    fn say(&self, _value: &str) -> Result<(), Error> {
        Ok(())
    }

    fn give_back(self) -> Result<(), Error>;
}

impl BlockingMember for blocking::Semaphore {
    type Held = blocking::Permit;

    fn take(&self, turn: &Turn) -> Result<Option<blocking::Permit>, Error> {
        let permits = turn.permits;
        match turn.way {
            Way::Plain | Way::Cancelled => self.acquire_many(permits).map(Some),
            Way::Timeout => self.acquire_many_timeout(permits, turn.patience).map(Some),
            Way::Try => Ok(self.try_acquire_many(permits)?.ok()),
        }
    }

    fn close(&self) {
        self.close();
    }

    fn shutdown(&self) {
        self.shutdown();
    }
}

impl BlockingHeld for blocking::Permit {
    fn lost_timeout(&self, timeout: Duration) -> Option<Lost> {
        self.lost_timeout(timeout)
    }

    fn give_back(self) -> Result<(), Error> {
        self.release()
    }
}

impl BlockingMember for blocking::Election {
    type Held = blocking::Leadership;

    fn take(&self, turn: &Turn) -> Result<Option<blocking::Leadership>, Error> {
        match turn.way {
            Way::Plain | Way::Cancelled => self.campaign().map(Some),
            Way::Timeout => self.campaign_timeout(turn.patience).map(Some),
            Way::Try => Ok(self.try_campaign()?.ok()),
        }
    }

    fn close(&self) {
        self.close();
    }

    fn shutdown(&self) {
        self.shutdown();
    }
}

impl BlockingHeld for blocking::Leadership {
    fn lost_timeout(&self, timeout: Duration) -> Option<Lost> {
        self.lost_timeout(timeout)
    }

    fn say(&self, value: &str) -> Result<(), Error> {
        self.set_value(value)
    }

    fn give_back(self) -> Result<(), Error> {
        self.resign()
    }
}
