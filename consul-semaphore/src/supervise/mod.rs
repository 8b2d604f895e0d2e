//! Ends the command before the lease ends. [`plan`] decides what to do and when, and this module
//! does it.
//!
//! When nothing of the command is left, the caller gives back what is held. If this process stands
//! still, the guard of [`Child`] kills the command in the middle of the margin.

mod plan;

use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use boot_time::Instant;
use futures_util::future::{Either, select};
use nix::sys::signal::Signal;
use semaphore_core::adapter::Runtime as _;
use transport_ureq::{Lost, UreqTransport};

use self::plan::{Act, Lease, Stage};
pub(crate) use self::plan::{Care, MARGIN, OnLost};
use crate::child::Child;
use crate::exit::{Exit, Outcome};
use crate::failure::{Failure, whole};
use crate::hold::Hold;
use crate::notices::{Event, Notices};
use crate::signals::Signals;
use crate::subject::Subject;

/// How often the processes that the command left behind are checked.
const STEP: Duration = Duration::from_millis(5);

/// Supervises one command.
pub(crate) struct Supervisor<'a> {
    transport: &'a UreqTransport,
    subject: &'a Subject,
    hold: &'a Hold,
    signals: &'a mut Signals,
    care: Care,
    notices: &'a Notices,
    /// The origin of times.
    begun: Instant,
    lease: Lease,
    /// The reason of the loss, once it is known.
    lost: Option<Lost>,
}

/// What has happened.
enum Next {
    Signal(i32),
    Ended,
    Lost(Lost),
    Look,
}

impl<'a> Supervisor<'a> {
    pub(crate) fn new(
        transport: &'a UreqTransport,
        (subject, hold): (&'a Subject, &'a Hold),
        signals: &'a mut Signals,
        care: Care,
        notices: &'a Notices,
    ) -> Self {
        Self {
            transport,
            subject,
            hold,
            signals,
            care,
            notices,
            begun: Instant::now(),
            lease: Lease {
                deadline: hold.remaining(),
                is_lost: false,
            },
            lost: None,
        }
    }

    /// Supervises the command until nothing of it is left, and returns how it ended.
    pub(crate) async fn look_after(mut self, mut child: Child) -> Result<Outcome, Failure> {
        let mut stage = Stage::Runs;
        loop {
            self.look(&mut child);
            let wait = match self.care.plan(self.now(), self.lease, stage) {
                Act::Wait(wait) => wait,
                Act::Tell { kill_at } => {
                    self.tell(&child);
                    stage = Stage::Told { kill_at };
                    continue;
                }
                Act::Kill { grace_is_over } => {
                    self.kill(&child, grace_is_over);
                    stage = Stage::Killed;
                    continue;
                }
            };
            match self.next(&mut child, wait).await {
                Next::Ended => break,
                Next::Look => {}
                Next::Signal(signal) => {
                    self.notices.tell(&Event::Passed { signal });
                    child.signal(signal);
                }
                Next::Lost(lost) => {
                    let why = whole(&lost);
                    self.notices.tell(&Event::Lost { why: &why });
                    self.lost = Some(lost);
                    self.lease.is_lost = true;
                }
            }
        }
        let status = self.finish(&mut child).await?;
        // What the command had started ran until now.
        let is_lost = self.lease.is_lost || stage != Stage::Runs || self.hold.remaining().is_zero();
        Ok(if is_lost && self.care.on_lost != OnLost::Ignore {
            Outcome::Lost
        } else {
            Outcome::Command(status)
        })
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Reads the remaining lease, and allows the command to live that long. After a loss the old
    /// end stays: until then nobody else holds.
    fn look(&mut self, child: &mut Child) {
        let remaining = self.hold.remaining();
        if remaining.is_zero() {
            return;
        }
        self.lease.deadline = self.now() + remaining;
        if self.care.on_lost != OnLost::Ignore {
            child.allow(remaining.saturating_sub(MARGIN / 2));
        }
    }

    async fn next(&mut self, child: &mut Child, most: Duration) -> Next {
        let ended = pin!(child.ended());
        let signal = pin!(self.signals.next());
        let is_known = self.lost.is_some();
        let lost = pin!(async {
            if is_known {
                std::future::pending().await
            } else {
                self.hold.lost().await
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

    /// Why the command has to end.
    fn why(&self) -> String {
        match &self.lost {
            Some(lost) => whole(lost),
            None => format!("the lease is about to end: {}", self.subject.trouble()),
        }
    }

    fn tell(&self, child: &Child) {
        let signal = Signal::SIGTERM as i32;
        let why = self.why();
        self.notices.tell(&Event::Told { signal, why: &why });
        child.signal(signal);
    }

    fn kill(&self, child: &Child, grace_is_over: bool) {
        let why = if grace_is_over {
            "its grace is over".to_owned()
        } else {
            self.why()
        };
        self.notices.tell(&Event::Killed { why: &why });
        child.signal(Signal::SIGKILL as i32);
    }

    /// The command has ended. What it has started is told to end, and killed if it does not.
    async fn finish(&mut self, child: &mut Child) -> Result<ExitStatus, Failure> {
        // The number still belongs to the group: nobody has reaped the command yet.
        child.signal(Signal::SIGTERM as i32);
        let status = child
            .reap()
            .map_err(Failure::system("the command's end can't be learned"))?;
        self.look(child);
        let kill_at = self.care.last(self.now(), self.lease);
        let mut is_killed = false;
        while !child.is_gone() {
            if !is_killed && self.now() >= kill_at {
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
