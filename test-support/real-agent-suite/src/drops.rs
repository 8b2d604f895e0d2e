//! Dropping what is held.

use crate::Backend;
use crate::scene::{Scene, wait_until};

pub fn a_dropped_permit_is_given_back(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let (one, other) = (scene.semaphore(1), scene.semaphore(1));
    let permit = scene.acquire(&one);
    let waiting = scene.start_acquire(&other);
    wait_until("both contend", || scene.contenders().len() == 2);
    drop(permit);
    drop(scene.finish(waiting).unwrap());
    drop((one, other));
    scene.assert_nothing_left_soon();
}

pub fn dropping_everything_leaves_nothing(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let semaphore = scene.semaphore(2);
    let permit = scene.acquire(&semaphore);
    let clone = semaphore.clone();
    drop(semaphore);
    let other = scene.acquire(&clone);
    drop(clone);
    assert!(permit.is_held() && other.is_held());
    drop((permit, other));
    scene.assert_nothing_left_soon();
}
