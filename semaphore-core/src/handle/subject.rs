//! What notices and lines of the log are about.

use core::fmt;

use crate::machine::{ElectionSettings, Settings};

/// What a notice is about: one semaphore or one election, as this process has it. Displayed as its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    name: String,
    limit: Option<u32>,
    address: Option<String>,
}

impl Subject {
    pub(super) fn semaphore(settings: &Settings, address: Option<String>) -> Self {
        Self {
            name: settings.prefix().to_string(),
            limit: Some(settings.limit()),
            address,
        }
    }

    pub(super) fn election(settings: &ElectionSettings, address: Option<String>) -> Self {
        Self {
            name: settings.key().to_string(),
            limit: None,
            address,
        }
    }

    /// The prefix of the semaphore, or the key of the election.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The limit that the semaphore was built with. None for an election.
    pub fn limit(&self) -> Option<u32> {
        self.limit
    }

    /// Whether it is an election.
    pub fn is_election(&self) -> bool {
        self.limit.is_none()
    }

    /// The agent's address, if the transport says it.
    pub fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
