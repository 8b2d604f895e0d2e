//! Several permits at once.

use std::collections::BTreeSet;

use semaphore_core::Error;

use crate::Backend;
use crate::scene::{Scene, wait_until};

pub fn several_permits_are_taken_and_given_back_together(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let semaphore = scene.semaphore(3);
    let permit = scene.run(semaphore.acquire_many(3)).unwrap();
    assert_eq!(permit.permits(), 3);
    let sessions: BTreeSet<_> = permit
        .sequencers()
        .iter()
        .map(|s| s.session.to_string())
        .collect();
    assert_eq!(
        scene.holders().into_iter().collect::<BTreeSet<_>>(),
        sessions
    );
    assert_eq!(sessions.len(), 3);
    assert!(scene.run(semaphore.try_acquire()).unwrap().is_err());
    scene.release(permit);
    let four = scene.run(semaphore.acquire_many(4));
    assert!(matches!(four, Err(Error::InvalidInput { .. })), "{four:?}");
    drop(semaphore);
    scene.assert_nothing_left();
}

pub fn several_permits_are_waited_for_without_holding_any(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let (one, other) = (scene.semaphore(3), scene.semaphore(3));
    let first = scene.acquire(&one);
    let second = scene.acquire(&one);
    let waiting = scene.start(async move { other.acquire_many(3).await });
    wait_until("all contend", || scene.contenders().len() == 5);
    scene.release(first);
    wait_until("one left", || scene.contenders().len() == 4);
    assert_eq!(
        scene.holders().len(),
        1,
        "it holds none of the two that are free"
    );
    scene.release(second);
    let all = scene.finish(waiting).unwrap();
    assert_eq!(scene.holders().len(), 3);
    scene.release(all);
    drop(one);
    scene.assert_nothing_left();
}
