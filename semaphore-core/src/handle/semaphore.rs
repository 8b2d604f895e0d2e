//! The async semaphore.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use super::Permit;
use super::authorized::Tokens;
use super::hold::Hold;
use super::observer::Surroundings;
use super::owner::{Ending as _, Owner};
use super::presence::Presence;
use super::shared::Shared;
use crate::error::{Error, Refusal};
use crate::id::SessionId;
use crate::input::InvalidInput;
use crate::input::{Prefix, Scope};
use crate::machine::{Availability, Participant, Settings, Status};
use crate::manage::{Destroy, Evict, Eviction, Inspect, Resize, Snapshot, Task, Verify};
use crate::runtime::Runtime;
use crate::sequencer::{Sequencer, SequencerStatus};
use crate::token::Token;
use crate::transport::Transport;

/// A distributed counting semaphore.
///
/// Clones share one participant: one watch, one queue, and a few connections, however many tasks
/// wait. When the last clone and the last [`Permit`] are gone, the driver cleans up in the
/// background and ends.
#[derive(Clone)]
pub struct Semaphore {
    pub(super) owner: Arc<Owner<Participant>>,
    prefix: Prefix,
    scope: Scope,
}

impl Semaphore {
    /// A semaphore of the client that is the transport, or one with its own driver.
    pub(super) fn connect(
        settings: Settings,
        seed: u64,
        transport: Arc<dyn Transport>,
        tokens: Tokens,
        runtime: Arc<dyn Runtime>,
        surroundings: Surroundings,
    ) -> Result<Self, Error> {
        let (prefix, scope) = (settings.prefix().clone(), settings.scope().clone());
        let owner = if let Some(client) = Presence::of(&*transport) {
            client.participant(settings, seed, tokens, surroundings)?
        } else {
            let participant = Participant::new(settings, seed);
            Owner::start(participant, transport, tokens, runtime, surroundings)?
        };
        Ok(Self {
            owner,
            prefix,
            scope,
        })
    }

    /// Sets the token of every request of this semaphore, instead of the builder's token. If a
    /// request under way is refused with the old token, it is sent once more. If the semaphore
    /// shares sessions with others of a [`Client`](crate::Client), this sets the token of all of
    /// them.
    pub fn set_token(&self, token: Token) {
        self.owner.tokens().set(token);
    }

    /// The prefix of its keys.
    pub fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    /// Waits for a slot, first come first served. Transient failures don't end the wait: while
    /// Consul can't be reached, it keeps waiting. See [`Self::acquire_timeout`].
    ///
    /// # Errors
    /// Permanent failures, at once: [`Error::LimitConflict`], [`Error::Conflict`],
    /// [`Error::IncompleteView`], a refused [`Error::Request`], [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue, and cleans up in the background. A slot that was
    /// granted at that moment is released.
    pub async fn acquire(&self) -> Result<Permit, Error> {
        self.acquire_many(1).await
    }

    /// Waits for `permits` slots, all or none: it never holds some while it waits for others.
    ///
    /// # Errors
    /// As [`Self::acquire`]. [`Error::InvalidInput`] for no permits, for more than the limit, and
    /// for more than 31: one transaction has no room for more.
    ///
    /// # Cancel safety
    /// As [`Self::acquire`].
    pub async fn acquire_many(&self, permits: u32) -> Result<Permit, Error> {
        self.wait(permits, None).await
    }

    /// Like [`Self::acquire`], for at most `timeout`.
    ///
    /// # Errors
    /// As [`Self::acquire`], and [`Error::Timeout`] with the last failure as its source.
    ///
    /// # Cancel safety
    /// As [`Self::acquire`].
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<Permit, Error> {
        self.acquire_many_timeout(1, timeout).await
    }

    /// Like [`Self::acquire_many`], for at most `timeout`.
    ///
    /// # Errors
    /// As [`Self::acquire_many`], and [`Error::Timeout`] with the last failure as its source.
    ///
    /// # Cancel safety
    /// As [`Self::acquire`].
    pub async fn acquire_many_timeout(
        &self,
        permits: u32,
        timeout: Duration,
    ) -> Result<Permit, Error> {
        self.wait(permits, Some(timeout)).await
    }

    /// Takes a slot if one is free now. Otherwise it says why not: all are taken, or others already
    /// wait. That is not an error, and has its own type:
    ///
    /// ```
    /// # use semaphore_core::{Error, Permit, Semaphore};
    /// # async fn example(semaphore: Semaphore) -> Result<(), Error> {
    /// match semaphore.try_acquire().await? {
    ///     Ok(permit) => permit.release().await?,
    ///     Err(refusal) => println!("not now: {refusal}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    /// It still needs a few requests, but it does not wait, and gives up at the first failure.
    ///
    /// # Errors
    /// As [`Self::acquire`], and [`Error::Request`] for a transient failure too.
    ///
    /// # Cancel safety
    /// As [`Self::acquire`].
    pub async fn try_acquire(&self) -> Result<Result<Permit, Refusal>, Error> {
        self.try_acquire_many(1).await
    }

    /// Like [`Self::try_acquire`], for `permits` slots, all or none.
    ///
    /// # Errors
    /// As [`Self::try_acquire`] and [`Self::acquire_many`].
    ///
    /// # Cancel safety
    /// As [`Self::acquire`].
    pub async fn try_acquire_many(&self, permits: u32) -> Result<Result<Permit, Refusal>, Error> {
        let start = move |participant: &mut Participant, now| participant.try_acquire(now, permits);
        let hold = Hold::obtain(&self.owner, Some(permits), start).await?;
        Ok(hold.map(|hold| Permit::new(hold, permits)))
    }

    /// Shows who holds a slot and who waits, with the values of their contender keys.
    ///
    /// # Errors
    /// [`Error::NotFound`] if nobody has used the semaphore yet, [`Error::IncompleteView`],
    /// [`Error::Conflict`], [`Error::Request`].
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn inspect(&self) -> Result<Snapshot, Error> {
        self.manage(Inspect::new).await
    }

    /// Changes the limit, in the record and for this handle and its clones. If the new limit is
    /// smaller, extra holders stay until they release. Other participants with the old limit get
    /// [`Error::LimitConflict`], unless they adopt the record's limit.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for no slots, [`Error::NotFound`], [`Error::IncompleteView`] if the
    /// record is hidden, [`Error::Conflict`], [`Error::Request`]. After an error other than a
    /// refusal the record may still change: an agent without a leader may apply a request later
    /// that was given up.
    ///
    /// # Cancel safety
    /// The record may or may not be changed; calling it again is safe.
    pub async fn resize(&self, limit: u32) -> Result<(), Error> {
        let resize = Resize::new(self.prefix.clone(), self.scope.clone(), limit)?;
        let shared = &self.owner.0;
        // Before the request: the watch may show the new limit before the answer arrives.
        let former = shared.command(|state, now| state.machine.set_limit(now, limit))?;
        let mut undo = LimitGuard {
            shared,
            limit,
            former: Some(former),
        };
        self.owner.run(resize).await?;
        undo.former = None;
        Ok(())
    }

    /// Removes the semaphore's record if nobody holds a slot or waits for one.
    ///
    /// # Errors
    /// [`Error::InUse`], [`Error::NotFound`], [`Error::IncompleteView`], [`Error::Conflict`],
    /// [`Error::Request`]. After an error other than a refusal the record may still be removed, as
    /// with [`Self::resize`].
    ///
    /// # Cancel safety
    /// The record may or may not be removed; calling it again is safe.
    pub async fn destroy(&self) -> Result<(), Error> {
        self.manage(Destroy::new).await
    }

    /// Takes the slot of a session away, and tells its holder the reason: it gets
    /// [`Lost::Evicted`](crate::Lost::Evicted). If the holder does not leave within ten seconds, or
    /// can't be told, its session is ended. [`Evict`] says who gets the reason. `inspect` shows the
    /// sessions.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a reason that is empty or has a control character.
    /// [`Error::Request`], for example if the token lacks `session` write on the session's node.
    ///
    /// # Cancel safety
    /// The holder may have been asked to leave, or its session may be ended; calling it again is
    /// safe.
    pub async fn evict(
        &self,
        session: &SessionId,
        reason: impl Into<String>,
    ) -> Result<Eviction, Error> {
        let (prefix, scope) = (self.prefix.clone(), self.scope.clone());
        let evict = Evict::new(prefix, scope, session.clone(), reason);
        let evict = evict.map_err(|input| Error::from(input).or_about(self.owner.subject()))?;
        self.owner.run(evict).await
    }

    /// Whether a client's sequencer belongs to a contender of this semaphore. It is one read, which
    /// is retried for a few seconds if Consul does not answer. Limit it with a timeout, and treat a
    /// timeout like [`SequencerStatus::Unknown`].
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a sequencer of another key, without a request.
    /// [`Error::Request`] if Consul refuses permanently, for example a token without permission.
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn verify(&self, sequencer: &Sequencer) -> Result<SequencerStatus, Error> {
        if sequencer.key != self.prefix.contender_key(&sequencer.session) {
            return Err(InvalidInput::SequencerOfAnother(sequencer.key.clone()).into());
        }
        self.owner
            .run(Verify::new(sequencer.clone(), self.scope.clone()))
            .await
    }

    /// How many slots are free, as far as this process knows, and since when it knows. `None` if it
    /// does not know: nobody waits or holds with this handle or its clones, the first answer has
    /// not come, or the record can't be read.
    ///
    /// It sends nothing. While somebody waits or holds here, the answer is mostly no older than a
    /// round trip. If many wait, they watch the queue instead of the record, and
    /// [`Availability::age`] grows. [`Self::inspect`] asks Consul, and shows who holds and who
    /// waits.
    pub fn available_permits(&self) -> Option<Availability> {
        let now = self.owner.runtime().now();
        self.owner.with(|state| state.machine.availability(now))
    }

    /// The state in this process: what is held, who waits, whether Consul answers, and when a lease was last renewed. It sends
    /// nothing, and covers all clones. [`Self::inspect`] asks Consul, and shows everybody.
    pub fn status(&self) -> Status {
        self.owner.present()
    }

    /// Ends acquisition for all clones: waiters and later callers get [`Error::Closed`]. What is
    /// held stays held until its release.
    pub fn close(&self) {
        self.owner.close();
    }

    /// Whether nothing more is granted here: after [`Self::close`] or [`Self::shutdown`], also of a clone, and after the end
    /// of the runtime.
    pub fn is_closed(&self) -> bool {
        self.owner.is_closed()
    }

    /// Closes, and waits for Consul until every permit is released and nothing of this semaphore is
    /// left there.
    ///
    /// # Cancel safety
    /// It stays closed, and cleaning up continues in the background.
    pub async fn shutdown(&self) {
        self.owner.shutdown().await;
    }

    /// Like [`Self::shutdown`], but waits for Consul for at most `timeout`, even if a permit was forgotten. The
    /// rest then continues in the background, while the runtime lives.
    ///
    /// # Errors
    /// [`Error::Timeout`], also sooner if something could not be given back.
    ///
    /// # Cancel safety
    /// As [`Self::shutdown`].
    pub async fn shutdown_timeout(&self, timeout: Duration) -> Result<(), Error> {
        self.owner.shut_down_within(timeout, self.shutdown()).await
    }

    /// The error after the runtime's end.
    pub(super) fn ended(&self) -> Error {
        self.owner.ended()
    }

    async fn manage<T: Task>(&self, task: fn(Prefix, Scope) -> T) -> Result<T::Output, Error> {
        let task = task(self.prefix.clone(), self.scope.clone());
        self.owner.run(task).await
    }

    async fn wait(&self, permits: u32, timeout: Option<Duration>) -> Result<Permit, Error> {
        let start = move |participant: &mut Participant, now, deadline| {
            participant.acquire(now, permits, deadline)
        };
        let hold = Hold::wait(&self.owner, Some(permits), timeout, start).await?;
        Ok(Permit::new(hold, permits))
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

/// Restores the former limit if a resize failed or was given up, unless another resize came after
/// it.
struct LimitGuard<'a> {
    shared: &'a Shared<Participant>,
    limit: u32,
    former: Option<u32>,
}

impl Drop for LimitGuard<'_> {
    fn drop(&mut self) {
        if let Some(former) = self.former {
            self.shared.command(|state, now| {
                if state.machine.settings().limit() == self.limit {
                    // The former limit is valid, so this can't fail.
                    let _ = state.machine.set_limit(now, former);
                }
            });
        }
    }
}
