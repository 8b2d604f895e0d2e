//! The same seed gives the same run, byte for byte.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use crate::support::{MILLISECOND, SECOND, create_session, get, put, watch};
use semaphore_core::Token;
use semaphore_core::adapter::{Runtime, Transport};
use transport_mock::{Faults, MockConsul};

/// For a minute, five hosts write, read and watch the same keys, and everything that can go wrong
/// does.
fn busy_minute(seed: u64) -> (String, String) {
    let world = MockConsul::new(seed);
    world.set_latency(MILLISECOND..=20 * MILLISECOND);
    world.set_faults(Faults {
        leader_loss: 0.02,
        partition: 0.02,
        session_loss: 0.02,
        ..Faults::chaos(0.05)
    });
    for host in 0..5_u32 {
        let client = world.client(format!("node-{host}"));
        client
            .clone()
            .spawn(Box::pin(async move {
                for round in 0_u32.. {
                    let key = format!("key-{}", (host + round) % 3);
                    let _ = client.send(create_session()).await;
                    let _ = client.send(put(&key, "value")).await;
                    let _ = client.send(get(&key)).await;
                    let _ = client.send(watch(&key, 1, 2 * SECOND)).await;
                    client.sleep((host + 1) * 10 * MILLISECOND).await;
                }
            }))
            .unwrap();
    }
    world.advance(60 * SECOND);
    (world.trace(), format!("{:?}", world.stats()))
}

#[test]
fn two_runs_with_one_seed_have_the_same_trace_and_the_same_figures() {
    let (trace, stats) = busy_minute(42);
    assert_eq!((trace.clone(), stats), busy_minute(42));
    for what in [
        "request lost",
        "reset after",
        "leader lost",
        "cut off",
        "destroyed",
    ] {
        assert!(trace.contains(what), "{what} should have happened");
    }
}

#[test]
fn another_seed_is_another_run() {
    assert_ne!(busy_minute(1).0, busy_minute(2).0);
}

#[test]
fn the_trace_never_shows_a_token_or_a_body() {
    let world = MockConsul::new(1);
    let client = world.client("a");
    let token = Token::new("in-the-header").unwrap();
    let request = put("key?token=in-the-query&flags=3", "in-the-body").with_token(Some(token));
    let _ = world.run(client.send(request));
    let trace = world.trace();
    assert!(
        trace.contains("PUT /v1/kv/key?token=hidden&flags=3 (11 B)"),
        "{trace}"
    );
    for secret in ["in-the-header", "in-the-query", "in-the-body"] {
        assert!(!trace.contains(secret), "{trace}");
    }
}
