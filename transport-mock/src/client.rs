//! A host's connection to the Consul in memory: the traits of the core, on virtual time.

use std::fmt;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use semaphore_core::BuildError;
use semaphore_core::adapter::{
    BlockOn, BoxFuture, Instant, Lane, Request, Response, Runtime, Transport, TransportError,
    TransportErrorKind,
};
use semaphore_core::error::ClosedBy;

use crate::fault::Fault;
use crate::network::{Host, Network, Pool};
use crate::pooled::PooledClient;
use crate::process::Process;
use crate::time::Time;
use crate::watchdog;
use crate::world::World;

/// The error of a client whose process has ended.
const KILLED: &str = "its process was killed";

/// A host that talks to the Consul in memory. It is [`Transport`], [`Runtime`] and [`BlockOn`].
///
/// [`MockConsul::client`](crate::MockConsul::client) makes it. Clones are the same host.
#[derive(Clone)]
pub struct MockClient {
    world: Arc<World>,
    host: Host,
    /// The process that ran on the host when this was made.
    process: Arc<Process>,
    clock_rate: f64,
    /// How far its clock has jumped ahead.
    ahead: Arc<Mutex<Duration>>,
}

impl MockClient {
    pub(crate) fn new(world: Arc<World>, host: Host) -> Self {
        Self {
            process: world.process(host),
            world,
            host,
            clock_rate: 1.0,
            ahead: Arc::default(),
        }
    }

    /// The same host with a clock that runs at this rate of the world's clock: above 1 faster,
    /// below 1 slower. The rate applies to the host's time, its sleeps and the timeouts of its
    /// requests.
    ///
    /// # Panics
    /// If the rate is not above zero.
    #[must_use]
    pub fn with_clock_rate(mut self, rate: f64) -> Self {
        assert!(rate > 0.0, "a clock can't run at the rate {rate}");
        self.clock_rate = rate;
        self.ahead = Arc::default();
        self
    }

    /// The clock jumps ahead, for this client and its clones. Timers don't: a sleep is as long as it was
    /// to be.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn jump_ahead(&self, by: Duration) {
        *self.ahead() += by;
    }

    /// What its timers go by: its clock without the jumps.
    pub(crate) fn timer(&self) -> Instant {
        let now = self.world.now();
        if self.is_exact() {
            return now;
        }
        Instant::from_origin(now.since_origin().mul_f64(self.clock_rate))
    }

    fn ahead(&self) -> MutexGuard<'_, Duration> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request that meets this fault.
    ///
    /// # Errors
    /// As [`Transport::send`].
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) async fn send_into(
        &self,
        request: Request,
        fault: Option<Fault>,
    ) -> Result<Response, TransportError> {
        self.assert_alive()?;
        let timeout = self.stretched(request.timeout());
        let request = request.with_timeout(timeout);
        self.world.send(self.host, request, fault).await
    }

    /// The same host with at most `most` connections, which are kept open, as in the adapters for a
    /// real agent.
    ///
    /// # Errors
    /// [`BuildError::NoConnections`] if `most` is zero.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn pooled(self, most: usize) -> Result<PooledClient, BuildError> {
        let pool = self.world.with(Network::new_pool);
        PooledClient::new(self, pool, most, None)
    }

    /// Like [`Self::pooled`]; `faults` chooses the fault of each request.
    ///
    /// # Errors
    /// As [`Self::pooled`].
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn pooled_into(
        self,
        most: usize,
        faults: impl Fn(&Request) -> Option<Fault> + Send + Sync + 'static,
    ) -> Result<PooledClient, BuildError> {
        let pool = self.world.with(Network::new_pool);
        PooledClient::new(self, pool, most, Some(Box::new(faults)))
    }

    pub(crate) async fn send_on(
        &self,
        pool: Pool,
        lane: Lane,
        request: Request,
        fault: Option<Fault>,
    ) -> Result<Response, TransportError> {
        self.assert_alive()?;
        let timeout = self.stretched(request.timeout());
        let request = request.with_timeout(timeout);
        let socket = (self.host, pool, lane);
        self.world.send_on(socket, request, fault).await
    }

    /// Opens a served client's connection, unless its agent allows no more.
    #[cfg(feature = "loopback")]
    pub(crate) fn connect(&self) -> Option<Connected> {
        let is_open = self.world.with(|network| network.connect(self.host));
        is_open.then(|| Connected(self.clone()))
    }

    pub(crate) fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// A process that has ended sends nothing.
    fn assert_alive(&self) -> Result<(), TransportError> {
        if self.process.is_over() {
            let kind = TransportErrorKind::NotSent;
            return Err(TransportError::with_source(kind, KILLED));
        }
        Ok(())
    }

    pub(crate) fn close(&self, pool: Pool, lane: Lane) {
        self.world
            .with(|network| network.close_idle(self.host, pool, lane));
    }

    pub(crate) fn close_pool(&self, pool: Pool) {
        self.world.with(|network| network.close_pool(pool));
    }

    pub(crate) fn peak_of_pool(&self, pool: Pool) -> usize {
        self.world.with(|network| network.peak_of_pool(pool))
    }

    /// Converts a duration on this host's clock to the world's clock.
    fn stretched(&self, time: Duration) -> Duration {
        if self.is_exact() || time.is_zero() {
            return time;
        }
        // Rounded up: a sleeper that wakes too early would have to sleep again.
        Duration::try_from_secs_f64(time.as_secs_f64() / self.clock_rate)
            .unwrap_or(Duration::MAX)
            .saturating_add(Duration::from_nanos(1))
    }

    fn is_exact(&self) -> bool {
        (self.clock_rate - 1.0).abs() < f64::EPSILON
    }

    /// The host's name, for aiming faults.
    pub fn host(&self) -> String {
        self.world
            .with(|network| network.host_name(self.host).to_owned())
    }
}

/// A connection that stays open while this exists.
#[cfg(feature = "loopback")]
pub(crate) struct Connected(MockClient);

#[cfg(feature = "loopback")]
impl Drop for Connected {
    fn drop(&mut self) {
        let Self(client) = self;
        client.world.with(|network| network.disconnect(client.host));
    }
}

#[async_trait]
impl Transport for MockClient {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        self.send_into(request, None).await
    }

    /// Says which host it is on: `mock://a`.
    fn address(&self) -> Option<String> {
        Some(format!("mock://{}", self.host()))
    }
}

#[async_trait]
impl Runtime for MockClient {
    fn now(&self) -> Instant {
        self.timer() + *self.ahead()
    }

    async fn sleep(&self, duration: Duration) {
        self.world.sleep(self.stretched(duration)).await;
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) -> io::Result<()> {
        if self.process.is_over() {
            return Err(io::Error::other(KILLED));
        }
        let living = self.process.living(future);
        self.world.spawn(Box::pin(async move {
            living.await;
        }));
        Ok(())
    }

    /// Handles ask this at each use. It panics if the world was ended because nobody moved it.
    fn ended(&self) -> Option<ClosedBy> {
        if !matches!(self.world.time, Time::Own) {
            return None;
        }
        let has_ended = self.world.executor.used();
        if has_ended && !watchdog::looks_here() && !thread::panicking() {
            self.world.executor.assert_not_ended();
        }
        has_ended.then_some(ClosedBy::RuntimeEnded)
    }

    /// From the world's seed: each call gives another number, and each run the same numbers.
    fn seed(&self) -> u64 {
        self.world.with(Network::draw_seed)
    }
}

impl BlockOn for MockClient {
    /// Runs `future` on the calling thread, together with everything else that is due in this
    /// world.
    ///
    /// # Panics
    /// As [`MockConsul::run`](crate::MockConsul::run). In a world
    /// [on tokio](crate::MockConsul::on_tokio), when called within async code.
    fn block_on(&self, future: BoxFuture<'_, ()>) {
        match &self.world.time {
            Time::Own => self.world.block_on(pin!(future)),
            #[cfg(feature = "tokio")]
            Time::Tokio(tokio) => tokio.block_on(future),
        }
    }
}

impl fmt::Debug for MockClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MockClient")
            .field("host", &self.host())
            .finish()
    }
}
