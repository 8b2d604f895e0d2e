//! What is waited for: slots of a semaphore, or the lead of an election.

use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

use semaphore_core::adapter::Request;
use semaphore_core::sans_io::api::{ListKeys, ReadKey};
use transport_ureq::{Election, Error, Refusal, Scope, Semaphore};

use crate::child::variable;
use crate::failure::whole;
use crate::hold::Hold;
use crate::identity::{election, semaphore};
use crate::queue;

/// Slots, or the lead.
pub(crate) enum Subject {
    Slots {
        semaphore: Semaphore,
        permits: u32,
        limit: u32,
    },
    Lead {
        election: Election,
    },
}

/// For error texts.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        match self {
            Self::Slots { .. } => f.write_str(&semaphore(&name)),
            Self::Lead { .. } => f.write_str(&election(&name)),
        }
    }
}

impl Subject {
    /// The prefix, or the key.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Slots { semaphore, .. } => semaphore.prefix().to_string(),
            Self::Lead { election } => election.key().to_string(),
        }
    }

    /// The key of an election.
    pub(crate) fn key(&self) -> Option<String> {
        match self {
            Self::Slots { .. } => None,
            Self::Lead { election } => Some(election.key().to_string()),
        }
    }

    /// Waits for its turn.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue.
    pub(crate) async fn acquire(&self, timeout: Option<Duration>) -> Result<Hold, Error> {
        match self {
            Self::Slots {
                semaphore, permits, ..
            } => {
                let permit = match timeout {
                    Some(timeout) => semaphore.acquire_many_timeout(*permits, timeout).await,
                    None => semaphore.acquire_many(*permits).await,
                };
                permit.map(Hold::Slots)
            }
            Self::Lead { election } => {
                let leadership = match timeout {
                    Some(timeout) => election.campaign_timeout(timeout).await,
                    None => election.campaign().await,
                };
                leadership.map(Hold::Lead)
            }
        }
    }

    /// Takes what is free at once.
    pub(crate) async fn try_acquire(&self) -> Result<Result<Hold, Refusal>, Error> {
        match self {
            Self::Slots {
                semaphore, permits, ..
            } => {
                let permit = semaphore.try_acquire_many(*permits).await?;
                Ok(permit.map(Hold::Slots))
            }
            Self::Lead { election } => Ok(election.try_campaign().await?.map(Hold::Lead)),
        }
    }

    /// Who is ahead or holds, in one line.
    pub(crate) async fn line(&self, waited: Duration) -> String {
        match self {
            Self::Slots { semaphore, .. } => queue::of_semaphore(semaphore, waited).await,
            Self::Lead { election } => queue::of_election(election, waited).await,
        }
    }

    /// How many wait ahead, if that is known. It sends nothing. Candidates of an election have no
    /// order.
    pub(crate) fn ahead(&self) -> Option<u32> {
        match self {
            Self::Slots { semaphore, .. } => queue::ahead(semaphore),
            Self::Lead { .. } => None,
        }
    }

    /// Why Consul serves nothing at the moment: it says so, or does not answer.
    pub(crate) fn trouble(&self) -> String {
        let status = match self {
            Self::Slots { semaphore, .. } => semaphore.status(),
            Self::Lead { election } => election.status(),
        };
        match status.trouble {
            Some(trouble) => whole(&trouble.cause),
            None => "Consul does not answer".to_owned(),
        }
    }

    /// A small request that shows whether Consul can be reached.
    pub(crate) fn probe(&self, scope: &Scope) -> Request {
        let (wait, consistent) = (None, false);
        match self {
            Self::Slots { semaphore, .. } => {
                let prefix = semaphore.prefix();
                let list = ListKeys {
                    prefix,
                    wait,
                    consistent,
                };
                list.request(scope)
            }
            Self::Lead { election } => {
                let key = election.key().as_str();
                let read = ReadKey {
                    key,
                    wait,
                    consistent,
                };
                read.request(scope)
            }
        }
    }

    /// The command's variables about what is held.
    pub(crate) fn variables(&self, hold: &Hold) -> Vec<(&'static str, OsString)> {
        let sequencers = hold.sequencers();
        let joined = |texts: Vec<String>| variable(texts.join(" "));
        let sessions = sequencers.iter().map(|it| it.session.to_string()).collect();
        let of_all = sequencers.iter().map(ToString::to_string).collect();
        let mut variables = vec![
            ("CONSUL_SEMAPHORE_SESSION", joined(sessions)),
            ("CONSUL_SEMAPHORE_SEQUENCER", joined(of_all)),
            (
                "CONSUL_SEMAPHORE_FENCING_TOKEN",
                variable(hold.fencing_token().0.to_string()),
            ),
        ];
        match self {
            Self::Slots {
                semaphore,
                permits,
                limit,
            } => {
                // With `--adopt-limit` the record has another one.
                let known = semaphore.available_permits().map(|it| it.limit);
                let limit = known.unwrap_or(*limit);
                variables.push(("CONSUL_SEMAPHORE_PREFIX", variable(self.name())));
                variables.push(("CONSUL_SEMAPHORE_PERMITS", variable(permits.to_string())));
                variables.push(("CONSUL_SEMAPHORE_LIMIT", variable(limit.to_string())));
            }
            Self::Lead { .. } => variables.push(("CONSUL_ELECTION_KEY", variable(self.name()))),
        }
        variables
    }

    /// Cleans everything up.
    pub(crate) async fn shutdown(&self) {
        match self {
            Self::Slots { semaphore, .. } => semaphore.shutdown().await,
            Self::Lead { election } => election.shutdown().await,
        }
    }
}
