//! What every handle of one machine shares: its driver, started once, and its end.

use std::sync::Arc;

use super::hold::Hold;
use super::shared::{Shared, State};
use crate::driver;
use crate::error::Error;
use crate::id::CommandId;
use crate::machine::Machine;
use crate::manage::{Operation, Task};
use crate::time::Instant;
use crate::transport::{Runtime, Transport};

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
        runtime: Arc<dyn Runtime>,
    ) -> Result<Arc<Self>, Error> {
        let shared = Arc::new(Shared::new(machine, transport, runtime));
        let driver = driver::drive(Arc::clone(&shared));
        let spawned = shared.runtime().spawn(Box::pin(driver));
        spawned.map_err(|error| Error::NoTask(Arc::new(error)))?;
        Ok(Arc::new(Self(shared)))
    }

    /// Gives a command, and waits until it is granted, or there is nothing to grant.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the command.
    pub(super) async fn obtain(
        self: &Arc<Self>,
        start: impl FnOnce(&mut M, Instant) -> Result<CommandId, Error> + Send,
    ) -> Result<Option<Hold<M>>, Error> {
        let (command, granted) = self.0.command(|state, now| {
            let command = start(&mut state.machine, now)?;
            Ok::<_, Error>((command, state.await_grant(command)))
        })?;
        let mut pending = Pending {
            owner: Arc::clone(self),
            command: Some(command),
        };
        let outcome = granted.await.unwrap_or(Err(Error::Closed));
        pending.command = None;
        Ok(outcome?.map(|granted| Hold::new(Arc::clone(self), command, granted)))
    }

    /// Brings an operation to its end, beside the machine.
    pub(super) async fn run<T: Task>(&self, task: T) -> Result<T::Output, Error> {
        let (transport, runtime) = (&**self.0.transport(), &**self.0.runtime());
        let operation = Operation::new(task, runtime.seed());
        driver::run(operation, transport, runtime).await
    }

    pub(super) fn close(&self) {
        self.0.command(|state, now| state.machine.close(now));
    }

    /// Closes, and waits until nothing is left.
    pub(super) async fn shutdown(&self) {
        self.close();
        let idle = self.0.command(|state, _| state.await_idle());
        // A driver that has ended leaves nothing to wait for.
        let _ = idle.await;
    }
}

impl<M: Machine> Drop for Owner<M> {
    fn drop(&mut self) {
        self.0.command(State::abandon);
    }
}

/// Cancels a command whose future is dropped before its end.
struct Pending<M: Machine> {
    owner: Arc<Owner<M>>,
    command: Option<CommandId>,
}

impl<M: Machine> Drop for Pending<M> {
    fn drop(&mut self) {
        if let Some(command) = self.command {
            self.owner
                .0
                .command(|state, now| state.forget(now, command));
        }
    }
}
