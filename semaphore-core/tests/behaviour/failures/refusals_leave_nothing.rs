//! An acquisition that Consul refuses leaves like one that was cancelled: as soon as Consul allows it nothing of it is
//! left, and a shutdown waits for that (invariant L2).

use semaphore_core::sans_io::Response;
use semaphore_core::{Error, RequestError, Semaphore};
use transport_mock::consul::{Access, Policy};
use transport_mock::{Fault, MockConsul, Rule};

use crate::support::*;

const TOKEN: &str = "token";

/// A world that denies what `policy` does not allow, with a record.
fn world_with(policy: Policy) -> MockConsul {
    let world = MockConsul::new(5);
    let first = semaphore(&world, "first", 1);
    world.run(async {
        let permit = first.acquire().await.expect("a slot");
        permit.release().await.expect("released");
        first.shutdown().await;
    });
    world.consul(|consul, _| {
        consul.set_acl_default_deny();
        consul.add_token("all", Policy::management());
        consul.add_token(TOKEN, policy);
    });
    world
}

fn narrow(world: &MockConsul, policy: Policy) {
    world.consul(|consul, _| consul.add_token(TOKEN, policy));
}

fn with_token(world: &MockConsul, host: &str, token: &str) -> Semaphore {
    connect(builder(1).token(token), &world.client(host))
}

/// Everything that a semaphore needs.
fn all() -> Policy {
    Policy::new()
        .with_session_prefix("", Access::Write)
        .with_key_prefix("service/db/", Access::Write)
}

/// Policies that allow to begin an acquisition, and not to complete it.
fn too_little() -> [(&'static str, Policy); 3] {
    let sessions = Policy::new().with_session_prefix("", Access::Write);
    let record_is_read_only = all().with_key("service/db/.lock", Access::Read);
    let keys_are_read_only = sessions
        .clone()
        .with_key_prefix("service/db/", Access::Read);
    let keys_are_read_only_but_the_record = keys_are_read_only
        .clone()
        .with_key("service/db/.lock", Access::Write);
    [
        ("the record is read-only", record_is_read_only),
        ("keys are read-only", keys_are_read_only),
        (
            "keys are read-only but the record",
            keys_are_read_only_but_the_record,
        ),
    ]
}

#[track_caller]
fn assert_denied<T: std::fmt::Debug>(outcome: &Result<T, Error>, what: &str) {
    let is_denied = matches!(outcome, Err(Error::Request(RequestError::Denied { .. })));
    assert!(is_denied, "{what}: {outcome:?}");
}

#[track_caller]
fn assert_left(world: &MockConsul, what: &str) {
    assert_eq!(
        session_count(world),
        0,
        "{what}: sessions\n{}",
        world.trace()
    );
    let keys = contender_keys(world);
    assert_eq!(keys, [""; 0], "{what}: keys\n{}", world.trace());
    assert_eq!(
        holders(world),
        [""; 0],
        "{what}: holders\n{}",
        world.trace()
    );
}

#[test]
fn a_shutdown_after_a_refusal_at_first_use_leaves_nothing() {
    for (what, policy) in too_little() {
        let world = world_with(policy);
        let semaphore = with_token(&world, "a", TOKEN);
        let before = world.now();
        world.run(async {
            assert_denied(&semaphore.acquire().await, what);
            semaphore.shutdown().await;
        });
        assert_left(&world, what);
        assert!(world.now().saturating_since(before) < millis(500), "{what}");
    }
}

#[test]
fn a_shutdown_after_the_policy_was_narrowed_while_it_waited_leaves_nothing() {
    for (what, policy) in too_little() {
        let world = world_with(all());
        let holder = with_token(&world, "holder", "all");
        let held = world.run(holder.acquire()).expect("a slot");
        let waiter = with_token(&world, "a", TOKEN);
        let waiting = world.start(async move {
            let outcome = waiter.acquire().await;
            (outcome, waiter)
        });
        world.advance(secs(5));
        narrow(&world, policy);
        world.run(held.release()).expect("released");
        let (outcome, waiter) = world.run(waiting);
        world.run(async {
            // Who may write the record is granted: its key was there before.
            match outcome {
                Ok(permit) => _ = permit.release().await,
                outcome => assert_denied(&outcome, what),
            }
            waiter.shutdown().await;
            holder.shutdown().await;
        });
        assert_left(&world, what);
    }
}

/// Without a shutdown nobody else waits longer either.
#[test]
fn those_who_may_are_not_held_up_by_a_refused_one() {
    for (what, policy) in too_little() {
        let world = world_with(policy);
        let refused = with_token(&world, "a", TOKEN);
        assert_denied(&world.run(refused.acquire()), what);
        let other = with_token(&world, "b", "all");
        let before = world.now();
        let permit = world.run(other.acquire()).expect("a slot");
        assert!(world.now().saturating_since(before) < millis(100), "{what}");
        world.run(permit.release()).expect("released");
        world.advance(KEPT);
        assert_left(&world, what);
    }
}

/// The record grows with each holder: a claim may be too large when everything before was not.
#[test]
fn a_claim_with_which_the_record_would_outgrow_the_agents_limit_leaves_nothing() {
    let world = MockConsul::new(5);
    let first = semaphore(&world, "first", 3);
    let held = world.run(first.acquire()).expect("a slot");
    let second = semaphore(&world, "second", 3);
    let too_large = Response::new(
        413,
        "Request body(size: 600) too large, max size is 512 bytes",
    );
    world.inject(
        Rule::new(Fault::Answer(too_large))
            .host("second")
            .matching(steps::writes_record)
            .always(),
    );
    let before = session_count(&world);
    world.run(async {
        let outcome = second.acquire().await;
        let is_rejected = matches!(
            outcome,
            Err(Error::Request(RequestError::Rejected { status: 413, .. }))
        );
        assert!(is_rejected, "{outcome:?}");
        second.shutdown().await;
    });
    assert_eq!(session_count(&world), before, "{}", world.trace());
    assert_eq!(contender_keys(&world).len(), 1, "{}", world.trace());
    world.clear_faults();
    world.run(held.release()).expect("released");
    assert_nothing_left(&world);
}

/// A session that may not be destroyed ends by its TTL, and nothing waits for it.
#[test]
fn a_shutdown_does_not_wait_for_a_session_that_it_may_not_destroy() {
    let world = world_with(all());
    let semaphore = with_token(&world, "a", TOKEN);
    let permit = world.run(semaphore.acquire()).expect("a slot");
    narrow(
        &world,
        all()
            .with_session_prefix("", Access::Read)
            .with_key("service/db/.lock", Access::Write),
    );
    let before = world.now();
    world.run(async {
        // A release may be over before the session is destroyed.
        let released = permit.release().await;
        assert!(released.is_ok(), "{released:?}");
        semaphore.shutdown().await;
    });
    assert!(world.now().saturating_since(before) < millis(100));
    assert_eq!(holders(&world), [""; 0]);
    assert_eq!(contender_keys(&world), [""; 0]);
    world.advance(secs(31));
    assert_left(&world, "after its TTL");
}

/// A proxy answers in Consul's place. What it refuses may be let through later, but not after the session has ended.
#[test]
fn what_a_proxy_refuses_is_not_repeated_beyond_the_end_of_its_session() {
    for answer in [
        Response::new(403, "<html>Forbidden</html>"),
        Response::new(413, "<html>too large</html>"),
        Response::new(302, "").with_header("Location", "https://login.example/"),
    ] {
        let world = MockConsul::new(5);
        let holder = semaphore(&world, "holder", 1);
        let permit = world.run(holder.acquire()).expect("a slot");
        world.advance(secs(20));
        let refused = Rule::new(Fault::Answer(answer.clone())).host("holder");
        world.inject(refused.always());
        let released = world.run(permit.release());
        assert!(matches!(released, Err(Error::Request(_))), "{released:?}");
        // What is left of it is given up after two TTLs, and then its session.
        world.advance(secs(66));
        let before = world.stats().total_requests();
        world.advance(secs(300));
        let requests = world.stats().total_requests() - before;
        assert_eq!(requests, 0, "{answer:?}\n{}", world.trace());
        world.clear_faults();
        let other = semaphore(&world, "other", 1);
        let permit = world.run(other.acquire()).expect("a slot");
        world.run(permit.release()).expect("released");
        assert_nothing_left(&world);
    }
}
