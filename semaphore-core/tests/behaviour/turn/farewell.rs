//! The end of a program: it gives back what it held, in a limited time.

use std::io;
use std::time::Duration;

use async_trait::async_trait;
use semaphore_core::adapter::{
    BlockOn as _, BoxFuture, Instant, Request, Response, Runtime, Transport, TransportError,
};
use semaphore_core::{Client, Error, Lost, Permit, Semaphore};
use transport_mock::{MockClient, MockConsul, MockProcess};

use crate::support::election::*;
use crate::support::*;

/// A program that holds the only slot.
fn program(world: &MockConsul) -> (MockProcess, Semaphore, Permit) {
    let process = MockProcess::new(&world.client("a"));
    let semaphore = builder(1).connect(process.clone()).expect("valid settings");
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    (process, semaphore, permit)
}

#[test]
fn what_a_program_holds_at_its_end_is_given_back() {
    let world = MockConsul::new(1);
    let (process, _semaphore, permit) = program(&world);
    process.exit();
    let lost = world.run(permit.lost());
    assert!(matches!(lost, Lost::RuntimeEnded { .. }), "{lost:?}");
    assert!(
        !permit.is_held(),
        "belief ends before the slot is given back"
    );
    world.advance(secs(1));
    assert_nothing_left(&world);
    let next = semaphore(&world, "b", 1);
    let next = world.run(next.try_acquire()).expect("tried");
    assert!(next.is_ok(), "{next:?}");
}

#[test]
fn what_was_dropped_in_the_last_moment_is_given_back() {
    let world = MockConsul::new(1);
    let (process, semaphore, permit) = program(&world);
    drop((permit, semaphore));
    process.exit();
    world.advance(secs(1));
    assert_nothing_left(&world);
}

/// Nothing is held, but the session is kept for a turn that won't come.
#[test]
fn what_a_client_keeps_for_later_ends_with_its_program() {
    for keeps_handles in [true, false] {
        let world = MockConsul::new(1);
        let process = MockProcess::new(&world.client("a"));
        let client = Client::builder().connect(process.clone()).expect("options");
        let semaphore = client.semaphore(PREFIX, 1).expect("valid settings");
        let permit = world.run(semaphore.acquire()).expect("a free slot");
        world.run(permit.release()).expect("released");
        assert_eq!(session_count(&world), 1);
        let handles = keeps_handles.then_some((semaphore, client));
        process.exit();
        world.advance(millis(100));
        assert_eq!(
            session_count(&world),
            0,
            "{keeps_handles}\n{}",
            world.trace()
        );
        drop(handles);
    }
}

#[test]
fn a_release_that_is_under_way_at_the_end_is_finished() {
    for after in [0, 1, 2, 5, 10, 20] {
        let world = MockConsul::new(1);
        let (process, _semaphore, permit) = program(&world);
        let releasing = world.start(async move { permit.release().await });
        world.advance(millis(after));
        process.exit();
        let released = world.run(releasing);
        assert!(
            matches!(
                released,
                Ok(()) | Err(Error::Closed { .. } | Error::Lost(Lost::RuntimeEnded { .. }))
            ),
            "{released:?}"
        );
        world.advance(secs(1));
        assert_nothing_left(&world);
    }
}

#[test]
fn whoever_waits_when_its_program_ends_leaves_the_queue() {
    let world = MockConsul::new(1);
    let (_process, _holding, permit) = program(&world);
    let process = MockProcess::new(&world.client("b"));
    let waiter = builder(1).connect(process.clone()).expect("valid settings");
    let waiting = world.start(async move { waiter.acquire().await });
    world.advance(secs(2));
    assert_eq!(contender_keys(&world).len(), 2);
    process.exit();
    assert!(matches!(world.run(waiting), Err(Error::Closed { .. })));
    world.advance(secs(1));
    assert_eq!(contender_keys(&world).len(), 1);
    assert!(permit.is_held());
}

#[test]
fn a_leader_whose_program_ends_resigns() {
    let world = MockConsul::new(1);
    let process = MockProcess::new(&world.client("a"));
    let election = builder_for(KEY)
        .connect(process.clone())
        .expect("valid settings");
    let leadership = world.run(election.campaign()).expect("elected");
    process.exit();
    world.advance(secs(1));
    assert!(!leadership.is_leader());
    assert_only_key_left(&world);
    let next = world.run(crate::support::election::election(&world, "b").try_campaign());
    assert!(next.expect("tried").is_ok());
}

#[test]
fn an_end_is_put_off_no_longer_than_its_farewell_lasts() {
    let world = MockConsul::new(1);
    let (process, _semaphore, _permit) = program(&world);
    world.partition("a");
    process.exit();
    world.advance(secs(1));
    world.heal("a");
    let sent = world.stats_of("a").total_requests();
    world.advance(secs(8));
    assert_eq!(
        world.stats_of("a").total_requests(),
        sent,
        "{}",
        world.trace()
    );
    assert_eq!(holders(&world).len(), 1);
}

#[test]
fn without_a_farewell_nothing_is_given_back() {
    let world = MockConsul::new(1);
    let process = MockProcess::new(&world.client("a"));
    let silent = builder(1).farewell(Duration::ZERO);
    let semaphore = silent.connect(process.clone()).expect("valid settings");
    let _permit = world.run(semaphore.acquire()).expect("a free slot");
    process.exit();
    world.advance(secs(5));
    assert_eq!(holders(&world).len(), 1);
}

#[test]
fn a_program_that_is_killed_says_no_farewell() {
    let world = MockConsul::new(1);
    let (process, _semaphore, _permit) = program(&world);
    process.kill();
    world.advance(secs(5));
    assert_eq!(holders(&world).len(), 1);
}

/// A runtime whose threads end with `main`. So dropping the last handle must wait.
struct Unasked(MockClient);

#[async_trait]
impl Transport for Unasked {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        self.0.send(request).await
    }
}

#[async_trait]
impl Runtime for Unasked {
    fn now(&self) -> Instant {
        self.0.now()
    }

    async fn sleep(&self, duration: Duration) {
        self.0.sleep(duration).await;
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) -> io::Result<()> {
        self.0.spawn(future)
    }

    fn seed(&self) -> u64 {
        self.0.seed()
    }

    fn linger(&self, rest: BoxFuture<'_, ()>) {
        self.0.block_on(rest);
    }
}

#[test]
fn whoever_drops_the_last_handle_waits_until_everything_is_given_back() {
    let world = MockConsul::new(1);
    let semaphore = builder(1)
        .connect(Unasked(world.client("a")))
        .expect("valid settings");
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    let clone = semaphore.clone();
    drop(semaphore);
    drop(clone);
    let before = world.now();
    drop(permit);
    assert!(world.now().saturating_since(before) < secs(1));
    assert_eq!(holders(&world), [""; 0]);
    assert_eq!(session_count(&world), 0);
}

#[test]
fn whoever_drops_the_last_handle_waits_for_a_farewell_at_most() {
    let world = MockConsul::new(1);
    let told = builder(1).farewell(millis(700));
    let semaphore = told
        .connect(Unasked(world.client("a")))
        .expect("valid settings");
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    world.partition("a");
    drop(semaphore);
    let before = world.now();
    drop(permit);
    assert_eq!(world.now().saturating_since(before), millis(700));
}

#[test]
fn nobody_waits_where_nothing_is_left() {
    let world = MockConsul::new(1);
    let semaphore = builder(1)
        .connect(Unasked(world.client("a")))
        .expect("valid settings");
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    world
        .run(async { permit.release().await })
        .expect("released");
    world.run(semaphore.shutdown());
    world.partition("a");
    let before = world.now();
    drop(semaphore);
    assert_eq!(world.now(), before);
}
