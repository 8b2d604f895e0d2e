//! Waiting until a deadline.

use std::time::Duration;

use semaphore_core::Error;

use crate::Backend;
use crate::scene::{PATIENCE, Scene, wait_until};

pub fn a_wait_ends_with_its_timeout(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let (one, other) = (scene.semaphore(1), scene.semaphore(1));
    let permit = scene.acquire(&one);
    let timeout = Duration::from_millis(300);
    let late = scene.run(other.acquire_timeout(timeout));
    let Err(Error::Timeout {
        waited,
        last_failure,
        ..
    }) = late
    else {
        panic!("{late:?}");
    };
    assert!(waited >= timeout);
    assert!(last_failure.is_none());
    wait_until("the holder alone is left", || scene.contenders().len() == 1);
    assert!(permit.is_held());
    scene.release(permit);
    drop((one, other));
    scene.assert_nothing_left();
}

pub fn a_slot_that_is_free_in_time_is_taken(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let (one, other) = (scene.semaphore(1), scene.semaphore(1));
    let permit = scene.acquire(&one);
    let waiting = scene.start(async move { other.acquire_timeout(PATIENCE).await });
    wait_until("both contend", || scene.contenders().len() == 2);
    scene.release(permit);
    let permit = scene.finish(waiting).unwrap();
    scene.release(permit);
    drop(one);
    scene.assert_nothing_left();
}
