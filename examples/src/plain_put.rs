//! What one plain write costs on this agent: the floor that an acquisition is compared with.

use std::time::{Duration, Instant};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use semaphore_core::api::{CasKey, DeleteKey};
use semaphore_core::{
    Error, Method, Prefix, Request, RequestError, Response, Scope, Transport as _, TransportError,
};

use crate::agent::Agent;
use crate::backend::Host;
use crate::failure::Failure;

/// How many writes are measured each time.
pub const WRITES: usize = 200;

/// How many come before, so that the connection is open and the agent awake.
const WARM_UP: usize = 20;

/// Writes a small value to a key beside the semaphore, one write after the other, and deletes it.
///
/// # Errors
/// [`Failure::Semaphore`] when a write fails.
pub fn measure(host: &Host, agent: &Agent, prefix: &Prefix) -> Result<Vec<Duration>, Failure> {
    let key = format!("{prefix}-plain-put");
    host.wait(async {
        let mut times = Vec::with_capacity(WRITES);
        for round in 0..WARM_UP + WRITES {
            let began = Instant::now();
            written(host.send(put(&key, agent)).await)?;
            if round >= WARM_UP {
                times.push(began.elapsed());
            }
        }
        let delete = DeleteKey {
            key: &key,
            index: None,
        };
        let delete = delete.request(&Scope::default());
        written(host.send(delete.with_token(agent.token().cloned())).await)?;
        Ok(times)
    })
}

fn put(key: &str, agent: &Agent) -> Request {
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-');
    let target = format!("/v1/kv/{}", utf8_percent_encode(key, KEPT));
    Request::new(Method::Put, target)
        .with_token(agent.token().cloned())
        .with_body("a value as long as a small record of a semaphore is, with two holders or three")
}

fn written(answer: Result<Response, TransportError>) -> Result<(), Error> {
    let answer = answer.map_err(RequestError::Transport)?;
    // All writes of the key/value store answer alike.
    CasKey::parse(&answer)?;
    Ok(())
}
