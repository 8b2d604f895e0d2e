//! Waiting for a slot.

use std::time::Duration;

use semaphore_core::{Error, RequestError};

use crate::Backend;
use crate::scene::{Scene, wait_until};

pub fn a_slot_is_acquired_and_given_back(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let semaphore = scene.semaphore(3);
    let permit = scene.acquire(&semaphore);
    assert!(permit.is_held());
    assert_eq!(permit.permits(), 1);
    assert!(permit.remaining() > Duration::ZERO);
    assert_eq!(scene.holders().len(), 1);
    scene.release(permit);
    drop(semaphore);
    scene.assert_nothing_left();
}

pub fn a_slot_is_acquired_again_and_again(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let semaphore = scene.semaphore(1);
    for _ in 0..10 {
        let permit = scene.acquire(&semaphore);
        scene.release(permit);
        assert!(scene.holders().is_empty());
    }
    drop(semaphore);
    scene.assert_nothing_left_soon();
}

pub fn a_waiter_is_admitted_when_a_slot_is_given_back(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let (one, other) = (scene.semaphore(1), scene.semaphore(1));
    let permit = scene.acquire(&one);
    let waiting = scene.start_acquire(&other);
    wait_until("both contend", || scene.contenders().len() == 2);
    assert_eq!(scene.holders().len(), 1);
    scene.release(permit);
    let permit = scene.finish(waiting).unwrap();
    scene.release(permit);
    drop((one, other));
    scene.assert_nothing_left();
}

pub fn waiters_are_admitted_in_the_order_in_which_they_came(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let holder = scene.semaphore(1);
    let permit = scene.acquire(&holder);
    let mut waiting = Vec::new();
    for number in 0..5 {
        waiting.push(scene.start_acquire(&scene.semaphore(1)));
        wait_until("it contends", || scene.contenders().len() == number + 2);
    }
    let mut last = permit.fencing_token();
    scene.release(permit);
    for task in waiting {
        let permit = scene.finish(task).unwrap();
        assert!(permit.fencing_token() > last, "admitted before its turn");
        last = permit.fencing_token();
        scene.release(permit);
    }
    drop(holder);
    scene.assert_nothing_left();
}

pub fn fencing_tokens_rise_from_grant_to_grant(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let hosts = [scene.semaphore(2), scene.semaphore(2)];
    let mut last = None;
    for round in 0..6 {
        let permit = scene.acquire(&hosts[round % 2]);
        assert!(Some(permit.fencing_token()) > last);
        last = Some(permit.fencing_token());
        scene.release(permit);
        if round == 2 {
            // Tokens keep rising when the record is deleted, too.
            scene.run(hosts[0].destroy()).unwrap();
        }
    }
    drop(hosts);
    scene.assert_nothing_left_soon();
}

pub fn a_datacenter_and_consistent_reads_can_be_asked_for(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let semaphore = scene.connect(scene.builder(1).datacenter("dc1").consistent(true));
    let permit = scene.acquire(&semaphore);
    assert_eq!(scene.run(semaphore.inspect()).unwrap().holders.len(), 1);
    scene.release(permit);
    let elsewhere = scene.connect(scene.builder(1).datacenter("atlantis"));
    // A server that has just started gives this answer for every other datacenter. So the error is
    // only reported when the time is over.
    let late = scene.run(elsewhere.acquire_timeout(Duration::from_secs(1)));
    let Err(Error::Timeout { last_failure, .. }) = &late else {
        panic!("{late:?}");
    };
    let Some(RequestError::Unavailable {
        status: 500, text, ..
    }) = last_failure
    else {
        panic!("{late:?}");
    };
    assert!(text.contains("No path to datacenter"), "{text}");
    scene.run(elsewhere.shutdown());
    drop((semaphore, elsewhere));
    scene.assert_nothing_left();
}

pub fn a_prefix_that_needs_encoding_is_used_as_it_is(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let prefix = format!("{}/a b?c#d%4/ü", scene.prefix());
    let builder = semaphore_core::Semaphore::builder(&prefix, 1);
    let semaphore = scene.connect(builder);
    let permit = scene.acquire(&semaphore);
    assert_eq!(scene.admin().leftovers(&prefix).unwrap().holders.len(), 1);
    assert!(scene.run(semaphore.try_acquire()).unwrap().is_err());
    scene.release(permit);
    scene.run(semaphore.destroy()).unwrap();
    drop(semaphore);
    scene.admin().assert_nothing_left(&prefix);
}
