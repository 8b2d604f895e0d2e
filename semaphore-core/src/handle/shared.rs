//! What the handles and the driver of one machine share: the machine, and a channel for each
//! waiter.

use core::future::Future;
use core::iter;
use core::pin::pin;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use futures_channel::oneshot;
use futures_util::future::{Either, select};

use super::authorized::Tokens;
use super::hub::{Hub, SharedMachine};
use super::observer::{Audience, Surroundings};
use crate::error::{Awaited, ClosedBy, Error, Lost, Refusal};
use crate::id::CommandId;
use crate::machine::{Event, Machine, Member, MemberNo, Status};
use crate::runtime::Runtime;
use crate::subject::Subject;
use crate::sync::{Mutex, lock};
use crate::time::Instant;
use crate::transport::Transport;

/// Shared by the driver and all handles of one machine.
pub(crate) struct Shared<M: Machine> {
    state: Mutex<State<M>>,
    hub: Arc<Hub>,
    no: MemberNo,
    transport: Arc<dyn Transport>,
    tokens: Tokens,
    farewell: Duration,
    audience: Arc<Audience>,
    subject: Subject,
}

/// The machine and who waits for its events.
pub(crate) struct State<M: Machine> {
    pub(crate) machine: M,
    granted: BTreeMap<CommandId, oneshot::Sender<Answer<M::Grant>>>,
    lost: BTreeMap<CommandId, oneshot::Sender<Lost>>,
    done: BTreeMap<CommandId, Vec<oneshot::Sender<Result<(), Error>>>>,
    idle: Vec<oneshot::Sender<()>>,
    /// What is not reported yet. It is reported without the lock, since a waker may call back at
    /// once.
    outcomes: Vec<Outcome<M::Grant>>,
    owners: usize,
    /// True if another owner may come after the last has gone.
    is_shared: bool,
    stage: Stage,
    /// Why nothing more is granted, if the driver ended before anybody closed it.
    cut_off: Option<ClosedBy>,
}

/// How far it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Open,
    /// Nothing more is granted.
    Closed,
    /// The driver has removed it, since it had no owner.
    MovedOut,
    /// The driver has ended.
    Ended,
}

/// An event, and the channel of its waiter.
enum Outcome<G> {
    Granted(oneshot::Sender<Answer<G>>, Answer<G>),
    Lost(oneshot::Sender<Lost>, Lost),
    Done(oneshot::Sender<Result<(), Error>>, Result<(), Error>),
    Idle(oneshot::Sender<()>),
}

/// A grant, or why a try was refused.
type Answer<G> = Result<Result<Granted<G>, Refusal>, Error>;

/// A grant, and the channel that reports its loss.
pub(crate) struct Granted<G> {
    pub(crate) grant: G,
    pub(crate) lost: oneshot::Receiver<Lost>,
}

impl<M: Machine> Shared<M> {
    /// The machine with this number in this hub.
    pub(super) fn new(
        machine: M,
        hub: Arc<Hub>,
        no: MemberNo,
        tokens: Tokens,
        surroundings: Surroundings,
        is_shared: bool,
    ) -> Self {
        let subject = machine.subject(hub.transport().address());
        Self {
            state: Mutex::new(State {
                machine,
                granted: BTreeMap::new(),
                lost: BTreeMap::new(),
                done: BTreeMap::new(),
                idle: Vec::new(),
                outcomes: Vec::new(),
                owners: 1,
                is_shared,
                stage: Stage::Open,
                cut_off: None,
            }),
            subject,
            transport: tokens.over(Arc::clone(hub.transport())),
            hub,
            no,
            tokens,
            farewell: surroundings.farewell,
            audience: surroundings.audience,
        }
    }

    /// The span of its log lines.
    pub(super) fn span(&self) -> &tracing::Span {
        self.audience.span()
    }

    /// The source of the transport's tokens.
    pub(crate) fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// Its subject in errors.
    pub(crate) fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Where it lives.
    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    pub(crate) fn runtime(&self) -> &Arc<dyn Runtime> {
        self.hub.runtime()
    }

    /// The present state.
    pub(super) fn present(&self) -> Status {
        let now = self.runtime().now();
        Status {
            trouble: self.hub.trouble(),
            ..self.with(|state| state.machine.status(now))
        }
    }

    /// Fails if the runtime has ended. In a forked process nothing else is safe: another thread may
    /// have held a lock during the fork.
    pub(crate) fn ensure_running(&self) -> Result<(), Error> {
        match self.runtime().ended() {
            Some(by) => Err(Error::from(by).or_about(&self.subject)),
            None => Ok(()),
        }
    }

    /// The error after the runtime's end.
    pub(crate) fn ended(&self) -> Error {
        Error::ended().or_about(&self.subject)
    }

    /// Why a hold is lost, if the driver that could tell is gone.
    pub(crate) fn lost_at_end(&self) -> Lost {
        let on = self.subject.clone();
        if self.is_forked() {
            Lost::Forked { on }
        } else {
            Lost::RuntimeEnded { on }
        }
    }

    /// Returns true if this process was forked off from the one that has the driver.
    pub(crate) fn is_forked(&self) -> bool {
        self.runtime().ended() == Some(ClosedBy::Fork)
    }

    /// Waits at most `timeout` for something, by the waiter's clock.
    ///
    /// # Errors
    /// [`Error::Timeout`].
    pub(crate) async fn within<T>(
        &self,
        what: Awaited,
        timeout: Duration,
        done: impl Future<Output = T>,
    ) -> Result<T, Error> {
        let done = pin!(done);
        match select(done, self.runtime().timer(timeout)).await {
            Either::Left((output, _)) => Ok(output),
            Either::Right(_) => Err(self.late(what, timeout)),
        }
    }

    /// Ends what is overdue at `until` if the driver does not. Returns how long nobody has run the
    /// driver, if that is long.
    pub(crate) fn end_what_is_late(&self, until: Instant) -> Option<Duration> {
        let unattended = self.hub.unattended();
        self.command(|state, now| state.machine.handle_timeout(now.max(until)));
        unattended
    }

    /// The error for what came too late.
    pub(crate) fn late(&self, what: Awaited, timeout: Duration) -> Error {
        let late = Error::late(what, timeout).unattended(self.hub.unattended());
        late.unanswered(|waited| self.hub.silence(waited))
            .or_about(&self.subject)
    }

    /// Works on the machine, and tells the waiters what happened.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut State<M>) -> T) -> T {
        let mut state = lock(&self.state);
        state.machine.listen(self.audience.is_there());
        let result = self.audience.span().in_scope(|| {
            let result = work(&mut state);
            state.deliver();
            result
        });
        let notices = iter::from_fn(|| state.machine.poll_notice());
        self.audience.bring(notices);
        let outcomes = core::mem::take(&mut state.outcomes);
        drop(state);
        // Observers are told before the waiters, who act on it.
        self.audience.tell();
        for outcome in outcomes {
            outcome.tell(&self.subject, &self.hub);
        }
        result
    }

    /// Like [`Self::with`], for a command: the driver looks at the machine again.
    pub(crate) fn command<T>(&self, work: impl FnOnce(&mut State<M>, Instant) -> T) -> T {
        let now = self.runtime().now();
        let result = self.with(|state| work(state, now));
        self.hub.wake(self.no);
        result
    }
}

impl<M: Machine> SharedMachine for Shared<M> {
    fn reach(&self, work: &mut dyn FnMut(&mut dyn Member)) -> bool {
        self.with(|state| {
            work(&mut state.machine);
            let is_over = state.is_over();
            if is_over {
                state.reach(Stage::MovedOut);
            }
            !is_over
        })
    }

    fn transport(&self) -> &Arc<dyn Transport> {
        &self.transport
    }

    fn over(&self, transport: Arc<dyn Transport>) -> Arc<dyn Transport> {
        self.tokens.over(transport)
    }

    fn farewell(&self) -> Duration {
        self.farewell
    }

    fn audience(&self) -> Option<&Audience> {
        Some(&self.audience)
    }

    fn status(&self, now: Instant) -> Option<Status> {
        Some(self.with(|state| state.machine.status(now)))
    }

    fn shut_down(&self, now: Instant) {
        self.with(|state| {
            state.close(now);
            if let Some(command) = state.machine.given_back_at_shutdown() {
                state.step_down(now, command);
            }
        });
    }

    fn abandon(&self, now: Instant, held: &[CommandId]) {
        self.with(|state| {
            for command in held {
                state.machine.cancel(now, *command);
            }
            state.abandon_all(now);
        });
    }

    fn is_idle(&self) -> bool {
        self.with(|state| state.machine.is_idle())
    }

    fn is_all_given_back(&self) -> bool {
        self.with(|state| state.is_all_given_back())
    }

    fn is_quiet(&self) -> bool {
        self.with(|state| state.machine.is_quiet())
    }

    fn end(&self) -> Vec<CommandId> {
        self.with(|state| {
            if state.stage == Stage::Open {
                state.cut_off = Some(ClosedBy::RuntimeEnded);
            }
            state.reach(Stage::Ended);
            let held = state.lost.keys().copied().collect();
            let granted = core::mem::take(&mut state.granted).into_values();
            let lost = core::mem::take(&mut state.lost).into_values();
            let done = core::mem::take(&mut state.done).into_values().flatten();
            let idle = core::mem::take(&mut state.idle).into_iter();
            let granted = granted.map(|it| Outcome::Granted(it, Err(Error::ended())));
            let lost = lost.map(|it| Outcome::Lost(it, Lost::at_end()));
            let done = done.map(|it| Outcome::Done(it, Err(Error::ended())));
            let outcomes = granted.chain(lost).chain(done);
            state
                .outcomes
                .extend(outcomes.chain(idle.map(Outcome::Idle)));
            held
        })
    }
}

impl<G> Outcome<G> {
    fn tell(self, subject: &Subject, hub: &Hub) {
        let about = |error: Error| {
            let error = error.unanswered(|waited| hub.silence(waited));
            error.or_about(subject)
        };
        // A receiver that is gone has given up already.
        match self {
            Self::Granted(sender, outcome) => drop(sender.send(outcome.map_err(about))),
            Self::Lost(sender, reason) => drop(sender.send(reason.or_about(subject))),
            Self::Done(sender, result) => drop(sender.send(result.map_err(about))),
            Self::Idle(sender) => drop(sender.send(())),
        }
    }
}

impl<M: Machine> State<M> {
    /// Returns true if the driver has nothing left to do, now or ever.
    pub(crate) fn is_over(&self) -> bool {
        self.owners == 0 && self.machine.is_idle()
    }

    /// Adds an owner. Returns true if the machine is still usable.
    pub(crate) fn take_again(&mut self) -> bool {
        let is_there = self.stage == Stage::Open;
        self.owners += usize::from(is_there);
        is_there
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.stage == Stage::Ended
    }

    fn reach(&mut self, stage: Stage) {
        self.stage = self.stage.max(stage);
    }

    /// Fails if the driver ended before anybody closed the machine.
    pub(crate) fn ensure_driven(&self) -> Result<(), Error> {
        match self.cut_off {
            Some(by) => Err(by.into()),
            None => Ok(()),
        }
    }

    /// Returns true if nothing more is granted: it was closed, or the driver has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.stage > Stage::Open
    }

    /// Takes no more commands.
    pub(crate) fn close(&mut self, now: Instant) {
        self.reach(Stage::Closed);
        self.machine.close(now);
    }

    /// An owner is gone. Waiters and holders are owners, too.
    pub(crate) fn abandon(&mut self, now: Instant) {
        self.owners = self.owners.saturating_sub(1);
        if self.owners == 0 && !self.is_shared {
            self.close(now);
        }
    }

    /// All owners are gone with the driver.
    pub(crate) fn abandon_all(&mut self, now: Instant) {
        self.owners = 0;
        self.close(now);
    }

    /// A receiver for the outcome of the command.
    pub(crate) fn await_grant(
        &mut self,
        command: CommandId,
    ) -> oneshot::Receiver<Answer<M::Grant>> {
        let (sender, receiver) = oneshot::channel();
        if self.has_ended() {
            self.outcomes
                .push(Outcome::Granted(sender, Err(Error::ended())));
        } else {
            self.granted.insert(command, sender);
        }
        receiver
    }

    /// A receiver that is told when the command is done.
    pub(crate) fn await_done(
        &mut self,
        command: CommandId,
    ) -> oneshot::Receiver<Result<(), Error>> {
        let (sender, receiver) = oneshot::channel();
        if self.has_ended() {
            let lost = Err(Error::Lost(Lost::at_end()));
            self.outcomes.push(Outcome::Done(sender, lost));
        } else {
            self.done.entry(command).or_default().push(sender);
        }
        receiver
    }

    /// Gives back what was granted. Those who wait for its loss are told at once, and the caller at
    /// the end.
    pub(crate) fn give_back(
        &mut self,
        now: Instant,
        command: CommandId,
    ) -> oneshot::Receiver<Result<(), Error>> {
        let done = self.await_done(command);
        self.step_down(now, command);
        done
    }

    fn step_down(&mut self, now: Instant, command: CommandId) {
        self.machine.release(now, command);
        // If it was lost before, that is the reason.
        self.deliver();
        self.tell_lost(command, Lost::SteppedDown);
    }

    fn tell_lost(&mut self, command: CommandId, reason: Lost) {
        let lost = self.lost.remove(&command);
        self.outcomes
            .extend(lost.map(|lost| Outcome::Lost(lost, reason)));
    }

    /// Returns true if a driver runs that gives back what is not given back yet.
    pub(crate) fn is_giving_back(&self) -> bool {
        !self.has_ended() && !self.machine.is_quiet()
    }

    /// Returns true if nothing is left, or the driver has ended.
    pub(crate) fn is_all_given_back(&self) -> bool {
        self.has_ended() || self.machine.is_idle()
    }

    /// A receiver that is told when nothing is left. It is told at once if the driver has ended.
    pub(crate) fn await_idle(&mut self) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        if !self.has_ended() {
            self.idle.push(sender);
        }
        receiver
    }

    /// Nobody waits for this command any more.
    pub(crate) fn forget(&mut self, now: Instant, command: CommandId) {
        self.granted.remove(&command);
        self.tell_lost(command, Lost::SteppedDown);
        // Somebody waits for the end of the release, and a cancelled command reports no end.
        if !self.done.contains_key(&command) {
            self.machine.cancel(now, command);
        }
    }

    fn deliver(&mut self) {
        while let Some(event) = self.machine.poll_event() {
            match event {
                Event::Granted { command, grant } => {
                    let (sender, lost) = oneshot::channel();
                    self.lost.insert(command, sender);
                    self.answer(command, Ok(Ok(Granted { grant, lost })));
                }
                Event::NotAvailable { command, refusal } => self.answer(command, Ok(Err(refusal))),
                Event::Failed { command, error } => self.answer(command, Err(error)),
                Event::Lost { command, reason } => self.tell_lost(command, reason),
                Event::Done { command, result } => {
                    self.tell_lost(command, Lost::SteppedDown);
                    let done = self.done.remove(&command).into_iter().flatten();
                    self.outcomes
                        .extend(done.map(|done| Outcome::Done(done, result.clone())));
                }
            }
        }
        if !self.idle.is_empty() && self.machine.is_quiet() {
            self.outcomes.extend(self.idle.drain(..).map(Outcome::Idle));
        }
    }

    /// A caller that is gone cancels with [`Self::forget`].
    fn answer(&mut self, command: CommandId, outcome: Answer<M::Grant>) {
        let granted = self.granted.remove(&command);
        self.outcomes
            .extend(granted.map(|granted| Outcome::Granted(granted, outcome)));
    }
}
