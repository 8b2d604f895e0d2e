//! What a process shows about itself: the value of its contender keys.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub(crate) use crate::text::printable;

/// Who waits or holds, for people and tools. It never has the command's arguments: they may hold
/// secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// The machine.
    pub(crate) host: String,
    /// The process that waits or holds.
    pub(crate) pid: u32,
    /// Since when it has waited or held, by its own clock.
    pub(crate) since: Timestamp,
}

impl Identity {
    pub(crate) fn of_this_process() -> Self {
        Self {
            host: host(),
            pid: std::process::id(),
            since: now(),
        }
    }

    pub(crate) fn to_value(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads a value of this program. `None` for other values.
    pub(crate) fn read(value: &[u8]) -> Option<Self> {
        serde_json::from_slice(value).ok()
    }
}

/// The beginning of a session's name, before the host and the time.
const NAME: &str = "consul-semaphore on ";
const SINCE: &str = " since ";

/// The name of a session of this process. It has the time, because Consul does not store it, and
/// the value may be the user's.
pub(crate) fn session_name() -> String {
    format!("{NAME}{}{SINCE}{}", host(), now())
}

/// What follows a session name chosen by the user, before the time.
const CHOSEN: &str = " (consul-semaphore since ";

/// The user's name for a session, with the time: if the value is the user's, too, nothing else
/// shows it.
pub(crate) fn with_since(name: &str) -> String {
    format!("{name}{CHOSEN}{})", now())
}

/// The time in a session's name. `None` if the session is not this program's.
pub(crate) fn since_of_name(name: &str) -> Option<Timestamp> {
    let ours = name.strip_prefix(NAME).and_then(|it| it.rsplit_once(SINCE));
    let chosen = || name.strip_suffix(')')?.rsplit_once(CHOSEN);
    let (_, since) = ours.or_else(chosen)?;
    since.parse().ok()
}

/// The present time, or a little before it: in whole seconds.
pub(crate) fn now() -> Timestamp {
    let now = Timestamp::now();
    // Rounded up, it would be in the future.
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

pub(crate) fn host() -> String {
    let name = nix::unistd::gethostname().ok();
    let name = name.and_then(|name| name.into_string().ok());
    name.filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".to_owned())
}

/// A value as one short word for people.
pub(crate) fn shown(value: &[u8]) -> String {
    if let Some(Identity { host, pid, .. }) = Identity::read(value) {
        return format!("{}/{pid}", printable(&host));
    }
    match str::from_utf8(value) {
        Ok("") => "-".to_owned(),
        Ok(text) => printable(text),
        Err(_) => format!("{} bytes", value.len()),
    }
}

/// A semaphore, for error texts.
pub(crate) fn semaphore(prefix: &str) -> String {
    format!("semaphore {:?}", printable(prefix))
}

/// An election, for error texts.
pub(crate) fn election(key: &str) -> String {
    format!("election {:?}", printable(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_ours_is_shown_as_host_and_process_and_any_other_as_it_is() {
        let ours = Identity::of_this_process();
        let shown_as = format!("{}/{}", ours.host, ours.pid);
        assert_eq!(shown(&ours.to_value()), shown_as);
        assert_eq!(shown(b"node-1"), "node-1");
        assert_eq!(shown(b""), "-");
        assert_eq!(shown(&[0xff, 0]), "2 bytes");
    }

    #[test]
    fn a_session_of_ours_says_since_when_and_no_other_is_believed() {
        let since = since_of_name(&session_name()).expect("a time");
        assert!(since <= now());
        let chosen = with_since("nightly (db)");
        assert!(chosen.starts_with("nightly (db) "), "{chosen}");
        assert!(since_of_name(&chosen).is_some_and(|it| since <= it));
        for name in [
            "",
            "backup",
            "consul-semaphore on a",
            "x since 2026-11-25T10:07:15Z",
            "x (since 2026-11-25T10:07:15Z)",
            "x (consul-semaphore since yesterday)",
        ] {
            assert_eq!(since_of_name(name), None, "{name}");
        }
    }

    #[test]
    fn what_others_chose_does_not_reach_the_terminal_as_a_command_to_it() {
        assert_eq!(shown(b"a\x1b[2Jb\nc"), "a?[2Jb?c");
        assert_eq!(shown("x".repeat(100).as_bytes()).chars().count(), 61);
    }
}
