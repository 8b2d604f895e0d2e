//! The options of a semaphore's or election's sessions.

use core::time::Duration;

use super::{LockKey, Prefix, checked_name};
use crate::defect::{Defect, is_on};
use crate::input::InvalidInput;

/// What happens to the keys of an invalidated session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Behavior {
    /// They are deleted. A dead contender leaves nothing behind.
    #[default]
    Delete,
    /// They stay, without a session, until somebody collects them.
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

/// The options of the sessions. See the session page of Consul's HTTP API.
///
/// By default a session depends only on its TTL: 15 s, no health checks, behavior `delete`. The
/// lock delay equals the TTL, see [`Self::with_lock_delay`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionOptions {
    pub(crate) name: Option<String>,
    pub(crate) node: Option<String>,
    /// A node without an agent. It excludes `node` and checks.
    pub(crate) own_node: Option<String>,
    pub(crate) ttl: Duration,
    /// `None` if it is not set: then it follows from the TTL.
    pub(crate) lock_delay: Option<Duration>,
    pub(crate) behavior: Behavior,
    pub(crate) node_checks: Vec<String>,
    pub(crate) service_checks: Vec<String>,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            name: None,
            node: None,
            own_node: None,
            ttl: Duration::from_secs(15),
            lock_delay: None,
            behavior: Behavior::Delete,
            node_checks: Vec::new(),
            service_checks: Vec::new(),
        }
    }
}

impl SessionOptions {
    /// The shortest TTL that Consul accepts.
    pub const MIN_TTL: Duration = Duration::from_secs(10);
    /// The longest TTL that Consul accepts.
    pub const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);
    /// The longest lock delay.
    pub const MAX_LOCK_DELAY: Duration = Duration::from_secs(60);
    /// Consul's default lock delay, for sessions that name none.
    pub const DEFAULT_LOCK_DELAY: Duration = Duration::from_secs(15);

    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// A name for people who list sessions. The default is `semaphore <prefix>` or `election <key>`.
    ///
    /// # Errors
    /// [`InvalidInput::Name`].
    pub fn with_name(mut self, name: impl Into<String>) -> Result<Self, InvalidInput> {
        self.name = Some(checked_name("session name", name.into())?);
        Ok(self)
    }

    /// Ties the session to this node instead of the agent's. The session ends with the node. See
    /// [`Self::with_own_node`] for a lasting node.
    ///
    /// # Errors
    /// [`InvalidInput::Name`], [`InvalidInput::OwnNode`].
    pub fn with_node(mut self, node: impl Into<String>) -> Result<Self, InvalidInput> {
        self.node = Some(checked_name("node", node.into())?);
        self.checked()
    }

    /// Ties the session to a node that belongs to no agent, such as `semaphores`. All participants may share it.
    ///
    /// A session ends with its node, whatever its TTL. An agent's node is removed from the catalog
    /// when the agent leaves, as with `systemctl restart consul`. A server's node is removed some
    /// seconds after its death. A separate node has no agent and no health, so only an operator
    /// removes it. Then a hold ends only if its host is silent for as long as the TTL.
    ///
    /// The node is registered if it is missing, and is not changed if it exists. It gets the
    /// address 192.0.2.1, which nobody has (RFC 5737), and the metadata `external-node: true`,
    /// `external-probe: false`, with which Consul's tools mark what they don't watch. If it is
    /// removed, holds are lost; a waiter registers it again.
    ///
    /// - *It needs* `session:write` on that name, and `node:write` if it is missing. If a token
    ///   does not have that, an operator registers it once.
    /// - *It costs* an entry in the catalog and a name in Consul's DNS, and the agents' health no longer ends a session. A name that
    ///   is a DNS label (letters, digits, dashes) saves a warning in Consul's log.
    /// - *It works across datacenters*: with
    ///   [`Scope::with_datacenter`](crate::Scope::with_datacenter) the node belongs to that
    ///   datacenter. The agent must pass such sessions on: a client agent of 1.23 refuses them, but
    ///   a server does it.
    /// - *It does not help* if Consul is silent for longer than the lease, or if a server restores
    ///   an old snapshot.
    /// - The lock delay does not change. Such a session ends early only if somebody destroys it or
    ///   removes the node. If you can rule that out, you may set
    ///   [a lock delay](Self::with_lock_delay) of zero: a crashed holder's slot is then free as
    ///   soon as its session expires. If it still happens, or if a server that was cut off for
    ///   longer than the TTL has renewed a waiter's session, two may hold until the first one's
    ///   lease ends.
    ///
    /// # Errors
    /// [`InvalidInput::Name`]. [`InvalidInput::OwnNode`] together with another node, or with health
    /// checks, which such a node does not have.
    pub fn with_own_node(mut self, name: impl Into<String>) -> Result<Self, InvalidInput> {
        self.own_node = Some(checked_name("node", name.into())?);
        self.checked()
    }

    /// The node of the sessions. `None` for the agent's.
    pub(crate) fn standing_on(&self) -> Option<&str> {
        let own = self.own_node.as_deref();
        own.filter(|_| !is_on(Defect::OwnNodeForgotten))
            .or(self.node.as_deref())
    }

    /// A node without an agent excludes another node and checks.
    fn checked(self) -> Result<Self, InvalidInput> {
        let beside = [
            ("another node", self.node.is_some()),
            ("node checks", !self.node_checks.is_empty()),
            ("service checks", !self.service_checks.is_empty()),
        ];
        let beside = beside.into_iter().find(|(_, is_given)| *is_given);
        match beside.filter(|_| self.own_node.is_some()) {
            Some((beside, _)) => Err(InvalidInput::OwnNode { beside }),
            None => Ok(self),
        }
    }

    /// Sets the least time for which a silent holder keeps its slot. Consul ends its session within
    /// twice this time, and the lock delay follows. A holder sends a renewal every sixteenth to
    /// fifteenth of it, a waiter every quarter to third.
    ///
    /// A hold survives an outage of four fifths of the TTL: with 15 s, 12 s, whenever the outage
    /// begins, less the time of three answers. So choose four thirds of the longest outage that must
    /// cost nothing. An election after a leader's crash takes about 11 s with Consul's default `raft_multiplier` of 5.
    ///
    /// A lease is nine tenths of the TTL, or 54 s if the TTL is more than a minute. The reason is
    /// that a session may end early, and then the lock delay, which is at most a minute, keeps
    /// others away. So with a TTL over a minute nobody holds through a longer outage; Consul only
    /// cleans up later.
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

    /// Sets how long a holder's or leader's place stays empty after its session was invalidated: at
    /// most 60 s. The default is the TTL, up to 60 s, and for an election at least 15 s.
    ///
    /// It protects against a holder that does not know that its session is gone. A session ends
    /// with the node of its agent, whatever its TTL. If a server dies, freezes or is cut off,
    /// Consul removes its node some ten seconds later. A session also ends if an operator destroys
    /// it or deregisters the node, or if a health check fails. A holder that is cut off then still
    /// believes that it holds, until its lease is over at nine tenths of the TTL. The last tenth is
    /// for clocks with different rates.
    ///
    /// The price is that after a crash nobody has the place for that time. A slot that is given
    /// back is free at once. So is the slot of a holder that learns that its session is gone.
    ///
    /// If it is shorter than nine tenths of the TTL, two may hold for the time of the difference.
    /// If it is zero, the slot of a holder whose session has ended is free at once, as with Go's
    /// client. A warning is logged when the handle is connected. It does not change how long others
    /// wait for their former holders.
    ///
    /// # Errors
    /// [`InvalidInput::LockDelay`] over [`Self::MAX_LOCK_DELAY`].
    pub fn with_lock_delay(mut self, lock_delay: Duration) -> Result<Self, InvalidInput> {
        if lock_delay > Self::MAX_LOCK_DELAY {
            return Err(InvalidInput::LockDelay(lock_delay));
        }
        self.lock_delay = Some(lock_delay);
        Ok(self)
    }

    /// Sets what happens to the session's keys when it is invalidated. Contenders of a semaphore
    /// always delete them, and elections always keep them.
    #[must_use]
    pub fn with_behavior(mut self, behavior: Behavior) -> Self {
        self.behavior = behavior;
        self
    }

    /// Ties the session to health checks of its node, for example `serfHealth`.
    ///
    /// This weakens S2: a failed check ends the session, and so the slot, before the lease is over.
    /// The holder only learns it from its watch. The benefit is that a crashed node is noticed
    /// before its TTL.
    ///
    /// # Errors
    /// [`InvalidInput::Name`], [`InvalidInput::OwnNode`].
    pub fn with_node_checks<I>(mut self, checks: I) -> Result<Self, InvalidInput>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.node_checks = checked_names("node check", checks)?;
        self.checked()
    }

    /// Ties the session to health checks of services on its node, by check id. The cost is that of
    /// [`Self::with_node_checks`]. It needs Consul 1.7 or newer.
    ///
    /// # Errors
    /// [`InvalidInput::Name`], [`InvalidInput::OwnNode`].
    pub fn with_service_checks<I>(mut self, checks: I) -> Result<Self, InvalidInput>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.service_checks = checked_names("service check", checks)?;
        self.checked()
    }

    /// Adds a default name with the prefix, unless it has a name.
    pub(crate) fn for_prefix(self, prefix: &Prefix) -> Self {
        self.or_named(|| format!("semaphore {prefix}"))
            .with_behavior(Behavior::Delete)
    }

    pub(crate) fn for_process(self) -> Self {
        self.or_named(|| "semaphores of one process".to_owned())
            .with_behavior(Behavior::Delete)
    }

    /// Adapts the options to elections that share them.
    pub(crate) fn for_elections(self) -> Self {
        self.or_named(|| "elections of one process".to_owned())
            .of_election()
    }

    /// Adapts the options to an election, with a default name that has its key.
    pub(crate) fn for_election(self, key: &LockKey) -> Self {
        self.or_named(|| format!("election {key}")).of_election()
    }

    /// The key must stay when the session ends, since its `LockIndex` counts the terms. The lock
    /// delay is at least Consul's default, which other election clients have.
    fn of_election(mut self) -> Self {
        let least = Self::DEFAULT_LOCK_DELAY.max(self.lock_delay());
        self.lock_delay.get_or_insert(least);
        self.with_behavior(Behavior::Release)
    }

    /// Whether a lease is longer than the lock delay.
    pub(crate) fn outlasts_lock_delay(&self) -> bool {
        self.lock_delay
            .is_some_and(|delay| delay < self.ttl.min(Self::MAX_LOCK_DELAY))
    }

    /// Whether the TTL is longer than a hold lasts without an answer, whatever the lock delay is.
    pub(crate) fn outlasts_every_lock_delay(&self) -> bool {
        self.ttl > Self::MAX_LOCK_DELAY
    }

    fn or_named(mut self, name: impl FnOnce() -> String) -> Self {
        self.name.get_or_insert_with(name);
        self
    }

    /// The TTL.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// The lock delay: the one that was set, or the one that follows from the TTL.
    pub fn lock_delay(&self) -> Duration {
        if is_on(Defect::LockDelayShort) {
            return Duration::from_secs(1);
        }
        self.lock_delay
            .unwrap_or_else(|| self.ttl.min(Self::MAX_LOCK_DELAY))
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

/// A duration in the format of Go's `time.ParseDuration`.
pub(crate) fn go_duration(duration: Duration) -> String {
    if duration.subsec_nanos() == 0 {
        format!("{}s", duration.as_secs())
    } else {
        format!("{}ns", duration.as_nanos())
    }
}

/// Reads the output of Go's `Duration.String`, such as `15s`, `1m30s`, `24h0m0s` or `1.5s`.
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
        for delay in [s(0), s(60)] {
            let chosen = options().with_lock_delay(delay).unwrap();
            assert_eq!(chosen.lock_delay(), delay);
        }
        assert_eq!(
            options().with_lock_delay(s(61)),
            Err(InvalidInput::LockDelay(s(61)))
        );
    }

    #[test]
    fn a_node_of_ones_own_goes_with_no_other_and_with_no_checks() {
        let own = || SessionOptions::new().with_own_node("semaphores");
        assert_eq!(own().unwrap().standing_on(), Some("semaphores"));
        let beside = |beside| Err(InvalidInput::OwnNode { beside });
        assert_eq!(
            own().and_then(|it| it.with_node("a")),
            beside("another node")
        );
        let node = SessionOptions::new().with_node("a").unwrap();
        assert_eq!(node.standing_on(), Some("a"));
        assert_eq!(node.with_own_node("semaphores"), beside("another node"));
        let checks = own().and_then(|it| it.with_node_checks(["serfHealth"]));
        assert_eq!(checks, beside("node checks"));
        let checks = own().and_then(|it| it.with_service_checks(["web"]));
        assert_eq!(checks, beside("service checks"));
        let nothing: [&str; 0] = [];
        assert!(own().and_then(|it| it.with_node_checks(nothing)).is_ok());
        let empty = SessionOptions::new().with_own_node("");
        assert!(matches!(empty, Err(InvalidInput::Name { .. })));
    }

    #[test]
    fn a_lock_delay_that_nobody_has_chosen_follows_from_the_ttl() {
        let s = Duration::from_secs;
        let key = LockKey::new("leader").unwrap();
        for (ttl, of_semaphore, of_election) in [
            (10, 10, 15),
            (15, 15, 15),
            (30, 30, 30),
            (60, 60, 60),
            (600, 60, 60),
        ] {
            let options = SessionOptions::new().with_ttl(s(ttl)).unwrap();
            assert_eq!(options.lock_delay(), s(of_semaphore), "{ttl}");
            let options = options.for_election(&key);
            assert_eq!(options.lock_delay(), s(of_election), "{ttl}");
        }
        let chosen = SessionOptions::new().with_lock_delay(s(1)).unwrap();
        assert_eq!(chosen.for_election(&key).lock_delay(), s(1));
    }

    #[test]
    fn a_belief_that_may_outlast_the_lock_delay_is_noticed() {
        let s = Duration::from_secs;
        let of = |ttl, delay| {
            let options = SessionOptions::new().with_ttl(s(ttl)).unwrap();
            options.with_lock_delay(s(delay)).unwrap()
        };
        assert!(!SessionOptions::new().outlasts_lock_delay());
        for (ttl, delay, outlasts) in [
            (20, 19, true),
            (20, 20, false),
            (20, 21, false),
            (600, 59, true),
            (600, 60, false),
        ] {
            let options = of(ttl, delay);
            assert_eq!(options.outlasts_lock_delay(), outlasts, "{ttl} {delay}");
            assert_eq!(options.outlasts_every_lock_delay(), ttl > 60);
        }
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
