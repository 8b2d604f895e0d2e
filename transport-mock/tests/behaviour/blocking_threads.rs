//! Threads that block share one virtual clock and drive one another's background work.

#![expect(clippy::expect_used, reason = "a helper of tests")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{SECOND, put, status, stored};
use semaphore_core::adapter::{BlockOn, Instant, Runtime};
use transport_mock::{MockClient, MockConsul};

fn block_on<T: Send>(client: &MockClient, future: impl Future<Output = T> + Send) -> T {
    let mut output = None;
    client.block_on(Box::pin(async { output = Some(future.await) }));
    output.expect("block_on ends with its future")
}

#[test]
fn threads_that_sleep_wake_in_the_order_of_their_deadlines() {
    let world = MockConsul::new(1);
    let order = Arc::new(Mutex::new(Vec::new()));
    let hold = world.hold_time();
    let threads: Vec<_> = [5_u32, 2, 4, 1, 3]
        .into_iter()
        .map(|seconds| {
            let (client, order) = (world.client("a"), Arc::clone(&order));
            world.spawn_thread(move || {
                block_on(&client, client.sleep(seconds * SECOND));
                order.lock().unwrap().push((seconds, client.now()));
            })
        })
        .collect();
    drop(hold);
    for thread in threads {
        thread.join().unwrap();
    }
    let expected: Vec<_> = (1..=5_u32)
        .map(|seconds| (seconds, Instant::from_origin(seconds * SECOND)))
        .collect();
    assert_eq!(*order.lock().unwrap(), expected);
}

#[test]
fn time_stands_still_while_a_thread_of_the_world_works() {
    let world = MockConsul::new(1);
    let client = world.client("a");
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let hold = world.hold_time();
    let worker = world.spawn_thread({
        let client = client.clone();
        move || {
            block_on(&client, client.sleep(SECOND));
            let before = client.now();
            wait.recv().unwrap();
            assert_eq!(client.now(), before);
            block_on(&client, client.sleep(SECOND));
        }
    });
    let sleeper = world.spawn_thread({
        let client = client.clone();
        move || {
            block_on(&client, client.sleep(SECOND));
            go.send(()).unwrap();
            block_on(&client, client.sleep(3600 * SECOND));
        }
    });
    drop(hold);
    worker.join().unwrap();
    sleeper.join().unwrap();
    assert_eq!(world.now(), Instant::from_origin(3601 * SECOND));
}

#[test]
fn the_test_moves_time_for_threads_that_block() {
    let world = MockConsul::new(1);
    world.set_automatic_time(false);
    let ticks = Arc::new(Mutex::new(0));
    let (client, count) = (world.client("a"), Arc::clone(&ticks));
    let thread = world.spawn_thread(move || {
        for _ in 0..5 {
            block_on(&client, client.sleep(SECOND));
            *count.lock().unwrap() += 1;
        }
    });
    for tick in 0..5 {
        world.advance(SECOND / 2);
        assert_eq!(*ticks.lock().unwrap(), tick);
        world.advance(SECOND / 2);
        assert_eq!(*ticks.lock().unwrap(), tick + 1);
    }
    thread.join().unwrap();
}

#[test]
fn held_time_moves_only_by_hand() {
    let world = MockConsul::new(1);
    let hold = world.hold_time();
    let client = world.client("a");
    let thread = std::thread::spawn(move || block_on(&client, client.sleep(10 * SECOND)));
    world.advance(SECOND);
    assert_eq!(world.now(), Instant::from_origin(SECOND));
    drop(hold);
    thread.join().unwrap();
    assert!(world.now() >= Instant::from_origin(10 * SECOND));
}

#[test]
fn many_threads_write_at_once() {
    let world = MockConsul::new(1);
    let threads: Vec<_> = (0..32)
        .map(|number| {
            let client = world.client(format!("node-{number}"));
            world.spawn_thread(move || {
                for round in 0..10 {
                    let request = put(&format!("key-{number}"), &format!("{round}"));
                    assert_eq!(block_on(&client, status(&client, request)), Ok(200));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    for number in 0..32 {
        assert_eq!(
            stored(&world, &format!("key-{number}")).as_deref(),
            Some("9")
        );
    }
    assert_eq!(world.stats().total_requests(), 32 * 10 + 32);
}

#[test]
fn a_thread_inside_runs_what_others_have_spawned() {
    let world = MockConsul::new(1);
    let client = world.client("a");
    let background = world.start({
        let client = client.clone();
        async move { status(&client, put("key", "value")).await }
    });
    assert_eq!(block_on(&client, background), Ok(200));
}

#[test]
fn a_thread_can_wake_one_that_blocks_from_outside_of_the_world() {
    let world = MockConsul::new(1);
    let client = world.client("a");
    let (sender, receiver) = futures_channel::oneshot::channel::<u32>();
    let waiting = world.spawn_thread(move || block_on(&client, receiver));
    sender.send(7).unwrap();
    assert_eq!(waiting.join().unwrap(), Ok(7));
}

#[test]
fn a_panic_in_the_background_fails_the_thread_that_runs_it_and_no_other() {
    let world = MockConsul::new(1);
    let client = world.client("a");
    client
        .spawn(Box::pin(async { panic!("on purpose") }))
        .unwrap();
    let other = client.clone();
    let thread = std::thread::spawn(move || other.block_on(Box::pin(async {})));
    assert!(thread.join().is_err());
    block_on(&client, client.sleep(Duration::from_secs(1)));
}
