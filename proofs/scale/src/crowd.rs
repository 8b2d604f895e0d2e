//! One semaphore with callers that want it again as soon as they have released it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use semaphore_core::Semaphore;
use semaphore_core::adapter::{Method, Request, Runtime as _, Transport as _};
use transport_mock::{MockClient, MockConsul, Stats, Task};

/// The callers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowd {
    pub(crate) limit: u32,
    pub(crate) callers: u32,
    pub(crate) processes: u32,
    pub(crate) hold: Duration,
    pub(crate) time: Duration,
    pub(crate) latency: Duration,
    pub(crate) seed: u64,
    pub(crate) others: u32,
    pub(crate) others_bytes: usize,
    pub(crate) value_bytes: Option<usize>,
}

/// The results.
#[derive(Debug)]
pub(crate) struct Figures {
    of: Crowd,
    turns: usize,
    most_held: u32,
    errors: u32,
    waits: Vec<Duration>,
    spent: Stats,
    kinds: String,
}

#[derive(Debug, Default)]
struct Tally {
    held: u32,
    most_held: u32,
    errors: u32,
    waits: Vec<Duration>,
}

type Shared = Arc<Mutex<Tally>>;

impl Tally {
    /// Starts to count.
    fn restart(&mut self) {
        *self = Self {
            held: self.held,
            ..Self::default()
        };
    }
}

impl Crowd {
    /// Runs it in a separate world.
    pub(crate) fn run(self) -> Figures {
        let world = MockConsul::new(self.seed);
        world.set_latency(self.latency / 2..=self.latency * 3 / 2);
        self.put_others(&world);
        let tally = Shared::default();
        let clients: Vec<_> = (0..self.processes)
            .map(|number| world.client(format!("process-{number}")))
            .collect();
        let handles: Vec<_> = clients.iter().map(|client| self.connect(client)).collect();
        let callers: Vec<_> = (0..self.callers as usize)
            .map(|number| {
                let at = number % handles.len();
                self.start(&world, &clients[at], handles[at].clone(), &tally)
            })
            .collect();
        world.advance(self.time / 5);
        let before = world.stats();
        lock(&tally).restart();
        world.advance(self.time);
        let after = world.stats();
        for caller in callers {
            caller.abort();
        }
        let mut tally = lock(&tally);
        let mut waits = core::mem::take(&mut tally.waits);
        waits.sort();
        let mut spent = Stats::default();
        spent.bytes_down = after.bytes_down - before.bytes_down;
        spent.requests = after
            .requests
            .iter()
            .map(|(kind, count)| (*kind, count - before.requests_of(*kind)))
            .filter(|(_, count)| *count > 0)
            .collect();
        let kinds = format!("{:?}", spent.requests);
        Figures {
            of: self,
            turns: waits.len(),
            most_held: tally.most_held,
            errors: tally.errors,
            waits,
            spent,
            kinds,
        }
    }

    /// Keys of others: half of them directly below the prefix, half deeper.
    fn put_others(self, world: &MockConsul) {
        let client = world.client("operator");
        for number in 0..self.others {
            let name = if number % 2 == 0 {
                "config"
            } else {
                "shards/a"
            };
            let target = format!("/v1/kv/service/db/{name}-{number}");
            let request =
                Request::new(Method::Put, target).with_body(vec![b'x'; self.others_bytes]);
            let answer = world.run(client.send(request));
            answer.unwrap_or_else(|error| unreachable!("nothing fails here: {error}"));
        }
    }

    fn connect(self, client: &MockClient) -> Semaphore {
        let name = client.host().chars().last().unwrap_or('?').to_string();
        let value = match self.value_bytes {
            Some(bytes) => vec![b'x'; bytes],
            None => name.into_bytes(),
        };
        let builder = Semaphore::builder("service/db", self.limit).value(value);
        let semaphore = builder.connect(client.clone());
        semaphore.unwrap_or_else(|error| unreachable!("no input of a user: {error}"))
    }

    fn start(
        self,
        world: &MockConsul,
        client: &MockClient,
        semaphore: Semaphore,
        tally: &Shared,
    ) -> Task<()> {
        let (client, tally) = (client.clone(), Arc::clone(tally));
        world.start(async move {
            loop {
                let since = client.now();
                let Ok(permit) = semaphore.acquire().await else {
                    lock(&tally).errors += 1;
                    continue;
                };
                {
                    let mut tally = lock(&tally);
                    tally.held += 1;
                    tally.most_held = tally.most_held.max(tally.held);
                    tally.waits.push(client.now().saturating_since(since));
                }
                client.sleep(self.hold).await;
                lock(&tally).held -= 1;
                // As most callers do, they don't wait for the end of a release.
                drop(permit);
            }
        })
    }

    /// The turns per second if handovers took no time.
    fn ideal(self) -> f64 {
        f64::from(self.limit.min(self.callers)) / self.hold.as_secs_f64()
    }
}

impl Figures {
    /// The names of the columns.
    pub(crate) const HEAD: &'static str = "limit callers processes hold |  turns/s  ideal   % | held  errors | p50 ms   p99 ms | requests  kB a turn";
}

#[expect(clippy::cast_precision_loss, reason = "figures to look at")]
impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = self.of;
        let per_second = self.turns as f64 / of.time.as_secs_f64();
        let turns = self.turns.max(1) as f64;
        let wait = |part: usize| {
            let at = (self.waits.len() * part / 1_000).min(self.waits.len().saturating_sub(1));
            self.waits.get(at).map_or(0.0, Duration::as_secs_f64) * 1e3
        };
        write!(
            f,
            "{:5} {:7} {:9} {:4} | {:8.0} {:6.0} {:3.0} | {:4} {:7} | {:6.1} {:8.1} | {:8.2} {:10.1}  {}",
            of.limit,
            of.callers,
            of.processes,
            of.hold.as_millis(),
            per_second,
            of.ideal(),
            per_second / of.ideal() * 100.0,
            self.most_held,
            self.errors,
            wait(500),
            wait(990),
            self.spent.total_requests() as f64 / turns,
            self.spent.bytes_down as f64 / turns / 1e3,
            self.kinds,
        )
    }
}

fn lock(tally: &Shared) -> std::sync::MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}
