//! Candidates that lead in turn: how soon one follows another, and the cost.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use futures_util::future::join_all;
use semaphore_core::adapter::Runtime as _;
use semaphore_core::error::ClosedBy;
use semaphore_core::{Builder, Client, Election, Error};
use serde::Serialize;

use crate::backend::{Host, Hosts, Transports};
use crate::failure::Failure;
use crate::gauge::{Gauge, most_at_once};
use crate::peaks::{Peaks, Watcher};
use crate::percentile::Percentiles;

/// What the candidates share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sharing {
    /// Nothing: each is like a process on a separate machine
    Nothing,
    /// A transport: each has a handle, and they share connections
    Transport,
    /// A client: each has a handle, and they are one candidate
    Client,
    /// A handle: each has a clone
    Handle,
}

/// Who leads how often.
pub struct Contest<'a> {
    /// Where the candidates are.
    pub hosts: &'a Hosts,
    /// Makes each candidate's election.
    pub builder: &'a (dyn Fn() -> Builder<Election> + Sync),
    /// How many there are.
    pub candidates: NonZeroUsize,
    /// What they share.
    pub sharing: Sharing,
    /// How long each leads.
    pub term: Duration,
    /// The number of terms.
    pub terms: NonZeroUsize,
}

/// The result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Terms per second, from the first one's beginning to the last one's end.
    pub terms_per_s: f64,
    /// The median time from a resignation until the next leader knows that it leads, in
    /// milliseconds.
    pub gap_p50_ms: f64,
    /// The 99th percentile of that time.
    pub gap_p99_ms: f64,
    /// How many believed at once that they lead.
    pub max_leaders: usize,
    /// How many terms there were.
    pub terms: usize,
    /// How many sessions were made.
    pub sessions: u64,
    /// How many connections to the agent were open at once. Null if the system doesn't say.
    pub connections: Option<usize>,
    /// Requests for each term.
    pub requests_per_term: f64,
    /// Writes for each term that went through Raft.
    pub writes_per_term: f64,
}

impl Contest<'_> {
    /// Lets all of them campaign until there were enough terms.
    ///
    /// # Errors
    /// [`Failure`], if it is permanent.
    pub fn run(&self) -> Result<Outcome, Failure> {
        let watcher = Watcher::start(self.hosts.agent())?;
        let (hosts, elections) = self.connect()?;
        let Some(home) = hosts.first() else {
            return Err(Failure::Election(ClosedBy::Owner.into()));
        };
        home.probe(self.hosts.agent())?;
        let gauge = Arc::new(Gauge::default());
        let led = AtomicUsize::new(0);
        let before = self.hosts.traffic();
        let ended = home.wait(join_all(elections.iter().enumerate().map(
            async |(number, election)| {
                let ended = self.campaign(home, number, election, &gauge, &led).await;
                // Otherwise those who wait would wait forever.
                elections.iter().for_each(Election::close);
                ended
            },
        )));
        let traffic = self.hosts.traffic().since(before);
        let peaks = watcher.peaks();
        home.wait(join_all(elections.iter().map(Election::shutdown)));
        for end in ended {
            end.map_err(Failure::Election)?;
        }
        let sessions = traffic.sessions;
        let (requests, writes) = (traffic.requests.total(), traffic.raft_writes);
        Ok(outcome(&gauge, sessions, requests, writes, peaks))
    }

    fn connect(&self) -> Result<(Vec<Host>, Vec<Election>), Failure> {
        let count = self.candidates.get();
        let transports = match self.sharing {
            Sharing::Nothing => Transports::Each,
            _ => Transports::Shared,
        };
        let hosts = self.hosts.several(count, transports)?;
        let Some(home) = hosts.first() else {
            return Ok((hosts, Vec::new()));
        };
        let client = (self.sharing == Sharing::Client)
            .then(|| Client::builder().connect(home.clone()))
            .transpose()
            .map_err(Failure::Election)?;
        let connect = |host: &Host| match &client {
            Some(client) => (self.builder)().connect(client.clone()),
            None => (self.builder)().connect(host.clone()),
        };
        let elections = if self.sharing == Sharing::Handle {
            let election = connect(home).map_err(Failure::Election)?;
            vec![election; count]
        } else {
            let elections = hosts.iter().map(connect).collect::<Result<_, _>>();
            elections.map_err(Failure::Election)?
        };
        Ok((hosts, elections))
    }

    /// Leads again and again, until there were enough terms.
    async fn campaign(
        &self,
        home: &Host,
        number: usize,
        election: &Election,
        gauge: &Arc<Gauge>,
        led: &AtomicUsize,
    ) -> Result<(), Error> {
        loop {
            let leadership = match election.campaign().await {
                Err(Error::Closed { .. }) => return Ok(()),
                campaign => campaign?,
            };
            let leads = gauge.begin(number);
            if !self.term.is_zero() {
                home.sleep(self.term).await;
            }
            drop(leads);
            let is_last = led.fetch_add(1, Ordering::Relaxed) + 1 >= self.terms.get();
            leadership.resign().await?;
            if is_last {
                return Ok(());
            }
        }
    }
}

fn outcome(gauge: &Gauge, sessions: u64, requests: u64, writes: u64, peaks: Peaks) -> Outcome {
    let beliefs = gauge.beliefs();
    let terms = beliefs.len();
    let began = beliefs.first().map(|it| it.since);
    let ended = beliefs.iter().map(|it| it.until).max();
    let took = began.zip(ended).map(|(began, ended)| since(began, ended));
    let follow = beliefs.iter().zip(beliefs.iter().skip(1));
    let gaps: Percentiles = follow
        .map(|(former, next)| since(former.until, next.since))
        .collect();
    let millis = |time: Duration| time.as_secs_f64() * 1_000.0;
    let count = f64::from(u32::try_from(terms.max(1)).unwrap_or(u32::MAX));
    #[expect(clippy::cast_precision_loss, reason = "a figure to print")]
    let each = |total: u64| total as f64 / count;
    Outcome {
        terms_per_s: count / took.unwrap_or_default().as_secs_f64(),
        gap_p50_ms: millis(gaps.at(50)),
        gap_p99_ms: millis(gaps.at(99)),
        max_leaders: most_at_once(&beliefs),
        terms,
        sessions,
        connections: peaks.connections,
        requests_per_term: each(requests),
        writes_per_term: each(writes),
    }
}

fn since(earlier: Instant, later: Instant) -> Duration {
    later.saturating_duration_since(earlier)
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "terms           {}", self.terms)?;
        writeln!(f, "terms per s     {:.1}", self.terms_per_s)?;
        writeln!(f, "gap p50         {:.2} ms", self.gap_p50_ms)?;
        writeln!(f, "gap p99         {:.2} ms", self.gap_p99_ms)?;
        writeln!(f, "leaders at once {}", self.max_leaders)?;
        writeln!(f, "sessions        {}", self.sessions)?;
        match self.connections {
            Some(connections) => writeln!(f, "connections     {connections}")?,
            None => writeln!(f, "connections     not known")?,
        }
        writeln!(f, "requests a term {:.1}", self.requests_per_term)?;
        write!(f, "writes a term   {:.1}", self.writes_per_term)
    }
}
