//! Other processes, and how they are related to this one.

use std::fs;

use nix::sys::signal::Signal;
use nix::unistd::{Pid, getpgid, getpgrp, getpid, getppid, getsid};

use crate::signals;

/// What `/proc` tells of a process.
struct Process {
    pid: Pid,
    is_zombie: bool,
    parent: Pid,
    group: Pid,
}

/// All that this process may see in a `/proc` like Linux's. Without one there are none.
fn all() -> impl Iterator<Item = Process> {
    let folders = fs::read_dir("/proc").into_iter().flatten();
    folders.filter_map(|folder| {
        let pid = folder.ok()?.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Process::read(Pid::from_raw(pid), &stat)
    })
}

impl Process {
    /// The name may contain anything, so that only the last bracket ends it.
    fn read(pid: Pid, stat: &str) -> Option<Self> {
        let (_, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        let is_zombie = matches!(fields.next()?, "Z" | "X");
        let mut id = || Some(Pid::from_raw(fields.next()?.parse().ok()?));
        Some(Self {
            pid,
            is_zombie,
            parent: id()?,
            group: id()?,
        })
    }
}

/// The children of this process, alive or not.
pub(super) fn children() -> impl Iterator<Item = Pid> {
    let ours = getpid();
    let children = all().filter(move |process| process.parent == ours);
    children.map(|process| process.pid)
}

/// Whether this process's job can stop on its terminal, and somebody could then continue it: a process
/// of the same session, outside the group, that is the parent of one in it. As a rule that is a
/// shell with job control.
///
/// Otherwise the group is orphaned (POSIX, 3.264), and the system stops no process of it that uses
/// the terminal or gets TSTP.
pub(super) fn job_can_stop() -> bool {
    if signals::is_ignored(Signal::SIGTTIN) {
        return false;
    }
    let group = getpgrp();
    let session = getsid(None);
    let members = all().filter(|process| process.group == group && !process.is_zombie);
    let mut parents = members.map(|member| member.parent).chain([getppid()]);
    parents.any(|parent| {
        // One outside of the PID namespace has the number zero, which would mean this process.
        parent.as_raw() > 0
            && getpgid(Some(parent)).is_ok_and(|theirs| theirs != group)
            && getsid(Some(parent)) == session
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name_is() {
        let stat = "42 (a) Z 7 (b) S 41 40 39 34816 40 4194304";
        let process = Process::read(Pid::from_raw(42), stat).unwrap();
        assert!(!process.is_zombie);
        let ids = [process.pid, process.parent, process.group].map(Pid::as_raw);
        assert_eq!(ids, [42, 41, 40]);
        assert!(Process::read(Pid::from_raw(42), "42 (a) Z 7").is_none());
    }
}
