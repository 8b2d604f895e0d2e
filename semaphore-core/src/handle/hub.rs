//! What the machines, handles and driver of one process share.
//!
//! ```text
//!  handle ── command ──▶ Shared<M> ── bell ──▶ Hub ──▶ driver
//!  Client ── joins ───────────────────────────▶ ┘
//! ```
//! A semaphore that is connected alone has its own hub. Those of a [`Client`](crate::Client)
//! share one.

use core::iter;
use core::sync::atomic::Ordering;
use core::task::Context;
use core::time::Duration;
use std::sync::{Arc, Weak};

use futures_channel::oneshot;

use super::authorized::Tokens;
use super::observer::Audience;
pub(crate) use super::under_way::Reply;
use super::under_way::UnderWay;
use crate::error::{Error, RequestError};
use crate::id::{CommandId, RequestId};
use crate::machine::{MemberNo, Outage, Purpose, Reach, RequestEnd, Shares, Status, Trouble};
use crate::runtime::Runtime;
use crate::sync::{AtomicBool, AtomicWaker, Mutex, lock};
use crate::time::Instant;
use crate::transport::Transport;

/// Shared by the driver, the handles of all machines, and those who may add machines.
pub(crate) struct Hub {
    state: Mutex<State>,
    noticed: AtomicBool,
    driver: AtomicWaker,
    transport: Arc<dyn Transport>,
    /// The transport with the tokens.
    authorized: Arc<dyn Transport>,
    tokens: Tokens,
    runtime: Arc<dyn Runtime>,
    /// The observers of what belongs to no machine, or to all of them.
    audience: Arc<Audience>,
    /// What Consul does not serve.
    outage: Mutex<Outage>,
    under_way: Mutex<UnderWay>,
}

struct State {
    next: u64,
    joining: Vec<Arrival>,
    woken: Vec<MemberNo>,
    /// The machines, in the order in which they came. Some may be gone.
    members: Vec<Weak<dyn SharedMachine>>,
    /// At this number of machines, those that are gone are removed.
    crowded_at: usize,
    /// True if no machine can join any more.
    is_closed: bool,
    shutdown: Shutdown,
    /// Those who wait until nothing is left.
    waiting: Vec<oneshot::Sender<()>>,
    /// When the driver last looked at new work.
    attended_at: Instant,
    has_ended: bool,
}

/// Fewer machines are not worth a cleanup.
const FEW: usize = 64;

impl State {
    fn list(&mut self, member: &Arc<dyn SharedMachine>) {
        if self.members.len() >= self.crowded_at {
            self.members.retain(|it| it.strong_count() > 0);
            self.crowded_at = (self.members.len() * 2).max(FEW);
        }
        self.members.push(Arc::downgrade(member));
    }
}

/// How far a shutdown is. Once it is wanted, no machine can join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shutdown {
    Unwanted,
    /// The machines are not told yet.
    Wanted,
    Told,
}

/// A running driver looks at new work within milliseconds.
const LONG: Duration = Duration::from_secs(1);

/// A machine that joins.
pub(crate) struct Arrival {
    pub(crate) no: MemberNo,
    pub(crate) member: Arc<dyn SharedMachine>,
    pub(crate) shares: Option<Shares>,
}

/// What a follower has met that reads an election's key while nobody campaigns here.
#[derive(Clone, Copy, Debug)]
pub(super) enum Followed<'a> {
    Served,
    Failed(&'a RequestError),
    /// Nothing since it has failed.
    StillFailing,
    /// What a campaign would fail with, too.
    Refused(&'a Error),
}

/// What is new since the driver last looked.
pub(crate) struct Arrivals {
    pub(crate) joining: Vec<Arrival>,
    pub(crate) woken: Vec<MemberNo>,
    pub(crate) is_closed: bool,
    /// True if everything that can end has to end.
    pub(crate) shuts_down: bool,
    /// True if somebody waits until nothing is left.
    pub(crate) is_awaited: bool,
}

/// A machine of the hub, with those who wait for it. The defaults are those of a machine that
/// neither holds nor waits.
pub(crate) trait SharedMachine: Send + Sync {
    /// Works on it, and tells waiters what happened. Returns true if it is still needed.
    fn reach(&self, work: &mut dyn FnMut(&mut dyn crate::machine::Member)) -> bool;
    /// The transport of its requests.
    fn transport(&self) -> &Arc<dyn Transport>;
    /// Another transport, with its tokens.
    fn over(&self, transport: Arc<dyn Transport>) -> Arc<dyn Transport> {
        transport
    }
    /// How long the end of a program may be delayed for it.
    fn farewell(&self) -> Duration {
        Duration::ZERO
    }
    /// Its observers. `None` if the hub's observers are told.
    fn audience(&self) -> Option<&Audience> {
        None
    }
    /// Its present state. `None` if it neither holds nor waits, ever.
    fn status(&self, _now: Instant) -> Option<Status> {
        None
    }
    /// Grants nothing more, and ends as far as it can while some still hold.
    fn shut_down(&self, _now: Instant) {}
    /// The driver has ended. Returns what was held.
    fn end(&self) -> Vec<CommandId>;
    /// Nobody uses it or its holds any more.
    fn abandon(&self, _now: Instant, _held: &[CommandId]) {}
    /// Returns true if nothing of it is left.
    fn is_idle(&self) -> bool {
        true
    }
    /// The same, or its driver has ended.
    fn is_all_given_back(&self) -> bool {
        true
    }
    /// Returns true if nobody waits for anything.
    fn is_quiet(&self) -> bool {
        true
    }
}

impl Reach for Arc<dyn SharedMachine> {
    fn reach(&mut self, work: &mut dyn FnMut(&mut dyn crate::machine::Member)) -> bool {
        (**self).reach(work)
    }
}

impl Hub {
    pub(super) fn new(
        transport: Arc<dyn Transport>,
        tokens: Tokens,
        runtime: Arc<dyn Runtime>,
        audience: Arc<Audience>,
    ) -> Self {
        Self {
            state: Mutex::new(State {
                next: 0,
                joining: Vec::new(),
                woken: Vec::new(),
                members: Vec::new(),
                crowded_at: FEW,
                is_closed: false,
                shutdown: Shutdown::Unwanted,
                waiting: Vec::new(),
                attended_at: runtime.now(),
                has_ended: false,
            }),
            noticed: AtomicBool::new(false),
            driver: AtomicWaker::new(),
            authorized: tokens.over(Arc::clone(&transport)),
            transport,
            tokens,
            runtime,
            audience,
            outage: Mutex::new(Outage::default()),
            under_way: Mutex::new(UnderWay::default()),
        }
    }

    /// The transport of all requests.
    pub(super) fn transport(&self) -> &Arc<dyn Transport> {
        &self.transport
    }

    /// The source of the tokens, unless a machine has another.
    pub(super) fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// Another transport, with the tokens for requests that belong to no machine.
    pub(crate) fn over(&self, transport: Arc<dyn Transport>) -> Arc<dyn Transport> {
        self.tokens.over(transport)
    }

    /// The transport of requests that belong to no machine.
    pub(crate) fn authorized(&self) -> &Arc<dyn Transport> {
        &self.authorized
    }

    /// The observers of what belongs to no machine, or to all of them.
    pub(crate) fn audience(&self) -> &Audience {
        &self.audience
    }

    /// Hears how a request ended.
    pub(crate) fn hear(&self, end: &RequestEnd) {
        self.at_outage(|outage| outage.hear(end));
    }

    /// Hears what a follower has met that sends its requests elsewhere.
    pub(super) fn hear_followed(&self, followed: Followed<'_>) {
        let now = self.runtime.now();
        self.at_outage(|outage| match followed {
            Followed::Served => outage.hear(&RequestEnd::served(now, Purpose::Read)),
            Followed::Failed(error) => {
                let error = error.clone();
                outage.hear(&RequestEnd::failed(now, Purpose::Read, now, error));
            }
            Followed::StillFailing => outage.goes_on(now),
            Followed::Refused(_) => {}
        });
    }

    /// Ends an outage that nobody asks about any more.
    pub(crate) fn let_time_pass(&self, now: Instant) {
        self.at_outage(|outage| outage.let_time_pass(now));
    }

    /// When [`Self::let_time_pass`] is due.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.at_outage(|outage| outage.timeout())
    }

    /// The present state of all machines together.
    pub(super) fn status(&self) -> Status {
        let now = self.runtime.now();
        let members = self.members();
        let all = members.iter().filter_map(|it| it.status(now));
        Status {
            trouble: self.trouble(),
            ..all.fold(Status::default(), Status::and)
        }
    }

    pub(super) fn members(&self) -> Vec<Arc<dyn SharedMachine>> {
        let members = self.with_state(|state| state.members.clone());
        members.iter().filter_map(Weak::upgrade).collect()
    }

    /// This request is sent. Its answer is expected at once.
    pub(crate) fn asked(&self, id: RequestId) {
        let now = self.runtime.now();
        lock(&self.under_way).asked(id, now);
    }

    /// This request has ended, with an answer or without.
    pub(crate) fn ended(&self, id: RequestId, reply: Reply) {
        let now = self.runtime.now();
        lock(&self.under_way).ended(id, now, reply);
    }

    /// How long Consul has not answered, if that is long for somebody who waited this long.
    pub(super) fn silence(&self, waited: Duration) -> Option<Duration> {
        let now = self.runtime.now();
        let since = lock(&self.under_way).silent_since()?;
        let silence = now.saturating_since(since);
        Some(silence).filter(|it| *it >= LONG.min(waited / 2))
    }

    /// What Consul does not serve now.
    pub(super) fn trouble(&self) -> Option<Trouble> {
        let now = self.runtime.now();
        self.at_outage(|outage| outage.trouble(now))
    }

    /// Works on the outage, and tells the observers.
    fn at_outage<T>(&self, work: impl FnOnce(&mut Outage) -> T) -> T {
        let mut outage = lock(&self.outage);
        let result = work(&mut outage);
        self.audience.bring(iter::from_fn(|| outage.poll()));
        drop(outage);
        self.audience.tell();
        result
    }

    pub(crate) fn runtime(&self) -> &Arc<dyn Runtime> {
        &self.runtime
    }

    /// Adds a machine.
    ///
    /// # Errors
    /// [`Error::Closed`] if the driver has ended.
    pub(super) fn join<D: SharedMachine + 'static>(
        &self,
        shares: Option<Shares>,
        member: impl FnOnce(MemberNo) -> Arc<D>,
    ) -> Result<Arc<D>, Error> {
        let member = self.with_state(|state| {
            if state.is_closed || state.shutdown != Shutdown::Unwanted {
                return Err(Error::closed());
            }
            if state.has_ended {
                return Err(Error::ended());
            }
            state.next += 1;
            let no = MemberNo(state.next);
            let member = member(no);
            let joining: Arc<dyn SharedMachine> = Arc::clone(&member) as _;
            state.list(&joining);
            state.joining.push(Arrival {
                no,
                member: joining,
                shares,
            });
            Ok(member)
        })?;
        self.ring();
        Ok(member)
    }

    /// Makes the driver look at this machine again.
    pub(super) fn wake(&self, no: MemberNo) {
        self.with_state(|state| state.woken.push(no));
        self.ring();
    }

    /// No machine can join any more.
    pub(crate) fn close(&self) {
        self.with_state(|state| state.is_closed = true);
        self.ring();
    }

    /// No machine can join any more, and everything that can end ends.
    pub(super) fn shut_down(&self) {
        self.with_state(|state| state.shutdown = Shutdown::Wanted);
        self.ring();
    }

    /// A receiver that is told when nothing is left. It is told at once if the driver has ended.
    pub(super) fn await_quiet(&self) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.with_state(|state| {
            if !state.has_ended {
                state.waiting.push(sender);
            }
        });
        self.ring();
        receiver
    }

    /// The driver looks at new work.
    pub(crate) fn attend(&self) {
        let now = self.runtime.now();
        self.with_state(|state| state.attended_at = now);
    }

    /// How long the driver has not looked at new work, if that is long.
    pub(super) fn unattended(&self) -> Option<Duration> {
        if !self.noticed.load(Ordering::Acquire) {
            return None;
        }
        let now = self.runtime.now();
        let since = self.with_state(|state| state.attended_at);
        Some(now.saturating_since(since)).filter(|it| *it >= LONG)
    }

    fn ring(&self) {
        self.noticed.store(true, Ordering::Release);
        self.driver.wake();
    }

    /// Returns true if there is new work since the last call. If not, the next work wakes the driver.
    pub(crate) fn take_notice(&self, cx: &Context<'_>) -> bool {
        self.driver.register(cx.waker());
        self.noticed.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn take_arrivals(&self) -> Arrivals {
        self.with_state(|state| {
            let shuts_down = state.shutdown == Shutdown::Wanted;
            if shuts_down {
                state.shutdown = Shutdown::Told;
            }
            Arrivals {
                joining: core::mem::take(&mut state.joining),
                woken: core::mem::take(&mut state.woken),
                is_closed: state.is_closed,
                shuts_down,
                is_awaited: !state.waiting.is_empty(),
            }
        })
    }

    /// Nothing is left here for now.
    pub(crate) fn tell_quiet(&self) {
        let waiting = self.with_state(|state| core::mem::take(&mut state.waiting));
        for waiter in waiting {
            let _ = waiter.send(());
        }
    }

    /// Ends the driver, unless a machine is joining.
    pub(crate) fn end_unless_joined(&self) -> bool {
        self.with_state(|state| {
            let ends = state.joining.is_empty();
            state.has_ended |= ends;
            ends
        })
    }

    /// The driver has ended.
    pub(crate) fn end(&self) {
        self.with_state(|state| state.has_ended = true);
        self.tell_quiet();
    }

    fn with_state<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut lock(&self.state))
    }
}
