//! The async election.

use core::fmt;
use core::pin::pin;
use core::time::Duration;
use std::io;
use std::sync::Arc;

use futures_channel::oneshot;
use futures_util::future::BoxFuture;

use super::authorized::Tokens;
use super::discovery::{Discovery, Following};
use super::follower::Follower;
use super::hold::Hold;
use super::leadership::Leadership;
use super::observer::Company;
use super::owner::Owner;
use crate::error::{Awaited, Error, Refusal};
use crate::input::LockKey;
use crate::leader::Leader;
use crate::machine::{Candidate, ElectionSettings, Status};
use crate::runtime::Runtime;
use crate::time::Instant;
use crate::token::Token;
use crate::transport::Transport;

/// One process's part in the election of a leader: one of all who campaign for a key leads at a time.
///
/// Clones share one candidate; its local campaigns lead in turn. It writes the key as HashiCorp's Go
/// client and `consul lock -n 1` do (whose key is `<prefix>/.lock`), and elects one leader among
/// them, scripts that do what Consul's guide does with `curl`, and us. Elections of one [`Client`](crate::Client) share sessions, two
/// candidates for one key never do: the key could not tell them apart. When the last clone and the
/// [`Leadership`] are gone, the driver cleans up in the background and ends. The key stays, with its
/// last value and without a session.
///
/// ```
/// use semaphore_core::{Election, Error};
/// # use transport_mock::MockConsul;
///
/// # let world = MockConsul::new(1);
/// # let transport = world.client("node-1");
/// # async fn lead(_token: semaphore_core::FencingToken) {}
/// # world.run(async {
/// let election = Election::builder("service/db/leader").value("10.0.0.1:5432").connect(transport)?;
/// let leadership = election.campaign().await?; // or try_campaign, campaign_timeout
/// lead(leadership.fencing_token()).await; // and stop when leadership.lost() resolves
/// leadership.resign().await?; // or drop it
/// # Ok::<(), Error>(())
/// # })?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone)]
pub struct Election {
    owner: Arc<Owner<Candidate>>,
    /// Of the same key.
    discovery: Discovery,
}

impl Election {
    pub(super) fn start(
        settings: &ElectionSettings,
        seed: u64,
        transport: Arc<dyn Transport>,
        tokens: Tokens,
        runtime: Arc<dyn Runtime>,
        company: Company,
    ) -> Result<Self, Error> {
        let candidate = Candidate::new(settings.clone(), seed);
        let owner = Owner::start(candidate, transport, tokens, runtime, company)?;
        Ok(Self::of(owner, settings))
    }

    /// With a candidate that runs.
    pub(super) fn of(owner: Arc<Owner<Candidate>>, settings: &ElectionSettings) -> Self {
        let (shared, max_age) = (&owner.0, None);
        let key = settings.key().clone();
        let discovery = Discovery::new(
            Following { key, max_age },
            settings.scope().clone(),
            None,
            Arc::clone(shared.transport()),
            shared.tokens().clone(),
            Arc::clone(shared.runtime()),
        );
        Self { owner, discovery }
    }

    /// Every request of this election and of its [discovery](Self::discovery) carries this token from now on, instead of the
    /// builder's. A request that is under way with the old token, and is refused, is sent once more. An election that shares its
    /// sessions with others of a [`Client`](crate::Client) sets the token of all of them.
    pub fn set_token(&self, token: Token) {
        self.owner.0.tokens().set(token);
    }

    /// The key it is about.
    pub fn key(&self) -> &LockKey {
        self.discovery.key()
    }

    /// Shows who leads, with the same key, scope and transport, without taking part in the election. It goes on when the
    /// election is closed.
    pub fn discovery(&self) -> Discovery {
        self.discovery.clone()
    }

    /// Follows who leads: every change, from the present one on, as [`Discovery::follow`] does. All who follow by this election, its
    /// clones and its discovery share one read.
    pub fn leaders(&self) -> Follower {
        self.discovery.follow()
    }

    /// Who leads, as far as this election knows without asking: it watches the key while somebody campaigns or leads by it.
    /// None when nobody leads, and when nobody campaigns here, since it is not known then. [`Discovery::leader`] asks Consul.
    pub fn leader(&self) -> Option<Leader> {
        self.owner.0.with(|state| state.machine.known_leader())
    }

    /// Waits until it leads. It waits until transient failures are over: while Consul can't be reached, it goes on waiting. See
    /// [`Self::campaign_timeout`].
    ///
    /// After a resignation the next leader is there within one answer of its watch. After a crash it
    /// takes until the session expires, twice the TTL at most, the lock delay, and a second.
    ///
    /// # Errors
    /// Permanent ones, at once: [`Error::NotAnElection`], a refused [`Error::Request`],
    /// [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Dropping the future gives the campaign up; what it left in Consul is cleaned up in the
    /// background. A leadership that was won at that moment is given back.
    pub async fn campaign(&self) -> Result<Leadership, Error> {
        self.wait(None).await
    }

    /// Like [`Self::campaign`], for `timeout` at most.
    ///
    /// # Errors
    /// As [`Self::campaign`], and [`Error::Timeout`] with the last failure as its source.
    ///
    /// # Cancel safety
    /// As [`Self::campaign`].
    pub async fn campaign_timeout(&self, timeout: Duration) -> Result<Leadership, Error> {
        self.wait(Some(timeout)).await
    }

    /// Leads if nobody does now. Otherwise it says why not: somebody does, also a clone of this handle, or campaigns
    /// here already, or a lock delay is on. That is no failure, so that it stands apart from those.
    ///
    /// It still needs a few requests, but waits for nobody, and gives up at the first that fails.
    ///
    /// # Errors
    /// As [`Self::campaign`], and [`Error::Request`] for a transient failure too.
    ///
    /// # Cancel safety
    /// As [`Self::campaign`].
    pub async fn try_campaign(&self) -> Result<Result<Leadership, Refusal>, Error> {
        let hold = Hold::obtain(&self.owner, None, Candidate::try_campaign).await?;
        Ok(hold.map(Leadership::new))
    }

    /// How it stands in this process: whether it is led here, who waits, whether Consul answers, when the lease became longer
    /// last. It sends nothing, and tells of all clones.
    pub fn status(&self) -> Status {
        let now = self.now();
        self.owner.0.with(|state| state.machine.status(now))
    }

    /// Ends campaigns, for all clones: each candidate that waits gets [`Error::Closed`], and so does each later campaign.
    /// A leader goes on until the resignation.
    pub fn close(&self) {
        self.owner.close();
    }

    /// Whether nobody can lead by this handle any more: after [`Self::close`] or [`Self::shutdown`], also of a clone, and
    /// after the end of the runtime.
    pub fn is_closed(&self) -> bool {
        self.owner.is_closed()
    }

    /// Ends the term of the leader, if it leads by this handle or a clone of it, and waits until nothing of it but the key and its
    /// value is left in Consul. The owner of the [`Leadership`] is told at once: [`Leadership::lost`] says
    /// [`Lost::SteppedDown`](crate::Lost::SteppedDown), and [`Leadership::is_leader`] is false. The next leader may follow at
    /// once, also a local campaign that waits. Does nothing where nobody leads here.
    ///
    /// # Errors
    /// [`Error::Request`] when the cleaning up failed for good, or for so long that the TTL has done it;
    /// [`Error::Closed`] when the runtime has ended.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the resignation to the background.
    pub async fn step_down(&self) -> Result<(), Error> {
        match self.give_back() {
            Some(done) => done.await.unwrap_or_else(|_| Err(self.ended())),
            None => Ok(()),
        }
    }

    /// Closes, [steps down](Self::step_down), and waits until nothing of this election's but the key is left in Consul.
    /// It does not wait for the owner of the [`Leadership`], which is told that its term has ended. Where Consul does not
    /// answer it takes twice the TTL at most.
    ///
    /// # Cancel safety
    /// It stays closed; the rest goes on in the background.
    pub async fn shutdown(&self) {
        self.owner.close();
        drop(self.give_back());
        self.owner.shutdown().await;
    }

    /// Like [`Self::shutdown`], and waits for `timeout` at most. The rest goes on in the background then, as long as the
    /// runtime lives.
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

    pub(super) fn spawn(&self, task: BoxFuture<'static, ()>) -> io::Result<()> {
        self.owner.0.runtime().spawn(task)
    }

    pub(super) async fn sleep(&self, duration: Duration) {
        self.owner.0.runtime().sleep(duration).await;
    }

    /// Ends the term of who leads here; where its end will be told.
    fn give_back(&self) -> Option<oneshot::Receiver<Result<(), Error>>> {
        self.owner.0.command(|state, now| {
            let campaign = state.machine.leading()?;
            Some(state.give_back(now, campaign))
        })
    }

    async fn wait(&self, timeout: Option<Duration>) -> Result<Leadership, Error> {
        let start = move |candidate: &mut Candidate, now| {
            let deadline = timeout.map(|timeout| now + timeout);
            candidate.campaign(now, deadline)
        };
        let campaign = pin!(Hold::obtain(&self.owner, None, start));
        let hold = self.owner.0.in_time(timeout, campaign).await?;
        hold.map(Leadership::new).map_err(|_| self.ended())
    }
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Election")
            .field("key", self.key())
            .finish_non_exhaustive()
    }
}
