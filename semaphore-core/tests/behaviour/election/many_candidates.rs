//! Many candidates on separate hosts with short terms. Each leader follows soon, and few attempts
//! are too late.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::time::Duration;

use futures_util::future::join_all;
use semaphore_core::adapter::{Instant, Runtime as _};
use semaphore_core::{Client, Election, Error};
use transport_mock::{MockConsul, RequestKind};

use crate::support::election::*;
use crate::support::*;

/// The candidates' hosts.
#[derive(Clone, Copy)]
enum Hosts {
    /// Each candidate has its own host.
    Separate,
    /// All are on one host, and share a client.
    OneClient,
}

/// The result of a contest.
struct Outcome {
    terms: u32,
    took: Duration,
    /// The times from a resignation until the next leader knows that it leads, shortest first.
    gaps: Vec<Duration>,
    /// Per term, without the first third.
    reads: f64,
    writes: f64,
    /// How often each candidate led.
    led: Vec<u32>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reads, writes, .. } = self;
        let (middle, late) = (self.gap_at(50), self.gap_at(99));
        let (least, most) = (self.led.iter().min(), self.led.iter().max());
        write!(
            f,
            "{:.0} terms a second, gaps of {middle:?} and {late:?}, {reads:.1} reads and {writes:.1} writes a term, each led \
             {least:?} to {most:?} times",
            self.terms_per_s()
        )
    }
}

impl Outcome {
    fn gap_at(&self, percent: usize) -> Duration {
        self.gaps[(self.gaps.len() - 1) * percent / 100]
    }

    fn terms_per_s(&self) -> f64 {
        f64::from(self.terms) / self.took.as_secs_f64()
    }
}

/// That many candidates lead in turn, for `term` each, until there were `terms` terms.
fn contest(seed: u64, candidates: usize, hosts: Hosts, term: Duration, terms: usize) -> Outcome {
    let world = MockConsul::new(seed);
    let latency = Duration::from_micros(200)..=Duration::from_micros(400);
    world.set_latency(latency);
    let names: Vec<_> = match hosts {
        Hosts::Separate => (0..candidates).map(|no| format!("node-{no}")).collect(),
        Hosts::OneClient => vec!["node-0".to_owned()],
    };
    let elections: Vec<_> = match hosts {
        Hosts::Separate => names.iter().map(|name| election(&world, name)).collect(),
        Hosts::OneClient => {
            let client = Client::builder().connect(world.client("node-0"));
            let client = client.expect("valid options");
            let connect = |_| {
                builder_for(KEY)
                    .connect(client.clone())
                    .expect("valid settings")
            };
            (0..candidates).map(connect).collect()
        }
    };
    let count = |kinds: &[RequestKind]| -> u64 {
        let of = |name: &String| {
            let stats = world.stats_of(name);
            let counts = kinds.iter().map(|kind| stats.requests_of(*kind));
            counts.sum::<u64>()
        };
        names.iter().map(of).sum()
    };
    let reads = || count(&[RequestKind::KvRead, RequestKind::KvWatch]);
    let writes = || count(&[RequestKind::Txn, RequestKind::KvAcquire]);
    let before = Cell::new(None);
    let clock = world.client("clock");
    let beliefs = RefCell::new(Vec::<(Instant, Instant)>::new());
    let led = RefCell::new(vec![0; candidates]);
    let over = Cell::new(false);
    let campaigns = elections.iter().enumerate().map(async |(no, election)| {
        while !over.get() {
            let leadership = match election.campaign().await {
                Err(Error::Closed { .. }) => return,
                campaign => campaign.expect("a leadership"),
            };
            let since = clock.now();
            if !term.is_zero() {
                clock.sleep(term).await;
            }
            assert!(leadership.is_leader());
            beliefs.borrow_mut().push((since, clock.now()));
            led.borrow_mut()[no] += 1;
            leadership.resign().await.expect("resigned");
            let led = beliefs.borrow().len();
            if led >= terms / 3 && before.get().is_none() {
                before.set(Some((reads(), writes())));
            }
            if led >= terms {
                over.set(true);
                elections.iter().for_each(Election::close);
            }
        }
    });
    world.run(join_all(campaigns));
    let beliefs = beliefs.into_inner();
    let mut gaps: Vec<_> = beliefs
        .windows(2)
        .map(|pair| {
            assert!(pair[0].1 <= pair[1].0, "two led at once");
            pair[1].0.saturating_since(pair[0].1)
        })
        .collect();
    gaps.sort();
    let counted = u32::try_from(terms - terms / 3).expect("a count");
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    let each = |count: u64| count as f64 / f64::from(counted);
    let (reads_before, writes_before) = before.get().expect("a first third");
    Outcome {
        terms: u32::try_from(beliefs.len()).expect("a count"),
        took: beliefs[beliefs.len() - 1].1.saturating_since(beliefs[0].0),
        gaps,
        reads: each(reads() - reads_before),
        writes: each(writes() - writes_before),
        led: led.into_inner(),
    }
}

/// A leader that resigns and campaigns again at once is no more likely to lead next than the
/// others.
#[test]
fn twenty_candidates_on_separate_hosts_follow_one_another_within_milliseconds_and_in_fair_shares() {
    for seed in 0..3 {
        let outcome = contest(seed, 20, Hosts::Separate, Duration::ZERO, 1_000);
        println!("{outcome}");
        assert!(outcome.led.iter().all(|led| *led >= 8), "{outcome}");
        assert!(outcome.terms_per_s() >= 400.0, "{outcome}");
        assert!(outcome.gap_at(50) <= millis(3), "{outcome}");
        assert!(outcome.gap_at(99) <= millis(6), "{outcome}");
        assert!(outcome.reads <= 7.0 && outcome.writes <= 5.0, "{outcome}");
    }
}

#[test]
fn sixty_candidates_on_separate_hosts_send_few_attempts_for_each_term() {
    few_attempts(60, 90);
}

#[test]
#[ignore = "long: scripts/nightly runs it"]
fn two_hundred_candidates_on_separate_hosts_send_few_attempts_for_each_term() {
    few_attempts(200, 300);
}

fn few_attempts(candidates: usize, terms: usize) {
    let outcome = contest(1, candidates, Hosts::Separate, millis(100), terms);
    println!("{outcome}");
    assert!(outcome.gap_at(99) <= millis(12), "{outcome}");
    assert!(outcome.writes <= 9.0, "{outcome}");
}

#[test]
fn two_hundred_candidates_of_one_client_cost_a_handful_of_requests_for_each_term() {
    for (candidates, term) in [
        (200, millis(100)),
        (200, Duration::ZERO),
        (2_000, millis(10)),
    ] {
        let outcome = contest(1, candidates, Hosts::OneClient, term, 300);
        println!("{outcome}");
        // Without transactions, each term needs a new session and another first read.
        let most = 4.5;
        assert!(outcome.reads + outcome.writes <= most, "{outcome}");
        assert!(outcome.gap_at(99) <= millis(12), "{outcome}");
    }
}
