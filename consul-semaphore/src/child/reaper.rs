//! The ends of this process's children. It has more of them than it has started: what outlives its
//! parent below it becomes its child, and so does every orphan of a container if it is process 1.

use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

/// What has become of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Stopped(Signal),
    Continued,
    /// It has ended, and is not reaped: until then no other process can have its number.
    Ended,
}

/// Tells what becomes of the command, and reaps every other child, until the command has ended.
pub(super) fn watch(command: Pid, tell: impl Fn(Change)) {
    let all = WaitPidFlag::WEXITED | WaitPidFlag::WSTOPPED | WaitPidFlag::WCONTINUED;
    loop {
        match waitid(Id::All, all | WaitPidFlag::WNOWAIT) {
            Ok(WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..)) => {
                if pid == command {
                    break;
                }
                let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
            }
            Ok(WaitStatus::Stopped(pid, signal)) => {
                note(pid, WaitPidFlag::WSTOPPED);
                if pid == command {
                    tell(Change::Stopped(signal));
                }
            }
            Ok(WaitStatus::Continued(pid)) => {
                note(pid, WaitPidFlag::WCONTINUED);
                if pid == command {
                    tell(Change::Continued);
                }
            }
            // A realtime signal has ended a child, and the answer does not say which.
            Err(Errno::EINVAL) if is_running(command) => {
                let _ = waitpid(None::<Pid>, Some(WaitPidFlag::WNOHANG));
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => break,
        }
    }
    tell(Change::Ended);
}

/// It need not be told again.
fn note(pid: Pid, change: WaitPidFlag) {
    let _ = waitid(Id::Pid(pid), change | WaitPidFlag::WNOHANG);
}

fn is_running(command: Pid) -> bool {
    let ended = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG;
    waitid(Id::Pid(command), ended) == Ok(WaitStatus::StillAlive)
}

/// Reaps all children that have ended. The command must not be among them.
pub(crate) fn reap() {
    loop {
        match waitpid(None::<Pid>, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) | Err(_) => break,
            Ok(_) => {}
        }
    }
}
