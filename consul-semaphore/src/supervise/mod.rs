//! Ends the command before the lease ends. [`plan`] decides what to do and when, and this module
//! does it.
//!
//! When nothing of the command is left, the caller gives back what is held. If this process stands
//! still, the guard of [`Child`] kills the command in the middle of the margin.
//!
//! A command that runs as another user can't be killed. It keeps what is held until it has ended, or
//! for as long as the lease lasts.
//!
//! A command that would stay stopped for ever is ended, too: nobody else would get what it holds.

mod plan;

use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use boot_time::Instant;
use futures_util::future::{Either, select};
use nix::errno::Errno;
use nix::sys::signal::Signal;
use semaphore_core::adapter::Runtime as _;
use transport_ureq::{Lost, UreqTransport};

use self::plan::{Act, Lease, Stage};
pub(crate) use self::plan::{Care, MARGIN, OnLost};
use crate::child::{Change, Child, Stop};
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
    /// Whether it was told that the command can't be killed.
    is_out_of_reach: bool,
}

/// What has happened.
enum Next {
    Signal(i32),
    Child(Change),
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
            is_out_of_reach: false,
        }
    }

    /// Supervises the command until nothing of it is left, and returns how it ended.
    pub(crate) async fn look_after(mut self, mut child: Child) -> Result<Outcome, Failure> {
        let mut stage = Stage::Runs;
        let mut is_for_lease = false;
        loop {
            self.look(&mut child);
            let wait = match self.care.plan(self.now(), self.lease, stage) {
                Act::Wait(wait) => wait,
                Act::Tell { kill_at } => {
                    self.tell(&child, &self.why());
                    stage = Stage::Told { kill_at };
                    is_for_lease = true;
                    continue;
                }
                Act::Kill { grace_is_over } => {
                    is_for_lease |= !grace_is_over;
                    let why = if grace_is_over {
                        "its grace is over".to_owned()
                    } else {
                        self.why()
                    };
                    self.kill(&child, Some(&why));
                    stage = Stage::Killed;
                    continue;
                }
            };
            match self.next(&mut child, wait).await {
                Next::Child(Change::Ended) => break,
                Next::Child(Change::Stopped(signal)) => {
                    let is_the_end = self.handle_stop(&mut child, signal);
                    if is_the_end && stage == Stage::Runs {
                        self.tell(&child, "it would stay stopped");
                        let kill_at = self.now().saturating_add(self.care.grace);
                        stage = Stage::Told { kill_at };
                    }
                }
                Next::Child(Change::Continued) => self.notices.tell(&Event::Continued),
                Next::Look if stage == Stage::Killed => self.kill(&child, None),
                Next::Look => {}
                Next::Signal(signal) => self.pass_on(&mut child, signal),
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
        let is_lost = self.lease.is_lost || is_for_lease || self.hold.remaining().is_zero();
        Ok(if is_lost && self.care.on_lost != OnLost::Ignore {
            Outcome::Lost
        } else {
            Outcome::Command(status)
        })
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn look(&mut self, child: &mut Child) {
        child.look_at_terminal();
        self.allow(child);
    }

    /// Reads the remaining lease, and allows the command to live that long. After a loss the old
    /// end stays: until then nobody else holds.
    fn allow(&mut self, child: &mut Child) {
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
        let change = pin!(child.change());
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
        match select(select(change, signal), select(lost, sleep)).await {
            Either::Left((Either::Left((change, _)), _)) => Next::Child(change),
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

    fn tell(&self, child: &Child, why: &str) {
        let signal = Signal::SIGTERM;
        match child.signal(signal) {
            Ok(()) => {
                let signal = signal as i32;
                self.notices.tell(&Event::Told { signal, why });
            }
            Err(error) => self.tell_not_sent(signal, error),
        }
    }

    /// Without a reason, it was killed before.
    fn kill(&mut self, child: &Child, why: Option<&str>) {
        let sent = child.signal(Signal::SIGKILL);
        if let (Ok(()), Some(why)) = (sent, why) {
            self.notices.tell(&Event::Killed { why });
        }
        if let Err(error) = sent
            && !self.is_out_of_reach
        {
            self.is_out_of_reach = true;
            self.tell_not_sent(Signal::SIGKILL, error);
        }
    }

    fn pass_on(&self, child: &mut Child, signal: i32) {
        // After `fg` a stopped command needs the terminal first.
        child.look_at_terminal();
        // A realtime signal has no name here. It asks for the end.
        let named = Signal::try_from(signal).unwrap_or(Signal::SIGTERM);
        match child.signal(named) {
            Ok(()) => self.notices.tell(&Event::Passed { signal }),
            Err(error) => self.tell_not_sent(named, error),
        }
    }

    fn tell_not_sent(&self, signal: Signal, error: Errno) {
        let kept = match (self.care.on_lost, &self.lost) {
            (OnLost::Ignore, _) => "",
            (_, Some(_)) => "; others may hold beside it",
            (_, None) => {
                "; nothing is given back before it ends, but if Consul is silent for longer than the lease, others may \
                 hold beside it"
            }
        };
        let why = format!("{}: it runs as another user{kept}", error.desc());
        let signal = signal as i32;
        self.notices.tell(&Event::NotSent { signal, why: &why });
    }

    /// Returns true if the command would stay stopped for ever.
    fn handle_stop(&mut self, child: &mut Child, signal: Signal) -> bool {
        let next = child.handle_stop(signal);
        let why = match next {
            Stop::GoesOn => return false,
            Stop::IsUndone => "it goes on at once, as no shell could continue this job".to_owned(),
            Stop::IsTheEnd => {
                "another job has the terminal, and no shell could continue this one".to_owned()
            }
            Stop::Stays => "it keeps what is held, until it is continued and ends".to_owned(),
            Stop::OfJob if self.care.on_lost == OnLost::Ignore => {
                "what is held is lost when the lease ends; `fg` continues it".to_owned()
            }
            Stop::OfJob => {
                let seconds = self.hold.remaining().saturating_sub(MARGIN).as_secs();
                format!(
                    "it is killed in {seconds} s, before the lease ends, unless `fg` or `bg` continues it"
                )
            }
        };
        let number = signal as i32;
        self.notices.tell(&Event::Stopped {
            signal: number,
            why: &why,
        });
        if next == Stop::OfJob {
            // The user must read it before the shell's own line.
            self.notices.settle_before_stop();
            self.allow(child);
            return !child.stop_the_job(signal);
        }
        next == Stop::IsTheEnd
    }

    /// The command has ended. What it has started is told to end, and killed if it does not.
    async fn finish(&mut self, child: &mut Child) -> Result<ExitStatus, Failure> {
        // The number still belongs to the group: nobody has reaped the command yet. What can't be
        // told can't be killed, which is told below.
        let _ = child.signal(Signal::SIGTERM);
        let status = child
            .reap()
            .map_err(Failure::system("the command's end can't be learned"))?;
        self.allow(child);
        let kill_at = self.care.last(self.now(), self.lease);
        let mut is_killed = false;
        while !child.is_gone() {
            if self.now() >= kill_at {
                self.kill(child, (!is_killed).then_some("what it had started went on"));
                is_killed = true;
            }
            self.transport.sleep(STEP).await;
        }
        let code = Exit::of_child(status).code();
        self.notices.tell(&Event::Ended { code });
        Ok(status)
    }
}
