//! An agent serves no transactions. Its clients notice that themselves, and use separate requests.

use semaphore_core::sans_io::{Method, Response};
use semaphore_core::{Encoding, Error, RequestError, Semaphore};
use transport_mock::consul::{Access, Policy};
use transport_mock::{Fault, MockConsul, RequestKind, Rule};

use crate::support::aftermath::assert_recovered;
use crate::support::spy::Spy;
use crate::support::steps::{is_transaction, writes_record};
use crate::support::stranger::operate;
use crate::support::*;

/// The ways in which agents, or gateways before them, refuse every transaction.
fn refusals() -> Vec<Response> {
    let unknown = r#"{"Results":null,"Errors":[{"OpIndex":0,"What":"unknown KV verb \"lock\""}]}"#;
    vec![
        Response::new(400, "Bad request"),
        Response::new(403, "Permission denied"),
        Response::new(403, "<html>Forbidden by the proxy</html>"),
        Response::new(404, ""),
        Response::new(404, "404 page not found"),
        Response::new(405, "method PUT not allowed"),
        Response::new(409, unknown),
        Response::new(413, "Request body too large"),
    ]
}

/// Whether the answer says nothing about transactions if they were served before: a permission is
/// missing for now, or a gateway answers.
fn may_pass(answer: &Response) -> bool {
    answer.status() == 403 || answer.body().starts_with(b"<")
}

/// From now on, the host's agent refuses transactions.
fn refuse_transactions(world: &MockConsul, answer: &Response, skip: u64) {
    let rule = Rule::new(Fault::Answer(answer.clone())).host("a");
    world.inject(rule.kind(RequestKind::Txn).skip(skip).always());
}

#[test]
fn its_clients_are_served_all_the_same() {
    // From the start, and from the middle of each step.
    for skip in 0..4 {
        for answer in refusals() {
            if skip > 0 && may_pass(&answer) {
                continue;
            }
            let world = MockConsul::new(1);
            refuse_transactions(&world, &answer, skip);
            let semaphore = semaphore(&world, "a", 1);
            world.run(async {
                let start = world.now();
                let permit = semaphore.acquire().await.expect("a slot");
                assert!(permit.is_held());
                assert_eq!(holders(&world).len(), 1);
                permit.release().await.expect("released");
                let took = world.now().saturating_since(start);
                assert!(took < millis(200), "{answer:?}: {took:?}");
            });
            assert_nothing_left(&world);
            world.clear_faults();
            assert_recovered(&world, 1);
        }
    }
}

#[test]
fn it_is_not_asked_again() {
    for answer in refusals() {
        let world = MockConsul::new(1);
        refuse_transactions(&world, &answer, 0);
        let semaphore = semaphore(&world, "a", 1);
        let permit = world.run(semaphore.acquire()).expect("a free slot");
        // By now the agent would serve them.
        world.clear_faults();
        let spy = Spy::on(&world);
        world.run(permit.release()).expect("released");
        for _ in 0..3 {
            let permit = world.run(semaphore.acquire()).expect("a free slot");
            world.run(permit.release()).expect("released");
        }
        assert_eq!(spy.count(writes_record), 1 + 3 * 2);
        assert_eq!(spy.count(is_transaction), 0, "{answer:?}");
        assert_nothing_left(&world);
    }
}

#[test]
fn an_instant_try_is_told_the_truth_and_not_of_the_refusal() {
    for answer in refusals() {
        let world = MockConsul::new(1);
        refuse_transactions(&world, &answer, 0);
        let semaphore = semaphore(&world, "a", 1);
        let permit = world.run(semaphore.try_acquire());
        let permit = permit.unwrap_or_else(|error| panic!("{answer:?}: {error:?}"));
        let permit = permit.expect("a free slot");
        let other = connect(builder(1), &world.client("b"));
        assert!(world.run(other.try_acquire()).expect("an answer").is_err());
        world.run(permit.release()).expect("released");
        assert_nothing_left(&world);
    }
}

#[test]
fn several_permits_and_a_queue_of_waiters_are_served_all_the_same() {
    for answer in refusals() {
        for skip in [0, 1, 3, 7] {
            if skip > 0 && may_pass(&answer) {
                continue;
            }
            let world = MockConsul::new(1);
            refuse_transactions(&world, &answer, skip);
            let semaphore = semaphore(&world, "a", 3);
            let tasks = [(); 6].map(|()| {
                let (clock, semaphore) = (world.clone(), semaphore.clone());
                world.start(async move {
                    let permit = semaphore.acquire_many(2).await.expect("slots");
                    clock.sleep(millis(50)).await;
                    assert!(permit.is_held());
                    permit.release().await.expect("released");
                })
            });
            for task in tasks {
                world.run(task);
            }
            world.advance(secs(1));
            assert_nothing_left(&world);
        }
    }
}

#[test]
fn clients_of_both_kinds_share_one_semaphore() {
    let world = MockConsul::new(1);
    refuse_transactions(&world, &Response::new(404, ""), 0);
    let semaphores = ["a", "b"].map(|host| semaphore(&world, host, 1));
    let tasks = semaphores.map(|semaphore| {
        let clock = world.clone();
        world.start(async move {
            for _ in 0..10 {
                let permit = semaphore.acquire().await.expect("a slot");
                let own = permit.sequencers()[0].session.to_string();
                assert_eq!(holders(&clock), [own]);
                clock.sleep(millis(20)).await;
                assert!(permit.is_held());
                permit.release().await.expect("released");
            }
        })
    });
    for task in tasks {
        world.run(task);
    }
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn a_passing_failure_is_no_refusal() {
    for fault in [
        Fault::no_leader(),
        Fault::too_many_requests(),
        Fault::unavailable(),
        Fault::Answer(Response::new(502, "<html>Bad Gateway</html>")),
        Fault::Refuse,
        Fault::BadAnswer,
        Fault::LoseRequest,
    ] {
        let world = MockConsul::new(1);
        let rule = Rule::new(fault.clone()).kind(RequestKind::Txn);
        world.inject(rule.times(3));
        let semaphore = semaphore(&world, "a", 1);
        let permit = world.run(semaphore.acquire()).expect("a slot");
        world.clear_faults();
        let spy = Spy::on(&world);
        world.run(permit.release()).expect("released");
        assert_eq!(spy.count(is_transaction), 1, "{fault}");
        assert_nothing_left(&world);
    }
}

/// A semaphore with this token and this encoding.
fn with_token(world: &MockConsul, encoding: Encoding) -> Semaphore {
    let builder = builder(1).encoding(encoding).token("token");
    connect(builder, &world.client(format!("{encoding:?}")))
}

/// Policies that each lack one permission.
fn policies() -> Vec<(&'static str, Policy)> {
    let sessions = || Policy::new().with_session_prefix("", Access::Write);
    let all = || sessions().with_key_prefix("service/db", Access::Write);
    vec![
        ("nothing", Policy::new()),
        (
            "no session",
            Policy::new().with_key_prefix("service/db", Access::Write),
        ),
        ("no keys", sessions()),
        (
            "read only",
            sessions().with_key_prefix("service/db", Access::Read),
        ),
        (
            "record read only",
            all().with_key("service/db/.lock", Access::Read),
        ),
        (
            "record hidden",
            all().with_key("service/db/.lock", Access::Deny),
        ),
        (
            "contenders read only",
            sessions()
                .with_key_prefix("service/db/", Access::Read)
                .with_key("service/db/.lock", Access::Write),
        ),
    ]
}

#[test]
fn a_token_that_may_not_do_one_thing_is_told_as_with_separate_requests() {
    let record = r#"{"Limit":1,"Holders":{}}"#;
    for has_record in [false, true] {
        for (what, policy) in policies() {
            let told = [Encoding::Transactions, Encoding::Requests].map(|encoding| {
                let world = MockConsul::new(1);
                if has_record {
                    operate(&world, Method::Put, "/v1/kv/service/db/.lock", record);
                }
                world.consul(|consul, _| {
                    consul.set_acl_default_deny();
                    consul.add_token("token", policy.clone());
                });
                let semaphore = with_token(&world, encoding);
                let start = world.now();
                let error = world.run(semaphore.acquire()).map(drop);
                let error = error.expect_err(what);
                let took = world.now().saturating_since(start);
                assert!(took < secs(1), "{what}: {took:?}");
                world.advance(secs(60));
                assert_nothing_left(&world);
                // The two encodings have different requests refused.
                match error {
                    Error::Request(RequestError::Denied { text, .. }) => format!("denied: {text}"),
                    Error::IncompleteView { prefix, .. } => format!("incomplete: {prefix}"),
                    other => panic!("{what}: {other:?}"),
                }
            });
            assert_eq!(told[0], told[1], "{what}");
        }
    }
}

#[test]
fn a_token_that_loses_a_permission_is_told_at_the_release_as_with_separate_requests() {
    for (what, policy) in policies() {
        let told = [Encoding::Transactions, Encoding::Requests].map(|encoding| {
            let world = MockConsul::new(1);
            world.consul(|consul, _| {
                consul.set_acl_default_deny();
                consul.add_token("token", Policy::management());
            });
            let permit = world.run(with_token(&world, encoding).acquire());
            let permit = permit.expect("a free slot");
            world.consul(|consul, _| consul.add_token("token", policy.clone()));
            let result = world.run(permit.release());
            world.advance(secs(60));
            assert_eq!(session_count(&world), 0, "{what}");
            assert_eq!(contender_keys(&world), [""; 0], "{what}");
            result
        });
        let denied = |result: &Result<(), Error>| match result {
            Ok(()) => false,
            Err(Error::Request(RequestError::Denied { .. })) => true,
            Err(error) => panic!("{what}: {error:?}"),
        };
        assert!(told.iter().all(denied), "{what}: {told:?}");
    }
}
