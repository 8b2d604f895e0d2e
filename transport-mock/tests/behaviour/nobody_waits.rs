//! A caller that waits in a world that nobody moves, or that mixes two clocks, is told what to do.
//! `on_tokio.rs` has the rest.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use transport_mock::adapter::{Method, Request, Runtime as _, Transport as _};
use transport_mock::{MockConsul, Semaphore, blocking};

fn semaphore(world: &MockConsul) -> Semaphore {
    let builder = Semaphore::builder("service/db", 1);
    builder.connect(world.client("a")).unwrap()
}

fn panic_of(body: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(body)).unwrap_err();
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.expect("a text").to_owned()
}

/// A world that the watchdog ends as soon as it looks.
fn hasty() -> MockConsul {
    let world = MockConsul::new(7);
    world.set_longest_wait(Duration::ZERO);
    world
}

#[test]
fn on_smol_a_handle_panics_with_advice_and_so_does_whoever_uses_the_world_later() {
    let world = hasty();
    let semaphore = semaphore(&world);
    let said = panic_of(move || drop(smol::block_on(semaphore.acquire())));
    assert!(said.contains("`LoopbackConsul`"), "{said}");
    let said = panic_of(|| world.run(async {}));
    assert!(said.contains("nobody has moved this world"), "{said}");
    let builder = Semaphore::builder("service/db", 1);
    let said = panic_of(|| drop(builder.connect(world.client("b"))));
    assert!(said.contains("`LoopbackConsul`"), "{said}");
}

#[test]
#[should_panic(expected = "nobody has moved this world")]
fn on_smol_a_handle_that_has_been_driven_before_panics_too() {
    let world = hasty();
    let semaphore = semaphore(&world);
    let permit = world.run(semaphore.acquire()).unwrap();
    world.run(permit.release()).unwrap();
    world.advance(Duration::from_secs(60));
    drop(smol::block_on(semaphore.acquire()));
}

#[test]
#[should_panic(expected = "nobody has moved this world")]
fn whoever_waits_on_smol_for_a_loss_is_told_too() {
    let world = hasty();
    let permit = world.run(semaphore(&world).acquire()).unwrap();
    smol::block_on(permit.lost());
}

#[test]
#[should_panic(expected = "nobody has moved this world")]
fn a_timeout_on_smol_is_told_before_it_is_over() {
    let world = hasty();
    let semaphore = semaphore(&world);
    drop(smol::block_on(
        semaphore.acquire_timeout(Duration::from_secs(3600)),
    ));
}

#[test]
#[should_panic(expected = "nobody has moved this world")]
fn whoever_asks_again_and_again_whether_it_holds_is_told_too() {
    let world = hasty();
    let permit = world.run(semaphore(&world).acquire()).unwrap();
    while permit.is_held() {
        std::thread::yield_now();
    }
}

#[test]
fn a_thread_of_std_with_a_blocking_handle_moves_the_world() {
    // This world is not hasty, since the watchdog may look before the thread has begun.
    let world = MockConsul::new(7);
    let builder = blocking::Semaphore::builder("service/db", 1);
    let semaphore = builder.connect(world.client("a")).unwrap();
    let thread = std::thread::spawn(move || semaphore.acquire()?.release());
    thread.join().unwrap().unwrap();
}

#[test]
#[should_panic(expected = "nobody has moved this world")]
fn on_another_executor_a_request_panics() {
    let world = hasty();
    let read = Request::new(Method::Get, "/v1/kv/k");
    let _ = pollster::block_on(world.client("a").send(read));
}

#[test]
#[should_panic(expected = "nobody has moved this world")]
fn on_another_executor_a_sleep_panics() {
    let world = hasty();
    pollster::block_on(world.client("a").sleep(Duration::from_secs(1)));
}

#[test]
fn another_executor_may_wait_while_a_thread_moves_the_world() {
    let world = MockConsul::new(7);
    let hold = world.hold_time();
    let (answered, answer) = futures_channel::oneshot::channel::<()>();
    let mover = world.spawn_thread({
        let world = world.clone();
        move || world.run(answer)
    });
    let waiting = std::thread::spawn({
        let client = world.client("a");
        move || {
            let read = Request::new(Method::Get, "/v1/kv/k");
            let status = pollster::block_on(client.send(read)).unwrap().status();
            answered.send(()).unwrap();
            status
        }
    });
    drop(hold);
    assert_eq!(waiting.join().unwrap(), 404);
    mover.join().unwrap().unwrap();
}

/// A world waits without a limit if the test says that it moves time itself.
#[test]
fn a_world_that_is_moved_by_hand_waits_for_as_long_as_it_takes() {
    let (hasty, patient) = (hasty(), hasty());
    patient.set_automatic_time(false);
    let waiting = semaphore(&patient);
    let waiting = patient.start(async move { waiting.acquire().await });
    // By then, the watchdog has ended another world that waited just as long.
    panic_of(|| drop(smol::block_on(semaphore(&hasty).acquire())));
    patient.advance(Duration::from_secs(1));
    patient.set_automatic_time(true);
    assert!(patient.run(waiting).is_ok());
}

mod on_tokio {
    use super::*;

    fn acquire(world: &MockConsul) {
        let builder = blocking::Semaphore::builder("service/db", 1);
        let semaphore = builder.connect(world.client("a")).unwrap();
        let permit = semaphore.acquire().unwrap();
        permit.release().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_thread_with_a_blocking_handle_under_paused_time_is_told() {
        let world = MockConsul::on_tokio(7);
        let thread = std::thread::spawn(move || panic_of(|| acquire(&world)));
        let said = thread.join().unwrap();
        assert!(said.contains("`MockConsul::spawn_thread`"), "{said}");
    }

    #[tokio::test(start_paused = true)]
    async fn so_is_a_blocking_task() {
        let world = MockConsul::on_tokio(7);
        let task = tokio::task::spawn_blocking(move || panic_of(|| acquire(&world)));
        let said = task.await.unwrap();
        assert!(said.contains("`MockConsul::spawn_thread`"), "{said}");
    }

    #[tokio::test]
    async fn without_paused_time_a_blocking_task_works() {
        let world = MockConsul::on_tokio(7);
        let task = tokio::task::spawn_blocking(move || acquire(&world));
        task.await.unwrap();
    }

    #[test]
    fn threads_with_blocking_handles_have_a_world_of_their_own_time() {
        let world = MockConsul::new(7);
        let threads = [(), ()].map(|()| {
            let shared = world.clone();
            world.spawn_thread(move || acquire(&shared))
        });
        for thread in threads {
            thread.join().unwrap();
        }
    }
}
