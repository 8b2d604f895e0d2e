//! The handles: closing, shutting down, dropping, the end of the runtime, and blocking ones.

use std::sync::Arc;

use semaphore_core::{Builder, Error, Lost, Permit, Scope, Semaphore, Token, blocking};
use transport_mock::consul::Policy;
use transport_mock::{MockConsul, RequestKind};

use crate::support::*;

#[test]
fn closing_fails_those_who_wait_and_leaves_those_who_hold() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    let waiter = semaphore.clone();
    let waiting = world.start(async move { waiter.acquire().await });
    world.advance(secs(1));
    assert!(!semaphore.is_closed());
    semaphore.close();
    assert!(semaphore.is_closed() && semaphore.clone().is_closed());
    let result = world.run(waiting);
    assert!(matches!(result, Err(Error::Closed { .. })), "{result:?}");
    for result in [
        world.run(semaphore.acquire()).map(drop),
        world.run(semaphore.acquire_timeout(secs(1))).map(drop),
        world.run(semaphore.try_acquire()).map(drop),
    ] {
        assert!(matches!(result, Err(Error::Closed { .. })), "{result:?}");
    }
    world.advance(secs(60));
    assert!(permit.is_held());
    assert_eq!(contender_keys(&world).len(), 1);
    assert_eq!(
        world.run(semaphore.inspect()).expect("a semaphore").limit,
        1
    );
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}

#[test]
fn shutting_down_waits_until_nothing_is_left() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 2);
    let permits = [(); 2].map(|()| world.run(semaphore.acquire()).expect("a slot"));
    let mut down = {
        let semaphore = semaphore.clone();
        world.start(async move { semaphore.shutdown().await })
    };
    world.advance(secs(60));
    assert!(down.try_take().is_none());
    let [first, second] = permits;
    drop(first);
    world.advance(secs(1));
    assert!(down.try_take().is_none());
    assert!(second.is_held());
    drop(second);
    world.run(down);
    assert_nothing_left(&world);
    let sent = world.stats().total_requests();
    world.advance(secs(60));
    assert_eq!(world.stats().total_requests(), sent);
}

#[test]
fn shutting_down_twice_or_unused_ends_at_once() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    world.run(semaphore.shutdown());
    world.run(semaphore.shutdown());
    assert_eq!(world.stats().total_requests(), 0);
}

#[test]
fn dropping_all_handles_cleans_up() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 2);
    let permits = [(); 2].map(|()| world.run(semaphore.acquire()).expect("a slot"));
    let another = semaphore.clone();
    drop(semaphore);
    drop(permits);
    world.advance(secs(1));
    assert_nothing_left(&world);
    drop(another);
    world.advance(secs(600));
    assert_eq!(world.stats().open, 0);
}

#[test]
fn a_permit_outlives_the_semaphore_it_came_from() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    drop(semaphore);
    world.advance(secs(100));
    assert!(permit.is_held());
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}

/// A world that is about to end, with a holder.
fn doomed() -> (MockConsul, Semaphore, Permit) {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    (world, semaphore, permit)
}

/// Polls a future without a runtime, which it must not need.
fn at_once<F: Future>(future: F) -> F::Output {
    use std::task::{Context, Poll, Waker};
    let mut future = std::pin::pin!(future);
    match future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits for a runtime that is gone"),
    }
}

#[test]
fn the_end_of_the_runtime_is_a_loss() {
    let (world, _semaphore, permit) = doomed();
    assert!(permit.is_held());
    drop(world);
    assert!(!permit.is_held(), "nothing renews it any more");
    assert!(matches!(at_once(permit.lost()), Lost::RuntimeEnded { .. }));
    assert!(matches!(at_once(permit.lost()), Lost::RuntimeEnded { .. }));
    assert_eq!(permit.remaining(), secs(0));
    let released = at_once(permit.release());
    assert!(
        matches!(released, Err(Error::Lost(Lost::RuntimeEnded { .. }))),
        "{released:?}"
    );
}

#[test]
fn after_the_end_of_the_runtime_everything_is_closed() {
    let (world, semaphore, permit) = doomed();
    let waiting = semaphore.acquire();
    let mut waiting = Box::pin(waiting);
    let is_pending = world.run(std::future::poll_fn(|cx| {
        std::task::Poll::Ready(waiting.as_mut().poll(cx).is_pending())
    }));
    assert!(is_pending);
    drop(world);
    for result in [
        at_once(waiting).map(drop),
        at_once(semaphore.acquire()).map(drop),
        at_once(semaphore.try_acquire()).map(drop),
    ] {
        assert!(matches!(result, Err(Error::Closed { .. })), "{result:?}");
    }
    semaphore.close();
    drop(permit);
    at_once(semaphore.shutdown());
}

#[test]
fn shutting_down_after_the_end_of_the_runtime_does_not_wait() {
    let (world, semaphore, permit) = doomed();
    drop(world);
    at_once(semaphore.shutdown());
    drop(permit);
    at_once(semaphore.shutdown());
}

#[test]
fn a_runtime_that_ends_leaves_the_rest_to_the_ttl() {
    // One host's runtime ends, and Consul lives on.
    let world = MockConsul::new(1);
    let client = world.client("a");
    let runtime = Arc::new(Ending {
        client: client.clone(),
        driver: std::sync::Mutex::default(),
    });
    let semaphore = builder(1)
        .connect_parts(Arc::new(client), runtime.clone())
        .expect("valid settings");
    let driver = runtime.driver.lock().expect("a driver").take();
    let driver = world.start(driver.expect("a driver"));
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    driver.abort();
    world.advance(secs(1));
    assert!(!permit.is_held());
    assert!(matches!(
        world.run(permit.lost()),
        Lost::RuntimeEnded { .. }
    ));
    drop((permit, semaphore));
    assert_eq!(holders(&world).len(), 1);
    world.advance(secs(31));
    assert_eq!(contender_keys(&world), [""; 0]);
    assert_eq!(session_count(&world), 0);
    let next = crate::support::semaphore(&world, "b", 1);
    let permit = world.run(next.acquire()).expect("a free slot");
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}

#[test]
fn the_driver_ends_when_the_last_handle_is_gone_and_nothing_is_left() {
    let world = MockConsul::new(1);
    let client = world.client("a");
    let runtime = Arc::new(Ending {
        client: client.clone(),
        driver: std::sync::Mutex::default(),
    });
    let semaphore = builder(1)
        .connect_parts(Arc::new(client), runtime.clone())
        .expect("valid settings");
    let driver = runtime.driver.lock().expect("a driver").take();
    let mut driver = world.start(driver.expect("a driver"));
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    drop(semaphore);
    world.advance(secs(60));
    assert!(driver.try_take().is_none());
    assert!(permit.is_held());
    drop(permit);
    world.advance(secs(1));
    assert!(driver.try_take().is_some());
    assert_nothing_left(&world);
}

#[test]
fn a_driver_that_is_never_run_is_the_end_too() {
    let world = MockConsul::new(1);
    let client = world.client("a");
    let runtime = Arc::new(Ending {
        client: client.clone(),
        driver: std::sync::Mutex::default(),
    });
    let semaphore = builder(1)
        .connect_parts(Arc::new(client), runtime.clone())
        .expect("valid settings");
    assert!(!semaphore.is_closed());
    *runtime.driver.lock().expect("a driver") = None;
    assert!(semaphore.is_closed());
    let result = at_once(semaphore.acquire());
    assert!(matches!(result, Err(Error::Closed { .. })), "{result:?}");
    assert_eq!(world.stats().total_requests(), 0);
}

/// A runtime that exposes its driver, so the test can end it.
struct Ending {
    client: transport_mock::MockClient,
    driver: std::sync::Mutex<Option<semaphore_core::adapter::BoxFuture<'static, ()>>>,
}

#[async_trait::async_trait]
impl semaphore_core::adapter::Runtime for Ending {
    fn now(&self) -> semaphore_core::adapter::Instant {
        self.client.now()
    }

    async fn sleep(&self, duration: std::time::Duration) {
        self.client.sleep(duration).await;
    }

    fn spawn(
        &self,
        future: semaphore_core::adapter::BoxFuture<'static, ()>,
    ) -> std::io::Result<()> {
        *self.driver.lock().expect("a driver") = Some(future);
        Ok(())
    }

    fn seed(&self) -> u64 {
        self.client.seed()
    }
}

fn blocking_semaphore(world: &MockConsul, host: &str, limit: u32) -> blocking::Semaphore {
    blocking::Semaphore::builder(PREFIX, limit)
        .value("test")
        .connect(world.client(host))
        .expect("valid settings")
}

#[test]
fn options_for_async_handles_connect_blocking_ones_too() {
    let world = MockConsul::new(1);
    let options = builder(1).value("a");
    let semaphore = options.clone().connect_blocking(world.client("a"));
    let semaphore = semaphore.expect("valid settings");
    let permit = semaphore.acquire().expect("a free slot");
    let other = options.connect(world.client("b")).expect("valid settings");
    assert!(world.run(other.try_acquire()).expect("an answer").is_err());
    permit.release().expect("released");
}

#[test]
fn a_builder_takes_the_scope_as_one_and_keeps_the_options_given_after_it() {
    let world = MockConsul::new(1);
    world.consul(|consul, _| {
        consul.set_acl_default_deny();
        consul.add_token("good", Policy::management());
    });
    let scope = |token| Scope::new().with_token(Token::new(token).expect("a token"));
    let acquire = |builder: Builder, host| {
        let semaphore = builder.connect(world.client(host)).expect("valid settings");
        world.run(semaphore.acquire()).map(drop)
    };
    acquire(builder(1).token("bad").scope(scope("good")), "a").expect("a free slot");
    acquire(builder(1).scope(scope("bad")).token("good"), "b").expect("a free slot");
    let refused = acquire(builder(1).token("good").scope(Scope::new()), "c");
    assert!(matches!(refused, Err(Error::Request(_))), "{refused:?}");
}

#[test]
fn blocking_handles_do_the_same() {
    let world = MockConsul::new(1);
    let semaphore = blocking_semaphore(&world, "a", 3);
    assert_eq!(semaphore.prefix().as_str(), PREFIX);
    let permit = semaphore.acquire().expect("a free slot");
    assert!(permit.is_held());
    assert_eq!(permit.permits(), 1);
    assert!(permit.remaining() > secs(8), "{:?}", permit.remaining());
    let status = semaphore
        .verify(&permit.sequencers()[0])
        .expect("an answer");
    assert_eq!(status, semaphore_core::SequencerStatus::Current);
    let many = semaphore.acquire_many(2).expect("free slots");
    assert_eq!(many.permits(), 2);
    assert!(many.fencing_token() > permit.fencing_token());
    assert!(semaphore.try_acquire().expect("an answer").is_err());
    assert!(semaphore.try_acquire_many(2).expect("an answer").is_err());
    match semaphore.acquire_timeout(secs(2)) {
        Err(Error::Timeout { waited, .. }) => assert_eq!(waited, secs(2)),
        other => panic!("{other:?}"),
    }
    let result = semaphore.acquire_many_timeout(2, secs(2));
    assert!(matches!(result, Err(Error::Timeout { .. })), "{result:?}");
    let result = semaphore.destroy();
    assert!(matches!(result, Err(Error::InUse { .. })), "{result:?}");
    assert_eq!(semaphore.inspect().expect("a semaphore").holders.len(), 3);
    semaphore.resize(4).expect("resized");
    let fourth = semaphore.try_acquire().expect("an answer");
    assert!(fourth.expect("a free slot").is_held());
    drop(many);
    permit.release().expect("released");
    semaphore.shutdown();
    assert_nothing_left(&world);
    semaphore.destroy().expect("destroyed");
    let result = semaphore.acquire();
    assert!(matches!(result, Err(Error::Closed { .. })), "{result:?}");
}

#[test]
fn a_blocking_handle_closes() {
    let world = MockConsul::new(1);
    let semaphore = blocking_semaphore(&world, "a", 1);
    let permit = semaphore.acquire().expect("a free slot");
    semaphore.close();
    let result = semaphore.acquire_timeout(secs(1));
    assert!(matches!(result, Err(Error::Closed { .. })), "{result:?}");
    assert!(permit.is_held());
    permit.release().expect("released");
}

#[test]
fn handles_show_what_they_are_of() {
    let world = MockConsul::new(1);
    let semaphore = blocking_semaphore(&world, "a", 1);
    let permit = semaphore.acquire().expect("a free slot");
    let prefix = format!("Semaphore {{ prefix: {:?}, .. }}", semaphore.prefix());
    assert_eq!(format!("{semaphore:?}"), prefix);
    let shown = format!("{permit:?}");
    assert!(shown.starts_with("Permit { permits: 1, "), "{shown}");
    let same = crate::support::semaphore(&world, "b", 1);
    assert_eq!(format!("{same:?}"), prefix);
}

#[test]
fn a_blocking_wait_for_a_loss_ends_with_it_or_with_its_timeout() {
    let world = MockConsul::new(1);
    let semaphore = blocking_semaphore(&world, "a", 1);
    let permit = semaphore.acquire().expect("a free slot");
    let before = world.now();
    assert!(permit.lost_timeout(secs(40)).is_none());
    assert_eq!(world.now().saturating_since(before), secs(40));
    assert!(permit.is_held());
    let session = holders(&world).remove(0);
    world.consul(|consul, now| consul.destroy_session(now, &session));
    let lost = permit.lost_timeout(secs(40));
    assert!(matches!(lost, Some(Lost::SessionGone { .. })), "{lost:?}");
    assert!(matches!(permit.lost(), Lost::SessionGone { .. }));
    assert!(!permit.is_held());
    let released = permit.release();
    assert!(matches!(released, Err(Error::Lost(_))), "{released:?}");
    semaphore.shutdown();
    assert_nothing_left(&world);
}

#[test]
fn threads_take_turns() {
    let world = MockConsul::new(1);
    let semaphore = blocking_semaphore(&world, "a", 2);
    let inside = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let threads: Vec<_> = {
        let _held = world.hold_time();
        (0..6)
            .map(|_| {
                let (semaphore, inside) = (semaphore.clone(), Arc::clone(&inside));
                world.spawn_thread(move || {
                    use std::sync::atomic::Ordering::SeqCst;
                    for _ in 0..3 {
                        let permit = semaphore.acquire().expect("a slot");
                        assert!(inside.fetch_add(1, SeqCst) < 2);
                        assert!(permit.lost_timeout(millis(10)).is_none());
                        inside.fetch_sub(1, SeqCst);
                        permit.release().expect("released");
                    }
                })
            })
            .collect()
    };
    for thread in threads {
        thread.join().expect("a thread that ended well");
    }
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn semaphores_on_similar_prefixes_are_independent_of_each_other() {
    let world = MockConsul::new(1);
    let first = semaphore(&world, "a", 1);
    let other = connect(builder_of("service/db2", 1), &world.client("a"));
    let nested = connect(builder_of("service/db/inner", 1), &world.client("a"));
    let permits = [&first, &other, &nested].map(|semaphore| {
        world
            .run(semaphore.acquire_timeout(secs(5)))
            .expect("each has one slot")
    });
    assert_eq!(
        world
            .run(first.inspect())
            .expect("a semaphore")
            .holders
            .len(),
        1
    );
    assert_eq!(world.stats().requests_of(RequestKind::SessionCreate), 3);
    drop(permits);
    world.advance(KEPT);
    assert_eq!(session_count(&world), 0);
}
