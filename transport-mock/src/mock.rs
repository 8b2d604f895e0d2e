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

/// A simulated world: a Consul in memory, hosts that talk to it over a network that fails on
/// demand, and a clock that only the test or idleness moves.
///
/// Clones are the same world. When the last one is dropped, so are the futures that still run
/// in it; a [`MockClient`] does not keep them alive.
///
/// # Panics
/// When the last clone is dropped while a [`Rule`](crate::Rule) has not struck as often as it is to, which it names: what
/// the test was to show has not happened. Rules for always don't count, those that were cleared before do. Not
/// after [`MockConsul::allow_unmet_rules`], and not on a thread that panics already.
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
    /// A world at time zero with an empty Consul. All that happens at random follows from `seed`.
    pub fn new(seed: u64) -> Self {
        Self::with_profile(seed, Profile::default())
    }

    /// The same with another release or edition of Consul:
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

    /// A world in a test on tokio: its time is tokio's, and so are the tasks that its clients spawn. Under
    /// `#[tokio::test(start_paused = true)]`, the sleeps and timeouts of the code under test, leases, sessions and
    /// faults share one clock, which leaps to what comes next when everything waits. It begins at zero.
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
    /// - Nothing has to drive it: [`MockConsul::run`], [`MockConsul::advance`],
    ///   [`MockConsul::start`] and [`MockConsul::spawn_thread`] are for worlds whose time is their own, and panic here.
    /// - On one thread, as `start_paused` has it, two runs are the same for the world's seed. `tokio::select!` without
    ///   `biased` draws from a seed of tokio's own.
    /// - `tokio::time::sleep` lets the world live through a time. `tokio::time::advance` leaps over it, as if the whole
    ///   process had been frozen meanwhile: what Consul does goes on, and no renewal is sent.
    /// - Without `start_paused` it goes by the real clock.
    /// - Blocking handles need threads, for which tokio's paused time does not wait: give them a world of
    ///   [`MockConsul::new`].
    /// - tokio's timers have a resolution of a millisecond.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[cfg(feature = "tokio")]
    pub fn on_tokio(seed: u64) -> Self {
        Self::on_tokio_with_profile(seed, Profile::default())
    }

    /// The same with another release or edition of Consul.
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

    /// The host of this name: with separate connections, and a target for separate faults.
    pub fn client(&self, host: impl AsRef<str>) -> MockClient {
        let host = self.world().with(|network| network.host(host.as_ref()));
        MockClient::new(Arc::clone(self.world()), host)
    }

    /// Runs `future` to its end on the calling thread, and everything that was spawned meanwhile.
    /// When nothing can run, virtual time moves to the next timer or message.
    ///
    /// Several threads may do this at once: they take turns, and time moves only when all of
    /// them sleep.
    ///
    /// # Panics
    /// When the test can't end: nothing is left that could wake the future, a future wakes
    /// itself for ever, or [`MockConsul::set_patience`] is over. When called from inside a future
    /// that this world runs. When a spawned future panics. In a test on tokio, for which there is
    /// `MockConsul::on_tokio`.
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        time::with_advice(|| self.world().block_on(pin!(future)))
    }

    /// Runs `future` in the background: whenever a thread is in [`MockConsul::run`],
    /// [`MockConsul::advance`] or a client's `block_on`.
    pub fn start<F>(&self, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.world().time.assert_own("`MockConsul::start`");
        Task::start(&self.world().executor, future)
    }

    /// Runs all that is due in the next `duration`, in order, and ends `duration` later. With
    /// [`Duration::ZERO`] it runs what can run now. Before time moves it waits for the threads of
    /// [`MockConsul::spawn_thread`] to be asleep.
    ///
    /// # Panics
    /// When called from inside a future that this world runs, when a future wakes itself for
    /// ever, and when a spawned future panics.
    pub fn advance(&self, duration: Duration) {
        self.world().advance(duration);
    }

    /// Goes on by one step, for a test that looks between any two: runs what can run now, then
    /// goes to the next timer or message that is due by `until`, and runs what that wakes. Without
    /// one, time ends at `until`, and this says `false`.
    ///
    /// # Panics
    /// As [`MockConsul::advance`].
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn step(&self, until: Instant) -> bool {
        self.world().take_step(until)
    }

    /// What all that happens at random follows from.
    pub fn seed(&self) -> u64 {
        self.world().seed
    }

    /// The present time.
    pub fn now(&self) -> Instant {
        self.world().now()
    }

    /// Waits for `duration`, inside a future that this world runs.
    ///
    /// # Cancel safety
    /// Dropping the future removes the timer.
    pub async fn sleep(&self, duration: Duration) {
        self.world().sleep(duration).await;
    }

    /// Starts a thread that lives on virtual time: from now on and until `body` ends, time moves
    /// on its own only while the thread is inside a client's `block_on` (or [`MockConsul::run`]).
    /// What it does between takes no virtual time, however slow the machine is.
    ///
    /// `body` must not wait for another thread by other means, since time may stand still. Threads
    /// that are to begin at the same time are started under [`MockConsul::hold_time`].
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

    /// Holds time still until the returned guard is dropped: what is due now still happens, and
    /// nothing else, unless [`MockConsul::advance`] moves time. For instance while a test starts
    /// several threads that are to begin at the same time.
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

/// Time stands still as long as this lives. Made by [`MockConsul::hold_time`].
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
    /// Whether time moves on its own when everything sleeps (it does, unless this says otherwise).
    /// Otherwise only [`MockConsul::advance`] moves it, whenever the test gets round to it.
    pub fn set_automatic_time(&self, automatic: bool) {
        self.world().set_automatic(automatic);
    }

    /// How much virtual time one [`MockConsul::run`] may take before it is said never to end, 72 hours unless this says
    /// otherwise; on tokio the world as a whole, 24 hours, after which its clients panic.
    pub fn set_patience(&self, patience: Duration) {
        self.world().set_patience(patience);
    }

    /// How long, in real time, somebody may wait in this world while nobody moves it: 5 s, unless this says otherwise.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn set_longest_wait(&self, longest: Duration) {
        self.world().executor.set_longest_wait(Some(longest));
    }

    /// Whether [`MockConsul::trace`] is kept (it is, unless this says otherwise). Many short runs
    /// take less time without.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn set_tracing(&self, is_kept: bool) {
        self.world().with(|network| network.trace.is_kept = is_kept);
    }

    /// Whether [`MockConsul::take_writes`] has something to give. Off, unless this says otherwise.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn set_write_log(&self, is_kept: bool) {
        self.world()
            .with(|network| network.writes = is_kept.then(Vec::new));
    }

    /// How long a message travels, one way: drawn again for each from this range. 1 ms, unless
    /// this says otherwise.
    pub fn set_latency(&self, range: RangeInclusive<Duration>) {
        self.world().with(|network| {
            network.latency = range;
            network.usual_latency = None;
        });
    }

    /// How many connections the agent allows one host; one more is reset. 200 unless this says otherwise. It
    /// counts the exchanges under way, what is kept open, and blocking queries that were given up, until their wait is over.
    pub fn set_max_connections(&self, most: Option<usize>) {
        self.world().with(|network| network.max_connections = most);
    }

    /// The same for one host, whose agent allows it so many.
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
    /// What went over the network, one line for each thing that happened. Tokens and bodies are
    /// not in it.
    pub fn trace(&self) -> String {
        self.world().with(|network| network.trace.to_string())
    }

    /// What happened, in a few lines: what went wrong, and what became of the slots and leaders by it. It is a part of
    /// [`MockConsul::trace`], and as long as that is kept.
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

    /// How many connections of clients that are served are open.
    #[cfg(feature = "loopback")]
    pub(crate) fn open_connections(&self) -> usize {
        self.world().with(|network| network.connected())
    }

    /// Adds a line to the trace, for what only the test knows.
    pub fn note(&self, what: impl fmt::Display) {
        self.world()
            .with(|network| network.trace.tell(network.now, format_args!("{what}")));
    }

    /// The writes that have reached Consul since the last call, in order, whatever their outcome:
    /// with [`MockConsul::step`] this tells whose request changed something.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn take_writes(&self) -> Vec<Delivered> {
        self.world().with(|network| {
            let writes = network.writes.as_mut();
            writes.map(std::mem::take).unwrap_or_default()
        })
    }

    /// What went between all hosts and Consul.
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

    /// What went between one host and Consul.
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
