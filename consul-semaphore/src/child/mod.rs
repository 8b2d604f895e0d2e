//! The running command: a separate process group, which ends as a whole.
//!
//! ```text
//!  this process ── fork ──▶ stage: ends with its parent, has the terminal ── exec ──▶ the command ── … ──▶ grandchildren
//!       │                   └──────────────────────── one process group ────────────────────────────────────────────┘
//!       ├── signals go to all of the group; nothing of it is left before the slot is given back
//!       └── guard: kills the group when this process was killed, or stands still while the lease ends
//! ```

pub(crate) mod guard;
pub(crate) mod stage;
mod terminal;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{self, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use futures_channel::oneshot;
use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

use self::guard::Guard;
use self::terminal::Terminal;
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
    ended: oneshot::Receiver<()>,
    is_gone: bool,
}

impl Child {
    /// Starts the command with these additional variables. The command ends with the calling
    /// thread, which must be the main one: Linux signals a child when the thread that started it
    /// ends.
    pub(crate) fn start(
        program: &Program,
        variables: &[(&'static str, OsString)],
    ) -> Result<Self, Failure> {
        let cannot = |source| Failure::Program {
            program: program.name.to_string_lossy().into_owned(),
            source,
        };
        adopt_orphans();
        let terminal = program.reads_stdin.then(Terminal::ours).flatten();
        let mut command = Command::new(own_path().map_err(cannot)?);
        command
            .arg0("consul-semaphore")
            .args(stage::arguments(terminal.is_some()))
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
        let process = command.spawn().map_err(cannot)?;
        let group = Pid::from_raw(i32::try_from(process.id()).unwrap_or(i32::MAX));
        let has_terminal = terminal.is_some();
        if has_terminal {
            Terminal::give_to(group);
        }
        let (sender, ended) = oneshot::channel();
        let mut child = Self {
            process,
            group,
            terminal,
            guard: None,
            ended,
            is_gone: false,
        };
        thread::Builder::new()
            .name("child".to_owned())
            .spawn(move || {
                watch(group, has_terminal);
                // If the supervisor no longer listens, it has killed the command.
                let _ = sender.send(());
            })
            .map_err(Failure::system("no thread for the command can be started"))?;
        let guard = Guard::start(group);
        child.guard =
            Some(guard.map_err(Failure::system("no guard of the command can be started"))?);
        Ok(child)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Waits until the command has ended. What it has started may continue.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(crate) async fn ended(&mut self) {
        if (&mut self.ended).await.is_err() {
            // The thread always sends before it ends.
            std::future::pending::<()>().await;
        }
    }

    /// Allows the command to live for this time from now on, whatever happens to this process.
    pub(crate) fn allow(&mut self, time: Duration) {
        if let Some(guard) = &mut self.guard {
            guard.allow(time);
        }
    }

    /// Sends a signal to the whole group. Stopped processes are continued, so that they notice it.
    pub(crate) fn signal(&self, signal: i32) {
        if self.is_gone {
            return;
        }
        if let Ok(signal) = Signal::try_from(signal) {
            let _ = killpg(self.group, signal);
            let _ = killpg(self.group, Signal::SIGCONT);
        }
    }

    /// Reaps the command after its end. Until then no other process can have its number.
    pub(crate) fn reap(&mut self) -> io::Result<ExitStatus> {
        self.process.wait()
    }

    /// Whether nothing of the group is left, after the command was reaped.
    pub(crate) fn is_gone(&mut self) -> bool {
        if !self.is_gone {
            // This process must reap the group's orphans.
            let of_group = Pid::from_raw(-self.group.as_raw());
            while matches!(
                waitpid(of_group, Some(WaitPidFlag::WNOHANG)),
                Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..))
            ) {}
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
        if let Some(terminal) = &self.terminal {
            terminal.take_back();
        }
    }
}

/// Waits until the command has ended, but does not reap it: until then no other process can have
/// its number.
fn watch(group: Pid, has_terminal: bool) {
    let mut flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
    if has_terminal {
        flags |= WaitPidFlag::WSTOPPED;
    }
    loop {
        match waitid(Id::Pid(group), flags) {
            // ^Z: a stopped command would keep its slot and the terminal.
            Ok(WaitStatus::Stopped(..)) => {
                let _ = killpg(group, Signal::SIGCONT);
            }
            Err(Errno::EINTR) => {}
            Ok(_) | Err(_) => break,
        }
    }
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
