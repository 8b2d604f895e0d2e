//! The options of the sessions that a semaphore makes.

use core::time::Duration;

use super::{LockKey, Prefix, checked_name};
use crate::error::InvalidInput;

/// What becomes of the keys of a session that is invalidated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Behavior {
    /// They are deleted: nothing of a dead contender stays behind.
    #[default]
    Delete,
    /// They stay, without their session, until somebody collects them.
    Release,
}

impl Behavior {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Release => "release",
        }
    }
}

/// How the sessions of a semaphore are created, see the session page of Consul's HTTP API.
///
/// The defaults tie a session to its TTL alone: 15 s, no health checks, behavior `delete`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionOptions {
    pub(crate) name: Option<String>,
    pub(crate) node: Option<String>,
    pub(crate) ttl: Duration,
    pub(crate) lock_delay: Duration,
    pub(crate) behavior: Behavior,
    pub(crate) node_checks: Vec<String>,
    pub(crate) service_checks: Vec<String>,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            name: None,
            node: None,
            ttl: Duration::from_secs(15),
            lock_delay: Duration::from_secs(15),
            behavior: Behavior::Delete,
            node_checks: Vec::new(),
            service_checks: Vec::new(),
        }
    }
}

impl SessionOptions {
    /// The shortest TTL that Consul takes.
    pub const MIN_TTL: Duration = Duration::from_secs(10);
    /// The longest TTL that Consul takes.
    pub const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);
    /// The longest lock delay.
    pub const MAX_LOCK_DELAY: Duration = Duration::from_secs(60);

    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// A name for people who list sessions; `semaphore <prefix>` or `election <key>` unless given.
    ///
    /// # Errors
    /// [`InvalidInput::Name`].
    pub fn with_name(mut self, name: impl Into<String>) -> Result<Self, InvalidInput> {
        self.name = Some(checked_name("session name", name.into())?);
        Ok(self)
    }

    /// Ties the session to this node instead of the agent's own.
    ///
    /// # Errors
    /// [`InvalidInput::Name`].
    pub fn with_node(mut self, node: impl Into<String>) -> Result<Self, InvalidInput> {
        self.node = Some(checked_name("node", node.into())?);
        Ok(self)
    }

    /// How long a holder that falls silent keeps its slot at least; Consul frees it within twice
    /// this time. A renewal is sent every third of it.
    ///
    /// # Errors
    /// [`InvalidInput::Ttl`] outside [`Self::MIN_TTL`] and [`Self::MAX_TTL`].
    pub fn with_ttl(mut self, ttl: Duration) -> Result<Self, InvalidInput> {
        if !(Self::MIN_TTL..=Self::MAX_TTL).contains(&ttl) {
            return Err(InvalidInput::Ttl(ttl));
        }
        self.ttl = ttl;
        Ok(self)
    }

    /// How long Consul refuses to lock a key of the session again after an invalidation. It does not
    /// protect a semaphore's slot: contender keys belong to one session each. It does protect a
    /// leadership, see [`Election::builder`](crate::Election::builder).
    ///
    /// # Errors
    /// [`InvalidInput::LockDelay`] over [`Self::MAX_LOCK_DELAY`].
    pub fn with_lock_delay(mut self, lock_delay: Duration) -> Result<Self, InvalidInput> {
        if lock_delay > Self::MAX_LOCK_DELAY {
            return Err(InvalidInput::LockDelay(lock_delay));
        }
        self.lock_delay = lock_delay;
        Ok(self)
    }

    /// What becomes of the contender key when the session is invalidated.
    #[must_use]
    pub fn with_behavior(mut self, behavior: Behavior) -> Self {
        self.behavior = behavior;
        self
    }

    /// Ties the session to health checks of its node, for example `serfHealth`.
    ///
    /// This weakens invariant S2: a check that fails ends the session, and so the slot, before the
    /// lease has run out, and the holder learns it only from its watch. In return a crashed node
    /// is noticed before its TTL.
    ///
    /// # Errors
    /// [`InvalidInput::Name`].
    pub fn with_node_checks<I>(mut self, checks: I) -> Result<Self, InvalidInput>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.node_checks = checked_names("node check", checks)?;
        Ok(self)
    }

    /// Ties the session to health checks of services on its node, by check id. Costs the same as
    /// [`Self::with_node_checks`]. Needs Consul 1.7 or newer.
    ///
    /// # Errors
    /// [`InvalidInput::Name`].
    pub fn with_service_checks<I>(mut self, checks: I) -> Result<Self, InvalidInput>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.service_checks = checked_names("service check", checks)?;
        Ok(self)
    }

    /// With a name that tells what the session is for, unless it has one.
    pub(crate) fn for_prefix(self, prefix: &Prefix) -> Self {
        self.or_named(|| format!("semaphore {prefix}"))
    }

    /// As an election needs it: the key stays when the session ends, since its `LockIndex` counts
    /// the terms.
    pub(crate) fn for_election(self, key: &LockKey) -> Self {
        self.or_named(|| format!("election {key}"))
            .with_behavior(Behavior::Release)
    }

    fn or_named(mut self, name: impl FnOnce() -> String) -> Self {
        self.name.get_or_insert_with(name);
        self
    }

    /// The TTL.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }
}

fn checked_names<I>(what: &'static str, names: I) -> Result<Vec<String>, InvalidInput>
where
    I: IntoIterator,
    I::Item: Into<String>,
{
    names
        .into_iter()
        .map(|name| checked_name(what, name.into()))
        .collect()
}

/// A duration as Go's `time.ParseDuration` reads it.
pub(crate) fn go_duration(duration: Duration) -> String {
    if duration.subsec_nanos() == 0 {
        format!("{}s", duration.as_secs())
    } else {
        format!("{}ns", duration.as_nanos())
    }
}

/// Reads what Go's `Duration.String` prints, such as `15s`, `1m30s`, `24h0m0s` or `1.5s`.
pub(crate) fn parse_go_duration(text: &str) -> Option<Duration> {
    if text.is_empty() {
        return None;
    }
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let number_len = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .filter(|len| *len > 0)?;
        let number: f64 = rest[..number_len].parse().ok()?;
        rest = &rest[number_len..];
        let unit_len = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        total += number
            * match &rest[..unit_len] {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 1e-3,
                "us" | "µs" => 1e-6,
                "ns" => 1e-9,
                _ => return None,
            };
        rest = &rest[unit_len..];
    }
    Duration::try_from_secs_f64(total).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ttl_and_lock_delay_keep_consuls_bounds() {
        let options = SessionOptions::new;
        let s = Duration::from_secs;
        assert!(options().with_ttl(s(10)).is_ok());
        assert!(options().with_ttl(s(24 * 3600)).is_ok());
        let chosen = options().with_ttl(s(20)).unwrap();
        assert_eq!(chosen.ttl(), s(20));
        for bad in [s(0), s(9), s(24 * 3600 + 1), Duration::from_millis(9_999)] {
            assert_eq!(options().with_ttl(bad), Err(InvalidInput::Ttl(bad)));
        }
        assert!(options().with_lock_delay(s(0)).is_ok());
        assert!(options().with_lock_delay(s(60)).is_ok());
        assert_eq!(
            options().with_lock_delay(s(61)),
            Err(InvalidInput::LockDelay(s(61)))
        );
    }

    #[test]
    fn durations_are_written_and_read_as_go_does() {
        let ms = Duration::from_millis;
        assert_eq!(go_duration(ms(15_000)), "15s");
        assert_eq!(go_duration(ms(10_500)), "10500000000ns");
        for (text, expected) in [
            ("15s", Some(ms(15_000))),
            ("1m30s", Some(ms(90_000))),
            ("24h0m0s", Some(ms(86_400_000))),
            ("1.5s", Some(ms(1_500))),
            ("250ms", Some(ms(250))),
            ("5000us", Some(ms(5))),
            ("5000µs", Some(ms(5))),
            ("5000000ns", Some(ms(5))),
            ("", None),
            ("15", None),
            ("s", None),
            ("15 s", None),
            ("-15s", None),
            ("1..5s", None),
            ("é", None),
        ] {
            assert_eq!(parse_go_duration(text), expected, "{text}");
        }
    }
}
