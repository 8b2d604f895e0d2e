//! Giving up by dropping the future.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::select;
use semaphore_core::adapter::Runtime as _;

use crate::Backend;
use crate::scene::{Scene, wait_until};

/// Microseconds, from before the first request to after the grant.
const POINTS: [u64; 12] = [
    0, 300, 700, 1_000, 1_500, 2_000, 3_000, 4_000, 6_000, 9_000, 15_000, 50_000,
];

pub fn an_acquisition_dropped_at_any_point_leaves_nothing(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    for point in POINTS {
        let semaphore = scene.semaphore(1);
        scene.run(async {
            let acquire = pin!(semaphore.acquire());
            let sleep = scene.home().sleep(Duration::from_micros(point));
            drop(select(acquire, sleep).await);
        });
        // If a slot was granted at that moment, it is free again.
        let permit = scene.acquire(&semaphore);
        scene.release(permit);
        drop(semaphore);
        scene.assert_nothing_left_soon();
    }
}

pub fn a_waiter_that_is_dropped_leaves_the_queue(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let (one, other, third) = (scene.semaphore(1), scene.semaphore(1), scene.semaphore(1));
    let permit = scene.acquire(&one);
    scene.run(async {
        let acquire = pin!(other.acquire());
        let queued = async {
            while scene.contenders().len() < 2 {
                scene.home().sleep(Duration::from_millis(5)).await;
            }
        };
        drop(select(acquire, pin!(queued)).await);
    });
    wait_until("the holder alone is left", || scene.contenders().len() == 1);
    assert!(permit.is_held());
    let waiting = scene.start_acquire(&third);
    scene.release(permit);
    let permit = scene.finish(waiting).unwrap();
    scene.release(permit);
    drop((one, other, third));
    scene.assert_nothing_left();
}
