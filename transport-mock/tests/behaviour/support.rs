//! Short functions for requests and answers.
#![allow(dead_code, reason = "each test file uses some of it")]
#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::time::Duration;

use semaphore_core::adapter::{Method, Request, Response, Transport, TransportErrorKind};
use transport_mock::{MockClient, MockConsul};

pub(crate) const MILLISECOND: Duration = Duration::from_millis(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn put(key: &str, value: &str) -> Request {
    Request::new(Method::Put, format!("/v1/kv/{key}")).with_body(value)
}

/// Writes `value` if the key does not exist.
pub(crate) fn put_new(key: &str, value: &str) -> Request {
    Request::new(Method::Put, format!("/v1/kv/{key}?cas=0")).with_body(value)
}

pub(crate) fn get(key: &str) -> Request {
    Request::new(Method::Get, format!("/v1/kv/{key}?raw="))
}

/// A blocking query for the next change after `index`.
pub(crate) fn watch(key: &str, index: u64, wait: Duration) -> Request {
    let seconds = wait.as_secs();
    Request::new(
        Method::Get,
        format!("/v1/kv/{key}?raw=&index={index}&wait={seconds}s"),
    )
    .as_long_poll()
    .with_timeout(SECOND + 2 * wait)
}

pub(crate) fn create_session() -> Request {
    Request::new(Method::Put, "/v1/session/create").with_body(r#"{"TTL":"10s","NodeChecks":[]}"#)
}

/// The session's ID in the answer to its creation.
pub(crate) fn session_id(answer: &Response) -> String {
    let body = text(answer);
    body.split('"').nth(3).expect("an ID").to_owned()
}

pub(crate) fn index_of(answer: &Response) -> u64 {
    let index = answer.header("X-Consul-Index").expect("an index");
    index.parse().expect("a number")
}

pub(crate) fn text(answer: &Response) -> String {
    String::from_utf8(answer.body().to_vec()).expect("text")
}

/// The value stored in `key`, read by a host without faults.
pub(crate) fn stored(world: &MockConsul, key: &str) -> Option<String> {
    let witness = world.client("witness");
    let answer = world
        .run(witness.send(get(key)))
        .expect("no fault for the witness");
    (answer.status() == 200).then(|| text(&answer))
}

/// The status, or the kind of failure.
pub(crate) async fn status(
    client: &MockClient,
    request: Request,
) -> Result<u16, TransportErrorKind> {
    match client.send(request).await {
        Ok(answer) => Ok(answer.status()),
        Err(error) => Err(error.kind()),
    }
}
