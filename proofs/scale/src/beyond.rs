//! Fleets that are larger than our machines: a thousand hosts with ten thousand semaphores or
//! elections, on virtual time. It counts the requests that reach Consul's servers when everything
//! has settled.

mod elections;
mod hosts;
mod process;
mod waiters;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::ValueEnum;
use semaphore_core::adapter::Runtime as _;
use semaphore_core::{Client, Semaphore};
use transport_mock::{MockClient, MockConsul, RequestKind, Stats};

/// What the hosts do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scene {
    /// Each host uses ten semaphores of three slots, and ten hosts use each semaphore; a turn takes
    /// a minute
    Hosts,
    /// Ten callers on each host wait for one semaphore of ten slots; a turn takes a second
    Waiters,
    /// Each host leads ten elections and follows ten others
    Elections,
    /// One process holds a slot of ten times as many semaphores, over 64 connections; a loss counts
    /// as a turn
    Process,
}

/// The size of the fleet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fleet {
    pub(crate) scene: Scene,
    pub(crate) hosts: u32,
    /// The TTL of all sessions.
    pub(crate) ttl: Duration,
    /// The number of keys that the semaphore with ten thousand waiters is split into.
    pub(crate) parts: u32,
    /// How long it settles before counting begins.
    pub(crate) settling: Duration,
    /// How long it is counted.
    pub(crate) time: Duration,
    pub(crate) latency: Duration,
    pub(crate) seed: u64,
}

/// How often callers were granted what they wanted, and how often they held it for a whole turn.
#[derive(Clone, Debug, Default)]
struct Turns(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    begun: AtomicU64,
    done: AtomicU64,
}

impl Turns {
    fn begin(&self) {
        self.0.begun.fetch_add(1, Ordering::Relaxed);
    }

    fn end(&self) {
        self.0.done.fetch_add(1, Ordering::Relaxed);
    }

    fn begun(&self) -> u64 {
        self.0.begun.load(Ordering::Relaxed)
    }

    fn done(&self) -> u64 {
        self.0.done.load(Ordering::Relaxed)
    }

    /// Takes one turn after the other. A turn takes as long as `length` says, and counts if the
    /// slot was kept.
    async fn take(
        self,
        host: MockClient,
        semaphore: Semaphore,
        mut length: impl FnMut() -> Duration,
    ) {
        loop {
            if let Ok(permit) = semaphore.acquire().await {
                self.begin();
                host.sleep(length()).await;
                if permit.is_held() {
                    self.end();
                }
            }
        }
    }
}

/// The world's counters at one moment.
struct Reading {
    stats: Stats,
    writes: u64,
    looks: u64,
    turns: u64,
}

/// The requests that reached the servers.
#[derive(Debug)]
pub(crate) struct Reached {
    of: Fleet,
    granted: u64,
    turns: u64,
    renewals: u64,
    writes: u64,
    reads: u64,
    polls: u64,
    looks: u64,
    transactions: u64,
    bytes: u64,
    sessions: usize,
    parked: usize,
    /// The most memory that this program used, in bytes.
    memory: u64,
}

impl Fleet {
    /// Runs it in a separate world.
    pub(crate) fn run(self) -> Reached {
        let world = MockConsul::new(self.seed);
        world.set_latency(self.latency / 2..=self.latency * 3 / 2);
        world.set_tracing(false);
        let turns = Turns::default();
        let tasks = match self.scene {
            Scene::Hosts => hosts::start(&world, self, &turns),
            Scene::Waiters => waiters::start(&world, self, &turns),
            Scene::Elections => elections::start(&world, self, &turns),
            Scene::Process => process::start(&world, self, &turns),
        };
        world.advance(self.settling);
        let before = Reading::now(&world, &turns);
        world.advance(self.time);
        let after = Reading::now(&world, &turns);
        let (sessions, parked) =
            world.consul(|consul, _| (consul.sessions().count(), consul.waiting()));
        for task in tasks {
            task.abort();
        }
        let counted = |kinds: &[RequestKind]| {
            let of = |stats: &Stats| kinds.iter().map(|it| stats.requests_of(*it)).sum::<u64>();
            of(&after.stats) - of(&before.stats)
        };
        Reached {
            of: self,
            granted: turns.begun(),
            turns: after.turns - before.turns,
            renewals: counted(&[RequestKind::SessionRenew]),
            writes: after.writes - before.writes,
            reads: counted(&[RequestKind::SessionRead, RequestKind::KvRead]),
            polls: counted(&[RequestKind::KvWatch]),
            looks: after.looks - before.looks,
            transactions: counted(&[RequestKind::Txn]),
            bytes: after.stats.bytes_down - before.stats.bytes_down,
            sessions,
            parked,
            memory: memory(),
        }
    }
}

impl Reading {
    fn now(world: &MockConsul, turns: &Turns) -> Self {
        let (writes, looks) = world.consul(|consul, _| (consul.last_index(), consul.looks()));
        Self {
            stats: world.stats(),
            writes,
            looks,
            turns: turns.done(),
        }
    }
}

/// A client for each host.
fn clients(world: &MockConsul, fleet: Fleet) -> impl Iterator<Item = (MockClient, Client)> {
    (0..fleet.hosts).map(move |number| {
        let host = world.client(format!("host-{number}"));
        let client = Client::builder().value(format!("host-{number}"));
        let client = client.ttl(fleet.ttl);
        (host.clone(), valid(client.connect(host)))
    })
}

/// Lengths between a half and one and a half of `mean`, so things don't happen all at once.
fn lengths(mean: Duration, seed: u32) -> impl FnMut() -> Duration {
    let mut rng = fastrand::Rng::with_seed(seed.into());
    move || mean.mul_f64(0.5 + rng.f64())
}

fn valid<T>(built: Result<T, semaphore_core::Error>) -> T {
    built.unwrap_or_else(|error| unreachable!("no input of a user: {error}"))
}

/// The most memory that this process has used, or zero if the system does not tell.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|it| it.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kilobytes.unwrap_or_default() * 1024
}

impl Reached {
    /// The names of the columns.
    pub(crate) const HEAD: &'static str = "scene     hosts | sessions parked |  turns/s | renewals/s  Raft writes/s  reads/s  polls/s  transactions/s  wake-ups/s   MB/s | a turn: Raft writes  requests  wake-ups      kB | memory, MB";

    /// The most memory that this program used, in bytes, or zero if the system does not tell.
    pub(crate) fn memory(&self) -> u64 {
        self.memory
    }

    /// The number of all requests to the servers.
    fn requests(&self) -> u64 {
        self.renewals + self.reads + self.polls + self.transactions
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures to look at")]
impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let a_second = |count: u64| count as f64 / self.of.time.as_secs_f64();
        let a_turn = |count: u64| count as f64 / self.turns.max(1) as f64;
        let scene = format!("{:?}", self.of.scene).to_lowercase();
        write!(
            f,
            "{scene:9} {:5} | {:8} {:6} | {:8.1} | {:10.0} {:14.1} {:8.0} {:8.0} {:15.0} {:11.0} {:6.2} | ",
            self.of.hosts,
            self.sessions,
            self.parked,
            a_second(self.turns),
            a_second(self.renewals),
            a_second(self.writes),
            a_second(self.reads),
            a_second(self.polls),
            a_second(self.transactions),
            a_second(self.looks),
            a_second(self.bytes) / 1e6,
        )?;
        write!(
            f,
            "{:19.2} {:9.1} {:9.1} {:7.1} | {:10}",
            a_turn(self.writes),
            a_turn(self.requests()),
            a_turn(self.looks),
            a_turn(self.bytes) / 1e3,
            self.memory / 1_000_000,
        )?;
        write!(f, "  granted {}", self.granted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet(scene: Scene, hosts: u32, settling: u64) -> Reached {
        Fleet {
            scene,
            hosts,
            ttl: Duration::from_secs(15),
            parts: 1,
            settling: Duration::from_secs(settling),
            time: Duration::from_secs(15),
            latency: Duration::from_micros(200),
            seed: 1,
        }
        .run()
    }

    /// A tenth of a small machine's memory.
    fn assert_little_memory(reached: &Reached) {
        assert!(reached.memory() < 400_000_000, "{reached}");
    }

    #[test]
    fn hosts_that_use_ten_semaphores_have_a_session_and_a_poll_for_each() {
        let few = fleet(Scene::Hosts, 20, 80);
        let many = fleet(Scene::Hosts, 40, 80);
        for (reached, hosts) in [(&few, 20), (&many, 40)] {
            assert!(reached.sessions <= 2 * hosts, "{reached}");
            assert!(reached.parked <= 10 * hosts, "{reached}");
            assert!(reached.turns > 0, "{reached}");
            assert_little_memory(reached);
        }
        // The requests grow with the hosts, and not faster.
        assert!(many.requests() <= 3 * few.requests(), "{few}\n{many}");
    }

    #[test]
    fn a_turn_wakes_no_more_waiters_if_there_are_more() {
        let few = fleet(Scene::Waiters, 5, 12);
        let many = fleet(Scene::Waiters, 20, 12);
        for reached in [&few, &many] {
            assert!(reached.turns > 0, "{reached}");
            // The holders of the ten slots, and the next in line.
            assert!(reached.looks <= 11 * reached.turns, "{reached}");
            assert!(reached.writes <= 6 * reached.turns, "{reached}");
            assert_little_memory(reached);
        }
    }

    #[test]
    fn all_semaphores_of_one_process_are_kept_by_one_session() {
        let reached = fleet(Scene::Process, 50, 20);
        assert_eq!((reached.granted, reached.turns), (500, 0), "{reached}");
        assert_eq!(reached.sessions, 1, "{reached}");
        // One request asks about dozens, and each prefix is read now and then.
        assert!(reached.requests() <= 500, "{reached}");
        assert_little_memory(&reached);
    }

    #[test]
    fn who_leads_and_who_follows_writes_only_where_a_term_ends() {
        let reached = fleet(Scene::Elections, 20, 80);
        assert!(reached.granted >= 200, "{reached}");
        // Each host has one session, and each election has a poll beside its follower's.
        assert_eq!(reached.sessions, 20, "{reached}");
        assert_eq!(reached.parked, 400, "{reached}");
        assert!(reached.turns > 0, "{reached}");
        assert!(reached.writes <= 3 * reached.turns, "{reached}");
        assert_little_memory(&reached);
    }
}
