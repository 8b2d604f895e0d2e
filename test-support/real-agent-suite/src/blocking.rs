//! The blocking handles.

use std::thread;
use std::time::Duration;

use semaphore_core::{Error, Lost, SequencerStatus, blocking};

use crate::Backend;
use crate::scene::{PATIENCE, Scene, wait_until};

fn semaphore<B: Backend>(scene: &Scene<'_, B>, limit: u32) -> blocking::Semaphore {
    let builder = scene.builder(limit);
    builder.connect_blocking(scene.adapter()).unwrap()
}

pub fn a_thread_acquires_and_gives_back(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let semaphore = semaphore(&scene, 3);
    let permit = semaphore.acquire().unwrap();
    assert!(permit.is_held());
    permit.release().unwrap();

    let permit = semaphore.acquire_many(2).unwrap();
    assert_eq!(permit.permits(), 2);
    drop(permit);
    semaphore.shutdown();
    scene.assert_nothing_left();
}

pub fn a_blocked_thread_is_admitted_when_a_slot_is_given_back(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let (one, other) = (semaphore(&scene, 1), semaphore(&scene, 1));
    let permit = one.acquire().unwrap();
    let waiting = thread::spawn(move || other.acquire().unwrap().release());
    wait_until("both contend", || scene.contenders().len() == 2);
    permit.release().unwrap();
    waiting.join().unwrap().unwrap();
    drop(one);
    scene.assert_nothing_left();
}

pub fn a_thread_tries_and_times_out(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let (one, other) = (semaphore(&scene, 1), semaphore(&scene, 1));
    let permit = one.try_acquire().unwrap().expect("it is free");
    assert!(other.try_acquire().unwrap().is_err());
    let late = other.acquire_timeout(Duration::from_millis(300));
    assert!(matches!(late, Err(Error::Timeout { .. })), "{late:?}");
    permit.release().unwrap();
    drop((one, other));
    scene.assert_nothing_left();
}

pub fn a_thread_manages_a_semaphore(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let semaphore = semaphore(&scene, 2);
    let permit = semaphore.acquire().unwrap();
    let sequencer = permit.sequencers()[0].clone();
    assert_eq!(semaphore.inspect().unwrap().holders.len(), 1);
    let status = semaphore.verify(&sequencer).unwrap();
    assert_eq!(status, SequencerStatus::Current);
    semaphore.resize(4).unwrap();
    assert_eq!(semaphore.inspect().unwrap().limit, 4);
    assert!(matches!(semaphore.destroy(), Err(Error::InUse { .. })));
    permit.release().unwrap();
    semaphore.destroy().unwrap();
    assert!(scene.record().is_null());
    drop(semaphore);
    scene.assert_nothing_left();
}

pub fn a_blocked_thread_learns_of_a_loss(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let semaphore = semaphore(&scene, 1);
    let permit = semaphore.acquire().unwrap();
    assert!(permit.lost_timeout(Duration::from_millis(50)).is_none());
    let session = permit.sequencers()[0].session.to_string();
    thread::scope(|threads| {
        let waiting = threads.spawn(|| permit.lost_timeout(PATIENCE));
        scene.admin().destroy_session(&session).unwrap();
        let lost = waiting.join().unwrap().expect("it is lost");
        assert!(matches!(lost, Lost::SessionGone { .. }), "{lost:?}");
    });
    assert!(matches!(permit.lost(), Lost::SessionGone { .. }));
    assert!(!permit.is_held());
    let released = permit.release();
    assert!(matches!(released, Err(Error::Lost(_))), "{released:?}");
    scene.assert_nothing_left();
}
