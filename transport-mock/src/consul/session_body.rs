//! The body of a session's creation.

use serde_json::{Map, Value};

use super::catalog::SERF_HEALTH;
use super::go;
use super::go_json::{self, Field};
use super::sessions::ServiceCheck;

const DEFAULT_LOCK_DELAY: i64 = 15_000_000_000;

/// A lock delay below this number of nanoseconds is taken as seconds.
const LOCK_DELAY_THRESHOLD: i64 = 1000;

/// The session that a client asks for.
pub(super) struct Wanted {
    pub(super) name: String,
    pub(super) node: String,
    pub(super) behavior: String,
    pub(super) ttl: String,
    pub(super) lock_delay: i64,
    pub(super) node_checks: Option<Vec<String>>,
    pub(super) service_checks: Option<Vec<ServiceCheck>>,
    /// The content of `Checks`, the older name of `NodeChecks`.
    pub(super) legacy_checks: Vec<String>,
}

impl Wanted {
    /// The session of a request without a body.
    pub(super) fn of_node(node: &str) -> Self {
        Self {
            name: String::new(),
            node: node.into(),
            behavior: String::new(),
            ttl: String::new(),
            lock_delay: DEFAULT_LOCK_DELAY,
            node_checks: Some(vec![SERF_HEALTH.into()]),
            service_checks: None,
            legacy_checks: Vec::new(),
        }
    }

    /// Reads the body. The error says what is wrong with it.
    pub(super) fn read(&mut self, body: &[u8]) -> Result<(), String> {
        let fields = match go_json::decode(body)? {
            Value::Object(fields) => fields,
            Value::Null => return Ok(()),
            _ => return Err("the body is no object".to_owned()),
        };
        let text = |name: &str, into: &mut String| -> Result<(), String> {
            if let Some(found) = Field::new(&fields, name).text()? {
                *into = found;
            }
            Ok(())
        };
        text("Name", &mut self.name)?;
        text("Node", &mut self.node)?;
        text("TTL", &mut self.ttl)?;
        let behavior = Field::new(&fields, "Behavior").text()?;
        self.behavior = behavior.unwrap_or_default();
        self.read_checks(&fields)?;
        match go_json::member(&fields, "LockDelay") {
            Some(lock_delay) => self.read_lock_delay(lock_delay),
            None => Ok(()),
        }
    }

    /// All checks, in the order in which they are looked up.
    pub(super) fn checks(&self) -> impl Iterator<Item = &str> {
        let nodes = self.node_checks.iter().flatten();
        let services = self.service_checks.iter().flatten();
        self.legacy_checks
            .iter()
            .chain(nodes)
            .chain(services.map(|check| &check.id))
            .map(String::as_str)
    }

    fn read_lock_delay(&mut self, value: &Value) -> Result<(), String> {
        let nanos = match value {
            Value::Null => return Ok(()),
            Value::String(text) => go::parse_duration(text)?,
            #[expect(
                clippy::cast_possible_truncation,
                reason = "Go cuts the fraction off, too"
            )]
            Value::Number(number) => number.as_f64().unwrap_or_default() as i64,
            _ => 0,
        };
        self.lock_delay = if nanos < LOCK_DELAY_THRESHOLD {
            nanos.wrapping_mul(1_000_000_000)
        } else {
            nanos
        };
        Ok(())
    }

    /// Both lists default to `serfHealth`. If one is empty, the other is emptied, and the legacy
    /// list is looked at first. A legacy list of only `serfHealth` counts as none.
    fn read_checks(&mut self, fields: &Map<String, Value>) -> Result<(), String> {
        let read = |name| match go_json::member(fields, name) {
            None => Ok(Some(vec![SERF_HEALTH.to_owned()])),
            Some(Value::Null) => Ok(None),
            // A `null` keeps the default at its place.
            Some(Value::Array(names)) if names.first() == Some(&Value::Null) => {
                let mut texts = Field::new(fields, name).texts()?;
                texts[0] = SERF_HEALTH.into();
                Ok(Some(texts))
            }
            Some(_) => Field::new(fields, name).texts().map(Some),
        };
        self.node_checks = read("NodeChecks")?;
        self.legacy_checks = read("Checks")?.unwrap_or_default();
        if self.legacy_checks.is_empty() {
            self.node_checks = Some(Vec::new());
        } else if self.node_checks.as_ref().is_none_or(Vec::is_empty)
            || self.legacy_checks == [SERF_HEALTH]
        {
            self.legacy_checks.clear();
        }
        if let Some(given) = go_json::member(fields, "ServiceChecks") {
            self.service_checks = read_service_checks(given)?;
        }
        Ok(())
    }
}

fn read_service_checks(given: &Value) -> Result<Option<Vec<ServiceCheck>>, String> {
    let mismatch = || "ServiceChecks is no list of checks".to_owned();
    let checks = match given {
        Value::Null => return Ok(None),
        Value::Array(checks) => checks,
        _ => return Err(mismatch()),
    };
    let mut read = Vec::new();
    for check in checks {
        let fields = match check {
            Value::Object(fields) => fields,
            Value::Null => &Map::new(),
            _ => return Err(mismatch()),
        };
        let text = |name| Field::new(fields, name).text();
        read.push(ServiceCheck {
            id: text("ID")?.unwrap_or_default(),
            namespace: text("Namespace")?.unwrap_or_default(),
        });
    }
    Ok(Some(read))
}
