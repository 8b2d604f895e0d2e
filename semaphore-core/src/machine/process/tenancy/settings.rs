//! The settings of a session, whatever it is for, and the times that follow from its TTL.

use core::time::Duration;

use crate::api::Renewed;
use crate::error::RequestError;
use crate::input::{Scope, SessionOptions};

/// The source of sessions, and what every request about them carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionSettings {
    /// How they are created.
    pub(crate) options: SessionOptions,
    /// Whether others of the process use the same sessions.
    pub(crate) is_shared: bool,
    /// What every request carries.
    pub(crate) scope: Scope,
}

/// Consul's text for an unknown node.
const NOT_REGISTERED: &str = "missing node registration";

/// The advice for another datacenter.
const NODE_ELSEWHERE: &str =
    "a session in another datacenter stands on a node there: name one by `own_node` or `node`";

fn is_not_registered(text: &str) -> bool {
    text.to_ascii_lowercase().contains(NOT_REGISTERED)
}

impl SessionSettings {
    pub(crate) fn new(options: SessionOptions) -> Self {
        Self {
            options,
            is_shared: false,
            scope: Scope::default(),
        }
    }

    /// Whether others of the process use the same sessions.
    pub(crate) fn shares_sessions(&self) -> bool {
        self.is_shared
    }

    /// The options of new sessions.
    pub(crate) fn options(&self) -> &SessionOptions {
        &self.options
    }

    /// The TTL of new sessions.
    pub(crate) fn ttl(&self) -> Duration {
        self.options.ttl
    }

    /// Why a session could not be created. The node of an agent that was dead for a while, or was
    /// deregistered, comes back when the agent is in touch again: that is transient. Nobody
    /// restores a node that was chosen by name, and the agent's node never belongs to another
    /// datacenter.
    pub(crate) fn refused_creation(&self, error: RequestError) -> RequestError {
        match error {
            RequestError::Rejected {
                status,
                text,
                asked,
            } if is_not_registered(&text) && self.options.standing_on().is_none() => {
                if self.scope.datacenter().is_some() {
                    let text = format!("{text}; {NODE_ELSEWHERE}");
                    return RequestError::Rejected {
                        status,
                        text,
                        asked,
                    };
                }
                RequestError::Unavailable {
                    status,
                    text,
                    asked,
                }
            }
            error => error,
        }
    }

    /// The separate node, if a session could not be created because it is missing.
    pub(crate) fn missing_own_node(&self, error: &RequestError) -> Option<&str> {
        let is_missing =
            matches!(error, RequestError::Rejected { text, .. } if is_not_registered(text));
        self.own_node().filter(|_| is_missing)
    }

    /// The separate node of the sessions.
    pub(crate) fn own_node(&self) -> Option<&str> {
        self.options.own_node.as_deref()
    }

    /// The lock delay of new sessions.
    pub(crate) fn lock_delay(&self) -> Duration {
        self.options.lock_delay()
    }

    /// The length of a session's lease after this renewal.
    pub(crate) fn lease(&self, renewed: Renewed) -> Duration {
        // Its lock delay was made for its original TTL, whatever an answer says.
        let told = renewed.ttl.unwrap_or(Duration::MAX);
        told.min(self.options.ttl)
    }

    /// The timeout of a short request: several must fit into a lease.
    pub(crate) fn request_timeout(&self) -> Duration {
        (self.ttl() / 5).min(Duration::from_secs(10))
    }

    /// The length of a lease after a renewal. For this time, served requests may be refused.
    pub(crate) fn lease_time(&self) -> Duration {
        self.ttl() / 10 * 9
    }

    /// The time for which a proof or a renewal is relied on, with its margin: lock delays last no
    /// longer.
    pub(crate) fn proved_time(&self) -> Duration {
        self.ttl().min(SessionOptions::MAX_LOCK_DELAY)
    }

    /// How long before the end of a lease observers are warned.
    pub(crate) fn warning(&self) -> Duration {
        self.lease_time().min(SessionOptions::MAX_LOCK_DELAY) / 3
    }

    /// The longest wait between two attempts of one request.
    pub(crate) fn retry_cap(&self) -> Duration {
        (self.ttl() / 10).min(Duration::from_secs(5))
    }

    /// How long somebody who leaves tries to clean up. By then Consul has expired the session,
    /// which happens within twice the TTL.
    pub(crate) fn cleanup_time(&self) -> Duration {
        self.ttl() * 2
    }
}
