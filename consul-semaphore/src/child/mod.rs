//! The running command: a separate process group, which ends as a whole.
//!
//! ```text
//!  this process ── fork ──▶ stage: ends with its parent, has the terminal ── exec ──▶ the command ── … ──▶ grandchildren
//!       │                   └──────────────────────── one process group ────────────────────────────────────────────┘
//!       ├── signals go to all of the group; nothing of it is left before the slot is given back
//!       ├── reaper: tells when the command stops or ends, and reaps all other children
//!       └── guard: kills the group when this process was killed, or stands still while the lease ends
//! ```

pub(crate) mod guard;
mod processes;
mod reaper;
pub(crate) mod stage;
mod terminal;
pub(crate) mod will;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{self, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use futures_channel::mpsc::{self, UnboundedReceiver};
use futures_util::StreamExt as _;
use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use self::guard::Guard;
pub(crate) use self::reaper::{Change, reap};
use self::terminal::Terminal;
use self::will::Will;
use crate::failure::Failure;
use crate::program::Program;

/// The command and everything that it has started.
///
/// Dropping this kills what is left.
pub(crate) struct Child {
    process: process::Child,
    group: Pid,
    terminal: Option<Terminal>,
    guard: Option<Guard>,
    will: Will,
    changes: UnboundedReceiver<Change>,
    /// Whether it has stopped because it uses the terminal, which another job has.
    waits_for_terminal: bool,
    is_gone: bool,
}

/// What follows when the command has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It has got the terminal that it wanted, and goes on.
    GoesOn,
    /// The whole job has to stop, so that its shell learns of it: [`Child::stop_the_job`].
    OfJob,
    /// No shell could continue the job, so the command is continued at once.
    IsUndone,
    /// No shell could continue the job, and it would stop again: another job has the terminal.
    IsTheEnd,
    /// No shell is concerned. It stays stopped until somebody continues it.
    Stays,
}

impl Child {
    /// Starts the command with these additional variables. The command ends with the calling
    /// thread, which must be the main one: Linux signals a child when the thread that started it
    /// ends. If this process is killed, its guard does what the will says.
    pub(crate) fn start(
        program: &Program,
        variables: &[(&'static str, OsString)],
        will: Will,
    ) -> Result<Self, Failure> {
        let cannot = |source| Failure::Program {
            program: program.name.to_string_lossy().into_owned(),
            source,
        };
        adopt_orphans();
        let terminal = Terminal::find();
        let takes_terminal = terminal.as_ref().is_some_and(Terminal::is_given);
        let mut command = Command::new(own_path().map_err(cannot)?);
        command
            .arg0("consul-semaphore")
            .args(stage::arguments(takes_terminal))
            .arg(&program.name)
            .args(&program.arguments)
            .envs(
                variables
                    .iter()
                    .map(|(name, value)| (name, value.as_os_str())),
            )
            .process_group(0);
        if !program.reads_stdin {
            command.stdin(Stdio::null());
        }
        let process = terminal::without_stops(|| command.spawn()).map_err(cannot)?;
        let group = Pid::from_raw(i32::try_from(process.id()).unwrap_or(i32::MAX));
        let (sender, changes) = mpsc::unbounded();
        let mut child = Self {
            process,
            group,
            terminal: terminal.map(|terminal| terminal.of(group)),
            guard: None,
            will,
            changes,
            waits_for_terminal: false,
            is_gone: false,
        };
        thread::Builder::new()
            .name("child".to_owned())
            .spawn(move || {
                // If the supervisor no longer listens, it has killed the command.
                reaper::watch(group, |change| drop(sender.unbounded_send(change)));
            })
            .map_err(Failure::system("no thread for the command can be started"))?;
        let guard = Guard::start(group, &child.will);
        child.guard =
            Some(guard.map_err(Failure::system("no guard of the command can be started"))?);
        Ok(child)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Waits until the command has stopped, goes on, or has ended. What it has started may continue.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(crate) async fn change(&mut self) -> Change {
        match self.changes.next().await {
            Some(change) => {
                self.waits_for_terminal =
                    matches!(change, Change::Stopped(signal) if wants_terminal(signal));
                change
            }
            // The end is the last change.
            None => std::future::pending().await,
        }
    }

    /// Allows the command to live for this time from now on, whatever happens to this process.
    pub(crate) fn allow(&mut self, time: Duration) {
        let guard = self.guard.as_mut();
        if self.is_gone || guard.is_some_and(|guard| guard.allow(time).is_ok()) {
            return;
        }
        // Somebody has ended the guard.
        self.guard = Guard::start(self.group, &self.will).ok();
        if let Some(guard) = &mut self.guard {
            let _ = guard.allow(time);
        }
    }

    /// Sends a signal to the whole group. If the signal asks for the end, stopped processes are
    /// continued, so that they notice it.
    ///
    /// # Errors
    /// `EPERM` if no process of the group may be signalled, since all run as another user.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), Errno> {
        if self.is_gone {
            return Ok(());
        }
        let sent = killpg(self.group, signal);
        if matches!(
            signal,
            Signal::SIGHUP | Signal::SIGINT | Signal::SIGQUIT | Signal::SIGABRT | Signal::SIGTERM
        ) {
            let _ = killpg(self.group, Signal::SIGCONT);
        }
        match sent {
            // It has just ended.
            Err(Errno::ESRCH) => Ok(()),
            sent => sent,
        }
    }

    /// The command has been stopped by this signal.
    pub(crate) fn handle_stop(&mut self, signal: Signal) -> Stop {
        let Some(terminal) = &mut self.terminal else {
            return Stop::Stays;
        };
        if wants_terminal(signal) {
            terminal.note_use();
            if terminal.give() {
                self.go_on();
                return Stop::GoesOn;
            }
        }
        if processes::job_can_stop() {
            return Stop::OfJob;
        }
        if wants_terminal(signal) {
            Stop::IsTheEnd
        } else if signal == Signal::SIGTSTP {
            self.go_on();
            Stop::IsUndone
        } else {
            // SIGSTOP stops also what nobody would continue.
            Stop::Stays
        }
    }

    /// Stops this process and the rest of its job, until the shell continues it, and then continues
    /// the command. Returns false if there was no shell any more, and the command still wants the
    /// terminal.
    pub(crate) fn stop_the_job(&mut self, signal: Signal) -> bool {
        let Some(terminal) = &mut self.terminal else {
            return true;
        };
        terminal.stop_the_job();
        if terminal.give() || !wants_terminal(signal) {
            self.go_on();
            return true;
        }
        // After `bg` it is continued by the shell's SIGCONT, which is passed on, and stops again.
        processes::job_can_stop()
    }

    /// Gives the terminal to the command if it wants it, and the user has put this job in the
    /// foreground. A shell does not tell a running job of that.
    pub(crate) fn look_at_terminal(&mut self) {
        if self.terminal.as_mut().is_some_and(Terminal::give) && self.waits_for_terminal {
            self.go_on();
        }
    }

    fn go_on(&self) {
        let _ = killpg(self.group, Signal::SIGCONT);
    }

    /// Reaps the command after its end. Until then no other process can have its number.
    pub(crate) fn reap(&mut self) -> io::Result<ExitStatus> {
        self.process.wait()
    }

    /// Whether nothing of the group is left, after the command was reaped.
    pub(crate) fn is_gone(&mut self) -> bool {
        if !self.is_gone {
            reap();
            self.is_gone = killpg(self.group, None) == Err(Errno::ESRCH);
        }
        if self.is_gone
            && let Some(guard) = self.guard.take()
        {
            guard.dismiss();
        }
        self.is_gone
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.is_gone {
            let _ = killpg(self.group, Signal::SIGKILL);
            let _ = self.process.wait();
            if let Some(guard) = self.guard.take() {
                guard.dismiss();
            }
        }
        if let Some(terminal) = &mut self.terminal {
            terminal.take_back();
        }
    }
}

/// Whether a process gets this signal when it uses a terminal that another job has.
fn wants_terminal(signal: Signal) -> bool {
    matches!(signal, Signal::SIGTTIN | Signal::SIGTTOU)
}

/// Whether a command can be started at all.
///
/// # Errors
/// [`Failure::System`] where this program can't be started once more, as the command's stage.
pub(crate) fn check() -> Result<(), Failure> {
    own_path()
        .and_then(fs::metadata)
        .map(drop)
        .map_err(Failure::system(
            "this program can't find its own file, and without it can't start the command: is /proc mounted?",
        ))
}

/// Processes that outlive the command become children of this process, so that they can be reaped.
#[cfg(target_os = "linux")]
fn adopt_orphans() {
    // Otherwise another process reaps them.
    let _ = nix::sys::prctl::set_child_subreaper(true);
}

#[cfg(not(target_os = "linux"))]
fn adopt_orphans() {}

/// The running program, even if its file was replaced meanwhile.
#[cfg(target_os = "linux")]
#[expect(clippy::unnecessary_wraps, reason = "as elsewhere")]
fn own_path() -> io::Result<std::path::PathBuf> {
    Ok(std::path::PathBuf::from("/proc/self/exe"))
}

#[cfg(not(target_os = "linux"))]
fn own_path() -> io::Result<std::path::PathBuf> {
    std::env::current_exe()
}

/// Text as a variable's value.
pub(crate) fn variable(text: impl AsRef<OsStr>) -> OsString {
    text.as_ref().to_owned()
}
