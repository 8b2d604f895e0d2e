//! Inspecting and managing a semaphore.

use semaphore_core::{Error, SequencerStatus};

use crate::Backend;
use crate::scene::{Scene, session, wait_until};

pub fn an_inspection_shows_holders_and_waiters_in_order(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let host = |name: &str| scene.connect(scene.builder(1).value(name));
    let holder = host("holder");
    let permit = scene.acquire(&holder);
    let mut waiting = Vec::new();
    for (number, name) in ["first", "second"].into_iter().enumerate() {
        waiting.push(scene.start_acquire(&host(name)));
        wait_until("it contends", || scene.contenders().len() == number + 2);
    }
    let seen = scene.run(holder.inspect()).unwrap();
    assert_eq!(seen.limit, 1);
    assert_eq!(seen.holders.len(), 1);
    assert_eq!(seen.holders[0].session, session(&permit));
    assert_eq!(seen.holders[0].value, b"holder");
    assert!(seen.holders[0].is_alive);
    let waiters: Vec<_> = seen.waiters.iter().map(|w| w.value.as_slice()).collect();
    assert_eq!(waiters, [b"first".as_slice(), b"second"]);
    scene.release(permit);
    for task in waiting {
        let permit = scene.finish(task).unwrap();
        scene.release(permit);
    }
    drop(holder);
    scene.assert_nothing_left();
}

pub fn an_inspection_of_nothing_is_not_found(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let semaphore = scene.semaphore(1);
    for refused in [
        scene.run(semaphore.inspect()).map(drop),
        scene.run(semaphore.resize(2)),
        scene.run(semaphore.destroy()),
    ] {
        assert!(
            matches!(refused, Err(Error::NotFound { .. })),
            "{refused:?}"
        );
    }
    scene.assert_nothing_left();
}

pub fn a_greater_limit_admits_those_who_wait(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let (one, other) = (
        scene.semaphore(1),
        scene.connect(scene.builder(1).adopt_limit()),
    );
    let permit = scene.acquire(&one);
    let waiting = scene.start_acquire(&other);
    wait_until("both contend", || scene.contenders().len() == 2);
    scene.run(one.resize(2)).unwrap();
    let second = scene.finish(waiting).unwrap();
    assert_eq!(scene.holders().len(), 2);
    scene.release(second);
    scene.release(permit);
    // The handle that resized uses the new limit.
    let both = scene.run(one.acquire_many(2)).unwrap();
    scene.release(both);
    drop((one, other));
    scene.assert_nothing_left();
}

pub fn a_smaller_limit_evicts_nobody(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let semaphore = scene.semaphore(2);
    let first = scene.acquire(&semaphore);
    let second = scene.acquire(&semaphore);
    scene.run(semaphore.resize(1)).unwrap();
    assert!(first.is_held() && second.is_held());
    scene.release(first);
    assert!(scene.run(semaphore.try_acquire()).unwrap().is_err());
    scene.release(second);
    let permit = scene.acquire(&semaphore);
    assert!(scene.run(semaphore.try_acquire()).unwrap().is_err());
    scene.release(permit);
    drop(semaphore);
    scene.assert_nothing_left();
}

pub fn only_an_unused_semaphore_is_destroyed(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let semaphore = scene.semaphore(1);
    let permit = scene.acquire(&semaphore);
    let waiting = scene.start_acquire(&semaphore);
    wait_until("both contend", || scene.contenders().len() == 2);
    let refused = scene.run(semaphore.destroy());
    assert!(
        matches!(
            refused,
            Err(Error::InUse {
                holders: 1,
                waiters: 1,
                ..
            })
        ),
        "{refused:?}"
    );
    scene.release(permit);
    let permit = scene.finish(waiting).unwrap();
    scene.release(permit);
    scene.run(semaphore.destroy()).unwrap();
    assert!(scene.record().is_null());
    drop(semaphore);
    scene.assert_nothing_left();
}

pub fn a_sequencer_is_current_for_as_long_as_its_slot_is_held(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let (holder, verifier) = (scene.semaphore(1), scene.semaphore(1));
    let permit = scene.acquire(&holder);
    let sequencer = permit.sequencers()[0].clone();
    let status = scene.run(verifier.verify(&sequencer)).unwrap();
    assert_eq!(status, SequencerStatus::Current);
    scene.release(permit);
    let status = scene.run(verifier.verify(&sequencer)).unwrap();
    assert_eq!(status, SequencerStatus::Stale);
    drop((holder, verifier));
    scene.assert_nothing_left();
}
