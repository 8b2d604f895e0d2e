//! Tokens are replaced while somebody holds, waits or leads. The old one is deleted, and nothing is
//! lost.

use std::sync::{Arc, Mutex};

use semaphore_core::{Error, RequestError, Semaphore, Token};
use transport_mock::MockConsul;
use transport_mock::consul::Policy;

use crate::support::election::builder_for;
use crate::support::*;

const TOKENS: [&str; 4] = ["first", "second", "third", "fourth"];

/// A Consul with access control, in which this token has all permissions.
fn guarded(token: &str) -> MockConsul {
    let world = MockConsul::new(1);
    world.consul(|consul, _| {
        consul.set_acl_default_deny();
        consul.add_token(token, Policy::management());
    });
    world
}

/// The new token works at once, and the old one no longer does.
fn rotate(world: &MockConsul, old: &str, new: &str) {
    world.consul(|consul, _| {
        consul.add_token(new, Policy::management());
        consul.remove_token(old);
    });
}

fn token(secret: &str) -> Token {
    Token::new(secret).expect("a token")
}

/// A token that the test can change.
#[derive(Clone)]
struct Shared(Arc<Mutex<Token>>);

impl Shared {
    fn new(secret: &str) -> Self {
        Self(Arc::new(Mutex::new(token(secret))))
    }

    fn set(&self, secret: &str) {
        *self.0.lock().expect("not poisoned") = token(secret);
    }

    fn source(&self) -> impl Fn() -> Option<Token> + Send + Sync + 'static {
        let shared = self.clone();
        move || Some(shared.0.lock().expect("not poisoned").clone())
    }
}

#[test]
fn holders_waiters_and_leaders_live_through_rotations() {
    let world = guarded("first");
    let shared = Shared::new("first");
    let connected = |host: &str| -> Semaphore {
        let builder = builder(1).token_source(shared.source());
        connect(builder, &world.client(host))
    };
    let (holder, waiter) = (connected("holder"), connected("waiter"));
    let permit = world.run(holder.acquire()).expect("a slot");
    let waiting = world.start(async move { waiter.acquire().await });
    let election = builder_for("leader").token_source(shared.source());
    let election = election.connect(world.client("leader")).expect("valid");
    let leadership = world.run(election.campaign()).expect("elected");
    for pair in TOKENS.windows(2) {
        world.advance(millis(20_350));
        rotate(&world, pair[0], pair[1]);
        // The new token comes late.
        world.advance(secs(3));
        shared.set(pair[1]);
        world.advance(secs(60));
        assert!(permit.is_held() && leadership.is_leader(), "{pair:?}");
    }
    world.run(permit.release()).expect("released");
    let permit = world.run(waiting).expect("a slot");
    world.run(permit.release()).expect("released");
    world.run(leadership.resign()).expect("resigned");
    world.advance(secs(2));
    assert_nothing_left(&world);
}

#[test]
fn a_token_that_is_set_is_sent_from_then_on_and_in_place_of_one_that_was_refused() {
    let world = guarded("first");
    let builder = builder(1).token("first");
    let semaphore = connect(builder, &world.client("a"));
    let permit = world.run(semaphore.acquire()).expect("a slot");
    world.advance(secs(20));
    rotate(&world, "first", "second");
    semaphore.clone().set_token(token("second"));
    world.advance(secs(60));
    assert!(permit.is_held());
    world.run(permit.release()).expect("released");
    semaphore.set_token(token("unknown"));
    let refused = world.run(semaphore.acquire()).expect_err("refused");
    assert!(
        matches!(refused, Error::Request(RequestError::Denied { .. })),
        "{refused:?}"
    );
    assert!(!format!("{refused:?}").contains("unknown\""));
    semaphore.set_token(token("second"));
    let permit = world.run(semaphore.acquire()).expect("a slot");
    world.run(permit.release()).expect("released");
    world.advance(secs(2));
    assert_nothing_left(&world);
}

/// A new handle uses the token for the first time. When it asked the source, that still had the old
/// token.
#[test]
fn what_is_refused_is_sent_again_with_the_token_that_the_source_has_by_then() {
    let world = guarded("second");
    let asked = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&asked);
    let source = move || {
        let mut asked = counted.lock().expect("not poisoned");
        *asked += 1;
        Some(token(if *asked == 1 { "first" } else { "second" }))
    };
    let semaphore = connect(builder(1).token_source(source), &world.client("a"));
    let permit = world.run(semaphore.acquire()).expect("a slot");
    world.run(permit.release()).expect("released");
    assert!(*asked.lock().expect("not poisoned") > 2);
}

#[test]
fn without_a_token_nothing_is_sent_along() {
    let world = guarded("first");
    let semaphore = connect(
        builder(1).token("first").token_source(|| None),
        &world.client("a"),
    );
    let refused = world.run(semaphore.acquire()).expect_err("refused");
    assert!(
        matches!(refused, Error::Request(RequestError::Denied { .. })),
        "{refused:?}"
    );
}
