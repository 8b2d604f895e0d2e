use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use futures_channel::oneshot;
use futures_util::future::{AbortHandle, Abortable};
use semaphore_core::adapter::{BlockOn, BoxFuture, Runtime, Transport};
use semaphore_core::sans_io::{Instant, Request, Response, TransportError};
use semaphore_core::{Builder, Client, Semaphore};
use shuttle::future::yield_now;
use transport_mock::consul::{Consul, Exchange};

const PREFIX: &str = "service/db";

/// This is longer than the pause between two tries, and shorter than the wait for a renewal or a
/// poll.
const A_PAUSE: Duration = Duration::from_secs(1);

/// A Consul in memory, and a runtime on shuttle's threads. Its clock only knows short pauses.
#[derive(Clone)]
pub struct World(Arc<Inner>);

struct Inner {
    /// It is never locked during a step.
    agent: Mutex<Agent>,
    drivers: Mutex<Drivers>,
}

struct Agent {
    now: Instant,
    consul: Consul,
    waiting: BTreeMap<Exchange, oneshot::Sender<Response>>,
}

#[derive(Default)]
struct Drivers {
    aborts: Vec<AbortHandle>,
    ends: Vec<oneshot::Receiver<()>>,
}

impl World {
    #[allow(clippy::new_without_default, reason = "each is another world")]
    pub fn new() -> Self {
        Self(Arc::new(Inner {
            agent: Mutex::new(Agent {
                now: Instant::ORIGIN,
                consul: Consul::new(1),
                waiting: BTreeMap::new(),
            }),
            drivers: Mutex::default(),
        }))
    }

    pub fn builder(limit: u32) -> Builder {
        Semaphore::builder(PREFIX, limit).seed(1)
    }

    pub fn semaphore(&self, limit: u32) -> Semaphore {
        Self::builder(limit).connect(self.clone()).unwrap()
    }

    pub fn client(&self) -> Client {
        Client::builder().seed(1).connect(self.clone()).unwrap()
    }

    pub fn blocking(&self, limit: u32) -> semaphore_core::blocking::Semaphore {
        Self::builder(limit).connect_blocking(self.clone()).unwrap()
    }

    /// An operator destroys all sessions.
    pub fn destroy_sessions(&self) {
        self.act(|consul, now| {
            let ids: Vec<String> = consul.sessions().map(|it| it.id().to_owned()).collect();
            for id in ids {
                consul.destroy_session(now, &id);
            }
        });
    }

    /// The runtime drops its tasks, as at its shutdown.
    pub fn end_runtime(&self) {
        for abort in self.drivers().aborts.drain(..) {
            abort.abort();
        }
    }

    /// Waits until all drivers have ended, before the runtime or with it.
    pub async fn drivers_end(&self) {
        let ends: Vec<_> = self.drivers().ends.drain(..).collect();
        for end in ends {
            let _ = end.await;
        }
    }

    /// Asserts that no session, contender key or holder is left.
    #[track_caller]
    pub fn assert_nothing_left(&self) {
        let agent = self.agent();
        assert_eq!(agent.consul.sessions().count(), 0, "sessions are left");
        for entry in agent.consul.entries(PREFIX) {
            assert_eq!(entry.key(), format!("{PREFIX}/.lock"), "a key is left");
            let record =
                semaphore_core::sans_io::Record::decode(entry.value(), entry.flags()).unwrap();
            assert_eq!(record.holders().count(), 0, "a holder is left");
        }
    }

    fn submit(&self, request: &Request) -> Pending {
        let (sender, answer) = oneshot::channel();
        let exchange = {
            let mut agent = self.agent();
            let now = agent.now;
            let exchange = agent.consul.submit(now, request);
            agent.waiting.insert(exchange, sender);
            exchange
        };
        let pending = Pending {
            world: self.clone(),
            exchange,
            answer,
        };
        self.act(|_, _| ());
        pending
    }

    /// Changes something in Consul, and delivers the answers of waiting requests.
    fn act(&self, act: impl FnOnce(&mut Consul, Instant)) {
        let mut answers = Vec::new();
        {
            let agent = &mut *self.agent();
            act(&mut agent.consul, agent.now);
            while let Some((exchange, answer)) = agent.consul.poll_answer() {
                answers.extend(agent.waiting.remove(&exchange).map(|it| (it, answer)));
            }
        }
        for (waiting, answer) in answers {
            let _ = waiting.send(answer);
        }
    }

    fn agent(&self) -> MutexGuard<'_, Agent> {
        self.0.agent.lock().unwrap()
    }

    fn drivers(&self) -> MutexGuard<'_, Drivers> {
        self.0.drivers.lock().unwrap()
    }
}

/// A request that Consul has received. Dropping this gives it up.
struct Pending {
    world: World,
    exchange: Exchange,
    answer: oneshot::Receiver<Response>,
}

impl Drop for Pending {
    fn drop(&mut self) {
        let mut agent = self.world.agent();
        if agent.waiting.remove(&self.exchange).is_some() {
            agent.consul.abandon(self.exchange);
        }
    }
}

#[async_trait]
impl Transport for World {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        // The request is on its way.
        yield_now().await;
        let mut pending = self.submit(&request);
        let answer = (&mut pending.answer).await.expect("an answer"); // On its way back.
        yield_now().await;
        Ok(answer)
    }
}

#[async_trait]
impl Runtime for World {
    fn now(&self) -> Instant {
        self.agent().now
    }

    async fn sleep(&self, duration: Duration) {
        if duration > A_PAUSE {
            return pending().await;
        }
        let end = self.now() + duration;
        yield_now().await;
        let now = &mut self.agent().now;
        *now = end.max(*now);
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) -> std::io::Result<()> {
        let (ended, end) = oneshot::channel();
        let (abort, registration) = AbortHandle::new_pair();
        {
            let mut drivers = self.drivers();
            drivers.aborts.push(abort);
            drivers.ends.push(end);
        }
        shuttle::future::spawn(async move {
            let _ = Abortable::new(future, registration).await;
            let _ = ended.send(());
        });
        Ok(())
    }

    fn seed(&self) -> u64 {
        1
    }
}

impl BlockOn for World {
    fn block_on(&self, future: BoxFuture<'_, ()>) {
        shuttle::future::block_on(future);
    }
}
