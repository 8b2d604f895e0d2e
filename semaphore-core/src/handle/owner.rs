//! What every handle of one machine shares: its driver, started once, and its end.

use core::time::Duration;
use std::sync::Arc;

use futures_util::future::select;

use super::authorized::Tokens;
use super::shared::{Shared, State};
use crate::driver;
use crate::error::Error;
use crate::machine::Machine;
use crate::manage::{Operation, Task};
use crate::runtime::Runtime;
use crate::transport::Transport;

/// Held by every handle; the last one that goes ends the machine.
pub(super) struct Owner<M: Machine>(pub(super) Arc<Shared<M>>);

impl<M: Machine> Owner<M> {
    /// Starts the machine's driver.
    ///
    /// # Errors
    /// [`Error::NoTask`].
    pub(super) fn start(
        machine: M,
        transport: Arc<dyn Transport>,
        tokens: Tokens,
        runtime: Arc<dyn Runtime>,
        farewell: Duration,
    ) -> Result<Arc<Self>, Error> {
        let shared = Arc::new(Shared::new(machine, transport, tokens, runtime, farewell));
        let driver = driver::drive(Arc::clone(&shared));
        let spawned = shared.runtime().spawn(Box::pin(driver));
        spawned.map_err(|error| Error::NoTask(Arc::new(error)))?;
        Ok(Arc::new(Self(shared)))
    }

    /// Brings an operation to its end, beside the machine.
    pub(super) async fn run<T: Task>(&self, task: T) -> Result<T::Output, Error> {
        let (transport, runtime) = (&**self.0.transport(), &**self.0.runtime());
        let operation = Operation::new(task, runtime.seed());
        driver::run(operation, transport, runtime).await
    }

    pub(super) fn close(&self) {
        self.0.command(State::close);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.0.with(|state| state.is_closed())
    }

    /// Closes, and waits until nothing is left.
    pub(super) async fn shutdown(&self) {
        self.close();
        let idle = self.0.command(|state, _| state.await_idle());
        // A driver that has ended leaves nothing to wait for.
        let _ = idle.await;
    }

    /// A program may end next, and the driver with it.
    fn linger(&self) {
        let most = self.0.farewell();
        if most.is_zero() || !self.0.with(|state| state.is_giving_back()) {
            return;
        }
        let idle = self.0.command(|state, _| state.await_idle());
        let runtime = self.0.runtime();
        runtime.linger(Box::pin(async move {
            select(idle, runtime.sleep(most)).await;
        }));
    }
}

impl<M: Machine> Drop for Owner<M> {
    fn drop(&mut self) {
        self.0.command(State::abandon);
        self.linger();
    }
}
