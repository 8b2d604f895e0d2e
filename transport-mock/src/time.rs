//! Which clock a world uses, and the advice for a test that mixes two clocks.

#[cfg(feature = "tokio")]
use std::any::Any;

use semaphore_core::adapter::Instant;

#[cfg(feature = "tokio")]
use crate::tokio_time::TokioTime;

/// The clock of a world.
pub(crate) enum Time {
    /// A separate clock, which moves when everything in the world sleeps.
    Own,
    /// The clock of the tokio runtime in which it was made.
    #[cfg(feature = "tokio")]
    Tokio(TokioTime),
}

impl Time {
    /// How many hours count as forever.
    pub(crate) fn patience(&self) -> u64 {
        match self {
            Self::Own => 72,
            #[cfg(feature = "tokio")]
            Self::Tokio(_) => 24,
        }
    }

    /// The time, if the clock is not the world's own.
    pub(crate) fn elsewhere(&self) -> Option<Instant> {
        match self {
            Self::Own => None,
            #[cfg(feature = "tokio")]
            Self::Tokio(tokio) => Some(tokio.now()),
        }
    }

    /// Something may be due earlier than before.
    pub(crate) fn poke(&self) {
        match self {
            Self::Own => {}
            #[cfg(feature = "tokio")]
            Self::Tokio(tokio) => tokio.poke(),
        }
    }

    pub(crate) fn assert_own(&self, what: &str) {
        assert!(
            matches!(self, Self::Own),
            "{what} is for a world whose time is its own. The time of this one is tokio's: await the future, begin it with \
             `tokio::spawn`, and let time pass with `tokio::time::sleep`"
        );
    }
}

/// In a test on tokio, a world with separate time would have a second clock that nobody moves.
pub(crate) fn assert_no_tokio() {
    #[cfg(feature = "tokio")]
    assert!(
        tokio::runtime::Handle::try_current().is_err(),
        "this world's time is its own, and tokio, which runs here, does not move it. Make the world with \
         `MockConsul::on_tokio(seed)` in a `#[tokio::test(start_paused = true)]`, and await its futures there. (Code that \
         moves it beside tokio says so first, by `set_automatic_time(false)`)"
    );
}

/// Runs `body`. Adds advice if it panics because it needs tokio.
pub(crate) fn with_advice<T>(body: impl FnOnce() -> T) -> T {
    #[cfg(feature = "tokio")]
    {
        use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

        // The panic continues, so nobody sees broken state.
        catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
            if needs_tokio(&*panic) {
                eprintln!(
                    "code that `MockConsul::run` ran needs tokio: make the world with `MockConsul::on_tokio(seed)` in a \
                     `#[tokio::test(start_paused = true)]`, and await the code there"
                );
            }
            resume_unwind(panic)
        })
    }
    #[cfg(not(feature = "tokio"))]
    body()
}

#[cfg(feature = "tokio")]
fn needs_tokio(panic: &(dyn Any + Send)) -> bool {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    // tokio's message for sockets, timers and tasks.
    text.is_some_and(|text| text.contains("there is no reactor running"))
}
