//! Scenes of threads and tasks that use the handles of one semaphore at the same time.

#![cfg(semaphore_races)]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::{AbortHandle, Abortable, join, select};
use races::{World, check, sometime};
use semaphore_core::{Error, LeaderEvent, Lost};
use shuttle::future::{block_on, yield_now};
use shuttle::thread;

/// A command must wake a driver that is about to sleep.
#[test]
fn a_slot_passes_between_threads_that_block() {
    check(|| {
        let world = World::new();
        let semaphore = world.blocking(1);
        let inside = Arc::new(AtomicUsize::new(0));
        let threads = [true, false].map(|releases| {
            let (semaphore, inside) = (semaphore.clone(), Arc::clone(&inside));
            thread::spawn(move || {
                let permit = semaphore.acquire().unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at once");
                thread::yield_now();
                assert!(permit.is_held());
                inside.fetch_sub(1, Ordering::SeqCst);
                if releases {
                    permit.release().unwrap();
                }
            })
        });
        for thread in threads {
            thread.join().unwrap();
        }
        semaphore.shutdown();
        world.assert_nothing_left();
    });
}

/// A caller leaves at the moment of its grant. The slot must be given back.
#[test]
fn a_slot_granted_to_a_caller_that_leaves_is_free_again() {
    check(|| {
        let world = World::new();
        let semaphore = world.semaphore(1);
        let (abort, registration) = AbortHandle::new_pair();
        let leaving = semaphore.clone();
        let leaver = thread::spawn(move || {
            // If it got a slot before it left, the slot is dropped here.
            let _ = block_on(Abortable::new(leaving.acquire(), registration));
        });
        let aborter = thread::spawn(move || {
            sometime();
            abort.abort();
        });
        let permit = block_on(semaphore.acquire()).unwrap();
        assert!(permit.is_held());
        drop(permit);
        leaver.join().unwrap();
        aborter.join().unwrap();
        block_on(semaphore.shutdown());
        world.assert_nothing_left();
    });
}

/// A future is polled by one thread and dropped by another.
#[test]
fn a_caller_that_is_dropped_while_others_wait_leaves_nothing() {
    check(|| {
        let world = World::new();
        let semaphore = world.semaphore(1);
        let held = block_on(semaphore.acquire()).unwrap();
        let waiting = semaphore.clone();
        let mut given_up = Box::pin(async move { waiting.acquire().await.map(drop) });
        block_on(async {
            let _ = select(&mut given_up, Box::pin(yield_now())).await;
        });
        let dropping = thread::spawn(move || drop(given_up));
        let releasing = thread::spawn(move || drop(held));
        let next = block_on(semaphore.acquire()).unwrap();
        block_on(next.release()).unwrap();
        dropping.join().unwrap();
        releasing.join().unwrap();
        block_on(semaphore.shutdown());
        world.assert_nothing_left();
    });
}

/// A loss and a release or drop happen at the same time.
fn is_lost_while_it_is_let_go(releases: bool) {
    let world = World::new();
    let semaphore = world.semaphore(1);
    let permit = block_on(semaphore.acquire()).unwrap();
    let operator = {
        let world = world.clone();
        thread::spawn(move || {
            sometime();
            world.destroy_sessions();
        })
    };
    sometime();
    if releases {
        let end = block_on(permit.release());
        assert!(matches!(end, Ok(()) | Err(Error::Lost(_))), "{end:?}");
    } else {
        drop(permit);
    }
    operator.join().unwrap();
    drop(block_on(semaphore.acquire()).unwrap());
    block_on(semaphore.shutdown());
    world.assert_nothing_left();
}

#[test]
fn a_permit_that_is_lost_while_it_is_released_ends_once() {
    check(|| is_lost_while_it_is_let_go(true));
}

#[test]
fn a_permit_that_is_lost_while_it_is_dropped_ends_once() {
    check(|| is_lost_while_it_is_let_go(false));
}

/// Several wait for the same loss.
#[test]
fn a_loss_is_told_to_all_who_wait_for_it() {
    check(|| {
        let world = World::new();
        let semaphore = world.semaphore(1);
        let permit = Arc::new(block_on(semaphore.acquire()).unwrap());
        let waiting = [(); 2].map(|()| {
            let permit = Arc::clone(&permit);
            thread::spawn(move || block_on(permit.lost()))
        });
        sometime();
        world.destroy_sessions();
        for waiting in waiting {
            let lost = waiting.join().unwrap();
            assert!(!matches!(lost, Lost::RuntimeEnded { .. }), "{lost:?}");
        }
        assert!(!permit.is_held());
        drop(permit);
        block_on(semaphore.shutdown());
        world.assert_nothing_left();
    });
}

/// Any thread may drop the last handle.
#[test]
fn the_driver_ends_when_the_last_handle_is_gone() {
    check(|| {
        let world = World::new();
        let semaphore = world.semaphore(2);
        let permit = block_on(semaphore.acquire()).unwrap();
        let other = semaphore.clone();
        let threads = [
            thread::spawn(move || drop(permit)),
            thread::spawn(move || drop(other)),
            thread::spawn(move || {
                block_on(async {
                    let waits = Box::pin(semaphore.acquire());
                    let _ = select(waits, Box::pin(yield_now())).await;
                });
                sometime();
            }),
        ];
        block_on(world.drivers_end());
        for thread in threads {
            thread.join().unwrap();
        }
        world.assert_nothing_left();
    });
}

/// The runtime ends at any moment. Nobody may wait for ever.
#[test]
fn whoever_waits_when_the_runtime_ends_is_told() {
    check(|| {
        let world = World::new();
        let semaphore = world.semaphore(1);
        let ending = {
            let world = world.clone();
            thread::spawn(move || {
                sometime();
                world.end_runtime();
            })
        };
        let threads = [true, false].map(|releases| {
            let semaphore = semaphore.clone();
            thread::spawn(move || {
                let permit = match block_on(semaphore.acquire()) {
                    Ok(permit) => permit,
                    Err(error) => {
                        return assert!(matches!(error, Error::Closed { .. }), "{error:?}");
                    }
                };
                if releases {
                    let end = block_on(permit.release());
                    let told = matches!(end, Ok(()) | Err(Error::Closed { .. } | Error::Lost(_)));
                    assert!(told, "{end:?}");
                } else {
                    let lost = block_on(permit.lost());
                    assert!(matches!(lost, Lost::RuntimeEnded { .. }), "{lost:?}");
                }
            })
        });
        ending.join().unwrap();
        for thread in threads {
            thread.join().unwrap();
        }
        block_on(semaphore.shutdown());
        assert!(matches!(
            block_on(semaphore.acquire()),
            Err(Error::Closed { .. })
        ));
    });
}

/// A release and the runtime's end happen at the same time. The end may come before the release,
/// during it, or after it; then the permit is lost.
#[test]
fn a_release_when_the_runtime_ends_is_told() {
    check(|| {
        let world = World::new();
        let semaphore = world.semaphore(1);
        let permit = block_on(semaphore.acquire()).unwrap();
        let ending = {
            let world = world.clone();
            thread::spawn(move || world.end_runtime())
        };
        sometime();
        let end = block_on(permit.release());
        let is_told = matches!(
            end,
            Ok(()) | Err(Error::Closed { .. } | Error::Lost(Lost::RuntimeEnded { .. }))
        );
        assert!(is_told, "{end:?}");
        ending.join().unwrap();
    });
}

/// Closing, acquisitions, releases and other closings happen at the same time.
#[test]
fn a_shutdown_waits_for_those_inside_and_refuses_the_others() {
    check(|| {
        let world = World::new();
        let semaphore = world.semaphore(1);
        let threads = [(); 2].map(|()| {
            let semaphore = semaphore.clone();
            thread::spawn(move || match block_on(semaphore.acquire()) {
                Ok(permit) => drop(permit),
                Err(error) => assert!(matches!(error, Error::Closed { .. }), "{error:?}"),
            })
        });
        sometime();
        block_on(join(semaphore.shutdown(), semaphore.shutdown()));
        world.assert_nothing_left();
        for thread in threads {
            thread.join().unwrap();
        }
        drop(semaphore);
        block_on(world.drivers_end());
    });
}

/// The driver reads for followers, and lets go of an election that nobody follows.
#[test]
fn a_follower_is_told_whatever_the_driver_does_meanwhile() {
    check(|| {
        let world = World::new();
        let client = world.client();
        let discovery = client.discovery("service/leader").unwrap();
        let threads = [(); 2].map(|()| {
            let discovery = discovery.clone();
            thread::spawn(move || {
                for _ in 0..2 {
                    let mut follower = discovery.follow();
                    let told = block_on(follower.next());
                    let is_told = matches!(told, Some(Ok(LeaderEvent::Leaderless { .. })));
                    assert!(is_told, "{told:?}");
                }
            })
        });
        for thread in threads {
            thread.join().unwrap();
        }
        drop((client, discovery));
        block_on(world.drivers_end());
    });
}
