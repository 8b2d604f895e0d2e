//! A host whose agent lags behind reads old values. It reads current ones when the agent catches
//! up.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::time::Duration;

use semaphore_core::adapter::{Method, Request, Transport as _};
use transport_mock::{MockClient, MockConsul};

fn read(world: &MockConsul, from: &MockClient, query: &str) -> (u16, String) {
    let request = Request::new(Method::Get, format!("/v1/kv/greeting?raw{query}"));
    let answer = world.run(from.send(request)).expect("an answer");
    let text = String::from_utf8_lossy(answer.body()).into_owned();
    (answer.status(), text)
}

fn write(world: &MockConsul, from: &MockClient, text: &str) {
    let request = Request::new(Method::Put, "/v1/kv/greeting").with_body(text);
    let answer = world.run(from.send(request)).expect("an answer");
    assert_eq!(answer.body(), b"true");
}

#[test]
fn plain_reads_are_old_and_consistent_ones_are_not() {
    let world = MockConsul::new(3);
    let (behind, other) = (world.client("behind"), world.client("other"));
    write(&world, &other, "one");
    world.lag("behind");
    write(&world, &behind, "two");
    assert_eq!(read(&world, &behind, "").1, "one");
    assert_eq!(read(&world, &behind, "&consistent").1, "two");
    assert_eq!(read(&world, &other, "").1, "two");
    world.catch_up("behind");
    assert_eq!(read(&world, &behind, "").1, "two");
}

#[test]
fn a_blocking_query_is_answered_when_the_agent_catches_up() {
    let world = MockConsul::new(3);
    let (behind, other) = (world.client("behind"), world.client("other"));
    write(&world, &other, "one");
    world.lag("behind");
    let index = world.consul(|consul, _| consul.last_index());
    let target = format!("/v1/kv/greeting?raw&index={index}&wait=60s");
    let request = Request::new(Method::Get, target).with_timeout(Duration::from_mins(2));
    let mut poll = world.start(async move { behind.send(request).await });
    write(&world, &other, "two");
    world.advance(Duration::from_secs(5));
    assert!(poll.try_take().is_none(), "its agent has not heard of it");
    world.catch_up("behind");
    let answer = world.run(poll).expect("an answer");
    assert_eq!(answer.body(), b"two");
    assert!(world.now().since_origin() < Duration::from_secs(6));
}

#[test]
fn a_blocking_query_ends_by_its_wait_and_can_be_given_up() {
    let world = MockConsul::new(3);
    let (behind, other) = (world.client("behind"), world.client("other"));
    write(&world, &other, "one");
    world.lag("behind");
    let index = world.consul(|consul, _| consul.last_index());
    let poll = |wait: &str| {
        let target = format!("/v1/kv/greeting?raw&index={index}&wait={wait}");
        let behind = behind.clone();
        let request = Request::new(Method::Get, target).with_timeout(Duration::from_mins(2));
        world.start(async move { behind.send(request).await })
    };
    write(&world, &other, "two");
    let answer = world.run(poll("10s")).expect("an answer");
    assert_eq!(answer.body(), b"one");
    let given_up = poll("60s");
    world.advance(Duration::from_secs(1));
    given_up.abort();
    world.advance(Duration::from_secs(1));
    world.clear_faults();
    assert_eq!(read(&world, &behind, "").1, "two");
    assert_eq!(world.stats().open, 0);
}
