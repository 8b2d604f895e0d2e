//! The async semaphore.

use core::fmt;
use core::pin::pin;
use core::time::Duration;
use std::sync::Arc;

use super::Permit;
use super::authorized::Tokens;
use super::hold::Hold;
use super::observer::Company;
use super::owner::Owner;
use super::presence::Presence;
use super::shared::Shared;
use crate::error::{Awaited, Error, Refusal};
use crate::id::{CommandId, SessionId};
use crate::input::InvalidInput;
use crate::input::{Prefix, Scope};
use crate::machine::{Availability, Participant, Settings, Status};
use crate::manage::{Collect, Destroy, Evict, Eviction, Inspect, Resize, Snapshot, Verify};
use crate::runtime::Runtime;
use crate::sequencer::{Sequencer, SequencerStatus};
use crate::time::Instant;
use crate::token::Token;
use crate::transport::Transport;

/// A distributed counting semaphore.
///
/// Clones share one participant: one watch, one queue, a handful of connections, however many tasks
/// wait. When the last clone and the last [`Permit`] are gone, the driver cleans up in the
/// background and ends.
#[derive(Clone)]
pub struct Semaphore {
    owner: Arc<Owner<Participant>>,
    prefix: Prefix,
    scope: Scope,
}

impl Semaphore {
    pub(super) fn start(
        settings: Settings,
        seed: u64,
        transport: Arc<dyn Transport>,
        tokens: Tokens,
        runtime: Arc<dyn Runtime>,
        company: Company,
    ) -> Result<Self, Error> {
        let prefix = settings.prefix().clone();
        let scope = settings.scope().clone();
        let participant = Participant::new(settings, seed);
        Ok(Self {
            owner: Owner::start(participant, transport, tokens, runtime, company)?,
            prefix,
            scope,
        })
    }

    /// One of a client's.
    pub(super) fn join(
        presence: &Presence,
        settings: Settings,
        seed: u64,
        tokens: Tokens,
        company: Company,
    ) -> Result<Self, Error> {
        let prefix = settings.prefix().clone();
        let scope = settings.scope().clone();
        Ok(Self {
            owner: presence.participant(settings, seed, tokens, company)?,
            prefix,
            scope,
        })
    }

    /// Every request of this semaphore carries this token from now on, instead of the builder's. A request that is under way
    /// with the old token, and is refused, is sent once more. A semaphore that shares its sessions with others of a
    /// [`Client`](crate::Client) sets the token of all of them.
    pub fn set_token(&self, token: Token) {
        self.owner.0.tokens().set(token);
    }

    /// The prefix it lives under.
    pub fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    /// Waits for a slot, first come first served. It waits until transient failures are over: while Consul can't be reached, it
    /// goes on waiting. See [`Self::acquire_timeout`].
    ///
    /// # Errors
    /// Permanent ones, at once: [`Error::LimitConflict`], [`Error::Conflict`],
    /// [`Error::IncompleteView`], a refused [`Error::Request`], [`Error::Closed`]; for a session of
    /// the caller's [`Error::SessionGone`] and [`Error::SessionInUse`].
    ///
    /// # Cancel safety
    /// Dropping the future gives the place in the queue up; what it left in Consul is cleaned up in
    /// the background. A slot that was granted at that moment is released.
    pub async fn acquire(&self) -> Result<Permit, Error> {
        self.acquire_many(1).await
    }

    /// Waits for `permits` slots at once, all or nothing: it never holds some while it waits for
    /// others.
    ///
    /// # Errors
    /// As [`Self::acquire`], and [`Error::InvalidInput`] for no permits, for more than the limit, and
    /// for more than one with a session of the caller's.
    ///
    /// # Cancel safety
    /// As [`Self::acquire`].
    pub async fn acquire_many(&self, permits: u32) -> Result<Permit, Error> {
        self.wait(permits, None).await
    }

    /// Like [`Self::acquire`], for `timeout` at most.
    ///
    /// # Errors
    /// As [`Self::acquire`], and [`Error::Timeout`] with the last failure as its source.
    ///
    /// # Cancel safety
    /// As [`Self::acquire`].
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<Permit, Error> {
        self.acquire_many_timeout(1, timeout).await
    }

    /// Like [`Self::acquire_many`], for `timeout` at most.
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

    /// Takes a slot if one is free now. Otherwise it says why not: all are taken, or others wait already. That is not an error,
    /// and has its own type:
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
    /// It still needs a few requests, but waits for nobody, and gives up at the first that fails.
    ///
    /// # Errors
    /// As [`Self::acquire`], and [`Error::Request`] for a transient failure too.
    ///
    /// # Cancel safety
    /// As [`Self::acquire`].
    pub async fn try_acquire(&self) -> Result<Result<Permit, Refusal>, Error> {
        self.try_acquire_many(1).await
    }

    /// Like [`Self::try_acquire`], for `permits` slots at once, all or nothing.
    ///
    /// # Errors
    /// As [`Self::try_acquire`] and [`Self::acquire_many`].
    ///
    /// # Cancel safety
    /// As [`Self::acquire`].
    pub async fn try_acquire_many(&self, permits: u32) -> Result<Result<Permit, Refusal>, Error> {
        self.obtain(permits, |participant, now| {
            participant.try_acquire(now, permits)
        })
        .await
    }

    /// Who holds a slot and who waits, with the values of their contender keys.
    ///
    /// # Errors
    /// [`Error::NotFound`] when nobody has used the semaphore yet, [`Error::IncompleteView`],
    /// [`Error::Conflict`], [`Error::Request`].
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn inspect(&self) -> Result<Snapshot, Error> {
        self.owner
            .run(Inspect::new(self.prefix.clone(), self.scope.clone()))
            .await
    }

    /// Changes the limit, in the record and for this handle and its clones. Holders beyond a smaller
    /// limit stay until they release. Other participants that were built with the old limit get
    /// [`Error::LimitConflict`], unless they adopt the record's.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for no slots, [`Error::NotFound`], [`Error::IncompleteView`] when the
    /// record itself is hidden, [`Error::Conflict`], [`Error::Request`]. After an error that is no refusal the record may still
    /// change: an agent without a leader carries on with a request that was given up.
    ///
    /// # Cancel safety
    /// The record may or may not be changed; doing it again is safe.
    pub async fn resize(&self, limit: u32) -> Result<(), Error> {
        let resize = Resize::new(self.prefix.clone(), self.scope.clone(), limit)?;
        let shared = &self.owner.0;
        // First here: our own watch may show the new limit before the answer comes.
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
    /// [`Error::Request`]. After an error that is no refusal the record may still be removed, as with [`Self::resize`].
    ///
    /// # Cancel safety
    /// The record may or may not be removed; doing it again is safe.
    pub async fn destroy(&self) -> Result<(), Error> {
        self.owner
            .run(Destroy::new(self.prefix.clone(), self.scope.clone()))
            .await
    }

    /// Deletes contender keys whose session is gone, which sessions with behavior `release` leave
    /// behind. Returns how many it found; all of them are gone then.
    ///
    /// # Errors
    /// [`Error::IncompleteView`], [`Error::Request`].
    ///
    /// # Cancel safety
    /// Some may be deleted; doing it again is safe.
    pub async fn collect(&self) -> Result<usize, Error> {
        self.owner
            .run(Collect::new(self.prefix.clone(), self.scope.clone()))
            .await
    }

    /// Takes the slot of a session away, and tells its holder why: it gets [`Lost::Evicted`](crate::Lost::Evicted). The session
    /// of a holder that does not leave within ten seconds, or can't be told, is ended. [`Evict`] says whom the reason reaches. `inspect` shows the sessions.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a reason that is empty or has a control character; [`Error::Request`], as where the token lacks
    /// `session` write on the node of that session.
    ///
    /// # Cancel safety
    /// The session may have been asked to go, or have been ended; doing it again is safe.
    pub async fn evict(
        &self,
        session: &SessionId,
        reason: impl Into<String>,
    ) -> Result<Eviction, Error> {
        let (prefix, scope) = (self.prefix.clone(), self.scope.clone());
        let evict = Evict::new(prefix, scope, session.clone(), reason);
        let evict = evict.map_err(|input| Error::from(input).or_about(self.owner.0.subject()))?;
        self.owner.run(evict).await
    }

    /// Whether a sequencer that a client hands over belongs to a contender of this semaphore. It is one read, tried again for a
    /// few seconds where Consul does not answer. Bound it with a timeout of your own, and treat that as
    /// [`SequencerStatus::Unknown`], too.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a sequencer of another key, without asking; [`Error::Request`] for
    /// what Consul refuses for good, such as a token without permission.
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

    /// How many slots are free, as far as this process knows, and since when. None where it knows nothing: nobody waits or
    /// holds by this handle or its clones, the first answer has not come yet, or the record can't be read.
    ///
    /// It sends nothing. While somebody waits or holds here, it is mostly no older than a round trip. Where many wait, they
    /// watch the queue instead of the record, and [`Availability::age`] grows. [`Self::inspect`]
    /// asks Consul now, and tells who holds and who waits.
    pub fn available_permits(&self) -> Option<Availability> {
        let now = self.owner.0.runtime().now();
        self.owner.0.with(|state| state.machine.availability(now))
    }

    /// The state in this process: what is held, who waits, whether Consul answers, and when a lease was last renewed. It sends
    /// nothing, and covers all clones. [`Self::inspect`] asks Consul, and shows everybody.
    pub fn status(&self) -> Status {
        let now = self.owner.0.runtime().now();
        self.owner.0.with(|state| state.machine.status(now))
    }

    /// Ends acquisition, for all clones: each waiter gets [`Error::Closed`], and so does each later caller. What is
    /// held stays held until its release.
    pub fn close(&self) {
        self.owner.close();
    }

    /// Whether nothing more is granted here: after [`Self::close`] or [`Self::shutdown`], also of a clone, and after the end
    /// of the runtime.
    pub fn is_closed(&self) -> bool {
        self.owner.is_closed()
    }

    /// Closes, and waits until every permit is released and nothing of this semaphore's is left in
    /// Consul.
    ///
    /// # Cancel safety
    /// It stays closed, and the cleaning up goes on in the background.
    pub async fn shutdown(&self) {
        self.owner.shutdown().await;
    }

    /// Like [`Self::shutdown`], and waits for `timeout` at most, also where a permit was forgotten. The rest goes on in the
    /// background then, as long as the runtime lives.
    ///
    /// # Errors
    /// [`Error::Timeout`].
    ///
    /// # Cancel safety
    /// As [`Self::shutdown`].
    pub async fn shutdown_timeout(&self, timeout: Duration) -> Result<(), Error> {
        let shutdown = self.shutdown();
        self.owner
            .0
            .within(Awaited::Shutdown, timeout, shutdown)
            .await
    }

    /// The present, by the clock that it is driven by.
    pub(super) fn now(&self) -> Instant {
        self.owner.0.runtime().now()
    }

    /// Ends what was to end by then, where the driver does not. For how long nobody has run that, where it is long.
    pub(super) fn let_time_pass(&self, until: Instant) -> Option<Duration> {
        self.owner.0.end_what_is_late(until)
    }

    /// The error of what the end of the runtime has cut off.
    pub(super) fn ended(&self) -> Error {
        self.owner.0.ended()
    }

    /// The error for what came too late for the calling thread.
    pub(super) fn late(&self, what: Awaited, timeout: Duration) -> Error {
        self.owner.0.late(what, timeout)
    }

    async fn wait(&self, permits: u32, timeout: Option<Duration>) -> Result<Permit, Error> {
        let deadline = timeout.map(|timeout| self.owner.0.runtime().now() + timeout);
        let acquired = pin!(self.obtain(permits, move |participant, now| {
            participant.acquire(now, permits, deadline)
        }));
        let acquired = self.owner.0.in_time(timeout, acquired).await;
        acquired?.map_err(|_| self.ended())
    }

    async fn obtain(
        &self,
        permits: u32,
        start: impl FnOnce(&mut Participant, Instant) -> Result<CommandId, Error> + Send,
    ) -> Result<Result<Permit, Refusal>, Error> {
        let start = |machine: &mut Participant, now| start(machine, now);
        let hold = Hold::obtain(&self.owner, Some(permits), start).await?;
        Ok(hold.map(|hold| Permit::new(hold, permits)))
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

/// Takes the limit of a resize back that failed or was given up, unless another resize came after
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
                    // The former limit is one, so it is taken.
                    let _ = state.machine.set_limit(now, former);
                }
            });
        }
    }
}
