//! Many elections, one for each shard: one process leads all, and another one waits for each.
//!
//! Both have a client. The second one also follows each leader. In the end the first resigns from
//! each election, one after the other, and the second takes over.

use std::fmt;
use std::future::pending;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use futures_util::future::{join, join_all};
use futures_util::stream::{self, StreamExt as _};
use semaphore_core::adapter::Runtime as _;
use semaphore_core::{Builder, Client, Election, Error, Follower, LeaderEvent, Leadership};
use serde::Serialize;

use crate::backend::{Host, Hosts};
use crate::failure::Failure;
use crate::meter::Reading;
use crate::peaks::Watcher;
use crate::percentile::Percentiles;

/// How many elections are entered at once.
const AT_ONCE: usize = 64;

/// The pause between two resignations.
const PAUSE: Duration = Duration::from_millis(20);

/// Which elections.
pub struct Shards<'a> {
    /// Where the two processes run.
    pub hosts: &'a Hosts,
    /// Makes the election with this number, with this value.
    pub builder: &'a (dyn Fn(usize, &str) -> Builder<Election> + Sync),
    /// How many there are.
    pub shards: NonZeroUsize,
    /// How long each part is measured.
    pub hold: Duration,
}

/// The result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// How many elections the first process led.
    pub led: usize,
    /// How many terms were lost.
    pub lost: usize,
    /// How many sessions were made, by both.
    pub sessions: u64,
    /// How many connections both had at once. Null if the system doesn't say.
    pub connections: Option<usize>,
    /// Requests a second while the first leads and nothing else happens.
    pub leading_per_s: f64,
    /// The same when the second also waits, without those of the first.
    pub waiting_per_s: f64,
    /// The same when the second also follows, without the others.
    pub following_per_s: f64,
    /// The median time from a resignation until the next one leads, in milliseconds.
    pub handover_p50_ms: f64,
    /// The 99th percentile of that time.
    pub handover_p99_ms: f64,
    /// The median time from a resignation until the follower knows the next leader, in milliseconds.
    pub told_p50_ms: f64,
    /// The 99th percentile of that time.
    pub told_p99_ms: f64,
}

/// The names of the two processes.
const FIRST: &str = "first";
const SECOND: &str = "second";

impl Shards<'_> {
    /// Leads, waits, follows and hands over.
    ///
    /// # Errors
    /// [`Failure`], if it is permanent.
    pub fn run(&self) -> Result<Outcome, Failure> {
        let watcher = Watcher::start(self.hosts.agent())?;
        let (home, other) = (self.hosts.host()?, self.hosts.host()?);
        home.probe(self.hosts.agent())?;
        let outcome = home.wait(self.act(&home, &other));
        let mut outcome = outcome.map_err(Failure::Election)?;
        outcome.connections = watcher.peaks().connections;
        Ok(outcome)
    }

    async fn act(&self, home: &Host, other: &Host) -> Result<Outcome, Error> {
        let before = self.hosts.traffic();
        let first = Client::builder().connect(home.clone())?;
        let second = Client::builder().connect(other.clone())?;
        let terms = self.lead(&first).await?;
        let leading = self.measure(home).await;

        let elections = self.elections(&second, SECOND)?;
        let candidates = elections.iter().map(|election| async {
            let term = election.campaign().await;
            (Instant::now(), term)
        });
        let candidates = join_all(candidates);
        let others = async {
            home.sleep(self.hold).await;
            let waiting = self.measure(home).await;
            let followers = join_all(elections.iter().map(follow));
            let rest = async {
                home.sleep(self.hold).await;
                let following = self.measure(home).await;
                let lost = terms.iter().filter(|it| !it.is_leader()).count();
                (following, lost, hand_over(home, &terms).await)
            };
            let (told, (following, lost, resigned)) = join(followers, rest).await;
            (waiting, following, lost, resigned, told)
        };
        let (elected, (waiting, following, lost, resigned, told)) = join(candidates, others).await;
        let resigned = resigned.into_iter().collect::<Result<Vec<_>, _>>()?;
        let took = |ends: Vec<Instant>| -> Percentiles {
            let both = resigned.iter().zip(ends);
            both.map(|(began, end)| end.saturating_duration_since(*began))
                .collect()
        };
        let (ends, next): (Vec<_>, Vec<_>) = elected.into_iter().unzip();
        let next = next.into_iter().collect::<Result<Vec<_>, _>>()?;
        let (handovers, told) = (took(ends), took(told));
        drop(next);
        join(first.shutdown(), second.shutdown()).await;
        let millis = |time: Duration| time.as_secs_f64() * 1_000.0;
        Ok(Outcome {
            led: terms.len(),
            lost,
            sessions: self.hosts.traffic().since(before).sessions,
            connections: None,
            leading_per_s: leading,
            waiting_per_s: waiting - leading,
            following_per_s: following - waiting,
            handover_p50_ms: millis(handovers.at(50)),
            handover_p99_ms: millis(handovers.at(99)),
            told_p50_ms: millis(told.at(50)),
            told_p99_ms: millis(told.at(99)),
        })
    }

    fn elections(&self, client: &Client, value: &str) -> Result<Vec<Election>, Error> {
        let connect = |number| (self.builder)(number, value).connect(client.clone());
        (0..self.shards.get()).map(connect).collect()
    }

    /// Leads each, in order.
    async fn lead(&self, client: &Client) -> Result<Vec<Leadership>, Error> {
        let terms = stream::iter(self.elections(client, FIRST)?)
            .map(async |election: Election| election.campaign().await)
            .buffered(AT_ONCE);
        let terms: Vec<_> = terms.collect().await;
        terms.into_iter().collect()
    }

    /// The requests a second from now on.
    async fn measure(&self, home: &Host) -> f64 {
        let (before, began): (Reading, _) = (self.hosts.traffic(), Instant::now());
        home.sleep(self.hold).await;
        let requests = self.hosts.traffic().since(before).requests.total();
        #[expect(clippy::cast_precision_loss, reason = "a figure to print")]
        let requests = requests as f64;
        requests / began.elapsed().as_secs_f64()
    }
}

/// Resigns from each, in another order than they were entered. The times when that was done.
async fn hand_over(home: &Host, terms: &[Leadership]) -> Vec<Result<Instant, Error>> {
    let mut order: Vec<usize> = (0..terms.len()).collect();
    fastrand::shuffle(&mut order);
    let mut resigned = Vec::with_capacity(terms.len());
    for at in order {
        if let Some(term) = terms.get(at) {
            let done = term.resign().await.map(|()| Instant::now());
            resigned.push((at, done));
        }
        home.sleep(PAUSE).await;
    }
    resigned.sort_unstable_by_key(|(at, _)| *at);
    resigned.into_iter().map(|(_, done)| done).collect()
}

/// When the second process was told to lead here.
async fn follow(election: &Election) -> Instant {
    let mut leaders: Follower = election.leaders();
    while let Some(event) = leaders.next().await {
        if let Ok(LeaderEvent::Elected(leader)) = event
            && leader.text() == Some(SECOND)
        {
            return Instant::now();
        }
    }
    // The runtime has ended, and the campaigns say so.
    pending().await
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "elections       {}, {} lost", self.led, self.lost)?;
        writeln!(f, "sessions        {}", self.sessions)?;
        match self.connections {
            Some(connections) => writeln!(f, "connections     {connections}")?,
            None => writeln!(f, "connections     not known")?,
        }
        writeln!(f, "leading         {:.1} requests/s", self.leading_per_s)?;
        writeln!(f, "waiting         {:.1} requests/s", self.waiting_per_s)?;
        writeln!(f, "following       {:.1} requests/s", self.following_per_s)?;
        writeln!(f, "handover p50    {:.1} ms", self.handover_p50_ms)?;
        writeln!(f, "handover p99    {:.1} ms", self.handover_p99_ms)?;
        writeln!(f, "told p50        {:.1} ms", self.told_p50_ms)?;
        write!(f, "told p99        {:.1} ms", self.told_p99_ms)
    }
}
