//! Runs futures one at a time, in the order in which they were woken.
//!
//! ```text
//!             wake                    next turn
//!  task ──────────────▶ run queue ───────────────▶ polled by the thread that has the baton
//!  root ──────────────▶ (FIFO)    ───────────────▶ polled by its own thread, with the baton
//!                        empty    ───────────────▶ time moves by one event
//! ```
//!
//! The executor owns its *tasks*; any thread inside drives them. A *root* is the future of one
//! `block_on`. It may borrow from its thread's stack, so only that thread can poll it. Only the
//! thread that has the *baton* does anything. So a single thread always does everything in the same
//! order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use semaphore_core::adapter::BoxFuture;

use crate::watchdog;

/// How long, in real time, an idle thread waits for another thread before the test counts as
/// deadlocked.
const GRACE: Duration = Duration::from_secs(30);

/// So many turns at one instant count as an endless loop.
const MAX_TURNS_PER_INSTANT: u64 = 1_000_000;

/// Identifies a task or root. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id(u64);

/// The clock that an executor moves when nothing can run.
pub(crate) trait Clock {
    /// Handles the next event, if this mover may advance to it. When `held`, it handles only events
    /// that are due now.
    fn step(&self, held: bool) -> Step;

    /// Whether a [`TimeHold`](Seat) stops this mover. Busy threads stop every mover.
    fn obeys_holds(&self) -> bool;
}

/// What [`Clock::step`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// An event was handled. Time may have passed.
    Moved,
    /// No event is left, or time may not move that far.
    Nothing,
}

pub(crate) struct Executor {
    me: Weak<Self>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Id>,
    queued: BTreeSet<Id>,
    /// `None` while a task is being polled.
    tasks: BTreeMap<Id, Option<BoxFuture<'static, ()>>>,
    roots: BTreeMap<Id, ThreadId>,
    baton: Option<ThreadId>,
    seats: BTreeMap<Id, Sitter>,
    last_id: u64,
    /// Counts everything that might end a wait.
    changes: u64,
    turns: u64,
    first_thread: Option<ThreadId>,
    shared: bool,
    /// How long, in real time, somebody may wait while nobody moves the world. `None` if the test
    /// moves it later.
    longest_wait: Option<Duration>,
    stranded: Stranded,
    /// Whether the advice was printed.
    is_advised: bool,
    is_watched: bool,
}

/// Whether somebody waits while no thread is inside.
#[derive(Default)]
enum Stranded {
    #[default]
    No,
    /// Since when, in real time, and which wakers of other executors wait.
    Since(Instant, Vec<Waker>),
    /// For too long. Nothing runs here any more.
    Ended,
}

impl Executor {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            state: Mutex::new(State {
                longest_wait: Some(watchdog::LONGEST_WAIT),
                ..State::default()
            }),
            changed: Condvar::new(),
        })
    }

    /// How long, in real time, somebody may wait while nobody moves the world.
    pub(crate) fn set_longest_wait(&self, longest: Option<Duration>) {
        self.lock().longest_wait = longest;
    }

    /// Notes that somebody waits for this world, maybe on another executor.
    ///
    /// # Panics
    /// If nobody has moved the world for too long.
    pub(crate) fn awaited(&self, waker: &Waker) {
        let mut state = self.lock();
        state.assert_not_ended();
        state.strand(&self.me);
        if let Stranded::Since(_, outside) = &mut state.stranded
            && !outside.iter().any(|it| it.will_wake(waker))
        {
            outside.push(waker.clone());
        }
    }

    /// Ends this world if somebody has waited too long and nobody moves it.
    pub(crate) fn end_if_stranded(&self) -> bool {
        let mut state = self.lock();
        let (since, outside) = match &state.stranded {
            Stranded::Since(since, outside) => (since, outside),
            Stranded::No => return false,
            Stranded::Ended => return true,
        };
        let is_awaited = !outside.is_empty() || !state.tasks.is_empty();
        let Some(longest) = state.longest_wait.filter(|_| is_awaited) else {
            return false;
        };
        let waited = since.elapsed();
        if waited >= watchdog::SOON.min(longest) && !state.is_advised {
            eprintln!("{}", watchdog::ADVICE);
            state.is_advised = true;
        }
        if waited < longest {
            return false;
        }
        let tasks = std::mem::take(&mut state.tasks);
        let before = std::mem::replace(&mut state.stranded, Stranded::Ended);
        drop(state);
        // Dropping them tells those who wait for these tasks.
        drop(tasks);
        if let Stranded::Since(_, outside) = before {
            outside.into_iter().for_each(Waker::wake);
        }
        true
    }

    /// Notes that a handle of this world is used, and may wait for a task. Returns whether the
    /// world was ended because nobody moved it.
    pub(crate) fn used(&self) -> bool {
        let mut state = self.lock();
        state.strand(&self.me);
        matches!(state.stranded, Stranded::Ended)
    }

    /// # Panics
    /// Panics with advice if this world was ended.
    pub(crate) fn assert_not_ended(&self) {
        self.lock().assert_not_ended();
    }

    /// Takes over a future and queues its first poll.
    pub(crate) fn spawn(&self, future: BoxFuture<'static, ()>) -> Id {
        let mut state = self.lock();
        state.assert_not_ended();
        let id = state.new_id();
        state.tasks.insert(id, Some(future));
        state.queue(id);
        state.strand(&self.me);
        self.changed.notify_all();
        id
    }

    /// Drops a task's future. A task that is being polled continues to its next wait first.
    pub(crate) fn cancel(&self, id: Id) {
        let future = self.lock().tasks.remove(&id);
        drop(future);
    }

    /// Drops every task, including tasks that are spawned during the drops.
    pub(crate) fn clear(&self) {
        loop {
            let tasks = std::mem::take(&mut self.lock().tasks);
            if tasks.is_empty() {
                return;
            }
            drop(tasks);
        }
    }

    /// Whether the calling thread runs one of this executor's futures right now.
    pub(crate) fn runs_here(&self) -> bool {
        self.lock().baton == Some(thread::current().id())
    }

    /// Makes waiting threads check again.
    pub(crate) fn poke(&self) {
        self.lock().changes += 1;
        self.changed.notify_all();
    }

    /// A seat for a thread that will start soon.
    pub(crate) fn reserve_seat(self: &Arc<Self>) -> Seat {
        self.seat(Sitter::Starting)
    }

    /// A seat that nobody takes, so that time stands still.
    pub(crate) fn hold_time(self: &Arc<Self>) -> Seat {
        self.seat(Sitter::Hold)
    }

    fn seat(self: &Arc<Self>, sitter: Sitter) -> Seat {
        let mut state = self.lock();
        let id = state.new_id();
        state.seats.insert(id, sitter);
        state.shared = true;
        Seat {
            executor: Arc::clone(self),
            id,
        }
    }

    /// Polls `future` to its end, and runs everything else meanwhile.
    pub(crate) fn block_on<F: Future>(
        self: &Arc<Self>,
        clock: &dyn Clock,
        mut future: Pin<&mut F>,
    ) -> F::Output {
        let root = self.enter();
        let waker = self.waker(root.id);
        loop {
            match self.next_turn(Some(root.id), clock) {
                Turn::Task(_baton, id, task) => self.poll_task(id, task),
                Turn::Root(baton) => {
                    let mut context = Context::from_waker(&waker);
                    if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                        // The order matters. Otherwise the thread that takes the baton could take
                        // this one for asleep and move time.
                        drop(root);
                        drop(baton);
                        return output;
                    }
                }
                Turn::Idle(baton, idle) => {
                    if clock.step(idle.held) == Step::Nothing {
                        drop(baton);
                        self.wait_for_another_thread(idle);
                    }
                }
            }
        }
    }

    /// Runs everything and advances time, until `clock` moves no further.
    pub(crate) fn run(self: &Arc<Self>, clock: &dyn Clock) {
        loop {
            match self.next_turn(None, clock) {
                Turn::Task(_baton, id, task) => self.poll_task(id, task),
                Turn::Root(_) => {}
                Turn::Idle(baton, idle) => {
                    if clock.step(idle.held) == Step::Nothing {
                        if !idle.held {
                            return;
                        }
                        drop(baton);
                        self.wait_for_another_thread(idle);
                    }
                }
            }
        }
    }

    /// Time has passed: counts the turns of a new instant.
    pub(crate) fn time_passed(&self) {
        self.lock().turns = 0;
    }

    fn enter(&self) -> Root<'_> {
        let me = thread::current().id();
        let mut state = self.lock();
        state.assert_not_nested(me);
        if *state.first_thread.get_or_insert(me) != me {
            state.shared = true;
        }
        let id = state.new_id();
        state.roots.insert(id, me);
        state.queue(id);
        self.changed.notify_all();
        Root { executor: self, id }
    }

    fn next_turn(&self, own: Option<Id>, clock: &dyn Clock) -> Turn<'_> {
        let me = thread::current().id();
        let mut state = self.lock();
        state.assert_not_nested(me);
        state.assert_not_ended();
        loop {
            if state.baton.is_none() {
                match state.ready.front().copied() {
                    Some(id) if state.roots.contains_key(&id) => {
                        if own == Some(id) {
                            state.dequeue_first();
                            return Turn::Root(self.take_baton(state, me));
                        }
                    }
                    Some(id) => {
                        state.dequeue_first();
                        if let Some(task) = state.tasks.get_mut(&id).and_then(Option::take) {
                            return Turn::Task(self.take_baton(state, me), id, task);
                        }
                        continue;
                    }
                    None => {
                        let idle = Idle {
                            changes: state.changes,
                            held: state.time_is_held(me, clock.obeys_holds()),
                        };
                        return Turn::Idle(self.take_baton(state, me), idle);
                    }
                }
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn take_baton(&self, mut state: MutexGuard<'_, State>, me: ThreadId) -> Baton<'_> {
        let stranded = std::mem::take(&mut state.stranded);
        state.turns += 1;
        state.assert_not_spinning();
        state.baton = Some(me);
        drop(state);
        // This may drop the last waker of a task, and the task with it.
        drop(stranded);
        Baton { executor: self }
    }

    fn poll_task(self: &Arc<Self>, id: Id, mut task: BoxFuture<'static, ()>) {
        let waker = self.waker(id);
        let poll = task.as_mut().poll(&mut Context::from_waker(&waker));
        let mut state = self.lock();
        if poll.is_ready() {
            state.tasks.remove(&id);
        } else if let Some(slot) = state.tasks.get_mut(&id) {
            *slot = Some(task);
            return;
        }
        // Dropping a future may wake, spawn or hang up. All of these need the lock.
        drop(state);
        drop(task);
    }

    /// Nothing can run and no event is due. Only another thread can end this wait.
    fn wait_for_another_thread(&self, idle: Idle) {
        let state = self.lock();
        if !state.shared && !idle.held {
            drop(state);
            deadlocked("no other thread has ever used this world");
        }
        let (state, waited) = self
            .changed
            .wait_timeout_while(state, GRACE, |state| state.changes == idle.changes)
            .unwrap_or_else(PoisonError::into_inner);
        drop(state);
        if waited.timed_out() {
            deadlocked(if idle.held {
                "a thread of `spawn_thread` or a `TimeHold` has held time for 30 s"
            } else {
                "no other thread has woken it for 30 s"
            });
        }
    }

    fn waker(self: &Arc<Self>, id: Id) -> Waker {
        Waker::from(Arc::new(TaskWaker {
            executor: Arc::clone(self),
            id,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new_id(&mut self) -> Id {
        self.last_id += 1;
        Id(self.last_id)
    }

    fn queue(&mut self, id: Id) {
        let known = self.tasks.contains_key(&id) || self.roots.contains_key(&id);
        if known && self.queued.insert(id) {
            self.ready.push_back(id);
        }
        self.changes += 1;
    }

    fn dequeue_first(&mut self) {
        if let Some(id) = self.ready.pop_front() {
            self.queued.remove(&id);
        }
    }

    fn time_is_held(&self, me: ThreadId, obeys_holds: bool) -> bool {
        self.seats.values().any(|sitter| match sitter {
            Sitter::Starting => true,
            Sitter::Thread(thread) => {
                *thread != me && !self.roots.values().any(|inside| inside == thread)
            }
            Sitter::Hold => obeys_holds,
        })
    }

    /// Something can run, or is awaited. If no thread is inside, one has to come.
    fn strand(&mut self, me: &Weak<Executor>) {
        let is_moved = self.baton.is_some() || !self.roots.is_empty() || !self.seats.is_empty();
        if !is_moved && self.longest_wait.is_some() && matches!(self.stranded, Stranded::No) {
            self.stranded = Stranded::Since(Instant::now(), Vec::new());
            if !std::mem::replace(&mut self.is_watched, true) {
                watchdog::watch(Weak::clone(me));
            }
        }
    }

    fn assert_not_ended(&self) {
        assert!(
            !matches!(self.stranded, Stranded::Ended),
            "{}",
            watchdog::ADVICE
        );
    }

    fn assert_not_nested(&self, me: ThreadId) {
        assert!(
            self.baton != Some(me),
            "`block_on`, `run` or `advance` was called from inside a future that the world runs: await there instead"
        );
    }

    fn assert_not_spinning(&self) {
        assert!(
            self.turns <= MAX_TURNS_PER_INSTANT,
            "{MAX_TURNS_PER_INSTANT} polls without any time passing: a future wakes itself for ever"
        );
    }
}

#[expect(clippy::panic, reason = "a test that would never end is to fail")]
fn deadlocked(why: &str) -> ! {
    panic!(
        "deadlock: everything waits, no timer or message is left that could end it (or time only moves by `advance`), and {why}"
    );
}

/// What runs next.
enum Turn<'a> {
    Task(Baton<'a>, Id, BoxFuture<'static, ()>),
    Root(Baton<'a>),
    Idle(Baton<'a>, Idle),
}

/// The state at the moment when nothing could run.
#[derive(Clone, Copy)]
struct Idle {
    changes: u64,
    held: bool,
}

struct Baton<'a> {
    executor: &'a Executor,
}

impl Drop for Baton<'_> {
    fn drop(&mut self) {
        self.executor.lock().baton = None;
        self.executor.changed.notify_all();
    }
}

/// A thread's stay inside `block_on`.
struct Root<'a> {
    executor: &'a Executor,
    id: Id,
}

impl Drop for Root<'_> {
    fn drop(&mut self) {
        let mut state = self.executor.lock();
        state.roots.remove(&self.id);
        if state.queued.remove(&self.id) {
            let id = self.id;
            state.ready.retain(|ready| *ready != id);
        }
        state.changes += 1;
        drop(state);
        self.executor.changed.notify_all();
    }
}

/// What keeps time from moving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sitter {
    /// A thread that has not started yet.
    Starting,
    /// A thread, while it is outside `block_on`.
    Thread(ThreadId),
    /// The test, until it drops its guard.
    Hold,
}

/// Keeps time from moving, as its sitter requires, until it is dropped.
pub(crate) struct Seat {
    executor: Arc<Executor>,
    id: Id,
}

impl Seat {
    /// Seats the calling thread here.
    pub(crate) fn take(&self) {
        let me = thread::current().id();
        let sitter = Sitter::Thread(me);
        self.executor.lock().seats.insert(self.id, sitter);
        self.executor.poke();
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.executor.lock().seats.remove(&self.id);
        self.executor.poke();
    }
}

struct TaskWaker {
    executor: Arc<Executor>,
    id: Id,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.executor.lock();
        state.queue(self.id);
        state.strand(&self.executor.me);
        drop(state);
        self.executor.changed.notify_all();
    }
}
