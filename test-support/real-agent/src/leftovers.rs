//! What a semaphore left behind on an agent.

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};
use std::{fmt, thread};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::client::Client;

/// The slashes of a key separate its segments, and are not encoded.
const KEY: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'_')
    .remove(b'.');
const POLL: Duration = Duration::from_millis(20);

/// Sessions, contender keys and holder entries of one prefix that still exist.
///
/// The lock record itself may stay, since it holds the limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Sessions that a contender key or the lock record refers to, or whose name contains the
    /// prefix.
    pub sessions: BTreeSet<String>,
    /// Keys below the prefix, apart from the lock record.
    pub keys: BTreeSet<String>,
    /// Sessions among the record's holders. A record that can't be read counts as one holder.
    pub holders: BTreeSet<String>,
}

impl Leftovers {
    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.keys.is_empty() && self.holders.is_empty()
    }
}

impl fmt::Display for Leftovers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            sessions,
            keys,
            holders,
        } = self;
        write!(
            f,
            "sessions {sessions:?}, keys {keys:?}, holders {holders:?}"
        )
    }
}

/// Panics if anything of the semaphore at `prefix` is left on the agent at `url`: see
/// [`Client::assert_nothing_left`].
///
/// # Panics
/// Also if the agent can't be asked.
#[track_caller]
pub fn assert_nothing_left(url: &str, prefix: &str) {
    Client::new(url).assert_nothing_left(prefix);
}

impl Client {
    /// Lists what is left of the semaphore at `prefix`.
    ///
    /// # Errors
    /// If the agent can't be asked or refuses.
    pub fn leftovers(&self, prefix: &str) -> io::Result<Leftovers> {
        let mut left = Leftovers::default();
        let mut mentioned = BTreeSet::new();
        let lock = format!("{prefix}/.lock");
        for entry in self.entries(prefix)? {
            let key = text(&entry["Key"]);
            mentioned.insert(text(&entry["Session"]));
            if key == lock {
                left.holders = holders(&entry["Value"]);
            } else {
                mentioned.extend(key.rsplit('/').next().map(str::to_owned));
                left.keys.insert(key);
            }
        }
        mentioned.extend(left.holders.iter().cloned());
        for session in self.list("/v1/session/list")? {
            let id = text(&session["ID"]);
            if mentioned.contains(&id) || text(&session["Name"]).contains(prefix) {
                left.sessions.insert(id);
            }
        }
        Ok(left)
    }

    /// All sessions that exist, no matter who created them. This is for a test with a separate agent.
    ///
    /// # Errors
    /// As [`Client::leftovers`].
    pub fn sessions(&self) -> io::Result<BTreeSet<String>> {
        let list = self.list("/v1/session/list")?;
        Ok(list.iter().map(|session| text(&session["ID"])).collect())
    }

    /// Asserts that nothing of the semaphore at `prefix` is left. A session that is kept for the
    /// next turn is gone after two fifths of its TTL, or somewhat later on a busy machine.
    ///
    /// # Panics
    /// If something is left, naming it, or if the agent can't be asked.
    #[track_caller]
    pub fn assert_nothing_left(&self, prefix: &str) {
        self.assert_nothing_left_within(prefix, Duration::from_secs(10));
    }

    /// Asserts that nothing of the semaphore at `prefix` is left after at most `patience`. It is
    /// for a clean-up in the background, such as that of a dropped permit.
    ///
    /// # Panics
    /// As [`Client::assert_nothing_left`].
    #[track_caller]
    pub fn assert_nothing_left_within(&self, prefix: &str, patience: Duration) {
        let deadline = Instant::now() + patience;
        loop {
            let left = self.leftovers(prefix);
            if left.as_ref().is_ok_and(Leftovers::is_empty) {
                return;
            }
            if Instant::now() >= deadline {
                let left = left.map_or_else(|error| error.to_string(), |left| left.to_string());
                assert!(left.is_empty(), "left at {prefix}: {left}");
            }
            thread::sleep(POLL);
        }
    }

    fn entries(&self, prefix: &str) -> io::Result<Vec<Value>> {
        let key = utf8_percent_encode(prefix, KEY);
        self.list(&format!("/v1/kv/{key}/?recurse"))
    }

    fn list(&self, path: &str) -> io::Result<Vec<Value>> {
        let answer = self.get(path)?;
        match (answer.status, answer.body.as_slice()) {
            (404, b"") => Ok(Vec::new()),
            (200, _) => match answer.json()? {
                Value::Array(list) => Ok(list),
                // Consul answers so if there are none.
                Value::Null => Ok(Vec::new()),
                _ => Err(answer.refused()),
            },
            _ => Err(answer.refused()),
        }
    }
}

/// The holders of a record in any of the three dialects.
fn holders(value: &Value) -> BTreeSet<String> {
    let record = STANDARD
        .decode(text(value))
        .ok()
        .and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    let Some(Value::Object(record)) = record else {
        return BTreeSet::from(["(unreadable record)".to_owned()]);
    };
    match record.get("Holders").or_else(|| record.get("holders")) {
        Some(Value::Object(map)) => map.keys().cloned().collect(),
        Some(Value::Array(list)) => list.iter().map(text).collect(),
        _ => BTreeSet::new(),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
