//! The first line of a recording: the machine and its settings. It never has a token.

use core::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::id::SessionId;
use crate::input::{Behavior, InvalidInput, LockKey, Prefix, Scope, SessionOptions, Value};
use crate::machine::{Candidate, ElectionSettings, Encoding, Participant, Settings};

/// The version of the format.
const VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Head {
    recording: u32,
    seed: u64,
    of: Of,
    value: String,
    by_requests: bool,
    datacenter: Option<String>,
    namespace: Option<String>,
    partition: Option<String>,
    consistent: bool,
    sessions: Sessions,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Of {
    Semaphore {
        prefix: String,
        limit: u32,
        adopt_limit: bool,
        #[serde(default)]
        resize_if_idle: bool,
        #[serde(default)]
        keep_lost: bool,
        crowd: usize,
    },
    Election {
        key: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Sessions {
    Callers(String),
    Made {
        name: Option<String>,
        node: Option<String>,
        own_node: Option<String>,
        ttl_ms: u64,
        lock_delay_ms: Option<u64>,
        is_released: bool,
        node_checks: Vec<String>,
        service_checks: Vec<String>,
    },
}

/// The machine of a recording.
pub(crate) enum Recorded {
    Semaphore(Box<Participant>),
    Election(Box<Candidate>),
}

impl Head {
    pub(crate) fn of_semaphore(settings: &Settings, seed: u64) -> Self {
        let sessions = match settings.callers_session() {
            Some(session) => Sessions::Callers(session.to_string()),
            None => Sessions::of(settings.session.options()),
        };
        let of = Of::Semaphore {
            prefix: settings.prefix.to_string(),
            limit: settings.limit,
            adopt_limit: settings.other_limit.is_adopted(),
            resize_if_idle: settings.other_limit.is_replaced_if_idle(),
            keep_lost: settings.lost_early.is_kept(),
            crowd: settings.crowd,
        };
        Self::new(
            of,
            seed,
            settings.scope(),
            &settings.value,
            settings.encoding,
            sessions,
        )
    }

    pub(crate) fn of_election(settings: &ElectionSettings, seed: u64) -> Self {
        let sessions = Sessions::of(settings.session.options());
        let of = Of::Election {
            key: settings.key.to_string(),
        };
        Self::new(
            of,
            seed,
            settings.scope(),
            &settings.value,
            settings.encoding,
            sessions,
        )
    }

    fn new(
        of: Of,
        seed: u64,
        scope: &Scope,
        value: &Value,
        encoding: Encoding,
        sessions: Sessions,
    ) -> Self {
        let text = |text: Option<&str>| text.map(str::to_owned);
        Self {
            recording: VERSION,
            seed,
            of,
            value: STANDARD.encode(value.as_bytes()),
            by_requests: encoding == Encoding::Requests,
            datacenter: text(scope.datacenter()),
            namespace: text(scope.namespace()),
            partition: text(scope.partition()),
            consistent: scope.consistent(),
            sessions,
        }
    }

    /// Whether this crate knows the format.
    pub(crate) fn is_known(&self) -> bool {
        self.recording == VERSION
    }

    /// The name of the semaphore or election.
    pub(crate) fn name(&self) -> &str {
        match &self.of {
            Of::Semaphore { prefix, .. } => prefix,
            Of::Election { key } => key,
        }
    }

    /// The machine in its initial state.
    ///
    /// # Errors
    /// If the settings are invalid for every machine.
    pub(crate) fn machine(&self) -> Result<Recorded, InvalidInput> {
        let value = STANDARD.decode(&self.value).unwrap_or_default();
        let value = Value::new(value)?;
        let encoding = if self.by_requests {
            Encoding::Requests
        } else {
            Encoding::Transactions
        };
        match &self.of {
            Of::Semaphore {
                prefix,
                limit,
                adopt_limit,
                resize_if_idle,
                keep_lost,
                crowd,
            } => {
                let settings = Settings::new(Prefix::new(prefix)?, *limit)?
                    .with_limit_adopted(*adopt_limit)
                    .with_limit_replaced_if_idle(*resize_if_idle)
                    .with_lost_kept(*keep_lost)
                    .with_crowd(*crowd)
                    .with_value(value)
                    .with_encoding(encoding)
                    .with_scope(self.scope()?);
                let settings = match &self.sessions {
                    Sessions::Callers(session) => settings.with_session(SessionId::new(session)?),
                    made @ Sessions::Made { .. } => settings.with_session_options(made.options()?),
                };
                let machine = Participant::new(settings, self.seed);
                Ok(Recorded::Semaphore(Box::new(machine)))
            }
            Of::Election { key } => {
                let settings = ElectionSettings::new(LockKey::new(key)?)
                    .with_value(value)
                    .with_encoding(encoding)
                    .with_scope(self.scope()?)
                    .with_session_options(self.sessions.options()?);
                let machine = Candidate::new(settings, self.seed);
                Ok(Recorded::Election(Box::new(machine)))
            }
        }
    }

    fn scope(&self) -> Result<Scope, InvalidInput> {
        let mut scope = Scope::new().with_consistent_reads(self.consistent);
        if let Some(name) = &self.datacenter {
            scope = scope.with_datacenter(name)?;
        }
        if let Some(name) = &self.namespace {
            scope = scope.with_namespace(name)?;
        }
        if let Some(name) = &self.partition {
            scope = scope.with_partition(name)?;
        }
        Ok(scope)
    }
}

impl Sessions {
    fn of(options: Option<&SessionOptions>) -> Self {
        let options = options.cloned().unwrap_or_default();
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self::Made {
            ttl_ms: millis(options.ttl),
            lock_delay_ms: options.lock_delay.map(millis),
            is_released: options.behavior == Behavior::Release,
            name: options.name,
            node: options.node,
            own_node: options.own_node,
            node_checks: options.node_checks,
            service_checks: options.service_checks,
        }
    }

    fn options(&self) -> Result<SessionOptions, InvalidInput> {
        let Self::Made {
            name,
            node,
            own_node,
            ttl_ms,
            lock_delay_ms,
            is_released,
            node_checks,
            service_checks,
        } = self
        else {
            return Ok(SessionOptions::default());
        };
        let behavior = if *is_released {
            Behavior::Release
        } else {
            Behavior::Delete
        };
        let mut options = SessionOptions::new()
            .with_ttl(Duration::from_millis(*ttl_ms))?
            .with_behavior(behavior);
        if let Some(name) = name {
            options = options.with_name(name)?;
        }
        if let Some(node) = node {
            options = options.with_node(node)?;
        }
        if let Some(node) = own_node {
            options = options.with_own_node(node)?;
        }
        if let Some(delay) = lock_delay_ms {
            options = options.with_lock_delay(Duration::from_millis(*delay))?;
        }
        if !node_checks.is_empty() {
            options = options.with_node_checks(node_checks.iter().cloned())?;
        }
        if !service_checks.is_empty() {
            options = options.with_service_checks(service_checks.iter().cloned())?;
        }
        Ok(options)
    }
}
