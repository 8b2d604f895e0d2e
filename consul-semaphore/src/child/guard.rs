//! A process that outlives this one when it is killed, and then kills what the command has started.
//!
//! The system kills the command itself with its parent, and on Linux alone. What the command has started it does not reach.

use std::env;
use std::ffi::OsString;
use std::io::{self, PipeWriter, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{self, Command, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::exit::Exit;

/// The first argument of a guard. No subcommand has such a name.
const MARK: &str = "__guard";

/// What it is told when all is well.
const DISMISSED: u8 = b'.';

/// While this lives, the guard waits at the other end.
pub(super) struct Guard {
    word: PipeWriter,
    process: process::Child,
}

impl Guard {
    /// Over this group of processes.
    pub(super) fn start(group: Pid) -> io::Result<Self> {
        let (end, word) = io::pipe()?;
        let process = Command::new(super::own_path()?)
            .arg0("consul-semaphore")
            .args([OsString::from(MARK), group.to_string().into()])
            .stdin(end)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // What ends the command or this process by a terminal does not end it.
            .process_group(0)
            .spawn()?;
        Ok(Self { word, process })
    }

    /// Nothing of the group is left: its number may be another's soon.
    pub(super) fn dismiss(mut self) {
        // A guard that has gone has done no harm.
        let _ = self.word.write_all(&[DISMISSED]);
        let _ = self.process.wait();
    }
}

/// Guards, if this process is a guard.
pub(crate) fn enter() -> Option<Exit> {
    let mut arguments = env::args_os().skip(1);
    if arguments.next()? != MARK {
        return None;
    }
    let Some(group) = arguments
        .next()
        .and_then(|group| group.to_str()?.parse().ok())
    else {
        return Some(Exit::USAGE);
    };
    let mut word = [0];
    let told = io::stdin().read(&mut word);
    if !matches!(told, Ok(1) if word == [DISMISSED]) {
        // Not of init, nor of everybody.
        if group > 1 {
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
    }
    Some(Exit::SUCCESS)
}
