//! The commands of a machine, in a form that can be recorded and replayed.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Instant;

/// A command to a machine. `of` is the number of another command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Command {
    Acquire { permits: u32, until: Option<Nanos> },
    TryAcquire { permits: u32 },
    SetLimit { limit: u32 },
    Campaign { until: Option<Nanos> },
    TryCampaign,
    SetValue { of: u64, value: Vec<u8> },
    Cancel { of: u64 },
    Release { of: u64 },
    Close,
}

/// A command and its time.
#[derive(Clone, Debug)]
pub struct Commanded {
    pub(crate) at: Instant,
    pub(crate) command: Command,
}

/// A time of the machine's clock, in nanoseconds since its origin: enough for 584 years.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Nanos(u64);

impl From<Instant> for Nanos {
    fn from(instant: Instant) -> Self {
        Self(u64::try_from(instant.since_origin().as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Instant {
    fn from(nanos: Nanos) -> Self {
        Self::from_origin(Duration::from_nanos(nanos.0))
    }
}
