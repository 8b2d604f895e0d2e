//! An agent, or what stands before it, serves no transactions: the first use says so.

use semaphore_core::sans_io::{Method, Response};
use semaphore_core::{Error, RequestError};
use transport_mock::consul::{Access, Policy};
use transport_mock::{Fault, MockConsul, RequestKind, Rule};

use crate::support::election::election;
use crate::support::spy::Spy;
use crate::support::steps::is_transaction;
use crate::support::stranger::operate;
use crate::support::*;

/// The ways in which agents, or gateways before them, refuse every transaction.
fn refusals() -> Vec<Response> {
    vec![
        Response::new(400, "Bad request"),
        Response::new(403, "Endpoint is blocked by agent configuration"),
        Response::new(501, "Not Implemented"),
        Response::new(403, "<html>Forbidden by the proxy</html>"),
        Response::new(404, ""),
        Response::new(404, "404 page not found"),
        Response::new(405, "method PUT not allowed"),
    ]
}

/// The host's agent refuses transactions.
fn refuse_transactions(world: &MockConsul, answer: &Response) {
    let rule = Rule::new(Fault::Answer(answer.clone())).host("a");
    world.inject(rule.kind(RequestKind::Txn).always());
}

#[test]
fn the_first_use_fails_at_once_and_says_what_to_allow() {
    for answer in refusals() {
        let world = MockConsul::new(1);
        refuse_transactions(&world, &answer);
        let semaphore = semaphore(&world, "a", 1);
        let start = world.now();
        let error = world.run(semaphore.acquire()).map(drop);
        let error = error.expect_err("refused").to_string();
        let took = world.now().saturating_since(start);
        assert!(took < millis(200), "{answer:?}: {took:?}");
        assert!(error.contains("PUT /v1/txn"), "{error}");
        assert!(error.contains("http_config.block_endpoints"), "{error}");
        world.run(semaphore.shutdown());
        assert_nothing_left(&world);
    }
}

#[test]
fn an_instant_try_and_a_campaign_fail_in_the_same_way() {
    for answer in refusals() {
        let world = MockConsul::new(1);
        refuse_transactions(&world, &answer);
        let tried = world.run(semaphore(&world, "a", 1).try_acquire()).map(drop);
        let led = world.run(election(&world, "a").campaign()).map(drop);
        for error in [tried.expect_err("refused"), led.expect_err("refused")] {
            let error = error.to_string();
            assert!(error.contains("http_config.block_endpoints"), "{error}");
        }
        world.advance(secs(2));
        assert_eq!(session_count(&world), 0);
    }
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
        // A key may stay as long as its session.
        world.advance(secs(2));
        assert_nothing_left(&world);
    }
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
fn a_token_that_may_not_do_one_thing_is_told_so_and_leaves_nothing() {
    let record = r#"{"Limit":1,"Holders":{}}"#;
    for has_record in [false, true] {
        for (what, policy) in policies() {
            let world = MockConsul::new(1);
            if has_record {
                operate(&world, Method::Put, "/v1/kv/service/db/.lock", record);
            }
            world.consul(|consul, _| {
                consul.set_acl_default_deny();
                consul.add_token("token", policy);
            });
            let semaphore = connect(builder(1).token("token"), &world.client("a"));
            let start = world.now();
            let error = world.run(semaphore.acquire()).map(drop);
            let error = error.expect_err(what);
            let took = world.now().saturating_since(start);
            assert!(took < secs(1), "{what}: {took:?}");
            let is_told = matches!(
                error,
                Error::Request(RequestError::Denied { .. }) | Error::IncompleteView { .. }
            );
            assert!(is_told, "{what}: {error:?}");
            world.advance(secs(60));
            assert_nothing_left(&world);
        }
    }
}

#[test]
fn a_token_that_loses_a_permission_is_told_at_the_release() {
    for (what, policy) in policies() {
        let world = MockConsul::new(1);
        world.consul(|consul, _| {
            consul.set_acl_default_deny();
            consul.add_token("token", Policy::management());
        });
        let semaphore = connect(builder(1).token("token"), &world.client("a"));
        let permit = world.run(semaphore.acquire()).expect("a free slot");
        world.consul(|consul, _| consul.add_token("token", policy));
        let result = world.run(permit.release());
        let is_denied = matches!(result, Err(Error::Request(RequestError::Denied { .. })));
        // Its session is destroyed later.
        let is_released = what == "no session" && result.is_ok();
        assert!(is_denied || is_released, "{what}: {result:?}");
        world.advance(secs(60));
        assert_eq!(session_count(&world), 0, "{what}");
        assert_eq!(contender_keys(&world), [""; 0], "{what}");
    }
}
