//! What handles and driver share: the machine, and a channel for everyone who waits for it.

use core::sync::atomic::Ordering;
use core::task::Context;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use futures_channel::oneshot;

use crate::error::{Error, Lost};
use crate::id::AcquireId;
use crate::machine::{Event, Grant, Participant};
use crate::sync::{AtomicBool, AtomicWaker, Mutex};
use crate::time::Instant;
use crate::transport::{Runtime, Transport};

/// Shared by the driver and all handles of one semaphore.
pub(crate) struct Shared {
    state: Mutex<State>,
    noticed: AtomicBool,
    driver: AtomicWaker,
    transport: Arc<dyn Transport>,
    runtime: Arc<dyn Runtime>,
}

/// The machine and who waits for its events.
pub(crate) struct State {
    pub(crate) participant: Participant,
    granted: BTreeMap<AcquireId, oneshot::Sender<Result<Option<Granted>, Error>>>,
    lost: BTreeMap<AcquireId, oneshot::Sender<Lost>>,
    released: BTreeMap<AcquireId, oneshot::Sender<Result<(), Error>>>,
    idle: Vec<oneshot::Sender<()>>,
    /// What is still to be told, once the lock is free: a waker may call back at once.
    notices: Vec<Notice>,
    handles_gone: bool,
    ended: bool,
}

/// What somebody waits for, and where.
enum Notice {
    Granted(
        oneshot::Sender<Result<Option<Granted>, Error>>,
        Result<Option<Granted>, Error>,
    ),
    Lost(oneshot::Sender<Lost>, Lost),
    Released(oneshot::Sender<Result<(), Error>>, Result<(), Error>),
    Idle(oneshot::Sender<()>),
}

/// A grant, and where its loss is told.
pub(crate) struct Granted {
    pub(crate) grant: Grant,
    pub(crate) lost: oneshot::Receiver<Lost>,
}

impl Shared {
    pub(crate) fn new(
        participant: Participant,
        transport: Arc<dyn Transport>,
        runtime: Arc<dyn Runtime>,
    ) -> Self {
        Self {
            state: Mutex::new(State {
                participant,
                granted: BTreeMap::new(),
                lost: BTreeMap::new(),
                released: BTreeMap::new(),
                idle: Vec::new(),
                notices: Vec::new(),
                handles_gone: false,
                ended: false,
            }),
            noticed: AtomicBool::new(false),
            driver: AtomicWaker::new(),
            transport,
            runtime,
        }
    }

    pub(crate) fn transport(&self) -> &Arc<dyn Transport> {
        &self.transport
    }

    pub(crate) fn runtime(&self) -> &Arc<dyn Runtime> {
        &self.runtime
    }

    /// Works on the machine, and tells what happened to whoever waits for it.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = work(&mut state);
        state.deliver();
        let notices = core::mem::take(&mut state.notices);
        drop(state);
        for notice in notices {
            notice.tell();
        }
        result
    }

    /// Like [`Self::with`], for a command: the driver looks at the machine again.
    pub(crate) fn command<T>(&self, work: impl FnOnce(&mut State, Instant) -> T) -> T {
        let now = self.runtime.now();
        let result = self.with(|state| work(state, now));
        self.noticed.store(true, Ordering::Release);
        self.driver.wake();
        result
    }

    /// Whether there was a command since the last call; if not, the driver is woken by the next.
    pub(crate) fn take_notice(&self, cx: &Context<'_>) -> bool {
        self.driver.register(cx.waker());
        self.noticed.swap(false, Ordering::AcqRel)
    }

    /// The driver is no more: nothing will be answered.
    pub(crate) fn end(&self) {
        self.with(|state| {
            state.ended = true;
            let granted = core::mem::take(&mut state.granted).into_values();
            let lost = core::mem::take(&mut state.lost).into_values();
            let released = core::mem::take(&mut state.released).into_values();
            let idle = core::mem::take(&mut state.idle).into_iter();
            let granted = granted.map(|it| Notice::Granted(it, Err(Error::Closed)));
            let lost = lost.map(|it| Notice::Lost(it, Lost::RuntimeEnded));
            let released = released.map(|it| Notice::Released(it, Err(Error::Closed)));
            let notices = granted.chain(lost).chain(released);
            state.notices.extend(notices.chain(idle.map(Notice::Idle)));
        });
    }
}

impl Notice {
    fn tell(self) {
        // A receiver that is gone has given up already.
        match self {
            Self::Granted(sender, outcome) => drop(sender.send(outcome)),
            Self::Lost(sender, reason) => drop(sender.send(reason)),
            Self::Released(sender, result) => drop(sender.send(result)),
            Self::Idle(sender) => drop(sender.send(())),
        }
    }
}

impl State {
    /// Whether the driver has nothing left to do, now or ever.
    pub(crate) fn is_over(&self) -> bool {
        self.handles_gone && self.participant.is_idle()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// The last handle is gone.
    pub(crate) fn abandon(&mut self, now: Instant) {
        self.handles_gone = true;
        self.participant.close(now);
    }

    /// Where the outcome of an acquisition will be told.
    pub(crate) fn await_grant(
        &mut self,
        acquire: AcquireId,
    ) -> oneshot::Receiver<Result<Option<Granted>, Error>> {
        let (sender, receiver) = oneshot::channel();
        if self.ended {
            let _ = sender.send(Err(Error::Closed));
        } else {
            self.granted.insert(acquire, sender);
        }
        receiver
    }

    /// Where the end of a release will be told.
    pub(crate) fn await_release(
        &mut self,
        acquire: AcquireId,
    ) -> oneshot::Receiver<Result<(), Error>> {
        let (sender, receiver) = oneshot::channel();
        if self.ended {
            let _ = sender.send(Err(Error::Closed));
        } else {
            self.released.insert(acquire, sender);
        }
        receiver
    }

    /// Where it will be told that nothing is left; at once if nobody is left to clean up.
    pub(crate) fn await_idle(&mut self) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        if !self.ended {
            self.idle.push(sender);
        }
        receiver
    }

    /// Nobody waits for this acquisition any more.
    pub(crate) fn forget(&mut self, now: Instant, acquire: AcquireId) {
        self.granted.remove(&acquire);
        self.lost.remove(&acquire);
        self.participant.cancel(now, acquire);
    }

    fn deliver(&mut self) {
        while let Some(event) = self.participant.poll_event() {
            match event {
                Event::Granted { acquire, grant } => {
                    tracing::debug!(token = %grant.token, "granted");
                    let (sender, lost) = oneshot::channel();
                    self.lost.insert(acquire, sender);
                    self.answer(acquire, Ok(Some(Granted { grant, lost })));
                }
                Event::NotAvailable { acquire } => self.answer(acquire, Ok(None)),
                Event::Failed { acquire, error } => self.answer(acquire, Err(error)),
                Event::Lost { acquire, reason } => {
                    tracing::warn!(%reason, "lost");
                    let lost = self.lost.remove(&acquire);
                    self.notices
                        .extend(lost.map(|lost| Notice::Lost(lost, reason)));
                }
                Event::Released { acquire, result } => {
                    self.lost.remove(&acquire);
                    let released = self.released.remove(&acquire);
                    self.notices
                        .extend(released.map(|released| Notice::Released(released, result)));
                }
            }
        }
        if !self.idle.is_empty() && self.participant.is_idle() {
            self.notices.extend(self.idle.drain(..).map(Notice::Idle));
        }
    }

    /// A caller that is gone cancels by itself, in [`Self::forget`].
    fn answer(&mut self, acquire: AcquireId, outcome: Result<Option<Granted>, Error>) {
        let granted = self.granted.remove(&acquire);
        self.notices
            .extend(granted.map(|granted| Notice::Granted(granted, outcome)));
    }
}
