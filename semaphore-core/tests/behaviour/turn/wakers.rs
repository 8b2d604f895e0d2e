//! A waker may call back from within `wake`.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use semaphore_core::{Permit, Semaphore};
use transport_mock::MockConsul;

use crate::support::*;

/// Uses the semaphore when it is woken, as an executor does that runs tasks inside `wake`.
struct CallsBack {
    permit: Mutex<Option<Permit>>,
    semaphore: Semaphore,
    calls: AtomicUsize,
}

impl Wake for CallsBack {
    fn wake(self: Arc<Self>) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let permit = self
            .permit
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(permit) = &permit {
            let _ = permit.is_held();
        }
        drop(permit);
        drop(self.semaphore.clone());
        self.semaphore.close();
    }
}

/// Polls once with a waker that calls back, and runs the world on. Returns how often it was woken.
fn woken<F: Future>(
    world: &MockConsul,
    semaphore: &Semaphore,
    permit: Option<Permit>,
    future: F,
    happens: impl FnOnce(),
) -> usize {
    let back = Arc::new(CallsBack {
        permit: Mutex::new(permit),
        semaphore: semaphore.clone(),
        calls: AtomicUsize::new(0),
    });
    let waker = Waker::from(Arc::clone(&back));
    let mut future = pin!(future);
    let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(matches!(polled, Poll::Pending));
    happens();
    world.advance(secs(60));
    let polled = future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Ready(_)));
    back.calls.load(Ordering::SeqCst)
}

#[test]
fn a_grant() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 2);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    let calls = woken(&world, &semaphore, Some(permit), semaphore.acquire(), || {});
    assert!(calls > 0);
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn a_loss() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 2);
    let lost = world.run(semaphore.acquire()).expect("a free slot");
    let other = world.run(semaphore.acquire()).expect("a free slot");
    let session = lost.sequencers()[0].session.to_string();
    let calls = woken(&world, &semaphore, Some(other), lost.lost(), || {
        world.consul(|consul, now| consul.destroy_session(now, &session));
    });
    assert!(calls > 0);
    drop(lost);
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn a_release() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 2);
    let released = world.run(semaphore.acquire()).expect("a free slot");
    let other = world.run(semaphore.acquire()).expect("a free slot");
    let calls = woken(&world, &semaphore, Some(other), released.release(), || {});
    assert!(calls > 0);
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn the_end_of_a_shutdown() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    let calls = woken(&world, &semaphore, None, semaphore.shutdown(), || {
        drop(permit);
    });
    assert!(calls > 0);
    assert_nothing_left(&world);
}
