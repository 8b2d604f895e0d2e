//! A grant that is not given back yet: what a permit and a leadership have in common.

use core::pin::pin;
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::{Either, select};
use tracing::{Instrument as _, Span};

use super::log;
use super::lost_signal::LostSignal;
use super::owner::Owner;
use super::shared::Granted;
use crate::error::{Awaited, Error, Lost, Refusal};
use crate::id::CommandId;
use crate::machine::Machine;
use crate::sync::AtomicBool;
use crate::time::Instant;

/// A grant that is given back when this is dropped, without blocking.
pub(super) struct Hold<M: Machine> {
    pub(super) owner: Arc<Owner<M>>,
    grant: M::Grant,
    lost: LostSignal,
    is_released: AtomicBool,
}

impl<M: Machine> Hold<M> {
    /// Gives the command to acquire or campaign, and waits until it is granted, or refused because
    /// nothing is free.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the command.
    pub(super) async fn obtain(
        owner: &Arc<Owner<M>>,
        permits: Option<u32>,
        start: impl FnOnce(&mut M, Instant) -> Result<CommandId, Error> + Send,
    ) -> Result<Result<Self, Refusal>, Error> {
        let mut attempt = Attempt::begin(owner, permits);
        let span = attempt.span.clone();
        let outcome = Self::obtain_within(owner, start).instrument(span).await;
        attempt.outcome = match &outcome {
            Ok(Ok(_)) => "granted",
            Ok(Err(_)) => "not available",
            Err(_) => "failed",
        };
        outcome
    }

    /// The same, for a command that waits, and that the machine ends after `timeout`, if there is
    /// one. If the driver is late, the caller's timer ends it, and the error says how long nobody
    /// has run the driver.
    pub(super) async fn wait(
        owner: &Arc<Owner<M>>,
        permits: Option<u32>,
        timeout: Option<Duration>,
        start: impl FnOnce(&mut M, Instant, Option<Instant>) -> Result<CommandId, Error> + Send,
    ) -> Result<Self, Error> {
        let deadline = timeout.map(|timeout| owner.runtime().now() + timeout);
        let start = move |machine: &mut M, now| start(machine, now, deadline);
        let obtained = pin!(Self::obtain(owner, permits, start));
        let obtained = if let Some((timeout, deadline)) = timeout.zip(deadline) {
            match select(obtained, owner.runtime().timer(timeout)).await {
                Either::Left((obtained, _)) => obtained,
                // The driver is late, or nobody runs it.
                Either::Right(((), obtained)) => {
                    let unattended = owner.end_what_is_late(deadline);
                    let obtained = obtained.await;
                    obtained.map_err(|error| error.unattended(unattended))
                }
            }
        } else {
            obtained.await
        };
        obtained?.map_err(|_| owner.ended())
    }

    async fn obtain_within(
        owner: &Arc<Owner<M>>,
        start: impl FnOnce(&mut M, Instant) -> Result<CommandId, Error> + Send,
    ) -> Result<Result<Self, Refusal>, Error> {
        owner.ensure_running()?;
        let subject = owner.subject();
        let started = owner.command(|state, now| {
            state.ensure_driven()?;
            let command = start(&mut state.machine, now)?;
            Ok::<_, Error>((command, state.await_grant(command)))
        });
        let (command, granted) = started.map_err(|error| error.or_about(subject))?;
        let mut pending = Pending {
            owner: Arc::clone(owner),
            command: Some(command),
        };
        let outcome = granted.await;
        let outcome = outcome.unwrap_or_else(|_| Err(owner.ended()));
        pending.command = None;
        if let Err(Error::Closed { .. }) = outcome {
            // The runtime knows best why nobody drives it any more.
            owner.ensure_running()?;
        }
        Ok(outcome?.map(|granted| Self::new(Arc::clone(owner), command, granted)))
    }

    fn new(owner: Arc<Owner<M>>, command: CommandId, granted: Granted<M::Grant>) -> Self {
        Self {
            lost: LostSignal::new(granted.lost, Arc::clone(&owner.0) as _, command),
            owner,
            grant: granted.grant,
            is_released: AtomicBool::new(false),
        }
    }

    pub(super) fn grant(&self) -> &M::Grant {
        &self.grant
    }

    /// Only asks the clock.
    pub(super) fn is_held(&self) -> bool {
        !self.lost.is_lost()
    }

    /// Only asks the clock. Zero if it is not held.
    pub(super) fn remaining(&self) -> Duration {
        if !self.is_held() {
            return Duration::ZERO;
        }
        let now = self.owner.runtime().now();
        let deadline = self
            .owner
            .with(|state| state.machine.deadline(self.lost.command));
        deadline.map_or(Duration::ZERO, |deadline| deadline.saturating_since(now))
    }

    pub(super) async fn lost(&self) -> Lost {
        self.lost.clone().await
    }

    /// The loss, for work that runs elsewhere.
    pub(super) fn lost_signal(&self) -> LostSignal {
        self.lost.clone()
    }

    /// Like [`Self::release`], for at most `timeout`. It continues in the background.
    pub(super) async fn release_timeout(&self, timeout: Duration) -> Result<(), Error> {
        self.owner
            .within(Awaited::Release, timeout, self.release())
            .await?
    }

    /// Why it is lost, if it is by now, even if nobody was told yet.
    pub(super) fn lost_by_now(&self) -> Option<Lost> {
        if self.is_held() {
            return None;
        }
        if !self.owner.is_forked() {
            self.owner.end_what_is_late(self.owner.runtime().now());
        }
        self.lost().now_or_never()
    }

    /// Gives it back, and waits for the end. A second call waits for the same end.
    pub(super) async fn release(&self) -> Result<(), Error> {
        self.is_released.store(true, Ordering::Release);
        if let Some(lost) = self.forked() {
            return Err(Error::Lost(lost));
        }
        let released = self
            .owner
            .command(|state, now| state.give_back(now, self.lost.command));
        released.await.unwrap_or_else(|_| Err(self.owner.ended()))
    }

    /// Gives it back as a drop does, without waiting.
    pub(super) fn release_behind(&self) {
        if !self.is_released.load(Ordering::Acquire) && !self.owner.is_forked() {
            self.is_released.store(true, Ordering::Release);
            self.owner
                .command(|state, now| state.forget(now, self.lost.command));
        }
    }

    /// Gives a command about this hold, and waits until it is done.
    pub(super) async fn change(
        &self,
        start: impl FnOnce(&mut M, Instant, CommandId) -> CommandId + Send,
    ) -> Result<(), Error> {
        if let Some(lost) = self.forked() {
            return Err(Error::Lost(lost));
        }
        let done = self.owner.command(|state, now| {
            let command = start(&mut state.machine, now, self.lost.command);
            state.await_done(command)
        });
        done.await.unwrap_or_else(|_| Err(self.owner.ended()))
    }

    fn forked(&self) -> Option<Lost> {
        self.owner.is_forked().then(|| self.owner.lost_at_end())
    }
}

impl<M: Machine> Drop for Hold<M> {
    fn drop(&mut self) {
        self.release_behind();
    }
}

/// An attempt in the log: how long it took, and its outcome.
struct Attempt<'a, M: Machine> {
    owner: &'a Owner<M>,
    span: Span,
    began_at: Instant,
    outcome: &'static str,
}

impl<'a, M: Machine> Attempt<'a, M> {
    fn begin(owner: &'a Owner<M>, permits: Option<u32>) -> Self {
        Self {
            span: log::command_span(owner.span(), permits),
            began_at: owner.runtime().now(),
            outcome: "given up",
            owner,
        }
    }
}

impl<M: Machine> Drop for Attempt<'_, M> {
    fn drop(&mut self) {
        let waited = self.owner.runtime().now().saturating_since(self.began_at);
        log::record_outcome(&self.span, waited, self.outcome);
    }
}

/// Cancels a command whose future is dropped early.
struct Pending<M: Machine> {
    owner: Arc<Owner<M>>,
    command: Option<CommandId>,
}

impl<M: Machine> Drop for Pending<M> {
    fn drop(&mut self) {
        if let Some(command) = self.command
            && !self.owner.is_forked()
        {
            self.owner.command(|state, now| state.forget(now, command));
        }
    }
}
