//! The settings of a session, whatever it is for, and the times that follow from its TTL.

use core::time::Duration;

use crate::api::Renewed;
use crate::error::RequestError;
use crate::id::SessionId;
use crate::input::{Scope, SessionOptions};

/// The source of sessions, and what every request about them carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionSettings {
    /// Their source.
    pub(crate) source: SessionSource,
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionSource {
    /// Each is created when it is needed.
    Create(SessionOptions),
    /// They are created in the same way, but the process shares them.
    Shared(SessionOptions),
    /// The caller created this session, and ends it.
    Callers(SessionId),
}

impl SessionSettings {
    pub(crate) fn new(options: SessionOptions) -> Self {
        Self {
            source: SessionSource::Create(options),
            scope: Scope::default(),
        }
    }

    /// Whether we create and destroy the sessions.
    pub(crate) fn owns_sessions(&self) -> bool {
        self.options().is_some()
    }

    /// Whether others of the process use the same sessions.
    pub(crate) fn shares_sessions(&self) -> bool {
        matches!(self.source, SessionSource::Shared(_))
    }

    /// The options of new sessions.
    pub(crate) fn options(&self) -> Option<&SessionOptions> {
        match &self.source {
            SessionSource::Create(options) | SessionSource::Shared(options) => Some(options),
            SessionSource::Callers(_) => None,
        }
    }

    /// The TTL of new sessions. A caller's session has the TTL that its renewal shows.
    pub(crate) fn ttl(&self) -> Duration {
        let made = self.options().map(|it| it.ttl);
        made.unwrap_or_else(|| SessionOptions::default().ttl)
    }

    /// Why a session could not be created. The node of an agent that was dead for a while, or was
    /// deregistered, comes back when the agent is in touch again: that is transient. Nobody
    /// restores a node that was chosen by name, and the agent's node never belongs to another
    /// datacenter.
    pub(crate) fn refused_creation(&self, error: RequestError) -> RequestError {
        let names_no_node = self.options().is_some_and(|it| it.standing_on().is_none());
        let is_of_here = self.scope.datacenter().is_none();
        match error {
            RequestError::Rejected {
                status,
                text,
                asked,
            } if is_not_registered(&text) => match (names_no_node, is_of_here) {
                (true, true) => RequestError::Unavailable {
                    status,
                    text,
                    asked,
                },
                (true, false) => RequestError::Rejected {
                    status,
                    text: format!("{text}; {NODE_ELSEWHERE}"),
                    asked,
                },
                (false, _) => RequestError::Rejected {
                    status,
                    text,
                    asked,
                },
            },
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
        self.options()?.own_node.as_deref()
    }

    /// The lock delay of new sessions. A caller's session has the one that its renewal shows.
    pub(crate) fn lock_delay(&self) -> Duration {
        let made = self.options().map(SessionOptions::lock_delay);
        made.unwrap_or(SessionOptions::DEFAULT_LOCK_DELAY)
    }

    /// The length of a session's lease after this renewal.
    pub(crate) fn lease(&self, renewed: Renewed) -> Duration {
        let told = renewed.ttl.unwrap_or(Duration::MAX);
        // Its lock delay was made for its original TTL, whatever an answer says.
        if let Some(options) = self.options() {
            return told.min(options.ttl);
        }
        // A lock delay that no renewals could keep is its creator's choice and risk.
        let delay = renewed.lock_delay.unwrap_or(self.lock_delay());
        let is_chosen = delay < SessionOptions::MIN_TTL;
        if is_chosen { told } else { told.min(delay) }
    }

    /// The timeout of a short request: several must fit into a lease.
    pub(crate) fn request_timeout(&self) -> Duration {
        (self.ttl() / 5).min(Duration::from_secs(10))
    }

    /// The length of a lease after a renewal. For this time, served requests may be refused.
    pub(crate) fn lease_time(&self) -> Duration {
        self.ttl() / 10 * 9
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
