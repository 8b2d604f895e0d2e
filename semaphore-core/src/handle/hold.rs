//! A grant that is not given back yet: what a permit and a leadership have in common.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::Arc;

use futures_channel::oneshot;
use futures_util::FutureExt as _;
use futures_util::future::Shared as SharedFuture;
use tracing::{Instrument as _, Span};

use super::log;
use super::lost_signal::LostSignal;
use super::owner::Owner;
use super::shared::{Granted, State};
use crate::error::{Awaited, Error, Lost, Refusal};
use crate::id::CommandId;
use crate::machine::Machine;
use crate::sync::AtomicBool;
use crate::time::Instant;

/// A grant that is given back when this is dropped, without blocking.
pub(super) struct Hold<M: Machine> {
    owner: Arc<Owner<M>>,
    command: CommandId,
    grant: M::Grant,
    lost: SharedFuture<oneshot::Receiver<Lost>>,
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

    async fn obtain_within(
        owner: &Arc<Owner<M>>,
        start: impl FnOnce(&mut M, Instant) -> Result<CommandId, Error> + Send,
    ) -> Result<Result<Self, Refusal>, Error> {
        owner.0.ensure_running()?;
        let subject = owner.0.subject();
        let started = owner.0.command(|state, now| {
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
        let outcome = outcome.unwrap_or_else(|_| Err(owner.0.ended()));
        pending.command = None;
        if let Err(Error::Closed { .. }) = outcome {
            // The runtime knows best why nobody drives it any more.
            owner.0.ensure_running()?;
        }
        Ok(outcome?.map(|granted| Self::new(Arc::clone(owner), command, granted)))
    }

    fn new(owner: Arc<Owner<M>>, command: CommandId, granted: Granted<M::Grant>) -> Self {
        Self {
            owner,
            command,
            grant: granted.grant,
            lost: granted.lost.shared(),
            is_released: AtomicBool::new(false),
        }
    }

    pub(super) fn grant(&self) -> &M::Grant {
        &self.grant
    }

    /// Only asks the clock.
    pub(super) fn is_held(&self) -> bool {
        if self.owner.0.is_forked() {
            return false;
        }
        let now = self.owner.0.runtime().now();
        self.owner
            .0
            .with(|state| !state.has_ended() && state.machine.is_held(now, self.command))
    }

    /// Only asks the clock. Zero if it is not held.
    pub(super) fn remaining(&self) -> Duration {
        if self.owner.0.is_forked() {
            return Duration::ZERO;
        }
        let now = self.owner.0.runtime().now();
        let deadline = self.owner.0.with(|state| {
            let is_held = !state.has_ended() && state.machine.is_held(now, self.command);
            is_held.then(|| state.machine.deadline(self.command))
        });
        // Whatever is held has a lease.
        deadline
            .flatten()
            .map_or(Duration::ZERO, |deadline| deadline.saturating_since(now))
    }

    pub(super) async fn lost(&self) -> Lost {
        if let Some(lost) = self.forked() {
            return lost;
        }
        match self.lost.clone().await {
            Ok(Lost::RuntimeEnded { .. }) | Err(_) => self.lost_at_end(),
            Ok(lost) => lost,
        }
    }

    /// The loss, for work that runs elsewhere.
    pub(super) fn lost_signal(&self) -> LostSignal {
        let belief = Arc::clone(&self.owner.0);
        LostSignal::new(self.lost.clone(), belief, self.command)
    }

    /// The error for what came too late for the calling thread.
    pub(super) fn late(&self, what: Awaited, timeout: Duration) -> Error {
        self.owner.0.late(what, timeout)
    }

    /// Like [`Self::release`], for at most `timeout`. It continues in the background.
    pub(super) async fn release_timeout(&self, timeout: Duration) -> Result<(), Error> {
        self.owner
            .0
            .within(Awaited::Release, timeout, self.release())
            .await?
    }

    /// Why it is lost, if it is by now, even if nobody was told yet.
    pub(super) fn lost_by_now(&self) -> Option<Lost> {
        if self.is_held() {
            return None;
        }
        if !self.owner.0.is_forked() {
            self.owner.0.let_time_pass(self.owner.0.runtime().now());
        }
        self.lost().now_or_never()
    }

    /// Gives it back, and waits for the end. A second call waits for the same end.
    pub(super) async fn release(&self) -> Result<(), Error> {
        self.is_released.store(true, Ordering::Release);
        if let Some(lost) = self.forked() {
            return Err(Error::Lost(lost));
        }
        let give_back = |state: &mut State<M>, now| state.give_back(now, self.command);
        let released = self.owner.0.command(give_back);
        released.await.unwrap_or_else(|_| Err(self.ended()))
    }

    /// Gives it back as a drop does, without waiting.
    pub(super) fn release_behind(&self) {
        if !self.is_released.load(Ordering::Acquire) && !self.owner.0.is_forked() {
            self.is_released.store(true, Ordering::Release);
            self.owner
                .0
                .command(|state, now| state.forget(now, self.command));
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
        let done = self.owner.0.command(|state, now| {
            let command = start(&mut state.machine, now, self.command);
            state.await_done(command)
        });
        done.await.unwrap_or_else(|_| Err(self.ended()))
    }

    fn forked(&self) -> Option<Lost> {
        self.owner.0.is_forked().then(|| self.lost_at_end())
    }

    /// Why it is lost, if the driver that could tell is gone.
    pub(super) fn lost_at_end(&self) -> Lost {
        self.owner.0.lost_at_end()
    }

    /// The error after the runtime's end.
    pub(super) fn ended(&self) -> Error {
        self.owner.0.ended()
    }

    /// Like [`Self::change`], for at most `timeout`. The command continues.
    pub(super) async fn change_timeout(
        &self,
        timeout: Duration,
        start: impl FnOnce(&mut M, Instant, CommandId) -> CommandId + Send,
    ) -> Result<(), Error> {
        let change = self.change(start);
        self.owner
            .0
            .within(Awaited::Change, timeout, change)
            .await?
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
            span: log::command_span(owner.0.span(), permits),
            began_at: owner.0.runtime().now(),
            outcome: "given up",
            owner,
        }
    }
}

impl<M: Machine> Drop for Attempt<'_, M> {
    fn drop(&mut self) {
        let waited = self.owner.0.runtime().now().saturating_since(self.began_at);
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
            && !self.owner.0.is_forked()
        {
            self.owner
                .0
                .command(|state, now| state.forget(now, command));
        }
    }
}
