//! What the machines' tests share.

use core::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::api::ListKeys;
use crate::http::Response;
use crate::id::SessionId;
use crate::input::Prefix;
use crate::machine::semaphore::Settings;
use crate::time::Instant;
use crate::view::View;

pub(super) const A: &str = "aaaaaaaa-0000-0000-0000-000000000000";
pub(super) const B: &str = "bbbbbbbb-0000-0000-0000-000000000000";
pub(super) const C: &str = "cccccccc-0000-0000-0000-000000000000";

pub(super) fn at(millis: u64) -> Instant {
    Instant::from_origin(Duration::from_millis(millis))
}

pub(super) fn session(id: &str) -> SessionId {
    SessionId::new(id).unwrap()
}

/// A semaphore `jobs` with one slot.
pub(super) fn settings() -> Settings {
    Settings::new(Prefix::new("jobs").unwrap(), 1).unwrap()
}

/// The content of the prefix `jobs`.
#[derive(Clone, Copy, Default)]
pub(super) struct Shown<'a> {
    /// `ModifyIndex` and value of the record, if it exists.
    pub(super) lock: Option<(u64, &'a str)>,
    /// Contender keys and their sessions, if they have one, in the order in which they came.
    pub(super) keys: &'a [(&'a str, &'a str)],
    pub(super) filtered: bool,
}

impl Shown<'_> {
    pub(super) fn view(self) -> View {
        let keys = self.keys.iter();
        let keys: Vec<_> = keys.map(|(name, session)| (*name, *session, 0)).collect();
        self.view_with_flags(&keys)
    }

    /// With these keys instead: each with its session and flags.
    pub(super) fn view_with_flags(self, keys: &[(&str, &str, u64)]) -> View {
        let mut entries = Vec::new();
        if let Some((index, record)) = self.lock {
            let value = STANDARD.encode(record);
            entries.push(format!(
                r#"{{"Key":"jobs/.lock","Flags":0,"Value":"{value}","ModifyIndex":{index}}}"#
            ));
        }
        for (index, (name, session, flags)) in (1..).zip(keys) {
            entries.push(format!(
                r#"{{"Key":"jobs/{name}","Session":"{session}","Flags":{flags},"CreateIndex":{index},"ModifyIndex":{index},"LockIndex":1,"Value":null}}"#
            ));
        }
        let filtered = if self.filtered { "true" } else { "false" };
        let response = Response::new(200, format!("[{}]", entries.join(",")))
            .with_header("X-Consul-Index", "100")
            .with_header("X-Consul-Results-Filtered-By-ACLs", filtered);
        let list = ListKeys::parse(&response).unwrap();
        View::new(&Prefix::new("jobs").unwrap(), &list)
    }
}
