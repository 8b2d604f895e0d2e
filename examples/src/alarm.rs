//! Waits that end when they should, for tasks of any runtime.
//!
//! The timers of runtimes are made for timeouts. Tokio's timer counts whole milliseconds and rounds
//! up, so a slot that should be held for 10 ms is held for more than 11. The timer would then cost
//! a tenth of the handovers per second. Here a separate thread waits for the next moment, and the
//! system ends such a wait within tens of microseconds. Threads that hold a slot wait like that
//! without help.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use futures_channel::oneshot;

use crate::failure::Failure;

/// A thread that wakes tasks. It ends with the last clone of this.
#[derive(Clone, Debug)]
pub struct Alarm(Sender<Bell>);

#[derive(Debug)]
struct Bell {
    at: Instant,
    ring: oneshot::Sender<()>,
}

impl Alarm {
    /// Starts the thread.
    ///
    /// # Errors
    /// [`Failure::Thread`].
    pub fn start() -> Result<Self, Failure> {
        let (set, bells) = mpsc::channel();
        thread::Builder::new()
            .name("alarm".to_owned())
            .spawn(move || ring(&bells))
            .map_err(Failure::Thread)?;
        Ok(Self(set))
    }

    /// Waits for `duration`.
    ///
    /// # Cancel safety
    /// A wait that is dropped wakes nobody.
    pub async fn sleep(&self, duration: Duration) {
        let (ring, ringing) = oneshot::channel();
        let at = Instant::now() + duration;
        // The thread runs while an alarm exists, and rings every bell.
        if self.0.send(Bell { at, ring }).is_ok() {
            let _ = ringing.await;
        }
    }
}

fn ring(bells: &Receiver<Bell>) {
    // At the same moment, the bell that was set first rings first.
    let mut next: BTreeMap<(Instant, u64), oneshot::Sender<()>> = BTreeMap::new();
    let mut number = 0_u64;
    loop {
        let now = Instant::now();
        while let Some(first) = next.first_entry() {
            let (at, _) = *first.key();
            if at > now {
                break;
            }
            // The waiter may be gone.
            let _ = first.remove().send(());
        }
        let heard = match next.first_key_value() {
            Some(((at, _), _)) => bells.recv_timeout(at.saturating_duration_since(now)),
            None => bells.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match heard {
            Ok(Bell { at, ring }) => {
                next.insert((at, number), ring);
                number += 1;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use futures_util::future::join_all;
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn bells_ring_in_the_order_of_their_moments_and_never_early() {
        let alarm = Alarm::start().expect("a thread");
        let rung = Mutex::new(Vec::new());
        let began = Instant::now();
        let wait = async |millis| {
            alarm.sleep(Duration::from_millis(millis)).await;
            assert!(began.elapsed() >= Duration::from_millis(millis));
            rung.lock().expect("no panic").push(millis);
        };
        smol::block_on(join_all([600, 200, 400, 0].map(wait)));
        assert_eq!(*rung.lock().expect("no panic"), [0, 200, 400, 600]);
    }

    #[test]
    fn a_wait_that_is_given_up_keeps_nobody() {
        let alarm = Alarm::start().expect("a thread");
        assert_eq!(alarm.sleep(Duration::from_secs(3600)).now_or_never(), None);
        smol::block_on(alarm.sleep(Duration::from_millis(1)));
    }
}
