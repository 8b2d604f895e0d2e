//! The world as a test holds it.

mod faults;

use std::fmt;
use std::future::Future;
use std::ops::RangeInclusive;
use std::pin::pin;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use semaphore_core::adapter::Instant;

use crate::client::MockClient;
use crate::consul::Profile;
use crate::executor::Seat;
use crate::network::{Delivered, Network};
use crate::seeds;
use crate::stats::Stats;
use crate::task::Task;
use crate::time::{self, Time};
#[cfg(feature = "tokio")]
use crate::tokio_time::TokioTime;
use crate::world::World;

/// A simulated world: a Consul in memory, hosts that use it over a network with failures on demand,
/// and a clock. Only the test moves the clock, or idleness does.
///
/// Clones are the same world. When the last one is dropped, the futures that still run in it are
/// dropped. A [`MockClient`] does not keep them alive.
///
/// # Panics
/// When the last clone is dropped and a [`Rule`](crate::Rule) has struck less often than it must:
/// the test has not shown what it should. The message names the rule.
/// [`Rule::always`](crate::Rule::always) must have struck once, and rules that were cleared before
/// count. There is no panic after [`MockConsul::allow_unmet_rules`], or on a thread that is already
/// panicking.
///
/// ```should_panic
/// use transport_mock::{Fault, MockConsul, RequestKind, Rule};
///
/// let world = MockConsul::new(7);
/// world.inject(Rule::new(Fault::LoseAnswer).kind(RequestKind::KvCas));
/// // Nobody has claimed anything.
/// drop(world);
/// ```
#[derive(Clone)]
pub struct MockConsul {
    owner: Arc<Owner>,
}

struct Owner(Arc<World>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.executor.clear();
        if thread::panicking() {
            if seeds::is_quiet() {
                return;
            }
            let trace = |network: &mut Network| (network.trace.end(), network.trace.end_of_story());
            let (trace, story) = self.0.with(trace);
            // Where a test's output goes, captured as that is.
            eprintln!(
                "the world's seed was {}, its trace ended so:\n{trace}\nand its story:\n{story}",
                self.0.seed
            );
            return;
        }
        let complaint = self.0.with(|network| network.rules.complaint());
        if let Some(complaint) = complaint {
            assert!(thread::panicking(), "{complaint}");
        }
    }
}

/// Running.
impl MockConsul {
    /// A world at time zero with an empty Consul. `seed` decides everything that happens at random.
    pub fn new(seed: u64) -> Self {
        Self::with_profile(seed, Profile::default())
    }

    /// Like [`MockConsul::new`], with another release or edition of Consul:
    ///
    /// ```
    /// use transport_mock::adapter::{Method, Request, Transport};
    /// use transport_mock::MockConsul;
    /// use transport_mock::consul::{Edition, Profile, Tenancy, Version};
    ///
    /// let profile = Profile {
    ///     version: Version::V1_22,
    ///     edition: Edition::Enterprise,
    /// };
    /// let world = MockConsul::with_profile(7, profile);
    /// let node = world.client("node-1");
    /// let write = Request::new(Method::Put, "/v1/kv/greeting?ns=team").with_body("hello");
    /// world.run(node.send(write))?;
    ///
    /// let team = Tenancy::of_namespace("team");
    /// assert_eq!(world.consul(|consul, _| consul.entries_in(&team, "").count()), 1);
    /// assert_eq!(world.consul(|consul, _| consul.entries("").count()), 0);
    /// # Ok::<(), transport_mock::adapter::TransportError>(())
    /// ```
    pub fn with_profile(seed: u64, profile: impl Into<Profile>) -> Self {
        Self {
            owner: Arc::new(Owner(Arc::new(World::new(seed, profile.into(), Time::Own)))),
        }
    }

    /// A world in a test on tokio. It uses tokio's time, and its clients spawn tokio tasks. Under
    /// `#[tokio::test(start_paused = true)]`, one clock rules the sleeps and timeouts of the code
    /// under test, leases, sessions and faults. When everything waits, the clock jumps to the next
    /// event. It begins at zero.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use transport_mock::{Error, Semaphore};
    /// use transport_mock::MockConsul;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Error> {
    /// let world = MockConsul::on_tokio(7); // in a `#[tokio::test(start_paused = true)]`
    /// let semaphore = Semaphore::builder("service/db", 1).connect(world.client("node-1"))?;
    /// let permit = semaphore.acquire().await?;
    /// tokio::time::sleep(Duration::from_secs(3600)).await;
    /// assert!(permit.is_held());
    ///
    /// world.partition("node-1");
    /// permit.lost().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// - It needs no driving: [`MockConsul::run`], [`MockConsul::advance`], [`MockConsul::start`]
    ///   and [`MockConsul::spawn_thread`] are for worlds with separate time, and panic here.
    /// - On one thread, as with `start_paused`, runs with the same seed are the same.
    ///   `tokio::select!` without `biased` uses tokio's own seed.
    /// - `tokio::time::sleep` lets the world live through that time. `tokio::time::advance` jumps
    ///   over it, as if the process had been frozen: Consul continues, but no renewal is sent.
    /// - Without `start_paused` it uses the real clock.
    /// - Blocking handles need threads, and tokio's paused time does not wait for threads: use
    ///   [`MockConsul::new`] for them.
    /// - tokio's timers have a resolution of a millisecond.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[cfg(feature = "tokio")]
    pub fn on_tokio(seed: u64) -> Self {
        Self::on_tokio_with_profile(seed, Profile::default())
    }

    /// Like [`MockConsul::on_tokio`], with another release or edition of Consul.
    ///
    /// # Panics
    /// As [`MockConsul::on_tokio`].
    #[cfg(feature = "tokio")]
    pub fn on_tokio_with_profile(seed: u64, profile: impl Into<Profile>) -> Self {
        let time = Time::Tokio(TokioTime::begin());
        let world = Arc::new(World::new(seed, profile.into(), time));
        if let Time::Tokio(tokio) = &world.time {
            tokio.keep(Arc::downgrade(&world));
        }
        Self {
            owner: Arc::new(Owner(world)),
        }
    }

    /// The host of this name. It has its own connections, and faults can be aimed at it.
    pub fn client(&self, host: impl AsRef<str>) -> MockClient {
        let host = self.world().with(|network| network.host(host.as_ref()));
        MockClient::new(Arc::clone(self.world()), host)
    }

    /// Runs `future` to its end on the calling thread, with everything that is spawned meanwhile.
    /// When nothing can run, virtual time moves to the next timer or message.
    ///
    /// Several threads may call this at once. They take turns, and time moves only when all of them
    /// sleep.
    ///
    /// # Panics
    /// If the test can't end: nothing can wake the future, a future wakes itself forever, or
    /// [`MockConsul::set_patience`] is exceeded. If it is called from a future of this world. If a
    /// spawned future panics. In a test on tokio: use `MockConsul::on_tokio` there.
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        time::with_advice(|| self.world().block_on(pin!(future)))
    }

    /// Runs `future` in the background, while a thread is in [`MockConsul::run`],
    /// [`MockConsul::advance`] or a client's `block_on`.
    pub fn start<F>(&self, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.world().time.assert_own("`MockConsul::start`");
        Task::start(&self.world().executor, future)
    }

    /// Runs everything that is due in the next `duration`, in order, and ends `duration` later.
    /// With [`Duration::ZERO`] it runs what can run now. Time does not move until the threads of
    /// [`MockConsul::spawn_thread`] sleep.
    ///
    /// # Panics
    /// If it is called from a future of this world, if a future wakes itself forever, or if a
    /// spawned future panics.
    pub fn advance(&self, duration: Duration) {
        self.world().advance(duration);
    }

    /// Takes one step, for a test that looks between any two steps. It runs what can run now, then
    /// moves to the next timer or message that is due by `until`, and runs what that wakes. If
    /// there is none, time moves to `until` and this returns `false`.
    ///
    /// # Panics
    /// As [`MockConsul::advance`].
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn step(&self, until: Instant) -> bool {
        self.world().take_step(until)
    }

    /// The seed of everything that happens at random.
    pub fn seed(&self) -> u64 {
        self.world().seed
    }

    /// The present time.
    pub fn now(&self) -> Instant {
        self.world().now()
    }

    /// Waits for `duration`, within a future of this world.
    ///
    /// # Cancel safety
    /// Dropping the future removes the timer.
    pub async fn sleep(&self, duration: Duration) {
        self.world().sleep(duration).await;
    }

    /// Starts a thread on virtual time. Until `body` ends, time moves only while the thread is
    /// inside a client's `block_on` or [`MockConsul::run`]. Its other work takes no virtual time,
    /// however slow the machine is.
    ///
    /// `body` must not wait for another thread by other means, since time may then stand still. To
    /// start several threads at the same time, use [`MockConsul::hold_time`].
    pub fn spawn_thread<T: Send + 'static>(
        &self,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> thread::JoinHandle<T> {
        self.world().time.assert_own("`MockConsul::spawn_thread`");
        let seat = self.world().executor.reserve_seat();
        thread::spawn(move || {
            seat.take();
            body()
        })
    }

    /// Stops time until the returned guard is dropped. What is due now still happens, but time
    /// moves only by [`MockConsul::advance`]. A test can use this to start several threads at the
    /// same time.
    pub fn hold_time(&self) -> TimeHold {
        self.world().time.assert_own("`MockConsul::hold_time`");
        TimeHold {
            _seat: self.world().executor.hold_time(),
        }
    }

    pub(crate) fn kill_processes(&self, host: &str) {
        let host = self.world().with(|network| network.host(host));
        self.world().kill(host);
    }

    fn world(&self) -> &Arc<World> {
        &self.owner.0
    }
}

/// Time stands still while this exists. [`MockConsul::hold_time`] makes it.
#[must_use = "time goes on when this is dropped"]
pub struct TimeHold {
    _seat: Seat,
}

impl fmt::Debug for TimeHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TimeHold")
    }
}

/// Settings.
impl MockConsul {
    /// Sets whether time moves when everything sleeps. The default is `true`. With `false` only
    /// [`MockConsul::advance`] moves it.
    pub fn set_automatic_time(&self, automatic: bool) {
        self.world().set_automatic(automatic);
    }

    /// Sets how much virtual time one [`MockConsul::run`] may take before it counts as endless. The
    /// default is 72 hours. On tokio it applies to the whole world, is 24 hours, and clients panic
    /// after it.
    pub fn set_patience(&self, patience: Duration) {
        self.world().set_patience(patience);
    }

    /// Sets how long, in real time, somebody may wait in this world while nobody moves it. The
    /// default is two minutes; the advice is printed after 5 s.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn set_longest_wait(&self, longest: Duration) {
        self.world().executor.set_longest_wait(Some(longest));
    }

    /// Sets whether [`MockConsul::trace`] is kept. The default is `true`. Many short runs are
    /// faster without it.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn set_tracing(&self, is_kept: bool) {
        self.world().with(|network| network.trace.is_kept = is_kept);
    }

    /// Sets whether [`MockConsul::take_writes`] collects writes. The default is `false`.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn set_write_log(&self, is_kept: bool) {
        self.world()
            .with(|network| network.writes = is_kept.then(Vec::new));
    }

    /// Sets how long a message travels, one way. The time of each message is drawn from this range.
    /// The default is 1 ms.
    pub fn set_latency(&self, range: RangeInclusive<Duration>) {
        self.world().with(|network| {
            network.latency = range;
            network.usual_latency = None;
        });
    }

    /// Sets how many connections the agent allows one host; one more is reset. The default is 200.
    /// It counts exchanges under way, idle open connections, and blocking queries that were given
    /// up, until their wait is over.
    pub fn set_max_connections(&self, most: Option<usize>) {
        self.world().with(|network| network.max_connections = most);
    }

    /// The limit for one host.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn set_max_connections_of(&self, host: impl AsRef<str>, most: usize) {
        self.world().with(|network| {
            let host = network.host(host.as_ref());
            network.set_max_connections_of(host, most);
        });
    }
}

/// Looking.
impl MockConsul {
    /// What happened on the network, one line for each event, without tokens and bodies.
    pub fn trace(&self) -> String {
        self.world().with(|network| network.trace.to_string())
    }

    /// What happened, in a few lines: what went wrong, and how that changed slots and leaders. It
    /// is a part of [`MockConsul::trace`], and is kept as long.
    ///
    /// ```
    /// use transport_mock::{MockConsul, Semaphore};
    ///
    /// # fn main() -> Result<(), transport_mock::Error> {
    /// let world = MockConsul::new(7);
    /// let builder = Semaphore::builder("service/db", 1).value("a");
    /// let semaphore = builder.connect(world.client("node-1"))?;
    /// let permit = world.run(semaphore.acquire())?;
    /// world.partition("node-1");
    /// world.run(permit.lost());
    /// let story = world.story();
    /// let lines: Vec<_> = story.lines().map(|line| line[13..].to_owned()).collect();
    /// assert_eq!(lines, ["service/db is held by a", "node-1 cut off (Silent)"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn story(&self) -> String {
        self.world().with(|network| network.trace.story())
    }

    /// The last lines of [`MockConsul::trace`].
    #[cfg(feature = "loopback")]
    pub(crate) fn end_of_trace(&self) -> String {
        self.world().with(|network| network.trace.end())
    }

    /// The last lines of [`MockConsul::story`].
    #[cfg(feature = "loopback")]
    pub(crate) fn end_of_story(&self) -> String {
        self.world().with(|network| network.trace.end_of_story())
    }

    /// The number of open connections of served clients.
    #[cfg(feature = "loopback")]
    pub(crate) fn open_connections(&self) -> usize {
        self.world().with(|network| network.connected())
    }

    /// Adds a line to the trace, for what only the test knows.
    pub fn note(&self, what: impl fmt::Display) {
        self.world()
            .with(|network| network.trace.tell(network.now, format_args!("{what}")));
    }

    /// The writes that have reached Consul since the last call, in order, whatever their outcome.
    /// With [`MockConsul::step`] this shows whose request changed something.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn take_writes(&self) -> Vec<Delivered> {
        self.world().with(|network| {
            let writes = network.writes.as_mut();
            writes.map(std::mem::take).unwrap_or_default()
        })
    }

    /// The traffic between all hosts and Consul.
    pub fn stats(&self) -> Stats {
        self.world().with(|network| {
            network
                .stats()
                .fold(Stats::default(), |mut sum, (_, host)| {
                    sum.add(host);
                    sum
                })
        })
    }

    /// The traffic between one host and Consul.
    pub fn stats_of(&self, host: impl AsRef<str>) -> Stats {
        self.world().with(|network| {
            network
                .stats()
                .find(|(name, _)| *name == host.as_ref())
                .map(|(_, stats)| stats.clone())
                .unwrap_or_default()
        })
    }
}

impl fmt::Debug for MockConsul {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MockConsul")
            .field("now", &self.now())
            .finish_non_exhaustive()
    }
}
