//! A handle for a future that runs in the background.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_channel::oneshot;

use crate::executor::{Executor, Id};

/// A future that runs in the background. Await it for its output, or check whether it is there.
///
/// Dropping this lets the future run on; [`Task::abort`] ends it.
pub struct Task<T> {
    executor: Arc<Executor>,
    id: Id,
    output: oneshot::Receiver<T>,
}

impl<T: Send + 'static> Task<T> {
    pub(crate) fn start(
        executor: &Arc<Executor>,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Self {
        let (sender, output) = oneshot::channel();
        let id = executor.spawn(Box::pin(async move {
            // Without a receiver nobody wants the output.
            let _ = sender.send(future.await);
        }));
        Self {
            executor: Arc::clone(executor),
            id,
            output,
        }
    }
}

impl<T> Task<T> {
    /// The output, if the future has ended. It is returned once.
    pub fn try_take(&mut self) -> Option<T> {
        self.output.try_recv().ok().flatten()
    }

    /// Drops the future at its present wait, as cancelling does. A future that is running continues
    /// to its next wait first.
    pub fn abort(self) {
        self.executor.cancel(self.id);
    }
}

impl<T> Future for Task<T> {
    type Output = T;

    /// # Panics
    /// If the future can no longer end: it has panicked, or its world is gone.
    #[expect(clippy::panic, reason = "documented, as for `std::thread::JoinHandle`")]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        Pin::new(&mut self.output)
            .poll(context)
            .map(|output| output.unwrap_or_else(|_| panic!("the task is gone without an output")))
    }
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
