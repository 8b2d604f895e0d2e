//! Ends a world that somebody waits for and nobody moves, with advice, instead of hanging.
//!
//! A world with separate time moves only while a thread is in `run`, `advance`, `step` or a
//! client's `block_on`. A future on another executor waits for such a thread. One watchdog thread
//! for the whole process checks whether one comes.

use std::cell::Cell;
use std::sync::{Mutex, Once, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use crate::executor::Executor;

/// How long, in real time, somebody may wait in a world that nobody moves. It is long: on a busy
/// machine the thread that moves it may not run for many seconds, and no test may fail for that.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(120);

/// After this time the advice is printed, for those who wait at the terminal.
pub(crate) const SOON: Duration = Duration::from_secs(5);

/// The time between checks.
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);

/// The panic's message.
pub(crate) const ADVICE: &str = "nobody has moved this world for a while, though something waits in it. The world has its own time, and no \
     other executor moves it. Run the code with `MockConsul::run`. In a test on tokio, make the world with \
     `MockConsul::on_tokio(seed)`. On smol, or another executor whose clock can't be paused, use `LoopbackConsul`. If you move the world \
     later, by `MockConsul::advance`, call `set_automatic_time(false)` first";

static WATCHED: Mutex<Vec<Weak<Executor>>> = Mutex::new(Vec::new());

/// Watches this executor from now on, until it is ended or gone.
pub(crate) fn watch(executor: Weak<Executor>) {
    static LOOKING: Once = Once::new();
    let watched = WATCHED.lock();
    watched
        .unwrap_or_else(PoisonError::into_inner)
        .push(executor);
    LOOKING.call_once(|| {
        let looking = thread::Builder::new().name("consul-watchdog".to_owned());
        // Without a thread for it, a hanging test just hangs.
        let _ = looking.spawn(look);
    });
}

thread_local! {
    static LOOKS: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is the watchdog. It drops what runs in a world, and must survive
/// that.
pub(crate) fn looks_here() -> bool {
    LOOKS.get()
}

fn look() {
    LOOKS.set(true);
    loop {
        thread::sleep(BETWEEN_LOOKS);
        let watched = WATCHED.lock();
        let mut watched = watched.unwrap_or_else(PoisonError::into_inner);
        let mut executors = std::mem::take(&mut *watched);
        drop(watched);
        executors.retain(|it| it.upgrade().is_some_and(|it| !it.end_if_stranded()));
        let watched = WATCHED.lock();
        let mut watched = watched.unwrap_or_else(PoisonError::into_inner);
        watched.append(&mut executors);
    }
}
