//! Counts the contenders, holders, keys and requests that an event visits. Tests limit this count,
//! since a time would depend on the machine. Outside of tests nothing is counted.

/// Counts this many.
#[cfg(not(test))]
pub(crate) const fn passed(_: usize) {}

#[cfg(test)]
pub(crate) use self::count::{during, passed};

#[cfg(test)]
mod count {
    use core::cell::Cell;

    thread_local! {
        static PASSED: Cell<usize> = const { Cell::new(0) };
    }

    pub(crate) fn passed(count: usize) {
        PASSED.set(PASSED.get() + count);
    }

    /// The number that is counted while this runs.
    pub(crate) fn during<T>(what: impl FnOnce() -> T) -> (T, usize) {
        let before = PASSED.get();
        let done = what();
        (done, PASSED.get() - before)
    }
}
