//! Everything goes wrong at once, by a seed: the limit is kept, tokens increase, everybody gets in
//! in the end, and nothing is left.
//!
//! `SEMAPHORE_CHAOS_SEEDS=10000` runs that many seeds instead of a hundred,
//! `SEMAPHORE_CHAOS_FIRST=4711` begins at another one. A seed that fails is named, with its trace.
//!
//! What an operator takes away may overlap until its holder learns of it (S1 says so). So a permit
//! counts for the limit until one of its sessions is destroyed by hand, and not from then on. A grant
//! that its holder hears of only after that may come after a newer one.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use fastrand::Rng;
use futures_util::future::{Either, select};
use semaphore_core::{Error, FencingToken, Instant, Permit, Runtime as _, Semaphore};
use transport_mock::{Faults, MockConsul, MockProcess, Task};

use crate::environment::number;
use crate::support::*;

#[test]
fn the_limit_is_kept_and_everybody_gets_in_whatever_happens() {
    let first = number("SEMAPHORE_CHAOS_FIRST", 0);
    let count = number("SEMAPHORE_CHAOS_SEEDS", 100);
    let mut sum = Figures::default();
    for seed in first..first + count {
        let chaos = Chaos::new(seed);
        let world = chaos.world.clone();
        match catch_unwind(AssertUnwindSafe(|| chaos.run())) {
            Ok(figures) => sum.add(figures),
            Err(panic) => {
                eprintln!("{}\nseed {seed} failed", world.trace());
                resume_unwind(panic);
            }
        }
    }
    eprintln!("{count} seeds: {sum:?}");
    assert!(sum.grants > count, "chaos leaves some grants");
}

/// How many of what there were.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    grants: u64,
    losses: u64,
    timeouts: u64,
    refused_tries: u64,
    cancels: u64,
    kills: u64,
    pauses: u64,
    destroyed: u64,
    requests: u64,
}

impl Figures {
    fn add(&mut self, other: Self) {
        self.grants += other.grants;
        self.losses += other.losses;
        self.timeouts += other.timeouts;
        self.refused_tries += other.refused_tries;
        self.cancels += other.cancels;
        self.kills += other.kills;
        self.pauses += other.pauses;
        self.destroyed += other.destroyed;
        self.requests += other.requests;
    }
}

/// One world in which everything goes wrong for a while.
struct Chaos {
    world: MockConsul,
    rng: Rng,
    shape: Shape,
    book: Book,
}

/// What is drawn once for a world.
#[derive(Clone, Copy, Debug)]
struct Shape {
    limit: u32,
    hosts: usize,
    tasks: usize,
    ttl: Duration,
    rate: f64,
    delay: Duration,
    outage: Duration,
    /// The longest time between two deeds of the operator.
    calm: Duration,
    stormy: Duration,
}

impl Chaos {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let shape = Shape {
            limit: rng.u32(1..=3),
            hosts: rng.usize(1..=4),
            tasks: rng.usize(1..=3),
            ttl: secs(rng.u64(10..=20)),
            rate: [0.0, 0.005, 0.02, 0.05, 0.1][rng.usize(..5)],
            delay: millis([20, 200, 3_000, 12_000][rng.usize(..4)]),
            outage: secs([2, 10, 30][rng.usize(..3)]),
            calm: secs([5, 20, 1_000][rng.usize(..3)]),
            stormy: secs(rng.u64(20..=60)),
        };
        let world = MockConsul::new(seed);
        world.set_patience(Duration::from_mins(30));
        world.set_latency(millis(1)..=millis([1, 5, 50][rng.usize(..3)]));
        world.set_faults(Faults {
            delay_up_to: shape.delay,
            outage_up_to: shape.outage,
            ..Faults::chaos(shape.rate)
        });
        let book = Book::new(shape.limit);
        Self {
            world,
            rng,
            shape,
            book,
        }
    }

    fn run(mut self) -> Figures {
        let end = Instant::ORIGIN + self.shape.stormy;
        let mut hosts: Vec<_> = (0..self.shape.hosts)
            .map(|number| self.boot(number, end))
            .collect();
        let world = self.world.clone();
        world.run(self.storm(&mut hosts, end));
        world.clear_faults();
        for host in &hosts {
            world.heal(&host.name);
            host.process.go_on();
        }
        // From here on nothing goes wrong, and everybody gets in once more.
        world.run(async {
            for host in hosts {
                for task in host.tasks {
                    task.await;
                }
            }
        });
        let quiet = world.now().saturating_since(end);
        assert!(quiet < secs(240), "{quiet:?} until everybody got in");
        world.advance(self.shape.ttl * 2 + secs(30));
        // Whoever was killed may still be in the record: the next one to come prunes them.
        world.run(async {
            let semaphore = semaphore(&world, "last", self.shape.limit);
            let permit = semaphore.acquire_timeout(secs(10)).await;
            let permit = permit.expect("all slots are free");
            // It asks for each of the dead before it lets go, and then writes the record without them.
            world.sleep(secs(1)).await;
            drop(self.book.granted(permit, self.book.start()));
        });
        world.advance(secs(5));
        assert_nothing_left(&world);
        let mut figures = self.book.lock().figures;
        figures.requests = world.stats().total_requests();
        figures
    }

    /// Processes die and stand still, hosts are cut off, sessions are destroyed.
    async fn storm(&mut self, hosts: &mut [Running], end: Instant) {
        let world = self.world.clone();
        loop {
            let calm = self.shape.calm.mul_f64(self.rng.f64());
            let left = end.saturating_since(world.now());
            world.sleep(calm.min(left)).await;
            if world.now() >= end {
                return;
            }
            let number = self.rng.usize(..hosts.len());
            let outage = self.shape.outage.mul_f64(self.rng.f64());
            match self.rng.u32(..6) {
                0 => {
                    hosts[number].process.kill();
                    hosts[number] = self.boot(number, end);
                    self.book.lock().figures.kills += 1;
                }
                1 => {
                    hosts[number].process.pause();
                    world.sleep(outage).await;
                    hosts[number].process.go_on();
                    self.book.lock().figures.pauses += 1;
                }
                2 => {
                    world.stall(&hosts[number].name);
                    world.sleep(outage).await;
                    world.heal(&hosts[number].name);
                }
                3 => {
                    world.partition(&hosts[number].name);
                    world.sleep(outage).await;
                    world.heal(&hosts[number].name);
                }
                _ => self.destroy_a_session(),
            }
        }
    }

    fn destroy_a_session(&mut self) {
        let sessions: Vec<_> = self.world.consul(|consul, _| {
            consul
                .sessions()
                .map(|session| session.id().to_owned())
                .collect()
        });
        if sessions.is_empty() {
            return;
        }
        let session = &sessions[self.rng.usize(..sessions.len())];
        self.book.destroyed(session);
        self.world
            .consul(|consul, now| consul.destroy_session(now, session));
    }

    fn boot(&mut self, number: usize, end: Instant) -> Running {
        let name = format!("node-{number}");
        let process = MockProcess::new(&self.world.client(&name));
        let semaphore = builder(self.shape.limit)
            .ttl(self.shape.ttl)
            .connect(process.clone())
            .expect("valid settings");
        let tasks = (0..self.shape.tasks)
            .map(|_| {
                let user = User {
                    process: process.clone(),
                    semaphore: semaphore.clone(),
                    book: self.book.clone(),
                    rng: self.rng.fork(),
                    limit: self.shape.limit,
                };
                self.world.start(process.living(user.live(end)))
            })
            .collect();
        Running {
            name,
            process,
            tasks,
        }
    }
}

struct Running {
    name: String,
    process: MockProcess,
    tasks: Vec<Task<Option<()>>>,
}

/// One task that uses the semaphore in every way.
struct User {
    process: MockProcess,
    semaphore: Semaphore,
    book: Book,
    rng: Rng,
    limit: u32,
}

impl User {
    async fn live(mut self, end: Instant) {
        while self.process.now() < end {
            self.turn().await;
            self.pause(500).await;
        }
        // Whatever happened, everybody gets in once it is quiet.
        let start = self.book.start();
        let permit = self.semaphore.acquire().await.expect("a slot");
        self.hold(permit, start, 100).await;
    }

    async fn turn(&mut self) {
        let start = self.book.start();
        let permits = self.rng.u32(1..=self.limit);
        let semaphore = self.semaphore.clone();
        let timeout = millis(self.rng.u64(..8_000));
        let outcome = match self.rng.u32(..8) {
            0 => semaphore.try_acquire_many(permits).await,
            1 | 2 => semaphore
                .acquire_many_timeout(permits, timeout)
                .await
                .map(Some),
            3 => {
                let acquire = Box::pin(semaphore.acquire_many(permits));
                let alarm = Box::pin(self.process.sleep(timeout));
                match select(acquire, alarm).await {
                    Either::Left((outcome, _)) => outcome.map(Some),
                    Either::Right(_) => {
                        self.book.lock().figures.cancels += 1;
                        return;
                    }
                }
            }
            4 => semaphore.acquire_many(permits).await.map(Some),
            _ => semaphore.acquire().await.map(Some),
        };
        match outcome {
            Ok(Some(permit)) => {
                let longest = [50, 500, 30_000][self.rng.usize(..3)];
                self.hold(permit, start, longest).await;
            }
            Ok(None) => self.book.lock().figures.refused_tries += 1,
            Err(Error::Timeout { .. }) => self.book.lock().figures.timeouts += 1,
            // An instant try fails with the first request that does.
            Err(Error::Request(error)) if !error.is_permanent() => {}
            Err(error) => panic!("{error:?}"),
        }
    }

    async fn hold(&mut self, permit: Permit, start: FencingToken, longest: u64) {
        let permit = self.book.granted(permit, start);
        let time = millis(self.rng.u64(..longest));
        let is_lost = {
            let lost = Box::pin(permit.lost());
            let alarm = Box::pin(self.process.sleep(time));
            matches!(select(lost, alarm).await, Either::Left(_))
        };
        if is_lost {
            assert!(!permit.is_held());
            self.book.lock().figures.losses += 1;
        }
        self.book.check();
        let permit = Arc::into_inner(permit).expect("the book only looks");
        match self.rng.u32(..3) {
            0 => drop(permit),
            1 => {
                let release = Box::pin(permit.release());
                let time = millis(self.rng.u64(..50));
                select(release, Box::pin(self.process.sleep(time))).await;
            }
            _ => {
                let _ = permit.release().await;
            }
        }
        self.book.check();
    }

    async fn pause(&mut self, longest: u64) {
        let time = millis(self.rng.u64(..longest));
        self.process.sleep(time).await;
    }
}

/// What everybody believes, compared with what is allowed.
#[derive(Clone)]
struct Book(Arc<Mutex<Entries>>);

struct Entries {
    limit: u32,
    permits: Vec<Weak<Permit>>,
    destroyed: BTreeSet<String>,
    tokens: BTreeSet<FencingToken>,
    figures: Figures,
}

impl Book {
    fn new(limit: u32) -> Self {
        Self(Arc::new(Mutex::new(Entries {
            limit,
            permits: Vec::new(),
            destroyed: BTreeSet::new(),
            tokens: BTreeSet::new(),
            figures: Figures::default(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().expect("no panic elsewhere")
    }

    /// The highest token so far: an acquisition that starts now gets a higher one.
    fn start(&self) -> FencingToken {
        let tokens = &self.lock().tokens;
        tokens.last().copied().unwrap_or(FencingToken(0))
    }

    fn granted(&self, permit: Permit, start: FencingToken) -> Arc<Permit> {
        let permit = Arc::new(permit);
        let token = permit.fencing_token();
        let mut entries = self.lock();
        entries.figures.grants += 1;
        assert!(token > start, "{token} was granted after {start}");
        assert!(entries.tokens.insert(token), "{token} was granted twice");
        // A grant whose session was destroyed while its answer was on the way is heard of after the
        // next one: its token is the older, and the resource refuses it.
        if entries.limit == 1 && !entries.has_lost_a_session(&permit) {
            let newest = entries.tokens.last();
            assert_eq!(newest, Some(&token), "an older token was granted later");
        }
        entries.permits.push(Arc::downgrade(&permit));
        drop(entries);
        self.check();
        permit
    }

    fn destroyed(&self, session: &str) {
        let mut entries = self.lock();
        entries.figures.destroyed += 1;
        entries.destroyed.insert(session.to_owned());
    }

    /// No more than the limit believe that they hold.
    fn check(&self) {
        let mut entries = self.lock();
        entries.permits.retain(|permit| permit.strong_count() > 0);
        let held: u32 = entries
            .permits
            .iter()
            .filter_map(Weak::upgrade)
            .filter(|permit| permit.is_held() && !entries.has_lost_a_session(permit))
            .map(|permit| permit.permits())
            .sum();
        assert!(held <= entries.limit, "{held} of {}", entries.limit);
    }
}

impl Entries {
    fn has_lost_a_session(&self, permit: &Permit) -> bool {
        permit
            .sequencers()
            .iter()
            .any(|sequencer| self.destroyed.contains(sequencer.session.as_str()))
    }
}
