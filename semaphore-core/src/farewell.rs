//! What is left to do when a driver is dropped.

use core::fmt;
use std::sync::Arc;

use crate::transport::{BoxFuture, Runtime, Transport};

/// What a driver that was dropped has left to do. It takes as long as a [farewell](crate::Builder::farewell) may, at most.
#[must_use = "a slot stays blocked until its session expires unless this is finished"]
pub struct Unfinished(Finish);

type Finish = Box<
    dyn FnOnce(Arc<dyn Transport>, Arc<dyn Runtime>) -> BoxFuture<'static, bool> + Send + 'static,
>;

impl Unfinished {
    pub(crate) fn new(
        finish: impl FnOnce(Arc<dyn Transport>, Arc<dyn Runtime>) -> BoxFuture<'static, bool>
        + Send
        + 'static,
    ) -> Self {
        Self(Box::new(finish))
    }

    /// Gives back what is held and cleans up: whether nothing is left. The transport goes to the same agent and the runtime
    /// has the same clock as those that the driver had.
    pub fn finish(
        self,
        transport: Arc<dyn Transport>,
        runtime: Arc<dyn Runtime>,
    ) -> BoxFuture<'static, bool> {
        (self.0)(transport, runtime)
    }
}

impl fmt::Debug for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unfinished").finish_non_exhaustive()
    }
}
