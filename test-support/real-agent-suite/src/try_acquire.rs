//! Taking a free slot, or none.

use crate::Backend;
use crate::scene::Scene;

pub fn a_free_slot_is_taken_at_once(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let (one, other) = (scene.semaphore(2), scene.semaphore(2));
    let first = scene.run(one.try_acquire()).unwrap().expect("two are free");
    let second = scene
        .run(other.try_acquire())
        .unwrap()
        .expect("one is free");
    assert_eq!(scene.holders().len(), 2);
    scene.release(first);
    scene.release(second);
    drop((one, other));
    scene.assert_nothing_left();
}

pub fn a_taken_slot_is_not_waited_for(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let (one, other) = (scene.semaphore(2), scene.semaphore(2));
    let first = scene.acquire(&one);
    let both = scene.run(other.try_acquire_many(2)).unwrap();
    assert!(both.is_err());
    let second = scene.acquire(&one);
    for semaphore in [&one, &other] {
        let third = scene.run(semaphore.try_acquire()).unwrap();
        assert!(third.is_err());
    }
    scene.release(first);
    scene.release(second);
    scene.run(other.shutdown());
    drop((one, other));
    scene.assert_nothing_left();
}
