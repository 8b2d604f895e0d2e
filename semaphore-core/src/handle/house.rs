//! Where the machines of one process live: what their handles and their driver share.
//!
//! ```text
//!  handle ── command ──▶ Shared<M> ── bell ──▶ House ──▶ driver
//!  Client ── joins ───────────────────────────▶ ┘
//! ```
//! A semaphore that is connected alone has a house to itself. One of a [`Client`](crate::Client) shares it.

use core::sync::atomic::Ordering;
use core::task::Context;
use core::time::Duration;
use std::sync::{Arc, PoisonError};

use futures_channel::oneshot;

use super::authorized::Tokens;
use super::observer::{Audience, Observers};
use crate::error::Error;
use crate::id::CommandId;
use crate::machine::{MemberNo, Reach, Shares};
use crate::runtime::Runtime;
use crate::sync::{AtomicBool, AtomicWaker, Mutex};
use crate::time::Instant;
use crate::transport::Transport;

/// Shared by the driver, the handles of all machines in it, and those who may bring further ones.
pub(crate) struct House {
    door: Mutex<Door>,
    noticed: AtomicBool,
    driver: AtomicWaker,
    transport: Arc<dyn Transport>,
    /// The same, with the tokens.
    authorized: Arc<dyn Transport>,
    tokens: Tokens,
    runtime: Arc<dyn Runtime>,
    /// Who looks on at what is nobody's in particular.
    observers: Observers,
}

struct Door {
    next: u64,
    joining: Vec<Arrival>,
    woken: Vec<MemberNo>,
    /// Whether nobody can join any more.
    is_closed: bool,
    shutdown: Shutdown,
    /// Who waits until nothing is left.
    waiting: Vec<oneshot::Sender<()>>,
    /// When the driver last looked at everybody.
    attended_at: Instant,
    has_ended: bool,
}

/// Whether all end that can. Nobody can join any more then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shutdown {
    Unwanted,
    /// They are to be told so.
    Wanted,
    Told,
}

/// A driver that is run looks at what it is told within milliseconds.
const LONG: Duration = Duration::from_secs(1);

/// A machine that moves in.
pub(crate) struct Arrival {
    pub(crate) no: MemberNo,
    pub(crate) dweller: Arc<dyn Dweller>,
    pub(crate) shares: Option<Shares>,
}

/// What has come to the door since it was looked at.
pub(crate) struct Arrivals {
    pub(crate) joining: Vec<Arrival>,
    pub(crate) woken: Vec<MemberNo>,
    pub(crate) is_closed: bool,
    /// Whether all end that can, from now on.
    pub(crate) shuts_down: bool,
    /// Whether somebody waits until nothing is left.
    pub(crate) is_awaited: bool,
}

/// A machine that lives here, with those who wait for it.
pub(crate) trait Dweller: Send + Sync {
    /// Works on it, and tells what happened to those who wait. Whether it is needed any longer.
    fn reach(&self, work: &mut dyn FnMut(&mut dyn crate::machine::Member)) -> bool;
    /// What its requests go through.
    fn transport(&self) -> &Arc<dyn Transport>;
    /// The same, over another one.
    fn over(&self, transport: Arc<dyn Transport>) -> Arc<dyn Transport>;
    /// For how long the end of a program may be put off for it.
    fn farewell(&self) -> Duration;
    /// Who looks on.
    fn audience(&self) -> &Audience;
    /// Nothing more is granted, and it ends as far as it can without those who hold.
    fn shut_down(&self, now: Instant);
    /// The driver is no more. Says what was held.
    fn end(&self) -> Vec<CommandId>;
    /// Nobody has a use for it any more, nor for what is held.
    fn abandon(&self, now: Instant, held: &[CommandId]);
    /// Whether nothing of it is left.
    fn is_idle(&self) -> bool;
    /// Whether nobody has anything to wait for.
    fn is_quiet(&self) -> bool;
}

impl Reach for Arc<dyn Dweller> {
    fn reach(&mut self, work: &mut dyn FnMut(&mut dyn crate::machine::Member)) -> bool {
        (**self).reach(work)
    }
}

impl House {
    pub(super) fn new(
        transport: Arc<dyn Transport>,
        tokens: Tokens,
        runtime: Arc<dyn Runtime>,
        observers: Observers,
    ) -> Self {
        Self {
            door: Mutex::new(Door {
                next: 0,
                joining: Vec::new(),
                woken: Vec::new(),
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
            observers,
        }
    }

    /// What all requests go through.
    pub(super) fn transport(&self) -> &Arc<dyn Transport> {
        &self.transport
    }

    /// Where the tokens come from, unless a machine says otherwise.
    pub(super) fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// What the requests of nobody in particular go through, over another transport.
    pub(crate) fn over(&self, transport: Arc<dyn Transport>) -> Arc<dyn Transport> {
        self.tokens.over(transport)
    }

    /// What the requests of nobody in particular go through.
    pub(crate) fn authorized(&self) -> &Arc<dyn Transport> {
        &self.authorized
    }

    /// Who looks on at what is nobody's in particular.
    pub(crate) fn observers(&self) -> &Observers {
        &self.observers
    }

    pub(crate) fn runtime(&self) -> &Arc<dyn Runtime> {
        &self.runtime
    }

    /// A machine moves in.
    ///
    /// # Errors
    /// [`Error::Closed`] when the driver is no more.
    pub(super) fn join<D: Dweller + 'static>(
        &self,
        shares: Option<Shares>,
        dweller: impl FnOnce(MemberNo) -> Arc<D>,
    ) -> Result<Arc<D>, Error> {
        let dweller = self.at_door(|door| {
            if door.is_closed || door.shutdown != Shutdown::Unwanted {
                return Err(Error::closed());
            }
            if door.has_ended {
                return Err(Error::ended());
            }
            door.next += 1;
            let no = MemberNo(door.next);
            let dweller = dweller(no);
            door.joining.push(Arrival {
                no,
                dweller: Arc::clone(&dweller) as Arc<dyn Dweller>,
                shares,
            });
            Ok(dweller)
        })?;
        self.ring();
        Ok(dweller)
    }

    /// The driver looks at this one again.
    pub(super) fn wake(&self, no: MemberNo) {
        self.at_door(|door| door.woken.push(no));
        self.ring();
    }

    /// Nobody moves in any more.
    pub(super) fn close(&self) {
        self.at_door(|door| door.is_closed = true);
        self.ring();
    }

    /// Nobody moves in any more, and all ends that can.
    pub(super) fn shut_down(&self) {
        self.at_door(|door| door.shutdown = Shutdown::Wanted);
        self.ring();
    }

    /// Where it will be told that nothing is left of anybody here; at once if nobody is left to clean up.
    pub(super) fn await_quiet(&self) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.at_door(|door| {
            if !door.has_ended {
                door.waiting.push(sender);
            }
        });
        self.ring();
        receiver
    }

    /// The driver looks at everybody.
    pub(crate) fn attend(&self) {
        let now = self.runtime.now();
        self.at_door(|door| door.attended_at = now);
    }

    /// For how long the driver has not looked at what it was told, where that is long.
    pub(super) fn unattended(&self) -> Option<Duration> {
        if !self.noticed.load(Ordering::Acquire) {
            return None;
        }
        let now = self.runtime.now();
        let since = self.at_door(|door| door.attended_at);
        Some(now.saturating_since(since)).filter(|it| *it >= LONG)
    }

    fn ring(&self) {
        self.noticed.store(true, Ordering::Release);
        self.driver.wake();
    }

    /// Whether somebody was at the door since the last call; if not, the driver is woken by the next.
    pub(crate) fn take_notice(&self, cx: &Context<'_>) -> bool {
        self.driver.register(cx.waker());
        self.noticed.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn take_arrivals(&self) -> Arrivals {
        self.at_door(|door| {
            let shuts_down = door.shutdown == Shutdown::Wanted;
            if shuts_down {
                door.shutdown = Shutdown::Told;
            }
            Arrivals {
                joining: core::mem::take(&mut door.joining),
                woken: core::mem::take(&mut door.woken),
                is_closed: door.is_closed,
                shuts_down,
                is_awaited: !door.waiting.is_empty(),
            }
        })
    }

    /// Nothing is left here for now.
    pub(crate) fn tell_quiet(&self) {
        let waiting = self.at_door(|door| core::mem::take(&mut door.waiting));
        for waiter in waiting {
            let _ = waiter.send(());
        }
    }

    /// The driver ends, unless somebody is at the door.
    pub(crate) fn end_unless_joined(&self) -> bool {
        self.at_door(|door| {
            let ends = door.joining.is_empty();
            door.has_ended |= ends;
            ends
        })
    }

    /// The driver is no more.
    pub(crate) fn end(&self) {
        self.at_door(|door| door.has_ended = true);
        self.tell_quiet();
    }

    fn at_door<T>(&self, work: impl FnOnce(&mut Door) -> T) -> T {
        work(&mut self.door.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
