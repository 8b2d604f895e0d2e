//! What is held while the command runs: slots of a semaphore, or the lead.

use std::time::Duration;

use transport_ureq::{Error, FencingToken, Leadership, Lost, Permit, Sequencer};

/// Slots, or the lead.
pub(crate) enum Hold {
    Slots(Permit),
    Lead(Leadership),
}

impl Hold {
    /// How long it lasts without another answer of Consul. Zero if it has ended.
    pub(crate) fn remaining(&self) -> Duration {
        match self {
            Self::Slots(permit) => permit.remaining(),
            Self::Lead(leadership) => leadership.remaining(),
        }
    }

    pub(crate) async fn lost(&self) -> Lost {
        match self {
            Self::Slots(permit) => permit.lost().await,
            Self::Lead(leadership) => leadership.lost().await,
        }
    }

    pub(crate) fn fencing_token(&self) -> FencingToken {
        match self {
            Self::Slots(permit) => permit.fencing_token(),
            Self::Lead(leadership) => leadership.fencing_token(),
        }
    }

    pub(crate) fn sequencers(&self) -> Vec<Sequencer> {
        match self {
            Self::Slots(permit) => permit.sequencers().to_vec(),
            Self::Lead(leadership) => vec![leadership.sequencer().clone()],
        }
    }

    /// Gives it back.
    pub(crate) async fn release(self) -> Result<(), Error> {
        match self {
            Self::Slots(permit) => permit.release().await,
            Self::Lead(leadership) => leadership.resign().await,
        }
    }
}
