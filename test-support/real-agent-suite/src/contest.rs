//! What one at a time has: the only slot of a semaphore, or the leadership of an election. Each
//! disturbance of an agent or a connection affects one of each, side by side on the same agent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use real_agent::Agent;
use semaphore_core::adapter::{Runtime, Transport};
use semaphore_core::{Election, Error, FencingToken, Leadership, Lost, Permit, Semaphore};

use crate::scene::{Scene, Task, session, wait_until};
use crate::{Backend, Options, elections};

/// A semaphore of one slot, or an election.
pub struct Contest<'b, B: Backend> {
    kind: Kind,
    scene: Scene<'b, B>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Semaphore,
    Election,
}

/// A participant of either kind.
#[derive(Clone, Debug)]
pub enum Member {
    Participant(Semaphore),
    Candidate(Election),
}

/// What a member holds: a permit or a leadership.
#[derive(Debug)]
pub enum Held {
    Permit(Permit),
    Leadership(Leadership),
}

/// A member that holds, and one that waits.
pub struct Contended<'b, B: Backend> {
    pub contest: Contest<'b, B>,
    pub held: Held,
    pub waiting: Task<Result<Held, Error>>,
}

/// One contest of each kind, both on this agent.
pub fn both<'b, B: Backend>(backend: &'b B, agent: &Agent) -> [Contest<'b, B>; 2] {
    [Kind::Semaphore, Kind::Election].map(|kind| Contest {
        kind,
        scene: Scene::on(backend, agent),
    })
}

/// The same, but the members connect with these options and the test itself does not.
pub fn both_with<'b, B: Backend>(
    backend: &'b B,
    agent: &Agent,
    options: &Options,
) -> [Contest<'b, B>; 2] {
    [Kind::Semaphore, Kind::Election].map(|kind| Contest {
        kind,
        scene: Scene::with(backend, agent.client(), options.clone()),
    })
}

impl<'b, B: Backend> Contest<'b, B> {
    pub fn scene(&self) -> &Scene<'b, B> {
        &self.scene
    }

    /// A separate member, connected to this URL.
    pub fn member(&self, url: &str, ttl: Duration) -> Member {
        let adapter = Arc::new(self.scene.adapter_to(url));
        self.member_of(adapter.clone(), adapter, ttl)
    }

    /// As [`Self::member`], with the default lock delay.
    pub fn member_with_its_lock_delay(&self, url: &str, ttl: Duration) -> Member {
        match self.kind {
            Kind::Semaphore => self.member(url, ttl),
            Kind::Election => {
                let builder = Election::builder(self.election());
                let builder = builder.ttl(ttl);
                Member::Candidate(builder.connect(self.scene.adapter_to(url)).unwrap())
            }
        }
    }

    pub fn member_of(
        &self,
        transport: Arc<dyn Transport>,
        runtime: Arc<dyn Runtime>,
        ttl: Duration,
    ) -> Member {
        match self.kind {
            Kind::Semaphore => {
                let builder = self.scene.builder(1).ttl(ttl);
                Member::Participant(builder.connect_parts(transport, runtime).unwrap())
            }
            Kind::Election => {
                let builder = elections::builder(&self.election()).ttl(ttl);
                Member::Candidate(builder.connect_parts(transport, runtime).unwrap())
            }
        }
    }

    pub fn take(&self, member: &Member) -> Held {
        self.scene.run(member.take()).unwrap()
    }

    pub fn start_taking(&self, member: &Member) -> Task<Result<Held, Error>> {
        let member = member.clone();
        self.scene.start(async move { member.take().await })
    }

    /// One member holds and is connected to the first URL. The other waits and is connected to the
    /// second.
    pub fn contend(self, urls: [&str; 2], ttl: Duration) -> Contended<'b, B> {
        let [one, other] = urls.map(|url| self.member(url, ttl));
        let held = self.take(&one);
        let waiting = self.start_taking(&other);
        self.wait_for_both();
        Contended {
            contest: self,
            held,
            waiting,
        }
    }

    /// Waits until two take part.
    pub fn wait_for_both(&self) {
        wait_until("both contend", || match self.kind {
            Kind::Semaphore => self.scene.contenders().len() == 2,
            Kind::Election => elections::sessions(&self.scene) == 2,
        });
    }

    /// Asserts that Consul names this holder and no other.
    #[track_caller]
    pub fn assert_held_by(&self, held: &Held) {
        let holders = match self.kind {
            Kind::Semaphore => self.scene.holders(),
            Kind::Election => {
                let entry = self.scene.entry(&self.election()).unwrap();
                let session = entry["Session"].as_str();
                session.into_iter().map(str::to_owned).collect()
            }
        };
        assert_eq!(holders, [held.session()]);
        assert!(held.is_held());
    }

    /// Waits for two renewals: the first may have been on its way when the outage ended.
    pub fn wait_for_renewals(&self, held: &Held) {
        for _ in 0..2 {
            held.wait_for_renewal(held.deadline());
        }
        self.assert_held_by(held);
    }

    pub fn give_back(&self, held: Held) {
        self.scene.run(held.give_back()).unwrap();
    }

    /// Gives back, and asserts that the error says that it came too late.
    pub fn give_back_late(&self, held: Held) {
        let given_back = self.scene.run(held.give_back());
        assert!(matches!(given_back, Err(Error::Lost(_))), "{given_back:?}");
    }

    /// Asserts that nothing is left but the election's key and its value.
    #[track_caller]
    pub fn assert_nothing_left(&self) {
        match self.kind {
            Kind::Semaphore => self.scene.assert_nothing_left_soon(),
            Kind::Election => elections::clean_up(&self.scene, &self.election()),
        }
    }

    fn election(&self) -> String {
        elections::key(&self.scene)
    }
}

impl<B: Backend> Contended<'_, B> {
    /// Hands over from the holder to the waiter. Asserts that nobody else held in between, and that
    /// nothing is left.
    #[track_caller]
    pub fn hand_over(self) {
        let Self {
            contest,
            held,
            waiting,
        } = self;
        let (token, term) = (held.token(), held.term());
        contest.give_back(held);
        let next = contest.scene.finish(waiting).unwrap();
        assert!(next.token() > token);
        assert_eq!(next.term(), term.map(|term| term + 1));
        contest.give_back(next);
        contest.assert_nothing_left();
    }
}

impl Member {
    pub async fn take(&self) -> Result<Held, Error> {
        match self {
            Self::Participant(semaphore) => semaphore.acquire().await.map(Held::Permit),
            Self::Candidate(election) => election.campaign().await.map(Held::Leadership),
        }
    }

    pub async fn shutdown(&self) {
        match self {
            Self::Participant(semaphore) => semaphore.shutdown().await,
            Self::Candidate(election) => election.shutdown().await,
        }
    }
}

impl Held {
    pub fn is_held(&self) -> bool {
        match self {
            Self::Permit(permit) => permit.is_held(),
            Self::Leadership(leadership) => leadership.is_leader(),
        }
    }

    /// When belief ends without a renewal, as far as this thread can measure it.
    pub fn deadline(&self) -> Instant {
        let remaining = match self {
            Self::Permit(permit) => permit.remaining(),
            Self::Leadership(leadership) => leadership.remaining(),
        };
        Instant::now() + remaining
    }

    /// Waits until belief lasts beyond `deadline`.
    pub fn wait_for_renewal(&self, deadline: Instant) {
        // A renewal moves the deadline by seconds. A pause of this thread while it measures moves
        // it by less.
        let moved = deadline + Duration::from_secs(1);
        wait_until("it is renewed", || self.deadline() > moved);
    }

    pub fn token(&self) -> FencingToken {
        match self {
            Self::Permit(permit) => permit.fencing_token(),
            Self::Leadership(leadership) => leadership.fencing_token(),
        }
    }

    /// The number of the term. A semaphore has none.
    pub fn term(&self) -> Option<u64> {
        match self {
            Self::Permit(_) => None,
            Self::Leadership(leadership) => Some(leadership.term()),
        }
    }

    pub fn session(&self) -> String {
        match self {
            Self::Permit(permit) => session(permit),
            Self::Leadership(leadership) => leadership.sequencer().session.to_string(),
        }
    }

    pub async fn lost(&self) -> Lost {
        match self {
            Self::Permit(permit) => permit.lost().await,
            Self::Leadership(leadership) => leadership.lost().await,
        }
    }

    pub async fn give_back(self) -> Result<(), Error> {
        match self {
            Self::Permit(permit) => permit.release().await,
            Self::Leadership(leadership) => leadership.resign().await,
        }
    }
}
