//! Finds an election's leader without taking part in the election.

use core::fmt;
use core::time::Duration;
use std::sync::{Arc, Weak};

use super::authorized::Tokens;
use super::followed::{Followed, ListenerNo};
use super::follower::Follower;
use super::hub::Hub;
use crate::api::SessionDetails;
use crate::driver;
use crate::error::Error;
use crate::input::InvalidInput;
use crate::input::{LockKey, Scope};
use crate::leader::{Leader, LeaderStatus};
use crate::machine::{ElectionSettings, Follow, Shares};
use crate::manage::{DescribeSession, DiscoverLeader, Operation, Task, Verify};
use crate::runtime::Runtime;
use crate::sequencer::{Sequencer, SequencerStatus};
use crate::subject::Subject;
use crate::sync::{Mutex, lock};
use crate::token::Token;
use crate::transport::Transport;

/// Finds the leader of an election without taking part. It needs no session and no key, and writes
/// nothing.
///
/// It needs `key` read on the election's key, and `session` read for [`Self::holder`].
///
/// ```
/// use semaphore_core::Discovery;
/// # use transport_mock::MockConsul;
/// # let world = MockConsul::new(1);
/// # let transport = world.client("node-1");
/// # world.run(async {
///
/// let discovery = Discovery::builder("service/db/leader").connect(transport)?;
/// match discovery.leader().await? {
///     Some(leader) => println!("{} leads", leader.text().unwrap_or("somebody")),
///     None => println!("nobody leads"),
/// }
/// # Ok::<(), semaphore_core::Error>(())
/// # })?;
/// # Ok::<(), semaphore_core::Error>(())
/// ```
///
/// Clones share what they know about the leader: all [followers](Self::follow) share one read.
#[derive(Clone)]
pub struct Discovery {
    pub(super) inner: Arc<Inner>,
}

/// What clones share.
pub(super) struct Inner {
    following: Following,
    scope: Scope,
    /// The seed of the jitter, to repeat a run.
    seed: Option<u64>,
    transport: Arc<dyn Transport>,
    tokens: Tokens,
    runtime: Arc<dyn Runtime>,
    /// Where its followers live. `None` without a client.
    home: Option<Home>,
    /// What the present followers share, if there are any.
    followed: Mutex<Weak<Followed>>,
}

/// What is followed, and how old its knowledge may get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Following {
    pub(super) key: LockKey,
    pub(super) max_age: Option<Duration>,
}

/// The hub of a client, whose driver reads for followers, and what they share there.
pub(super) struct Home {
    hub: Arc<Hub>,
    shares: Shares,
}

impl Home {
    /// Where followers are looked after together with the candidates of these settings. `None` if
    /// these candidates share nothing.
    pub(super) fn of(hub: &Arc<Hub>, settings: &ElectionSettings) -> Option<Self> {
        let shares = settings.shares()?;
        let hub = Arc::clone(hub);
        Some(Self { hub, shares })
    }
}

impl Discovery {
    pub(super) fn new(
        following: Following,
        scope: Scope,
        seed: Option<u64>,
        transport: Arc<dyn Transport>,
        tokens: Tokens,
        runtime: Arc<dyn Runtime>,
        home: Option<Home>,
    ) -> Self {
        let inner = Inner {
            following,
            scope,
            seed,
            transport,
            tokens,
            runtime,
            home,
            followed: Mutex::new(Weak::new()),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Returns true if it follows this key, with this scope.
    pub(super) fn is_of(&self, following: &Following, scope: &Scope) -> bool {
        (&self.inner.following, &self.inner.scope) == (following, scope)
    }

    /// Sets the token of every request, also those of clones and followers, instead of the
    /// builder's token. If a request under way is refused with the old token, it is sent once more.
    pub fn set_token(&self, token: Token) {
        self.inner.tokens.set(token);
    }

    /// The election's key.
    pub fn key(&self) -> &LockKey {
        &self.inner.following.key
    }

    /// The present leader, confirmed by Consul's leader, or `None`. One read.
    ///
    /// # Errors
    /// [`Error::NotAnElection`], [`Error::Request`].
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn leader(&self) -> Result<Option<Leader>, Error> {
        Ok(self.status().await?.into_leader())
    }

    /// Like [`Self::leader`], with the key's content when nobody leads.
    ///
    /// # Errors
    /// The same.
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn status(&self) -> Result<LeaderStatus, Error> {
        let discover = DiscoverLeader::new(self.key().clone(), self.inner.scope.clone());
        self.run(discover).await
    }

    /// What Consul knows about a leader's session: node, name, TTL, behavior and checks. `None` if
    /// that session is gone by now. One read.
    ///
    /// # Errors
    /// [`Error::Request`], also if the token lacks `session` read and the agent says that it hides
    /// the session, as agents from 1.11 on do. Older agents answer as if the session were gone, and
    /// so do all agents to a request without a token.
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn holder(&self, leader: &Leader) -> Result<Option<SessionDetails>, Error> {
        let describe = DescribeSession::new(leader.session.clone(), self.inner.scope.clone());
        self.run(describe).await
    }

    /// Follows the leader: the present one and every change. Sends nothing before the first
    /// [`Follower::next`].
    pub fn follow(&self) -> Follower {
        let (followed, no) = self.followed();
        Follower::new(self.key().clone(), followed, no)
    }

    /// What all followers share, with a new listener.
    fn followed(&self) -> (Arc<Followed>, ListenerNo) {
        let mut known = lock(&self.inner.followed);
        let present = known.upgrade();
        if let Some((followed, no)) = present.and_then(|it| it.listen().map(|no| (it, no))) {
            return (followed, no);
        }
        let followed = self.begin();
        *known = Arc::downgrade(&followed);
        (followed, ListenerNo::FIRST)
    }

    fn begin(&self) -> Arc<Followed> {
        let inner = &self.inner;
        if let Some(Home { hub, shares }) = &inner.home {
            let joined = hub.join(Some(shares.clone()), |no| {
                let transport = Arc::clone(&inner.transport);
                Arc::new(Followed::at_home(self.machine(), transport, hub, no))
            });
            // If the client has ended, its followers go on alone.
            if let Ok(followed) = joined {
                return followed;
            }
        }
        let (transport, runtime) = (Arc::clone(&inner.transport), Arc::clone(&inner.runtime));
        Arc::new(Followed::alone(self.machine(), transport, runtime))
    }

    fn machine(&self) -> Follow {
        let inner = &self.inner;
        let Following { key, max_age } = inner.following.clone();
        let follow = Follow::new(key, inner.scope.clone(), self.seed());
        match max_age {
            Some(max_age) => follow.allowing(max_age),
            None => follow,
        }
    }

    /// Whether a client's sequencer belongs to this election's leader. It is one read, which is
    /// retried for a few seconds if Consul does not answer. Limit it with a timeout, and treat a
    /// timeout like [`SequencerStatus::Unknown`].
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a sequencer of another key, without a request.
    /// [`Error::Request`] if Consul refuses permanently, for example a token without permission.
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn verify(&self, sequencer: &Sequencer) -> Result<SequencerStatus, Error> {
        if sequencer.key != self.key().as_str() {
            return Err(InvalidInput::SequencerOfAnother(sequencer.key.clone()).into());
        }
        self.run(Verify::new(sequencer.clone(), self.inner.scope.clone()))
            .await
    }

    fn seed(&self) -> u64 {
        self.inner.seed.unwrap_or_else(|| self.inner.runtime.seed())
    }

    async fn run<T: Task>(&self, task: T) -> Result<T::Output, Error> {
        let operation = Operation::new(task, self.seed());
        let inner = &self.inner;
        let output = driver::run(operation, &*inner.transport, &*inner.runtime).await;
        output.map_err(|error| error.or_about(&self.subject()))
    }

    /// The error after the runtime's end.
    pub(super) fn ended(&self) -> Error {
        Error::ended().or_about(&self.subject())
    }

    fn subject(&self) -> Subject {
        Subject::of_election(self.key().as_str(), self.inner.transport.address())
    }
}

impl fmt::Debug for Discovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Discovery")
            .field("key", self.key())
            .finish_non_exhaustive()
    }
}
