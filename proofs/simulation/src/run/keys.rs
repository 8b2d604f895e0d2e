//! What answers show, as everybody but the library reads them. A mistake of the library's reader would
//! hide what it leads to.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use judge::Record;
use semaphore_core::sans_io::Response;
use serde_json::Value as Json;

/// The id of a session that was created.
pub(super) fn session_of(answer: &Response) -> Option<String> {
    let body: Json = serde_json::from_slice(answer.body()).ok()?;
    Some(body["ID"].as_str()?.to_owned())
}

/// Keys, as one read shows them.
pub(super) struct Keys {
    pub(super) index: u64,
    entries: Vec<Json>,
}

impl Keys {
    /// `None` if the answer shows nothing.
    pub(super) fn of(answer: &Response) -> Option<Self> {
        let index = answer.header("X-Consul-Index")?.parse().ok()?;
        let entries = match answer.status() {
            200 => serde_json::from_slice(answer.body()).ok()?,
            404 => Vec::new(),
            _ => return None,
        };
        Some(Self { index, entries })
    }

    /// Whether the answer says that ACLs hide some.
    pub(super) fn is_filtered(answer: &Response) -> bool {
        let header = answer.header("X-Consul-Results-Filtered-By-ACLs");
        header.is_some_and(|said| said == "true")
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn get(&self, key: &str) -> Option<Key<'_>> {
        self.entries.iter().find(|it| it["Key"] == key).map(Key)
    }

    /// The sessions that keys are tied to.
    pub(super) fn tied(&self) -> BTreeSet<&str> {
        let sessions = self.entries.iter().filter_map(|it| it["Session"].as_str());
        sessions.collect()
    }
}

/// One of them.
pub(super) struct Key<'a>(&'a Json);

impl Key<'_> {
    pub(super) fn session(&self) -> Option<&str> {
        self.0["Session"].as_str()
    }

    pub(super) fn flags(&self) -> u64 {
        self.0["Flags"].as_u64().unwrap_or_default()
    }

    pub(super) fn modify_index(&self) -> u64 {
        self.0["ModifyIndex"].as_u64().unwrap_or_default()
    }

    /// Its value as a record, if it is one.
    pub(super) fn record(&self) -> Option<Record> {
        let value = STANDARD.decode(self.0["Value"].as_str()?).ok()?;
        Record::read(&value, self.flags())
    }
}
