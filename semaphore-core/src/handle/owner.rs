//! What every handle of one machine shares: its driver, which is started once, and its end.

use core::future::Future;
use core::ops::Deref;
use core::pin::pin;
use core::time::Duration;
use std::sync::Arc;

use futures_channel::oneshot;
use futures_util::future::{Either, select};

use super::authorized::Tokens;
use super::hub::{Hub, SharedMachine};
use super::observer::Surroundings;
use super::shared::{Shared, State};
use crate::driver;
use crate::error::{Awaited, ClosedBy, Error};
use crate::machine::{Machine, MachineSet, Shares};
use crate::manage::{Operation, Task};
use crate::runtime::Runtime;
use crate::subject::Subject;
use crate::time::Instant;
use crate::transport::Transport;

/// Every handle has it. Dropping the last one ends the machine.
pub(super) struct Owner<M: Machine>(
    pub(super) Arc<Shared<M>>,
    #[expect(dead_code, reason = "kept")] Option<Arc<Key>>,
);

impl<M: Machine> Deref for Owner<M> {
    type Target = Shared<M>;

    fn deref(&self) -> &Shared<M> {
        &self.0
    }
}

/// Everybody who may add machines to a shared hub has it, and so do the owners of those machines.
/// Dropping the last one ends the hub.
pub(super) struct Key {
    hub: Arc<Hub>,
    farewell: Duration,
}

/// What is shut down: one machine, or all of a hub.
pub(super) trait Ending {
    fn runtime(&self) -> &Arc<dyn Runtime>;
    /// Returns true if nothing is left, or if nothing will be given back any more.
    fn is_all_given_back(&self) -> bool;
    /// The error for what came too late.
    fn late(&self, what: Awaited, timeout: Duration) -> Error;

    /// Waits at most `timeout` for `shutdown`.
    ///
    /// # Errors
    /// [`Error::Timeout`] if something is left at its end: it was given up to the background.
    async fn shut_down_within(
        &self,
        timeout: Duration,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        let runtime = self.runtime();
        let began_at = runtime.now();
        match select(pin!(shutdown), runtime.timer(timeout)).await {
            Either::Left(_) => self.ensure_nothing_left(began_at),
            Either::Right(_) => Err(self.late(Awaited::Shutdown, timeout)),
        }
    }

    /// Fails if a shutdown that began then has ended, but could not give everything back.
    fn ensure_nothing_left(&self, began_at: Instant) -> Result<(), Error> {
        if self.is_all_given_back() {
            return Ok(());
        }
        let took = self.runtime().now().saturating_since(began_at);
        Err(self.late(Awaited::Shutdown, took))
    }
}

impl<M: Machine> Ending for Owner<M> {
    fn runtime(&self) -> &Arc<dyn Runtime> {
        self.0.runtime()
    }

    fn is_all_given_back(&self) -> bool {
        self.0.is_forked() || self.with(|state| state.is_all_given_back())
    }

    fn late(&self, what: Awaited, timeout: Duration) -> Error {
        self.0.late(what, timeout)
    }
}

impl Ending for Hub {
    fn runtime(&self) -> &Arc<dyn Runtime> {
        self.runtime()
    }

    fn is_all_given_back(&self) -> bool {
        self.members().iter().all(|it| it.is_all_given_back())
    }

    fn late(&self, what: Awaited, timeout: Duration) -> Error {
        Error::late(what, timeout).unanswered(|waited| self.silence(waited))
    }
}

impl<M: Machine> Owner<M> {
    /// Starts the machine in its own hub, with a separate driver.
    ///
    /// # Errors
    /// [`Error::NoTask`].
    pub(super) fn start(
        machine: M,
        transport: Arc<dyn Transport>,
        tokens: Tokens,
        runtime: Arc<dyn Runtime>,
        surroundings: Surroundings,
    ) -> Result<Arc<Self>, Error> {
        let hub = Arc::new(Hub::new(
            transport,
            Tokens::default(),
            runtime,
            Arc::clone(&surroundings.audience),
        ));
        let machine = move_in(&hub, machine, None, tokens, surroundings)?;
        hub.close();
        let driven = drive(&hub, MachineSet::new(0));
        driven.map_err(|error| error.or_about(machine.subject()))?;
        Ok(Arc::new(Self(machine, None)))
    }

    /// Adds the machine to a hub that has a driver.
    ///
    /// # Errors
    /// [`Error::Closed`] if the driver has ended.
    pub(super) fn join(
        key: &Arc<Key>,
        machine: M,
        shares: Option<Shares>,
        tokens: Tokens,
        surroundings: Surroundings,
    ) -> Result<Arc<Self>, Error> {
        if let Some(by) = key.hub.runtime().ended() {
            return Err(by.into());
        }
        let machine = move_in(&key.hub, machine, shares, tokens, surroundings)?;
        Ok(Arc::new(Self(machine, Some(Arc::clone(key)))))
    }

    /// Another owner of a machine in a shared hub, if the machine fits and is not ending.
    pub(super) fn again(
        key: &Arc<Key>,
        shared: Arc<Shared<M>>,
        fits: impl FnOnce(&M) -> bool,
    ) -> Option<Arc<Self>> {
        let is_taken = shared.with(|state| fits(&state.machine) && state.take_again());
        is_taken.then(|| Arc::new(Self(shared, Some(Arc::clone(key)))))
    }

    /// Runs an operation to its end, beside the machine.
    pub(super) async fn run<T: Task>(&self, task: T) -> Result<T::Output, Error> {
        let (transport, runtime) = (&**self.transport(), &**self.runtime());
        let operation = Operation::new(task, runtime.seed());
        let output = driver::run(operation, transport, runtime).await;
        output.map_err(|error| error.or_about(self.subject()))
    }

    pub(super) fn close(&self) {
        if !self.is_forked() {
            self.command(State::close);
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.runtime().ended().is_some() || self.with(|state| state.is_closed())
    }

    /// Closes, and waits until nothing is left.
    pub(super) async fn shutdown(&self) {
        self.close();
        if self.is_forked() {
            return;
        }
        let idle = self.command(|state, _| state.await_idle());
        // If the driver has ended, there is nothing to wait for.
        let _ = idle.await;
    }

    /// The program, and the driver with it, may end next.
    fn linger(&self) {
        let most = self.farewell();
        if most.is_zero() || !self.with(|state| state.is_giving_back()) {
            return;
        }
        linger(
            self.runtime(),
            most,
            self.command(|state, _| state.await_idle()),
        );
    }
}

fn move_in<M: Machine>(
    hub: &Arc<Hub>,
    machine: M,
    shares: Option<Shares>,
    tokens: Tokens,
    surroundings: Surroundings,
) -> Result<Arc<Shared<M>>, Error> {
    let is_shared = shares.is_some();
    let subject = machine.subject(hub.transport().address());
    let joined = hub.join(shares, |no| {
        let hub = Arc::clone(hub);
        Arc::new(Shared::new(
            machine,
            hub,
            no,
            tokens,
            surroundings,
            is_shared,
        ))
    });
    joined.map_err(|error| error.or_about(&subject))
}

impl Key {
    pub(super) fn new(hub: Arc<Hub>, farewell: Duration) -> Self {
        Self { hub, farewell }
    }

    pub(super) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }
}

/// The program, and the driver with it, may end next.
impl Drop for Key {
    fn drop(&mut self) {
        if self.hub.runtime().ended() == Some(ClosedBy::Fork) {
            return;
        }
        self.hub.close();
        if !self.farewell.is_zero() {
            linger(self.hub.runtime(), self.farewell, self.hub.await_quiet());
        }
    }
}

/// Lets the runtime wait for this end, for at most `most`.
fn linger(runtime: &Arc<dyn Runtime>, most: Duration, end: oneshot::Receiver<()>) {
    runtime.linger(Box::pin(async move {
        select(end, runtime.sleep(most)).await;
    }));
}

/// Starts a hub's driver.
///
/// # Errors
/// [`Error::NoTask`].
pub(super) fn drive(
    hub: &Arc<Hub>,
    machines: MachineSet<Arc<dyn SharedMachine>>,
) -> Result<(), Error> {
    let driver = driver::drive(Arc::clone(hub), machines);
    let spawned = hub.runtime().spawn(Box::pin(driver));
    spawned.map_err(|error| Error::NoTask {
        source: Arc::new(error),
        on: Subject::default(),
    })
}

impl<M: Machine> Drop for Owner<M> {
    fn drop(&mut self) {
        if self.is_forked() {
            return;
        }
        self.command(State::abandon);
        self.linger();
    }
}
