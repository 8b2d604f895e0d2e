//! The ends of this process's children. It has more of them than it has started: what outlives its
//! parent below it becomes its child, and so does every orphan of a container if it is process 1.

use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

use super::processes;

/// How long a child that can't be found is left before it is sought again.
const PAUSE: Duration = Duration::from_millis(100);

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
                if !reap_others(command) {
                    thread::sleep(PAUSE);
                }
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

/// Reaps what has ended of the other children, one by one: the command may end meanwhile, and its
/// status must be left. Returns false if nothing was found.
fn reap_others(command: Pid) -> bool {
    let others = processes::children().filter(|child| *child != command);
    let reaped = others.filter(|child| {
        match waitpid(*child, Some(WaitPidFlag::WNOHANG)) {
            // It is reaped, and its signal has no name.
            Err(Errno::EINVAL) => true,
            Err(_) | Ok(WaitStatus::StillAlive) => false,
            Ok(_) => true,
        }
    });
    reaped.count() > 0
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
