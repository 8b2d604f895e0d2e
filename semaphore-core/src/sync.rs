//! The types through which handles and driver share their state.
//!
//! In builds with `--cfg semaphore_races` each step first asks a scheduler who continues, so that
//! it can try different orders of threads. `scripts/races` uses it.

use core::ops::DerefMut;
#[cfg(not(semaphore_races))]
pub(crate) use core::sync::atomic::AtomicBool;
#[cfg(not(semaphore_races))]
pub(crate) use futures_util::task::AtomicWaker;
#[cfg(not(semaphore_races))]
pub(crate) use std::sync::Mutex;
use std::sync::PoisonError;

#[cfg(semaphore_races)]
pub use scheduled::set_scheduler;
#[cfg(semaphore_races)]
pub(crate) use scheduled::{AtomicBool, AtomicWaker, Mutex};

/// Locks it, even if a thread has panicked with it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> impl DerefMut<Target = T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(semaphore_races)]
mod scheduled {
    use core::ops::{Deref, DerefMut};
    use core::sync::atomic::{self, Ordering};
    use core::task::Waker;
    use std::sync::{LockResult, OnceLock, PoisonError, TryLockError};

    static SCHEDULER: OnceLock<fn(bool)> = OnceLock::new();

    /// Sets a function that is called before each step. It may let another thread continue; with
    /// `true` it must, since the calling thread waits for another one.
    pub fn set_scheduler(scheduler: fn(bool)) {
        let _ = SCHEDULER.set(scheduler);
    }

    fn step() {
        if let Some(scheduler) = SCHEDULER.get() {
            scheduler(false);
        }
    }

    fn wait() {
        if let Some(scheduler) = SCHEDULER.get() {
            scheduler(true);
        }
    }

    pub(crate) struct AtomicBool(atomic::AtomicBool);

    impl AtomicBool {
        pub(crate) fn new(value: bool) -> Self {
            Self(atomic::AtomicBool::new(value))
        }

        pub(crate) fn load(&self, order: Ordering) -> bool {
            step();
            self.0.load(order)
        }

        pub(crate) fn store(&self, value: bool, order: Ordering) {
            step();
            self.0.store(value, order);
        }

        pub(crate) fn swap(&self, value: bool, order: Ordering) -> bool {
            step();
            self.0.swap(value, order)
        }
    }

    pub(crate) struct AtomicWaker(futures_util::task::AtomicWaker);

    impl AtomicWaker {
        pub(crate) fn new() -> Self {
            Self(futures_util::task::AtomicWaker::new())
        }

        pub(crate) fn register(&self, waker: &Waker) {
            step();
            self.0.register(waker);
        }

        pub(crate) fn wake(&self) {
            step();
            self.0.wake();
        }
    }

    #[derive(Default)]
    pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

    pub(crate) struct Guard<'a, T>(Option<std::sync::MutexGuard<'a, T>>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(std::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> LockResult<Guard<'_, T>> {
            step();
            loop {
                match self.0.try_lock() {
                    Ok(guard) => return Ok(Guard(Some(guard))),
                    Err(TryLockError::Poisoned(poisoned)) => {
                        return Err(PoisonError::new(Guard(Some(poisoned.into_inner()))));
                    }
                    Err(TryLockError::WouldBlock) => wait(),
                }
            }
        }
    }

    impl<T> Deref for Guard<'_, T> {
        type Target = T;

        #[allow(clippy::expect_used, reason = "taken in `drop` only")]
        fn deref(&self) -> &T {
            self.0.as_deref().expect("locked")
        }
    }

    impl<T> DerefMut for Guard<'_, T> {
        #[allow(clippy::expect_used, reason = "taken in `drop` only")]
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_deref_mut().expect("locked")
        }
    }

    impl<T> Drop for Guard<'_, T> {
        /// What follows an unlock is a separate step.
        fn drop(&mut self) {
            self.0 = None;
            step();
        }
    }
}
