//! The agent's release, and its limits.

use serde::Deserialize;

use super::{Finding, LIMITS, RELEASE, get, said};
use crate::agent::Agent;
use crate::failure::whole;
use crate::identity::printable;

/// What the agent says about itself to tokens with `agent` read, or why it says nothing.
pub(super) struct Known(Result<Told, String>);

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Told {
    config: Config,
    #[serde(default)]
    debug_config: Limits,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Config {
    node_name: String,
    version: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Limits {
    #[serde(rename = "HTTPMaxConnsPerClient")]
    connections: Option<u64>,
    #[serde(rename = "KVMaxValueSize")]
    value_size: Option<u64>,
}

/// The oldest release that was tested.
const OLDEST: (u32, u32, u32) = (1, 8, 7);

/// See `docs/CONSUL.md`.
const TO_AVOID: &[(&str, &str)] = &[
    ("1.11.9", "polls through a client agent fail after 7 s"),
    ("1.11.11", "polls may fail after 7 s"),
    ("1.12.0", "keys are decoded twice"),
    (
        "1.12.1",
        "keys are decoded twice, and polls through a client agent fail after 7 s",
    ),
    ("1.12.2", "keys are decoded twice"),
    ("1.12.6", "polls may fail after 7 s"),
    ("1.13.3", "polls may fail after 7 s"),
    ("1.14.0", "polls may fail after 7 s"),
    ("1.14.1", "polls may fail after 7 s"),
    (
        "1.21.5",
        "keys with anything but letters, digits and ,_./-?&= are refused",
    ),
    ("1.22.4", "it was withdrawn: answers are cut after 30 s"),
];

/// The most connections of one process.
const CONNECTIONS: u64 = 64;

impl Known {
    pub(super) async fn read(agent: &Agent) -> Self {
        let answer = match get(agent, "/v1/agent/self").await {
            Ok(answer) => answer,
            Err(error) => return Self(Err(whole(&error))),
        };
        let told = match answer.status() {
            200 => serde_json::from_slice(answer.body()).map_err(|error| error.to_string()),
            _ => Err(said(&answer)),
        };
        Self(told)
    }

    pub(super) fn node(&self) -> Option<&str> {
        let told = self.0.as_ref().ok()?;
        Some(&told.config.node_name)
    }

    pub(super) fn release(&self) -> Finding {
        const ABOUT: &str = "release";
        let told = match &self.0 {
            Ok(told) => told,
            Err(why) => return Finding::unknown(ABOUT, untold("it", why)),
        };
        let version = &told.config.version;
        let shown = printable(version);
        if numbers(version).is_none_or(|numbers| numbers < OLDEST) {
            let text = format!("{shown} is older than what was tried");
            return Finding::bad(ABOUT, RELEASE, text, "use 1.8.7 or newer");
        }
        let plain = version.split(['-', '+']).next().unwrap_or_default();
        match TO_AVOID.iter().find(|(known, _)| *known == plain) {
            Some((_, why)) => Finding::bad(
                ABOUT,
                RELEASE,
                format!("{shown}: {why}"),
                "use another release, such as the next patch",
            ),
            None => Finding::good(ABOUT, format!("Consul {shown}")),
        }
    }

    pub(super) fn limits(&self) -> Finding {
        const ABOUT: &str = "limits";
        let debug_config = match &self.0 {
            Ok(told) => &told.debug_config,
            Err(why) => return Finding::unknown(ABOUT, untold("them", why)),
        };
        let Some(connections) = debug_config.connections else {
            return Finding::unknown(ABOUT, "the agent does not tell them");
        };
        if connections < CONNECTIONS {
            return Finding::bad(
                ABOUT,
                LIMITS,
                format!("an address may have {connections} connections at once"),
                format!(
                    "set limits.http_max_conns_per_client to {CONNECTIONS} for each process on the machine, or 200, as it \
                     is by default"
                ),
            );
        }
        let size = debug_config.value_size.unwrap_or(512 * 1024);
        Finding::good(
            ABOUT,
            format!("{connections} connections for an address, {size} bytes for a value"),
        )
    }
}

fn untold(what: &str, why: &str) -> String {
    format!("the agent tells {what} to tokens with agent read: {why}")
}

/// `1.8.7`, `1.15.0-rc1+ent`.
fn numbers(version: &str) -> Option<(u32, u32, u32)> {
    let plain = version.split(['-', '+']).next()?;
    let mut parts = plain.trim_start_matches('v').split('.');
    let mut next = || parts.next()?.parse().ok();
    Some((next()?, next()?, next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(version: &str, connections: Option<u64>) -> Known {
        Known(Ok(Told {
            config: Config {
                node_name: "node-1".to_owned(),
                version: version.to_owned(),
            },
            debug_config: Limits {
                connections,
                value_size: None,
            },
        }))
    }

    #[test]
    fn releases_that_are_too_old_or_have_a_known_fault_are_told() {
        for (version, exit) in [
            ("1.8.7", None),
            ("1.23.0-dev", None),
            ("1.15.2+ent", None),
            ("1.7.9", Some(RELEASE)),
            ("1.21.5+ent", Some(RELEASE)),
            ("unknown", Some(RELEASE)),
        ] {
            assert_eq!(known(version, None).release().exit(), exit, "{version}");
        }
        let untold = Known(Err("403 Permission denied".to_owned()));
        assert_eq!(untold.release().exit(), None);
    }

    #[test]
    fn limits_that_one_process_could_reach_are_told() {
        assert_eq!(known("1.8.7", Some(200)).limits().exit(), None);
        assert_eq!(known("1.8.7", Some(10)).limits().exit(), Some(LIMITS));
        assert_eq!(known("1.8.7", None).limits().exit(), None);
    }
}
