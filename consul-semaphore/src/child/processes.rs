//! Other processes, and how they are related to this one.

use std::fs;

use nix::unistd::{Pid, getpid};

/// What `/proc` tells of a process.
struct Process {
    pid: Pid,
    parent: Pid,
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
        let _state = fields.next()?;
        let mut id = || Some(Pid::from_raw(fields.next()?.parse().ok()?));
        Some(Self {
            pid,
            parent: id()?,
        })
    }
}

/// The children of this process, alive or not.
pub(super) fn children() -> impl Iterator<Item = Pid> {
    let ours = getpid();
    let children = all().filter(move |process| process.parent == ours);
    children.map(|process| process.pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name_is() {
        let stat = "42 (a) Z 7 (b) S 41 40 39 34816 40 4194304";
        let process = Process::read(Pid::from_raw(42), stat).unwrap();
        let ids = [process.pid, process.parent].map(Pid::as_raw);
        assert_eq!(ids, [42, 41]);
        assert!(Process::read(Pid::from_raw(42), "42 (a) Z 7").is_none());
    }
}
