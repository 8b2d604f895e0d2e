//! The session table, its timers, and the lock delays after ended sessions.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use semaphore_core::Behavior;
use semaphore_core::adapter::Instant;
use serde::{Serialize, Serializer};

use super::profile::SessionIds;
use super::radix;

/// A longer lock delay is reduced to this when the session ends.
const MAX_LOCK_DELAY: Duration = Duration::from_secs(60);

/// How long a session lives after its last renewal, in multiples of its TTL.
const LIFETIME: f64 = 2.0;

/// A session as the agent shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Session {
    #[serde(rename = "ID")]
    pub(super) id: String,
    pub(super) name: String,
    pub(super) node: String,
    /// In nanoseconds; Go's durations are signed.
    pub(super) lock_delay: i64,
    #[serde(serialize_with = "behavior_as_text")]
    pub(super) behavior: Behavior,
    #[serde(rename = "TTL")]
    pub(super) ttl: String,
    pub(super) node_checks: Option<Vec<String>>,
    pub(super) service_checks: Option<Vec<ServiceCheck>>,
    #[serde(rename = "Checks", skip_serializing_if = "Vec::is_empty")]
    pub(super) legacy_checks: Vec<String>,
    pub(super) create_index: u64,
    pub(super) modify_index: u64,
    #[serde(skip)]
    pub(super) ttl_length: Duration,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn behavior_as_text<S: Serializer>(behavior: &Behavior, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(match behavior {
        Behavior::Release => "release",
        Behavior::Delete => "delete",
    })
}

/// A service's health check that a session depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ServiceCheck {
    #[serde(rename = "ID")]
    pub(super) id: String,
    pub(super) namespace: String,
}

impl Session {
    /// Its id, a UUID.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The name from its creation, or an empty text.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The node it belongs to.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Whether it belongs to this node. Node names are case-insensitive.
    pub(super) fn is_on(&self, node: &str) -> bool {
        self.node.eq_ignore_ascii_case(node)
    }

    /// Its TTL, or `None` without one. It ends twice this long after its last renewal.
    pub fn ttl(&self) -> Option<Duration> {
        Some(self.ttl_length).filter(|ttl| !ttl.is_zero())
    }

    /// How long its keys can't be acquired after its end. A released key is free at once.
    pub fn lock_delay(&self) -> Duration {
        u64::try_from(self.lock_delay).map_or(Duration::ZERO, Duration::from_nanos)
    }

    /// What happens to its keys.
    pub fn behavior(&self) -> Behavior {
        self.behavior
    }

    /// The health checks that end it when they turn critical, including those of services.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn checks(&self) -> impl Iterator<Item = &str> {
        let nodes = self.node_checks.iter().flatten();
        let services = self.service_checks.iter().flatten();
        self.legacy_checks
            .iter()
            .chain(nodes)
            .chain(services.map(|check| &check.id))
            .map(String::as_str)
    }

    /// The Raft index of its creation.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn create_index(&self) -> u64 {
        self.create_index
    }
}

/// The living sessions and when they will end, and the lock delays of ended ones.
#[derive(Clone, Debug)]
pub(super) struct Sessions {
    ids: SessionIds,
    /// In multiples of the TTL.
    pub(super) lifetime: f64,
    /// How long a lock delay lasts, in multiples of the session's setting.
    pub(super) lock_delay_length: f64,
    table: BTreeMap<Vec<u8>, Session>,
    expiries: BTreeMap<Vec<u8>, Instant>,
    /// The same, sorted by time: each request asks for the first.
    ends: BTreeSet<(Instant, Vec<u8>)>,
    lock_delays: BTreeMap<Vec<u8>, Instant>,
    table_index: u64,
    touched: Vec<Vec<u8>>,
}

impl Sessions {
    pub(super) fn new(ids: SessionIds) -> Self {
        Self {
            ids,
            lifetime: LIFETIME,
            lock_delay_length: 1.0,
            table: BTreeMap::new(),
            expiries: BTreeMap::new(),
            ends: BTreeSet::new(),
            lock_delays: BTreeMap::new(),
            table_index: 0,
            touched: Vec::new(),
        }
    }

    /// The key of this id's session in the tables. The error is the agent's text about a bad id.
    pub(super) fn key_of(&self, id: &str) -> Result<Vec<u8>, String> {
        match self.ids {
            SessionIds::Uuids => parse_id(id),
            // It ends in a zero byte, so that no key is a prefix of another.
            SessionIds::Texts => Ok([id.to_ascii_lowercase().as_bytes(), &[0]].concat()),
        }
    }

    pub(super) fn get(&self, id: &[u8]) -> Option<&Session> {
        self.table.get(id)
    }

    /// All sessions in the order of their ids.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Session> {
        self.table.values()
    }

    pub(super) fn table_index(&self) -> u64 {
        self.table_index
    }

    /// The node that a lookup of one session watches when it is missing.
    pub(super) fn node_of_id(&self, id: &[u8]) -> radix::Node {
        radix::Node::reached(&self.table, id)
    }

    /// The sessions that began or ended since the last call.
    pub(super) fn take_touched(&mut self) -> Vec<Vec<u8>> {
        core::mem::take(&mut self.touched)
    }

    /// Adds a session and starts its timer at `now`.
    pub(super) fn insert(&mut self, now: Instant, id: &[u8], session: Session) {
        self.table_index = session.modify_index;
        self.touched.push(id.to_vec());
        self.table.insert(id.to_vec(), session);
        self.restart_timer(now, id);
    }

    /// Lets the session live for its lifetime, by default twice its TTL, from `now` on.
    pub(super) fn restart_timer(&mut self, now: Instant, id: &[u8]) {
        if let Some(ttl) = self.table.get(id).and_then(Session::ttl) {
            let at = now + ttl.mul_f64(self.lifetime);
            self.stop_timer(id);
            self.expiries.insert(id.to_vec(), at);
            self.ends.insert((at, id.to_vec()));
        }
    }

    fn stop_timer(&mut self, id: &[u8]) {
        if let Some((id, at)) = self.expiries.remove_entry(id) {
            self.ends.remove(&(at, id));
        }
    }

    pub(super) fn restart_all_timers(&mut self, now: Instant) {
        let ids: Vec<_> = self.table.keys().cloned().collect();
        for id in ids {
            self.restart_timer(now, &id);
        }
    }

    pub(super) fn stop_all_timers(&mut self) {
        self.expiries.clear();
        self.ends.clear();
    }

    /// When the next session ends.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.ends.first().map(|(at, _)| *at)
    }

    pub(super) fn expiry(&self, id: &[u8]) -> Option<Instant> {
        self.expiries.get(id).copied()
    }

    pub(super) fn lock_delays(&self) -> impl Iterator<Item = (&[u8], Instant)> {
        self.lock_delays
            .iter()
            .map(|(key, until)| (key.as_slice(), *until))
    }

    /// The session that expired first.
    pub(super) fn expired(&self, now: Instant) -> Option<Vec<u8>> {
        let (at, id) = self.ends.first()?;
        (*at <= now).then(|| id.clone())
    }

    /// Takes a session out.
    pub(super) fn remove(&mut self, index: u64, id: &[u8]) -> Option<Session> {
        let session = self.table.remove(id)?;
        self.stop_timer(id);
        self.table_index = index;
        self.touched.push(id.to_vec());
        Some(session)
    }

    /// Starts the session's lock delay on `key`.
    pub(super) fn delay_lock(&mut self, now: Instant, key: &[u8], session: &Session) {
        let delay = session.lock_delay().min(MAX_LOCK_DELAY);
        if !delay.is_zero() {
            let length = delay.mul_f64(self.lock_delay_length);
            self.lock_delays.insert(key.to_vec(), now + length);
        }
    }

    /// Whether a lock delay prevents an acquisition of `key`.
    pub(super) fn is_delayed(&self, now: Instant, key: &[u8]) -> bool {
        self.lock_delays.get(key).is_some_and(|until| *until > now)
    }

    /// Forgets all lock delays.
    pub(super) fn end_lock_delays(&mut self) {
        self.lock_delays.clear();
    }

    /// Forgets the lock delays that are over.
    pub(super) fn reap(&mut self, now: Instant) {
        self.lock_delays.retain(|_, until| *until > now);
    }

    /// Gives every index a new number, by `renumber`.
    pub(super) fn renumber(&mut self, renumber: impl Fn(u64) -> u64) {
        for session in self.table.values_mut() {
            session.create_index = renumber(session.create_index);
            session.modify_index = renumber(session.modify_index);
        }
        self.table_index = renumber(self.table_index);
    }

    /// Every index in use, in no particular order.
    pub(super) fn indexes(&self) -> impl Iterator<Item = u64> {
        self.table
            .values()
            .map(|session| session.create_index)
            .chain([self.table_index])
    }
}

/// The 16 bytes of a session's id. The error is the agent's text about a bad id.
fn parse_id(id: &str) -> Result<Vec<u8>, String> {
    let fault = |text: &str| Err(format!("failed session lookup: index error: {text}"));
    if id.len() != 36 {
        return fault("UUID must be 36 characters");
    }
    let hyphens = id.bytes().filter(|byte| *byte == b'-').count();
    if hyphens > 4 {
        return fault(&format!(
            "UUID should have maximum of 4 \"-\"; got {hyphens}"
        ));
    }
    let digits: Vec<char> = id.chars().filter(|c| *c != '-').collect();
    if let Some(c) = digits.iter().find(|c| !c.is_ascii_hexdigit()) {
        return fault(&format!(
            "Invalid UUID: encoding/hex: invalid byte: U+{:04X} '{c}'",
            u32::from(*c)
        ));
    }
    let nibbles: Vec<u8> = digits
        .iter()
        .filter_map(|c| c.to_digit(16))
        .filter_map(|digit| u8::try_from(digit).ok())
        .collect();
    if nibbles.len() % 2 == 1 {
        return fault("Invalid UUID: encoding/hex: odd length hex string");
    }
    Ok(nibbles
        .chunks(2)
        .map(|pair| pair.iter().fold(0, |byte, nibble| byte << 4 | nibble))
        .collect())
}
