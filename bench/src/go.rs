//! HashiCorp's Go client as callers of a semaphore, if Go is installed.

use std::process::Command;
use std::time::Duration;

use real_agent::Agent;
use serde::Deserialize;

use crate::counter::Counter;
use crate::failure::Failure;
use crate::leading::{go_client, number, report};
use crate::sizes::Crowd;

/// The result of a crowd of callers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turns {
    /// Turns in a second.
    pub(crate) per_s: f64,
    /// Requests for each.
    pub(crate) requests: f64,
}

/// Runs a crowd of callers that want a slot again and again, each with its own client, as if it
/// were a process. The result is `None` where Go is not installed.
///
/// # Errors
/// [`Failure`].
pub(crate) fn turns(
    agent: &Agent,
    prefix: &str,
    crowd: Crowd,
    time: Duration,
) -> Result<Option<Turns>, Failure> {
    #[derive(Deserialize)]
    struct Told {
        #[serde(default)]
        turns: u64,
        #[serde(default)]
        turns_per_s: f64,
    }
    let Some(program) = go_client() else {
        return Ok(None);
    };
    let counter = Counter::start(agent.addr())?;
    let mut command = Command::new(program);
    command.args(["callers", "-key", prefix]);
    command.args(["-callers", &crowd.callers.to_string()]);
    command.args(["-limit", &crowd.limit.to_string()]);
    command.args(["-term", &format!("{}ms", crowd.hold_ms)]);
    command.args(["-for", &format!("{}ms", time.as_millis())]);
    let told: Told = report(&mut command, &format!("http://{}", counter.addr()))?;
    Ok(Some(Turns {
        per_s: told.turns_per_s,
        requests: number(counter.requests()) / number(told.turns.max(1)),
    }))
}
