//! The world as a test holds it.

use std::fmt;
use std::future::Future;
use std::ops::RangeInclusive;
use std::panic::Location;
use std::pin::pin;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use semaphore_core::adapter::Instant;

use crate::client::MockClient;
use crate::consul::{Consul, Profile, RequestLimits, Snapshot};
use crate::executor::Seat;
use crate::fault::{Faults, Rule};
use crate::network::{Cut, Delivered, Network};
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
/// When the last clone is dropped while a [`Rule`] has not struck as often as it is to, which it names: what
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

    /// The host of this name: with connections of its own, and a target for faults of its own.
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
    /// by itself only while the thread is inside a client's `block_on` (or [`MockConsul::run`]).
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
    /// Whether time moves by itself when everything sleeps (it does, unless this says otherwise).
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

    /// How long a message travels, one way: drawn anew for each from this range. 1 ms, unless
    /// this says otherwise.
    pub fn set_latency(&self, range: RangeInclusive<Duration>) {
        self.world().with(|network| network.latency = range);
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

/// Faults.
impl MockConsul {
    /// Adds a rule behind those that are there.
    #[track_caller]
    pub fn inject(&self, rule: Rule) {
        let at = Location::caller();
        self.world().with(|network| network.rules.add(rule, at));
    }

    /// How many of the rules, optional ones aside, have not struck as often as they are to, or were cleared
    /// before: zero when all that a test has aimed has hit.
    pub fn pending_rules(&self) -> usize {
        self.world().with(|network| network.rules.pending())
    }

    /// Lets this world be dropped although rules have not struck as often as they are to, as a test may want
    /// that does not know how much will happen.
    pub fn allow_unmet_rules(&self) {
        self.world().with(|network| network.rules.allow_unmet());
    }

    /// From now on things go wrong by themselves at these rates.
    pub fn set_faults(&self, faults: Faults) {
        self.world().with(|network| network.faults = faults);
    }

    /// Removes all rules and rates, heals all partitions, lets all agents and the leader catch up,
    /// and elects a leader if the network took it away. A rule that should have struck more often is
    /// remembered for [`MockConsul::pending_rules`].
    pub fn clear_faults(&self) {
        self.world().with(Network::repair);
    }

    /// Cuts a host off without a word: whatever goes either way from now on is lost, and the
    /// host only sees its timeouts.
    pub fn partition(&self, host: impl AsRef<str>) {
        self.cut(host.as_ref(), Cut::Silent);
    }

    /// Cuts a host off as [`MockConsul::partition`] does, but nothing is lost: all of it arrives
    /// when the cut is healed, even from clients that have long given up, as TCP does it.
    pub fn stall(&self, host: impl AsRef<str>) {
        self.cut(host.as_ref(), Cut::Stalled);
    }

    /// Ends [`MockConsul::partition`] or [`MockConsul::stall`].
    pub fn heal(&self, host: impl AsRef<str>) {
        self.world().with(|network| {
            let host = network.host(host.as_ref());
            network.heal(host);
        });
    }

    /// From now on this host talks to the agent on this node, which is registered if it is not in the
    /// catalog: the sessions that it makes stand there. Unless this says otherwise all hosts talk to one
    /// agent, on [`consul::NODE`](crate::consul::NODE).
    pub fn set_agent(&self, host: impl AsRef<str>, node: impl AsRef<str>) {
        self.world().with(|network| {
            let host = network.host(host.as_ref());
            network.set_agent(host, node.as_ref());
        });
    }

    /// Takes a node out of the catalog. All sessions on it end at once, whatever their TTL, and their
    /// lock delays begin. So it is done to a server some ten seconds after it died or was cut off, together with
    /// its hosts, who then don't know:
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use transport_mock::Semaphore;
    /// use transport_mock::adapter::Runtime;
    /// use transport_mock::MockConsul;
    ///
    /// # fn main() -> Result<(), transport_mock::Error> {
    /// let world = MockConsul::new(7);
    /// world.set_agent("node-1", "server-2");
    /// let semaphore = Semaphore::builder("service/db", 1).connect(world.client("node-1"))?;
    /// let permit = world.run(semaphore.acquire())?;
    ///
    /// world.partition("node-1"); // the server dies
    /// world.advance(Duration::from_secs(10));
    /// world.deregister_node("server-2"); // autopilot
    /// assert_eq!(world.consul(|consul, _| consul.sessions().count()), 0);
    /// assert!(permit.is_held(), "by its lease, and nobody else may have the slot");
    ///
    /// world.heal("node-1"); // the server comes back
    /// world.register_node("server-2");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Its hosts can go on through it, but make no session: that is answered 500 `Missing node registration`
    /// until [`MockConsul::register_node`], which an agent does that comes back.
    pub fn deregister_node(&self, node: impl AsRef<str>) {
        self.world()
            .with(|network| network.deregister_node(node.as_ref()));
    }

    /// Puts a node into the catalog, unless it is there.
    pub fn register_node(&self, node: impl AsRef<str>) {
        self.world()
            .with(|network| network.register_node(node.as_ref()));
    }

    /// From now on the agent of this host lags behind: reads of this host that don't ask for
    /// `?consistent` show the state as it is now, and blocking queries wait, until
    /// [`MockConsul::catch_up`]. Writes and consistent reads go to the leader.
    pub fn lag(&self, host: impl AsRef<str>) {
        self.world().with(|network| {
            let host = network.host(host.as_ref());
            network.lag(host);
        });
    }

    /// Ends [`MockConsul::lag`]: the agent knows what the leader knows.
    pub fn catch_up(&self, host: impl AsRef<str>) {
        self.world().with(|network| {
            let host = network.host(host.as_ref());
            network.catch_up(host);
        });
    }

    /// Every connection of every host breaks, with all that is on its way, as when a cluster is
    /// replaced by another one.
    pub fn break_connections(&self) {
        self.world().with(Network::break_connections);
    }

    /// From now on agents hold what comes while there is no leader, each request for a time of this range, before it is
    /// answered 500 `No cluster leader`. When a leader is elected, what is held is applied, each at a time of its own
    /// of at most `late` after the election: also a write that its client has given up, and after a read that was sent
    /// later. An agent of 1.8.7 holds requests for 7 s and one of 1.23 for 9 to 18 s; they were seen to apply them
    /// up to 0.3 s and 4.7 s later than such a read.
    ///
    /// The connection of a request that is held counts, also when its client has given it up. Reads with `?stale` are
    /// answered. Without this call everything is refused at once.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn hold_without_leader(&self, wait: RangeInclusive<Duration>, late: Duration) {
        self.world()
            .with(|network| network.hold_without_leader(wait, late));
    }

    /// From now on agents hold what comes while there is no leader, as those of this world's
    /// [profile](crate::consul::Profile) do, before it is answered 500 `No cluster leader`: for 7 s in 1.8, and for 9 to 18 s in
    /// newer ones. When a leader is elected, what is held is applied, also a write that its client has given up.
    pub fn hold_without_leader_as_agents_do(&self) {
        let (wait, late) = self.consul(|consul, _| consul.profile().without_leader());
        self.hold_without_leader(wait, late);
    }

    /// From now on servers serve so many requests and no more, until this says otherwise. Agents have such limits from
    /// 1.15 on.
    ///
    /// ```
    /// use transport_mock::adapter::{Method, Request, Transport};
    /// use transport_mock::MockConsul;
    /// use transport_mock::consul::{RequestLimits, Version};
    ///
    /// let world = MockConsul::with_profile(7, Version::V1_15);
    /// let node = world.client("node-1");
    /// world.set_request_limits(Some(RequestLimits { read_rate: None, write_rate: Some(0.1) }));
    /// let write = || Request::new(Method::Put, "/v1/kv/greeting").with_body("hello");
    /// assert_eq!(world.run(node.send(write()))?.status(), 200);
    /// assert_eq!(world.run(node.send(write()))?.status(), 503);
    ///
    /// world.set_request_limits(None);
    /// assert_eq!(world.run(node.send(write()))?.status(), 200);
    /// # Ok::<(), transport_mock::adapter::TransportError>(())
    /// ```
    ///
    /// # Panics
    /// When there are limits, and this world's [profile](crate::consul::Profile) is of a release before 1.15.
    pub fn set_request_limits(&self, limits: Option<RequestLimits>) {
        self.consul(|consul, now| consul.set_request_limits(now, limits));
    }

    /// How many requests [were held](Self::hold_without_leader) without a leader, and how many writes of them were applied
    /// when their client had given them up.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn held_without_leader(&self) -> (u64, u64) {
        self.world().with(|network| network.held())
    }

    /// The cluster loses its leader: every request is answered 500 `No cluster leader`, at once unless agents
    /// [hold](Self::hold_without_leader_as_agents_do) it.
    pub fn lose_leader(&self) {
        self.world().with(Network::lose_leader);
    }

    /// The cluster elects a leader, which restarts the TTL of every session.
    pub fn elect_leader(&self) {
        self.world().with(Network::elect_leader);
    }

    /// The cluster elects a leader that has applied no more of its log than is in this snapshot,
    /// until [`MockConsul::catch_up_leader`]: a server that had lagged, or was restarted. Meanwhile
    /// - a session that is not in the snapshot is unknown: its renewal is answered 404;
    /// - reads that don't ask for `?consistent` show the snapshot, and blocking queries wait;
    /// - writes and consistent reads, and all transactions, wait. They go through the log, in their
    ///   order, and are answered when they are applied, or refused when the leader is lost before.
    ///   (A real leader lets a consistent read wait for seven seconds at most, and checks lock delays
    ///   and permissions of a write by what it has applied.)
    ///
    /// No session expires meanwhile; all TTLs start anew when the leader has caught up.
    ///
    /// ```
    /// use transport_mock::adapter::{Method, Request, Transport};
    /// use transport_mock::MockConsul;
    ///
    /// let world = MockConsul::new(7);
    /// let node = world.client("node-1");
    /// let before = world.consul(|consul, _| consul.snapshot());
    /// let write = Request::new(Method::Put, "/v1/kv/greeting").with_body("hello");
    /// world.run(node.send(write))?;
    ///
    /// world.elect_leader_behind(&before);
    /// let read = || Request::new(Method::Get, "/v1/kv/greeting");
    /// assert_eq!(world.run(node.send(read()))?.status(), 404);
    /// world.catch_up_leader();
    /// assert_eq!(world.run(node.send(read()))?.status(), 200);
    /// # Ok::<(), transport_mock::adapter::TransportError>(())
    /// ```
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn elect_leader_behind(&self, applied: &Snapshot) {
        self.world()
            .with(|network| network.elect_leader_behind(applied));
    }

    /// The leader of [`MockConsul::elect_leader_behind`] has applied its log.
    #[cfg_attr(feature = "unstable-proofs", visibility::make(pub))]
    pub(crate) fn catch_up_leader(&self) {
        self.world().with(Network::catch_up_leader);
    }

    /// Acts on Consul itself, as an operator would, or looks into it. Whom it concerns learns of
    /// it in the usual way.
    pub fn consul<T>(&self, act: impl FnOnce(&mut Consul, Instant) -> T) -> T {
        self.world().with(|network| {
            let result = act(&mut network.consul, network.now);
            network.collect_answers();
            result
        })
    }

    fn cut(&self, host: &str, cut: Cut) {
        self.world().with(|network| {
            let host = network.host(host);
            network.cut(host, cut);
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
