//! How many elections one process leads at once.

use core::fmt;
use core::num::NonZeroUsize;
use std::collections::VecDeque;
use std::sync::Arc;

use futures_channel::oneshot;

use crate::sync::{Mutex, lock};

/// How many elections are led at once by all that share this: see
/// [`Terms::at_most`](crate::terms::Terms::at_most). Clones share it.
///
/// Those that wait for a place get it in the order in which they came.
#[derive(Clone)]
pub struct TermLimit(Arc<Mutex<Places>>);

struct Places {
    most: usize,
    taken: usize,
    waiting: VecDeque<oneshot::Sender<TermPlace>>,
}

/// One place. Dropping it gives it back. By default it is one where there is no limit.
#[derive(Default)]
pub(in crate::handle) struct TermPlace(Option<TermLimit>);

impl TermLimit {
    /// At most this many at once.
    pub fn new(most: NonZeroUsize) -> Self {
        Self(Arc::new(Mutex::new(Places {
            most: most.get(),
            taken: 0,
            waiting: VecDeque::new(),
        })))
    }

    /// How many elections are led now, or are about to be.
    pub fn taken(&self) -> usize {
        lock(&self.0).taken
    }

    /// Waits for a place. Dropping the future leaves the queue.
    pub(super) async fn enter(&self) -> TermPlace {
        let waiting = {
            let mut places = lock(&self.0);
            if places.taken < places.most {
                places.taken += 1;
                return TermPlace(Some(self.clone()));
            }
            let (sender, receiver) = oneshot::channel();
            places.waiting.push_back(sender);
            receiver
        };
        // The sender is kept until it has sent.
        waiting.await.unwrap_or(TermPlace(None))
    }

    /// Passes a place on.
    fn leave(&self) {
        loop {
            let next = {
                let mut places = lock(&self.0);
                let next = places.waiting.pop_front();
                if next.is_none() {
                    places.taken -= 1;
                }
                next
            };
            let Some(next) = next else { return };
            match next.send(TermPlace(Some(self.clone()))) {
                Ok(()) => return,
                // That one no longer waits. The place passes to the next, so its drop must not give
                // it back.
                Err(mut place) => place.0 = None,
            }
        }
    }
}

impl Drop for TermPlace {
    fn drop(&mut self) {
        if let Some(limit) = self.0.take() {
            limit.leave();
        }
    }
}

impl fmt::Debug for TermLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = lock(&self.0);
        f.debug_struct("TermLimit")
            .field("most", &places.most)
            .field("taken", &places.taken)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn limit(most: usize) -> TermLimit {
        TermLimit::new(NonZeroUsize::new(most).expect("some"))
    }

    #[test]
    fn places_go_to_those_who_wait_in_order() {
        let limit = limit(1);
        let first = limit.enter().now_or_never().expect("free");
        let mut second = Box::pin(limit.enter());
        let mut third = Box::pin(limit.enter());
        assert!(second.as_mut().now_or_never().is_none());
        assert!(third.as_mut().now_or_never().is_none());
        drop(first);
        assert!(third.as_mut().now_or_never().is_none());
        let second = second.now_or_never().expect("its turn");
        assert_eq!(limit.taken(), 1);
        drop(second);
        drop(third.now_or_never().expect("its turn"));
        assert_eq!(limit.taken(), 0);
    }

    #[test]
    fn who_left_the_queue_keeps_no_place() {
        let limit = limit(1);
        let first = limit.enter().now_or_never().expect("free");
        let mut all: Vec<_> = (0..3).map(|_| Box::pin(limit.enter())).collect();
        for waiting in &mut all {
            assert!(waiting.as_mut().now_or_never().is_none());
        }
        // One leaves before its turn, the other when it already has the place.
        drop(all.remove(0));
        drop(first);
        drop(all.remove(0));
        let last = all.remove(0).now_or_never().expect("its turn");
        drop(last);
        assert_eq!(limit.taken(), 0);
        assert!(limit.enter().now_or_never().is_some());
    }
}
