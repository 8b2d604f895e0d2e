//! The async election.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use futures_channel::oneshot;

use super::authorized::Tokens;
use super::discovery::{Discovery, Following, Home};
use super::follower::Follower;
use super::hold::Hold;
use super::hub::{Followed, SharedMachine as _};
use super::leadership::Leadership;
use super::observer::Surroundings;
use super::owner::{Ending as _, Owner};
use super::presence::Presence;
use crate::error::{Error, Refusal};
use crate::input::LockKey;
use crate::leader::Leader;
use crate::machine::{Candidate, ElectionSettings, Status};
use crate::runtime::Runtime;
use crate::token::Token;
use crate::transport::Transport;

/// One process's part in the election of a leader. Of all who campaign for a key, one leads at a
/// time.
///
/// Clones share one candidate, and its local campaigns lead in turn. It writes the key as
/// HashiCorp's Go client and `consul lock -n 1` do (whose key is `<prefix>/.lock`). So it elects
/// one leader among them, scripts that follow Consul's guide with `curl`, and this crate. Elections
/// of one [`Client`](crate::Client) share sessions, but two candidates for one key never do: the
/// key could not tell them apart. When the last clone and the [`Leadership`] are gone, the driver
/// cleans up in the background and ends. The key stays, with its last value and without a session.
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
    pub(super) owner: Arc<Owner<Candidate>>,
    /// The discovery of the same key.
    discovery: Discovery,
}

impl Election {
    /// An election of the client that is the transport, or one with its own driver.
    pub(super) fn connect(
        settings: ElectionSettings,
        seed: u64,
        transport: Arc<dyn Transport>,
        tokens: Tokens,
        runtime: Arc<dyn Runtime>,
        surroundings: Surroundings,
    ) -> Result<Self, Error> {
        let kept = settings.clone();
        let owner = if let Some(client) = Presence::of(&*transport) {
            client.candidate(settings, seed, tokens, surroundings)?
        } else {
            let candidate = Candidate::new(settings, seed);
            Owner::start(candidate, transport, tokens, runtime, surroundings)?
        };
        let discovery = Discovery::new(
            Following {
                key: kept.key().clone(),
                max_age: None,
            },
            kept.scope().clone(),
            None,
            Arc::clone(owner.transport()),
            owner.tokens().clone(),
            Arc::clone(owner.hub().runtime()),
            Home::of(owner.hub(), &kept),
        );
        Ok(Self { owner, discovery })
    }

    /// Sets the token of every request of this election and of its [discovery](Self::discovery),
    /// instead of the builder's token. If a request under way is refused with the old token, it is
    /// sent once more. If the election shares sessions with others of a [`Client`](crate::Client),
    /// this sets the token of all of them.
    pub fn set_token(&self, token: Token) {
        self.owner.tokens().set(token);
    }

    /// The election's key.
    pub fn key(&self) -> &LockKey {
        self.discovery.key()
    }

    /// Shows who leads, with the same key, scope and transport, without taking part in the
    /// election. It still works when the election is closed.
    pub fn discovery(&self) -> Discovery {
        self.discovery.clone()
    }

    /// Follows who leads, the present leader and every change, as [`Discovery::follow`] does. All
    /// followers of this election, its clones and its discovery share one read.
    pub fn leaders(&self) -> Follower {
        self.discovery.follow()
    }

    /// Who leads, as far as this election knows without a request: it watches the key while
    /// somebody campaigns or leads with it. `None` if nobody leads, and if nobody campaigns here,
    /// since the leader is unknown then. [`Discovery::leader`] asks Consul.
    pub fn leader(&self) -> Option<Leader> {
        self.owner.with(|state| state.machine.known_leader())
    }

    /// Waits until it leads. Transient failures don't end the wait: while Consul can't be reached,
    /// it keeps waiting. See [`Self::campaign_timeout`].
    ///
    /// After a resignation the next leader leads within one answer of its watch. After a crash it
    /// takes until the session expires (at most twice the TTL), plus the lock delay and a second.
    ///
    /// # Errors
    /// Permanent failures, at once: [`Error::NotAnElection`], a refused [`Error::Request`],
    /// [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Dropping the future gives the campaign up, and cleans up in the background. A leadership
    /// that was won at that moment is given back.
    pub async fn campaign(&self) -> Result<Leadership, Error> {
        let hold = Hold::wait(&self.owner, None, None, Candidate::campaign);
        hold.await.map(Leadership::new)
    }

    /// Like [`Self::campaign`], for at most `timeout`.
    ///
    /// # Errors
    /// As [`Self::campaign`], and [`Error::Timeout`] with the last failure as its source.
    ///
    /// # Cancel safety
    /// As [`Self::campaign`].
    pub async fn campaign_timeout(&self, timeout: Duration) -> Result<Leadership, Error> {
        let hold = Hold::wait(&self.owner, None, Some(timeout), Candidate::campaign);
        hold.await.map(Leadership::new)
    }

    /// Leads if nobody leads now. Otherwise it says why not: somebody leads or a clone of this
    /// handle does, somebody campaigns here already, or a lock delay runs. That is not an error, so
    /// it has its own type.
    ///
    /// It still needs a few requests, but it does not wait, and gives up at the first failure.
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

    /// The state in this process: whether it leads, who waits, whether Consul answers, and when the
    /// lease was last extended. It sends nothing, and covers all clones.
    pub fn status(&self) -> Status {
        self.owner.present()
    }

    /// Ends campaigns of all clones: waiting and later campaigns get [`Error::Closed`]. A leader
    /// continues until it resigns.
    pub fn close(&self) {
        self.owner.close();
    }

    /// Whether nobody can lead with this handle any more: after [`Self::close`] or
    /// [`Self::shutdown`], also of a clone, and after the end of the runtime.
    pub fn is_closed(&self) -> bool {
        self.owner.is_closed()
    }

    /// Ends the term of the leader, if this handle or a clone leads, and waits until only the key
    /// and its value are left in Consul. The owner of the [`Leadership`] is told at once:
    /// [`Leadership::lost`] returns [`Lost::SteppedDown`](crate::Lost::SteppedDown), and
    /// [`Leadership::is_leader`] is false. The next leader may follow at once, also a waiting local
    /// campaign. Does nothing if nobody leads here.
    ///
    /// # Errors
    /// [`Error::Request`] if cleaning up failed permanently, or for so long that the TTL has
    /// cleaned up; [`Error::Closed`] if the runtime has ended.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the resignation to the background.
    pub async fn step_down(&self) -> Result<(), Error> {
        match self.give_back() {
            Some(done) => done.await.unwrap_or_else(|_| Err(self.ended())),
            None => Ok(()),
        }
    }

    /// Closes, [steps down](Self::step_down), and waits for Consul until only the key is left there. It
    /// does not wait for the owner of the [`Leadership`], who is told that the term has ended. If
    /// Consul does not answer, it takes at most twice the TTL.
    ///
    /// # Cancel safety
    /// It stays closed; the rest continues in the background.
    pub async fn shutdown(&self) {
        self.owner.close();
        drop(self.give_back());
        self.owner.shutdown().await;
    }

    /// Like [`Self::shutdown`], but waits for Consul for at most `timeout`. The rest then continues in the
    /// background, while the runtime lives.
    ///
    /// # Errors
    /// [`Error::Timeout`], also sooner if something could not be given back.
    ///
    /// # Cancel safety
    /// As [`Self::shutdown`].
    pub async fn shutdown_timeout(&self, timeout: Duration) -> Result<(), Error> {
        self.owner.shut_down_within(timeout, self.shutdown()).await
    }

    /// Tells observers what a follower of this election has met.
    pub(super) fn tell_followed(&self, followed: Followed<'_>) {
        match followed {
            Followed::Refused(error) => self.owner.with(|it| it.machine.take_refusal(error)),
            followed => self.owner.hub().hear_followed(followed),
        }
    }

    /// The error after the runtime's end.
    pub(super) fn ended(&self) -> Error {
        self.owner.ended()
    }

    pub(super) fn runtime(&self) -> &Arc<dyn Runtime> {
        self.owner.runtime()
    }

    /// Ends the term of the local leader. The receiver is told when that is done.
    fn give_back(&self) -> Option<oneshot::Receiver<Result<(), Error>>> {
        self.owner.command(|state, now| {
            let campaign = state.machine.leading()?;
            Some(state.give_back(now, campaign))
        })
    }
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Election")
            .field("key", self.key())
            .finish_non_exhaustive()
    }
}
