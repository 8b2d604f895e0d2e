//! A failure that no retry can repair is reported at once, with its type, to every waiter. A holder
//! keeps its slot until its lease ends (invariant L4).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use semaphore_core::adapter::{Request, Response, Transport, TransportError, TransportErrorKind};
use semaphore_core::{Error, Lost, RequestError, Semaphore};
use transport_mock::consul::{Access, Policy};
use transport_mock::{Fault, MockClient, MockConsul, Rule};

use crate::support::aftermath::{Step, assert_recovered, steps};
use crate::support::*;

/// An answer, and a test for the error that it must cause.
type Refusal = (Response, fn(&RequestError) -> bool);

fn refusals() -> Vec<Refusal> {
    vec![
        (Response::new(403, "Permission denied"), |error| {
            matches!(error, RequestError::Denied { .. })
        }),
        (Response::new(403, "ACL not found"), |error| {
            matches!(error, RequestError::Denied { .. })
        }),
        (Response::new(400, "Bad request"), |error| {
            matches!(error, RequestError::Rejected { status: 400, .. })
        }),
        (Response::new(413, "Request body too large"), |error| {
            matches!(error, RequestError::Rejected { status: 413, .. })
        }),
        (
            Response::new(301, "").with_header("Location", "https://elsewhere/"),
            |error| matches!(error, RequestError::Redirected { status: 301, .. }),
        ),
        (
            Response::new(307, "").with_header("Location", "https://elsewhere/"),
            |error| matches!(error, RequestError::Redirected { status: 307, .. }),
        ),
    ]
}

async fn all(semaphore: &Semaphore, waiters: usize) -> Vec<Error> {
    let waiters = (0..waiters).map(|_| semaphore.acquire());
    futures_util::future::join_all(waiters)
        .await
        .into_iter()
        .map(|outcome| outcome.expect_err("it is refused"))
        .collect()
}

#[test]
fn every_waiter_is_told_at_once() {
    // Nobody needs to read before it enters.
    let is_first = |step: &Step| !step.is_release() && (step.0 != "read");
    for step in steps().filter(is_first) {
        for (answer, is_expected) in refusals() {
            let world = MockConsul::new(5);
            if step.0 == "watch" {
                // The watch only blocks while somebody waits.
                world.inject(step.aim(Rule::new(Fault::Delay(secs(3600)))).host("a"));
            }
            world.inject(
                step.aim(Rule::new(Fault::Answer(answer)).always())
                    .host("a"),
            );
            let holder = semaphore(&world, "holder", 1);
            let semaphore = semaphore(&world, "a", 1);
            world.run(async {
                // For the watch step another host holds the slot, so the watch is polled. For the
                // other steps nobody does.
                let held = match step.0 {
                    "watch" => Some(holder.acquire().await.expect("a slot")),
                    _ => None,
                };
                let start = world.now();
                for error in all(&semaphore, 5).await {
                    let Error::Request(error) = error else {
                        panic!("{error:?}");
                    };
                    assert!(is_expected(&error), "{} {error:?}", step.0);
                }
                let waited = world.now().saturating_since(start);
                // The agent has served a similar request before. So this refusal counts as
                // temporary for as long as a lease lasts.
                let most = match step.0 {
                    "watch" | "claim" => secs(40),
                    _ => millis(50),
                };
                assert!(waited < most, "{} {waited:?}", step.0);
                if let Some(held) = held {
                    held.release().await.expect("released");
                }
            });
            world.advance(secs(40));
            assert_eq!(session_count(&world), 0, "{}", step.0);
            world.clear_faults();
            assert_recovered(&world, 1);
        }
    }
}

#[test]
fn a_holder_keeps_its_slot_until_its_lease_ends() {
    for (answer, is_expected) in refusals() {
        let world = MockConsul::new(5);
        let semaphore = semaphore(&world, "a", 1);
        world.run(async {
            let permit = semaphore.acquire().await.expect("a slot");
            let deadline = world.now() + permit.remaining();
            world.inject(Rule::new(Fault::Answer(answer)).always());
            let Lost::LeaseExpired { last_failure, .. } = permit.lost().await else {
                panic!("the lease");
            };
            assert_eq!(world.now(), deadline);
            assert!(is_expected(&last_failure.expect("a failure")));
        });
        world.clear_faults();
        assert_recovered(&world, 1);
    }
}

#[test]
fn a_release_that_is_refused_says_so_and_belief_ends_all_the_same() {
    // A release may be over before the session is destroyed.
    let is_told = |step: &Step| step.is_release() && (step.0 != "session destroy");
    for step in steps().filter(is_told) {
        for (answer, is_expected) in refusals() {
            let world = MockConsul::new(5);
            let semaphore = semaphore(&world, "a", 1);
            world.run(async {
                let permit = semaphore.acquire().await.expect("a slot");
                world.inject(step.aim(Rule::new(Fault::Answer(answer)).always()));
                let error = permit.release().await.expect_err("it is refused");
                let Error::Request(error) = error else {
                    panic!("{error:?}");
                };
                assert!(is_expected(&error));
            });
            world.clear_faults();
            assert_recovered(&world, 1);
        }
    }
}

#[test]
fn an_unknown_token_is_denied() {
    let world = MockConsul::new(5);
    world.consul(|consul, _| consul.set_acl_default_deny());
    let unknown = connect(builder(1).token("unknown-token"), &world.client("a"));
    world.run(async {
        for error in all(&unknown, 3).await {
            assert!(
                matches!(&error, Error::Request(RequestError::Denied { text, .. }) if text.contains("ACL not found")),
                "{error:?}"
            );
            assert!(!format!("{error:?} {error}").contains("unknown-token"));
        }
    });
    assert_nothing_left(&world);
}

#[test]
fn what_was_made_before_a_refusal_is_cleaned_up_as_far_as_permissions_allow() {
    let read_only = Policy::new()
        .with_session_prefix("", Access::Write)
        .with_key_prefix("service/db", Access::Read);
    let no_record = Policy::new()
        .with_session_prefix("", Access::Write)
        .with_key_prefix("service/db/", Access::Write)
        .with_key("service/db/.lock", Access::Read);
    for policy in [read_only, no_record] {
        let world = MockConsul::new(5);
        world.consul(|consul, _| {
            consul.set_acl_default_deny();
            consul.add_token("token", policy);
        });
        let semaphore = connect(builder(1).token("token"), &world.client("a"));
        world.run(async {
            let error = semaphore.acquire().await.expect_err("denied");
            assert!(matches!(error, Error::Request(RequestError::Denied { .. })));
            world.sleep(secs(1)).await;
        });
        assert_nothing_left(&world);
    }
}

/// A client that can't speak to the agent at all after it was broken.
struct Broken {
    client: MockClient,
    is_broken: Arc<AtomicBool>,
}

#[async_trait::async_trait]
impl Transport for Broken {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        if self.is_broken.load(Ordering::SeqCst) {
            let kind = TransportErrorKind::Misconfigured;
            return Err(TransportError::with_source(kind, "unknown issuer"));
        }
        self.client.send(request).await
    }
}

#[test]
fn a_misconfigured_connection_is_told_at_once() {
    let world = MockConsul::new(5);
    let client = world.client("a");
    let is_broken = Arc::new(AtomicBool::new(true));
    let transport = Broken {
        client: client.clone(),
        is_broken: Arc::clone(&is_broken),
    };
    let semaphore = builder(1)
        .connect_parts(Arc::new(transport), Arc::new(client))
        .expect("valid settings");
    let is_misconfigured = |error: &RequestError| matches!(error, RequestError::Transport(error) if error.kind() == TransportErrorKind::Misconfigured);
    world.run(async {
        for error in all(&semaphore, 3).await {
            assert!(matches!(error, Error::Request(error) if is_misconfigured(&error)));
        }
        assert_eq!(world.now().since_origin(), secs(0));
        is_broken.store(false, Ordering::SeqCst);
        let permit = semaphore.acquire().await.expect("it is repaired");
        is_broken.store(true, Ordering::SeqCst);
        let Lost::LeaseExpired { last_failure, .. } = permit.lost().await else {
            panic!("the lease");
        };
        assert!(is_misconfigured(&last_failure.expect("a failure")));
    });
    is_broken.store(false, Ordering::SeqCst);
    assert_recovered(&world, 1);
}
