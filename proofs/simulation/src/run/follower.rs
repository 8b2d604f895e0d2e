//! A task that follows an election's leader, as its users do.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use semaphore_core::adapter::Runtime as _;
use semaphore_core::sans_io::Instant;
use semaphore_core::{Client, Discovery, Error, LeaderStatus, Scope};
use transport_mock::{MockClient, MockProcess};

use super::book::Book;
use super::user::is_of_an_operators_write;
use super::wire::Wire;
use crate::history::{Followed, Happening, Why};
use crate::plan::HostPlan;

/// The pause before it follows again.
const PAUSE: Duration = Duration::from_millis(500);

/// How often the age of its knowledge is checked, by its host's clock.
const LOOK: Duration = Duration::from_secs(1);

/// The highest age, unless it reports an interruption.
const MOST: Duration = Duration::from_secs(15);

/// How long a paused process is not judged: until the answer to its next request.
const GRACE: Duration = Duration::from_secs(15);

/// The age of a follower's knowledge at the last check.
#[derive(Default)]
struct Ages {
    looked_at: Option<Instant>,
    paused_at: Option<Instant>,
    was_too_old: bool,
}

impl Ages {
    /// What is too old without a reported interruption, twice in a row.
    fn too_old(&mut self, now: Instant, follower: &semaphore_core::Follower) -> Option<Duration> {
        let looked_at = self.looked_at.replace(now);
        if looked_at.is_some_and(|at| now > at + LOOK * 2) {
            self.paused_at = Some(now);
        }
        let is_judged = self.paused_at.is_none_or(|at| now > at + GRACE);
        let age = follower
            .age()
            .filter(|_| is_judged && !follower.is_interrupted());
        let too_old = age.filter(|age| *age > MOST + LOOK);
        let was_too_old = core::mem::replace(&mut self.was_too_old, too_old.is_some());
        too_old.filter(|_| was_too_old)
    }
}

/// What it is connected through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Through {
    Transport,
    Client,
    /// A client of which that many may poll.
    ClientWithPolls(usize),
}

impl Through {
    /// As everything else of its host.
    pub(super) fn of(host: &HostPlan) -> Self {
        match host.own_polls.filter(|_| host.client) {
            Some(most) => Self::ClientWithPolls(most),
            None if host.client => Self::Client,
            None => Self::Transport,
        }
    }
}

pub(super) struct Follower {
    pub(super) host: usize,
    pub(super) prefix: usize,
    pub(super) key: String,
    pub(super) scope: Scope,
    pub(super) wire: Arc<Wire>,
    pub(super) through: Through,
    pub(super) process: MockProcess,
    /// The host with the true clock.
    pub(super) truth: MockClient,
    pub(super) book: Book,
}

impl Follower {
    /// Lives as long as its process. After a permanent error it starts to follow again.
    pub(super) async fn live(self) {
        loop {
            let polls = self.through != Through::ClientWithPolls(0);
            self.tell(Followed::Begins { polls });
            if let Err(error) = self.follow().await {
                self.failed(Why::of(&error), format!("{error:?}"));
            }
            self.truth.sleep(PAUSE).await;
        }
    }

    async fn follow(&self) -> Result<(), Error> {
        let process = Arc::new(self.process.clone());
        let (wire, scope) = (Arc::clone(&self.wire), self.scope.clone());
        let builder = Discovery::builder(&self.key).scope(scope);
        let client = match self.through {
            Through::Transport => None,
            Through::Client => Some(Client::builder()),
            Through::ClientWithPolls(most) => Some(Client::builder().own_polls(most)),
        };
        let discovery = match client {
            Some(client) => builder.connect(client.connect_parts(wire, process)?),
            None => builder.connect_parts(wire, process),
        }?;
        let mut follower = discovery.follow();
        let mut ages = Ages::default();
        loop {
            let news = {
                let next = pin!(follower.next());
                match select(next, pin!(self.process.sleep(LOOK))).await {
                    Either::Left((Some(event), _)) => Some(event),
                    // Its client has ended.
                    Either::Left((None, _)) => return Ok(()),
                    Either::Right(_) => None,
                }
            };
            let Some(event) = news else {
                if let Some(age) = ages.too_old(self.process.now(), &follower) {
                    self.failed(Why::Other, format!("knows what is {age:?} old"));
                }
                continue;
            };
            ages.looked_at = Some(self.process.now());
            if let Err(error) = event.as_ref()
                && !is_of_an_operators_write(error)
            {
                self.failed(Why::of(error), format!("{error:?}"));
            }
            self.judge(follower.current());
            self.tell(match follower.current() {
                None => Followed::Nothing,
                Some(LeaderStatus::Leaderless { .. }) => Followed::Nobody,
                Some(LeaderStatus::Led(leader)) => Followed::Leader(leader.session.to_string()),
            });
        }
    }

    /// An announced leader must have acquired the key. Consul counts acquisitions, and a write
    /// without one resets the count.
    fn judge(&self, current: Option<&LeaderStatus>) {
        if let Some(LeaderStatus::Led(leader)) = current
            && leader.lock_index == 0
        {
            let value = leader.text();
            let error = format!("announces {value:?}, who acquired nothing");
            self.failed(Why::Other, error);
        }
    }

    fn failed(&self, why: Why, error: String) {
        self.book.happened(Happening::Failed {
            host: self.host,
            prefix: self.prefix,
            why,
            error,
        });
    }

    fn tell(&self, what: Followed) {
        let (host, prefix) = (self.host, self.prefix);
        let told = Happening::Follows { host, prefix, what };
        self.book.happened(told);
    }
}
