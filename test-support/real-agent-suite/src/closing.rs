//! The end of a participant.

use semaphore_core::Error;

use crate::Backend;
use crate::scene::{Scene, wait_until};

pub fn closing_fails_those_who_wait_and_leaves_those_who_hold(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let semaphore = scene.semaphore(1);
    let permit = scene.acquire(&semaphore);
    let waiting = scene.start_acquire(&semaphore);
    wait_until("both contend", || scene.contenders().len() == 2);
    semaphore.close();
    assert!(matches!(scene.finish(waiting), Err(Error::Closed { .. })));
    let late = scene.run(semaphore.acquire());
    assert!(matches!(late, Err(Error::Closed { .. })), "{late:?}");
    wait_until("the holder alone is left", || scene.contenders().len() == 1);
    assert!(permit.is_held());
    scene.release(permit);
    scene.assert_nothing_left();
}

pub fn a_shutdown_waits_for_those_who_hold(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let semaphore = scene.semaphore(2);
    let permit = scene.acquire(&semaphore);
    let ending = scene.start({
        let semaphore = semaphore.clone();
        async move { semaphore.shutdown().await }
    });
    wait_until("it is closed", || {
        matches!(scene.run(semaphore.acquire()), Err(Error::Closed { .. }))
    });
    // A contender that got in just before the shutdown leaves again.
    wait_until("one holds", || scene.holders().len() == 1);
    assert!(permit.is_held());
    drop(permit);
    scene.finish(ending);
    scene.assert_nothing_left();
}

pub fn a_shutdown_of_an_unused_semaphore_ends_at_once(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let semaphore = scene.semaphore(1);
    scene.run(semaphore.shutdown());
    assert!(scene.record().is_null());
    scene.assert_nothing_left();
}
