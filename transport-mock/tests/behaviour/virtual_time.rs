//! Time moves when everything sleeps or when the test moves it, and at no other time.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use semaphore_core::adapter::{Instant, Runtime};
use transport_mock::MockConsul;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_sleep_of_a_day_takes_a_day_of_virtual_time() {
    let world = MockConsul::new(1);
    world.run(world.sleep(86_400 * SECOND));
    assert_eq!(world.now(), Instant::from_origin(86_400 * SECOND));
}

#[test]
fn a_future_that_is_ready_takes_no_time() {
    let world = MockConsul::new(1);
    assert_eq!(world.run(async { 7 }), 7);
    assert_eq!(world.now(), Instant::ORIGIN);
}

#[test]
fn sleepers_wake_in_the_order_of_their_deadlines_and_then_of_their_start() {
    let world = MockConsul::new(1);
    let order = Arc::new(Mutex::new(Vec::new()));
    let tasks: Vec<_> = [3, 1, 2, 1]
        .into_iter()
        .enumerate()
        .map(|(number, seconds)| {
            let (sleeper, order) = (world.client("a"), Arc::clone(&order));
            world.start(async move {
                sleeper.sleep(seconds * SECOND).await;
                order.lock().unwrap().push(number);
            })
        })
        .collect();
    world.run(async {
        for task in tasks {
            task.await;
        }
    });
    assert_eq!(*order.lock().unwrap(), [1, 3, 2, 0]);
    assert_eq!(world.now(), Instant::from_origin(3 * SECOND));
}

#[test]
fn a_dropped_sleep_does_not_move_time() {
    let world = MockConsul::new(1);
    let task = world.start(world.client("a").sleep_owned(100 * SECOND));
    world.advance(Duration::ZERO);
    task.abort();
    world.run(world.sleep(SECOND));
    assert_eq!(world.now(), Instant::from_origin(SECOND));
}

#[test]
fn when_only_the_test_moves_time_a_sleeper_waits_for_it() {
    let world = MockConsul::new(1);
    world.set_automatic_time(false);
    let ticks = Arc::new(AtomicU32::new(0));
    let (client, count) = (world.client("a"), Arc::clone(&ticks));
    client
        .spawn(Box::pin({
            let client = client.clone();
            async move {
                loop {
                    client.sleep(SECOND).await;
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        }))
        .unwrap();
    world.advance(Duration::ZERO);
    assert_eq!(ticks.load(Ordering::Relaxed), 0);
    world.advance(SECOND / 2);
    assert_eq!(ticks.load(Ordering::Relaxed), 0);
    world.advance(SECOND / 2);
    assert_eq!(ticks.load(Ordering::Relaxed), 1);
    world.advance(10 * SECOND);
    assert_eq!(ticks.load(Ordering::Relaxed), 11);
    assert_eq!(world.now(), Instant::from_origin(11 * SECOND));
}

#[test]
fn the_output_of_a_task_is_there_when_it_has_ended() {
    let world = MockConsul::new(1);
    let mut task = world.start({
        let client = world.client("a");
        async move {
            client.sleep(SECOND).await;
            "done"
        }
    });
    assert_eq!(task.try_take(), None);
    world.advance(SECOND);
    assert_eq!(task.try_take(), Some("done"));
    assert_eq!(task.try_take(), None);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_future_that_nothing_can_wake_fails_the_test() {
    MockConsul::new(1).run(std::future::pending::<()>());
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_sleep_without_end_is_no_timer() {
    let world = MockConsul::new(1);
    world.run(world.sleep(Duration::MAX));
}

#[test]
#[should_panic(expected = "deadlock")]
fn waiting_for_time_that_only_the_test_moves_fails_the_test() {
    let world = MockConsul::new(1);
    world.set_automatic_time(false);
    world.run(world.sleep(SECOND));
}

#[test]
#[should_panic(expected = "1 h of virtual time")]
fn waiting_in_vain_beside_a_timer_that_goes_on_fails_the_test() {
    let world = MockConsul::new(1);
    world.set_patience(3600 * SECOND);
    let client = world.client("a");
    world.start(async move {
        loop {
            client.sleep(SECOND).await;
        }
    });
    world.run(std::future::pending::<()>());
}

#[test]
#[should_panic(expected = "wakes itself for ever")]
fn a_future_that_wakes_itself_for_ever_fails_the_test() {
    MockConsul::new(1).run(std::future::poll_fn::<(), _>(|context| {
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    }));
}

#[test]
#[should_panic(expected = "await there instead")]
fn blocking_inside_a_future_of_the_world_fails_the_test() {
    let world = MockConsul::new(1);
    world.run(async { world.run(async {}) });
}

#[test]
fn what_still_runs_is_dropped_with_the_world() {
    let alive = Arc::new(());
    let world = MockConsul::new(1);
    let (held, client) = (Arc::clone(&alive), world.client("a"));
    world.start(async move {
        client.sleep(SECOND).await;
        drop(held);
    });
    world.advance(Duration::ZERO);
    drop(world);
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[test]
fn what_is_spawned_by_a_drop_at_the_end_of_the_world_is_dropped_too() {
    struct SpawnsOnDrop(transport_mock::MockClient, Option<Arc<()>>);
    impl Drop for SpawnsOnDrop {
        fn drop(&mut self) {
            let held = self.1.take();
            self.0.spawn(Box::pin(async move { drop(held) })).unwrap();
        }
    }
    let alive = Arc::new(());
    let world = MockConsul::new(1);
    let client = world.client("a");
    let guard = SpawnsOnDrop(client.clone(), Some(Arc::clone(&alive)));
    world.start(async move {
        client.sleep(SECOND).await;
        drop(guard);
    });
    world.advance(Duration::ZERO);
    drop(world);
    assert_eq!(Arc::strong_count(&alive), 1);
}

/// A sleep that owns its client, as a spawned future must.
trait SleepOwned {
    fn sleep_owned(self, duration: Duration) -> impl Future<Output = ()> + Send + 'static;
}

impl<R: Runtime + 'static> SleepOwned for R {
    async fn sleep_owned(self, duration: Duration) {
        self.sleep(duration).await;
    }
}
