//! The network behind a lock, beside the executor that uses its time.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use semaphore_core::adapter::{BoxFuture, Instant, Request};

use crate::consul::Profile;
use crate::executor::{Clock, Executor, Step};
use crate::fault::Fault;
use crate::network::{Call, Event, Host, Network, Outcome, Socket};
use crate::process::Process;
use crate::time::Time;
use crate::timeline::Key;
use crate::watchdog;

/// A sleep until this time never ends.
const NEVER: Instant = Instant::from_origin(Duration::MAX);

/// Locks are taken in the order network, executor. No waker is called and no future is dropped
/// under either.
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) executor: Arc<Executor>,
    pub(crate) time: Time,
    network: Mutex<Network>,
    settings: Mutex<Settings>,
    /// The present process of each host.
    processes: Mutex<BTreeMap<Host, Arc<Process>>>,
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    /// Whether time moves when everything sleeps.
    automatic: bool,
    patience: Duration,
}

impl World {
    pub(crate) fn new(seed: u64, profile: Profile, time: Time) -> Self {
        let patience = Duration::from_secs(time.patience() * 60 * 60);
        Self {
            seed,
            time,
            executor: Executor::new(),
            network: Mutex::new(Network::new(seed, profile)),
            settings: Mutex::new(Settings {
                automatic: true,
                patience,
            }),
            processes: Mutex::default(),
        }
    }

    pub(crate) fn now(&self) -> Instant {
        let now = self.lock().now;
        self.time.elsewhere().map_or(now, |it| it.max(now))
    }

    /// Looks at the network, or changes it, at the present time.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Network) -> T) -> T {
        self.catch_up();
        let mut network = self.lock();
        let result = act(&mut network);
        let woken = network.take_woken();
        drop(network);
        for waker in woken {
            waker.wake();
        }
        self.executor.poke();
        self.time.poke();
        result
    }

    /// Handles what is due by the clock of this world, if it is not its own. Returns when the next
    /// event is due.
    pub(crate) fn catch_up(&self) -> Option<Instant> {
        let now = self.time.elsewhere()?;
        while self.step(now) == Step::Moved {}
        let mut network = self.lock();
        network.now = network.now.max(now);
        network.next_due()
    }

    pub(crate) fn process(&self, host: Host) -> Arc<Process> {
        Arc::clone(self.processes().entry(host).or_default())
    }

    /// Ends what runs on this host. The next client belongs to another process.
    pub(crate) fn kill(&self, host: Host) {
        let process = self.processes().remove(&host);
        if let Some(process) = process {
            process.kill();
        }
    }

    fn processes(&self) -> MutexGuard<'_, BTreeMap<Host, Arc<Process>>> {
        let locked = self.processes.lock();
        locked.unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_automatic(&self, automatic: bool) {
        self.settings().automatic = automatic;
        let longest_wait = automatic.then_some(watchdog::LONGEST_WAIT);
        self.executor.set_longest_wait(longest_wait);
        self.executor.poke();
    }

    pub(crate) fn set_patience(&self, patience: Duration) {
        self.settings().patience = patience;
    }

    pub(crate) fn block_on<F: Future>(&self, future: Pin<&mut F>) -> F::Output {
        self.time.assert_own("`MockConsul::run`");
        if self.settings().automatic {
            crate::time::assert_no_tokio();
        }
        let entered = self.now();
        self.executor.block_on(
            &ByItself {
                world: self,
                entered,
            },
            future,
        )
    }

    /// Runs everything that is due until `duration` from now.
    pub(crate) fn advance(&self, duration: Duration) {
        self.time.assert_own("`MockConsul::advance`");
        let until = self.now() + duration;
        self.executor.run(&ByHand { world: self, until });
    }

    /// Runs what can run, handles the next event that is due by `until`, and runs what it wakes.
    pub(crate) fn take_step(&self, until: Instant) -> bool {
        self.time.assert_own("`MockConsul::step`");
        self.executor.run(&StandingStill);
        let moved = self.step(until) == Step::Moved;
        if moved {
            self.executor.run(&StandingStill);
        } else {
            let mut network = self.lock();
            network.now = network.now.max(until);
        }
        moved
    }

    pub(crate) fn spawn(&self, future: BoxFuture<'static, ()>) {
        self.assert_driven();
        match &self.time {
            Time::Own => {
                self.executor.spawn(future);
            }
            #[cfg(feature = "tokio")]
            Time::Tokio(tokio) => tokio.spawn(future),
        }
    }

    pub(crate) fn send(
        self: &Arc<Self>,
        host: Host,
        request: Request,
        fault: Option<Fault>,
    ) -> Sending {
        self.assert_driven();
        Sending {
            world: Arc::clone(self),
            call: self.with(|network| network.send(host, request, fault)),
            done: false,
        }
    }

    pub(crate) fn send_on(
        self: &Arc<Self>,
        socket: Socket,
        request: Request,
        fault: Option<Fault>,
    ) -> Sending {
        self.assert_driven();
        Sending {
            world: Arc::clone(self),
            call: self.with(|network| network.send_on(socket, request, fault)),
            done: false,
        }
    }

    pub(crate) async fn sleep(self: &Arc<Self>, duration: Duration) {
        self.assert_driven();
        match &self.time {
            Time::Own => {
                let sleep = Sleep {
                    world: Arc::clone(self),
                    until: self.now() + duration,
                    timer: None,
                };
                sleep.await;
            }
            #[cfg(feature = "tokio")]
            Time::Tokio(tokio) => tokio.sleep(duration).await,
        }
    }

    /// Checks, as far as possible, that something will drive what is begun here.
    fn assert_driven(&self) {
        match &self.time {
            Time::Own => {
                if self.settings().automatic && !self.executor.runs_here() {
                    crate::time::assert_no_tokio();
                }
            }
            #[cfg(feature = "tokio")]
            Time::Tokio(_) => {
                let patience = self.settings().patience;
                assert!(
                    self.now().since_origin() <= patience,
                    "{}",
                    Endless(patience)
                );
            }
        }
    }

    /// Somebody waits for something in this world.
    fn awaited(&self, waker: &Waker) {
        if matches!(self.time, Time::Own) {
            self.executor.awaited(waker);
        }
    }

    /// Goes to the next event if it is not after `limit`.
    fn step(&self, limit: Instant) -> Step {
        let mut network = self.lock();
        let Some(due) = network.next_due().filter(|due| *due <= limit) else {
            return Step::Nothing;
        };
        let before = network.now;
        network.step(due);
        let passed = network.now > before;
        let woken = network.take_woken();
        drop(network);
        if passed {
            self.executor.time_passed();
        }
        for waker in woken {
            waker.wake();
        }
        Step::Moved
    }

    fn lock(&self) -> MutexGuard<'_, Network> {
        self.network.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The message about a test that would go on forever.
struct Endless(Duration);

impl fmt::Display for Endless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hours = self.0.as_secs() / 3600;
        write!(
            f,
            "what is waited for has not happened in {hours} h of virtual time, though timers and messages go on \
             (`MockConsul::set_patience` allows more)"
        )
    }
}

/// Time that moves when everything sleeps.
struct ByItself<'a> {
    world: &'a World,
    entered: Instant,
}

impl Clock for ByItself<'_> {
    fn step(&self, held: bool) -> Step {
        let Settings {
            automatic,
            patience,
        } = *self.world.settings();
        if !automatic {
            return Step::Nothing;
        }
        assert!(
            self.world.now() <= self.entered + patience,
            "{}",
            Endless(patience)
        );
        let limit = if held { self.world.now() } else { NEVER };
        self.world.step(limit)
    }

    fn obeys_holds(&self) -> bool {
        true
    }
}

/// Time that does not move.
struct StandingStill;

impl Clock for StandingStill {
    fn step(&self, _held: bool) -> Step {
        Step::Nothing
    }

    fn obeys_holds(&self) -> bool {
        false
    }
}

/// Time that moves as far as the test says.
struct ByHand<'a> {
    world: &'a World,
    until: Instant,
}

impl Clock for ByHand<'_> {
    fn step(&self, held: bool) -> Step {
        if held {
            return self.world.step(self.world.now());
        }
        let step = self.world.step(self.until);
        if step == Step::Nothing {
            let mut network = self.world.lock();
            network.now = network.now.max(self.until);
        }
        step
    }

    fn obeys_holds(&self) -> bool {
        false
    }
}

/// A request under way. Dropping it hangs up.
pub(crate) struct Sending {
    world: Arc<World>,
    call: Call,
    done: bool,
}

impl Future for Sending {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let call = self.call;
        let outcome = self.world.lock().poll_outcome(call, context.waker());
        let Some(outcome) = outcome else {
            self.world.awaited(context.waker());
            return Poll::Pending;
        };
        self.done = true;
        Poll::Ready(outcome)
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if !self.done {
            self.world.with(|network| network.give_up(self.call));
        }
    }
}

/// A wait for a point in virtual time. Dropping it removes the timer, so that nothing waits for an
/// unneeded time.
struct Sleep {
    world: Arc<World>,
    until: Instant,
    timer: Option<Key>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let until = self.until;
        let timer = self.timer;
        let mut network = self.world.lock();
        if network.now >= until {
            return Poll::Ready(());
        }
        if until == NEVER {
            return Poll::Pending;
        }
        if let Some(Event::Wake(waker)) = timer.and_then(|key| network.timeline.get_mut(key)) {
            waker.clone_from(context.waker());
            drop(network);
            self.world.awaited(context.waker());
            return Poll::Pending;
        }
        let event = Event::Wake(context.waker().clone());
        let key = network.timeline.add(until, event);
        drop(network);
        self.timer = Some(key);
        self.world.executor.poke();
        self.world.awaited(context.waker());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.timer {
            let event = self.world.lock().timeline.remove(key);
            drop(event);
        }
    }
}
