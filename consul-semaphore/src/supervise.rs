//! The command ends before the lease does.
//!
//! ```text
//!  last answer                                   told to end        killed   lease ends      others may hold
//!  ────┼──────────── the command runs ───────────────┼─── grace ───────┼─ margin ─┼───────────────┼──▶
//! ```
//! What is held is given back by the caller, when nothing of the command is left. Where this process stands still, the guard of
//! [`Child`] kills in the middle of the margin.

use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use boot_time::Instant;
use clap::ValueEnum;
use futures_util::future::{Either, select};
use nix::sys::signal::Signal;
use semaphore_core::adapter::Runtime as _;
use transport_ureq::{Lost, UreqTransport};

use crate::child::Child;
use crate::exit::{Exit, Outcome};
use crate::failure::{Failure, whole};
use crate::hold::Hold;
use crate::notices::{Event, Notices};
use crate::signals::Signals;

/// What becomes of the command when what it runs under is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    /// It is told to end by SIGTERM, and killed when its grace is over or the lease is about to end.
    Term,
    /// It is killed at once.
    Kill,
    /// It goes on. Others may hold meanwhile.
    Ignore,
}

/// How a command is looked after.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Care {
    pub(crate) on_lost: OnLost,
    /// From being told to being killed.
    pub(crate) grace: Duration,
}

/// Before the end of a lease nothing of the command is left: so long the system may take to kill and reap.
pub(crate) const MARGIN: Duration = Duration::from_millis(500);

/// A lease is looked at as often as this: timers stand still while a machine is suspended.
const LOOK: Duration = Duration::from_secs(1);

/// How often it is asked whether those are gone whom the command has left behind.
const STEP: Duration = Duration::from_millis(5);

/// Where a command stands.
enum Stage {
    Runs,
    Told { kill_at: Instant },
    Killed,
}

pub(crate) struct Supervisor<'a> {
    pub(crate) transport: &'a UreqTransport,
    pub(crate) hold: &'a Hold,
    pub(crate) signals: &'a mut Signals,
    pub(crate) care: Care,
    pub(crate) notices: &'a Notices,
}

/// What a look at the lease says.
enum Next {
    Signal(i32),
    Ended,
    Lost(Lost),
    Look,
}

impl Supervisor<'_> {
    /// Looks after the command until nothing of it is left, and says how it ended.
    pub(crate) async fn look_after(mut self, mut child: Child) -> Result<Outcome, Failure> {
        let mut stage = Stage::Runs;
        let mut deadline = Instant::now() + self.hold.remaining();
        let mut lost = None;
        let mut is_lost = false;
        loop {
            let now = Instant::now();
            let remaining = self.hold.remaining();
            if remaining > Duration::ZERO {
                deadline = now + remaining;
                if self.care.on_lost != OnLost::Ignore {
                    child.allow(remaining.saturating_sub(MARGIN / 2));
                }
            }
            let reserve = self.care.grace + MARGIN;
            let ends_soon = deadline.saturating_duration_since(now) <= reserve;
            if self.care.on_lost != OnLost::Ignore {
                if matches!(stage, Stage::Runs) && (is_lost || ends_soon) {
                    stage = self.end(&child, deadline, lost.as_ref());
                    is_lost = true;
                }
                if let Stage::Told { kill_at } = stage
                    && (now >= kill_at || now + MARGIN >= deadline)
                {
                    let why = if now >= kill_at {
                        "its grace is over"
                    } else {
                        "the lease is about to end"
                    };
                    stage = self.kill(&child, why);
                }
            }
            let until = match stage {
                Stage::Runs if self.care.on_lost != OnLost::Ignore => deadline
                    .saturating_duration_since(now)
                    .saturating_sub(reserve),
                Stage::Told { kill_at } => kill_at.saturating_duration_since(now).min(
                    deadline
                        .saturating_duration_since(now)
                        .saturating_sub(MARGIN),
                ),
                Stage::Runs | Stage::Killed => LOOK,
            };
            match self.next(&mut child, lost.is_none(), until.min(LOOK)).await {
                Next::Ended => break,
                Next::Look => {}
                Next::Signal(signal) => {
                    self.notices.tell(&Event::Passed { signal });
                    child.signal(signal);
                }
                Next::Lost(reason) => {
                    let why = whole(&reason);
                    self.notices.tell(&Event::Lost { why: &why });
                    lost = Some(reason);
                    is_lost = true;
                }
            }
        }
        let status = self.finish(&mut child, deadline).await?;
        // Whoever it had started ran on until now.
        is_lost |= self.hold.remaining().is_zero();
        Ok(if is_lost && self.care.on_lost != OnLost::Ignore {
            Outcome::Lost
        } else {
            Outcome::Command(status)
        })
    }

    async fn next(&mut self, child: &mut Child, is_held: bool, most: Duration) -> Next {
        let ended = pin!(child.ended());
        let signal = pin!(self.signals.next());
        let lost = pin!(async {
            if is_held {
                self.hold.lost().await
            } else {
                std::future::pending().await
            }
        });
        let sleep = self.transport.sleep(most);
        match select(select(ended, signal), select(lost, sleep)).await {
            Either::Left((Either::Left(_), _)) => Next::Ended,
            Either::Left((Either::Right((signal, _)), _)) => Next::Signal(signal),
            Either::Right((Either::Left((lost, _)), _)) => Next::Lost(lost),
            Either::Right((Either::Right(_), _)) => Next::Look,
        }
    }

    /// Begins to end the command.
    fn end(&self, child: &Child, deadline: Instant, lost: Option<&Lost>) -> Stage {
        let why = match lost {
            Some(lost) => whole(lost),
            None => "Consul does not answer, and the lease is about to end".to_owned(),
        };
        if self.care.on_lost == OnLost::Kill {
            return self.kill(child, &why);
        }
        let signal = Signal::SIGTERM as i32;
        self.notices.tell(&Event::Told { signal, why: &why });
        child.signal(signal);
        let kill_at = (Instant::now() + self.care.grace).min(deadline);
        Stage::Told { kill_at }
    }

    fn kill(&self, child: &Child, why: &str) -> Stage {
        self.notices.tell(&Event::Killed { why });
        child.signal(Signal::SIGKILL as i32);
        Stage::Killed
    }

    /// The command itself has ended: what it has started is told to end, too, and killed if it does not.
    async fn finish(
        &mut self,
        child: &mut Child,
        deadline: Instant,
    ) -> Result<ExitStatus, Failure> {
        // Still the group's number: nobody has reaped the command yet.
        child.signal(Signal::SIGTERM as i32);
        let status = child
            .reap()
            .map_err(Failure::system("the command's end can't be learned"))?;
        let now = Instant::now();
        let mut kill_at = now + self.care.grace;
        if self.care.on_lost != OnLost::Ignore {
            let remaining = self.hold.remaining();
            let deadline = if remaining > Duration::ZERO {
                now + remaining
            } else {
                deadline
            };
            let before = deadline.saturating_duration_since(now);
            kill_at = kill_at.min(now + before.saturating_sub(MARGIN));
        }
        let mut is_killed = false;
        while !child.is_gone() {
            if !is_killed && Instant::now() >= kill_at {
                is_killed = true;
                self.notices.tell(&Event::Killed {
                    why: "what it had started went on",
                });
                child.signal(Signal::SIGKILL as i32);
            }
            self.transport.sleep(STEP).await;
        }
        let code = Exit::of_child(status).code();
        self.notices.tell(&Event::Ended { code });
        Ok(status)
    }
}
