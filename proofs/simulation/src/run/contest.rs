//! What a host contends with, and what it holds: a permit of a semaphore, or a leadership.

use std::time::Duration;

use semaphore_core::{Election, Error, FencingToken, Leadership, Lost, Permit, Semaphore};

/// A semaphore or an election. Clones share it.
#[derive(Clone)]
pub(super) enum Contest {
    Semaphore(Semaphore),
    Election(Election),
}

/// A grant. Dropping this releases it.
pub(super) enum Held {
    Permit(Permit),
    Leadership(Leadership),
}

impl Contest {
    /// Waits for this many permits, or to lead.
    pub(super) async fn wait(&self, permits: u32) -> Result<Held, Error> {
        match self {
            Self::Semaphore(it) => it.acquire_many(permits).await.map(Held::Permit),
            Self::Election(it) => it.campaign().await.map(Held::Leadership),
        }
    }

    /// The same, with a time limit.
    pub(super) async fn wait_for(&self, permits: u32, time: Duration) -> Result<Held, Error> {
        match self {
            Self::Semaphore(it) => {
                let permit = it.acquire_many_timeout(permits, time).await;
                permit.map(Held::Permit)
            }
            Self::Election(it) => it.campaign_timeout(time).await.map(Held::Leadership),
        }
    }

    /// The same, but without waiting.
    pub(super) async fn take(&self, permits: u32) -> Result<Option<Held>, Error> {
        match self {
            Self::Semaphore(it) => {
                let permit = it.try_acquire_many(permits).await?;
                Ok(permit.ok().map(Held::Permit))
            }
            Self::Election(it) => Ok(it.try_campaign().await?.ok().map(Held::Leadership)),
        }
    }

    pub(super) async fn shut_down(&self) {
        match self {
            Self::Semaphore(it) => it.shutdown().await,
            Self::Election(it) => it.shutdown().await,
        }
    }
}

impl Held {
    /// Its sessions.
    pub(super) fn sessions(&self) -> Vec<String> {
        match self {
            Self::Permit(it) => {
                let sequencers = it.sequencers().iter();
                sequencers.map(|it| it.session.to_string()).collect()
            }
            Self::Leadership(it) => vec![it.sequencer().session.to_string()],
        }
    }

    /// Its number of slots.
    pub(super) fn permits(&self) -> u32 {
        match self {
            Self::Permit(it) => it.permits(),
            Self::Leadership(_) => 1,
        }
    }

    pub(super) fn token(&self) -> FencingToken {
        match self {
            Self::Permit(it) => it.fencing_token(),
            Self::Leadership(it) => it.fencing_token(),
        }
    }

    /// Whether its holder believes at this moment, by its own clock.
    pub(super) fn is_believed(&self) -> bool {
        match self {
            Self::Permit(it) => it.is_held(),
            Self::Leadership(it) => it.is_leader(),
        }
    }

    pub(super) async fn lost(&self) -> Lost {
        match self {
            Self::Permit(it) => it.lost().await,
            Self::Leadership(it) => it.lost().await,
        }
    }

    /// Changes the value of an election. A permit has no value.
    pub(super) async fn set_value(&self, value: &str) -> Result<(), Error> {
        match self {
            Self::Permit(_) => Ok(()),
            Self::Leadership(it) => it.set_value(value).await,
        }
    }

    pub(super) async fn give_back(self) -> Result<(), Error> {
        match self {
            Self::Permit(it) => it.release().await,
            Self::Leadership(it) => it.resign().await,
        }
    }
}
