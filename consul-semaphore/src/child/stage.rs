//! A stage between this process and the command. The same program runs once more. It asks the
//! system to end it with its parent, waits for the terminal, and becomes the command.
//!
//! Safe Rust can't do these steps between fork and exec, but it can after an exec.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{self, Command};

use nix::unistd::{Pid, getppid};

use super::terminal::Terminal;
use crate::exit::Exit;

/// The stage's first argument. No subcommand has this name.
const MARK: &str = "__stage";

/// The arguments of the stage before the command.
pub(super) fn arguments(on_terminal: bool) -> [OsString; 3] {
    let place = if on_terminal { "terminal" } else { "elsewhere" };
    [MARK.into(), process::id().to_string().into(), place.into()]
}

/// Becomes the command, if this process is a stage. It returns only if it could not, or `None` if
/// this is not a stage.
pub(crate) fn enter() -> Option<Exit> {
    let mut arguments = env::args_os().skip(1);
    if arguments.next()? != MARK {
        return None;
    }
    let parent = arguments.next().and_then(|pid| pid.to_str()?.parse().ok());
    let on_terminal = arguments.next().is_some_and(|place| place == "terminal");
    let (Some(parent), Some(program)) = (parent, arguments.next()) else {
        return Some(Exit::USAGE);
    };
    end_with(Pid::from_raw(parent));
    if on_terminal {
        Terminal::wait_for_it();
    }
    let error = Command::new(&program).args(arguments).exec();
    let program = program.to_string_lossy();
    let text = format!("consul-semaphore: the command {program:?} can't be run: {error}\n");
    let _ = io::stderr().write_all(text.as_bytes());
    Some(if error.kind() == io::ErrorKind::NotFound {
        Exit::NOT_FOUND
    } else {
        Exit::CANNOT_RUN
    })
}

/// The system kills this process, and the command that it becomes, when its parent ends.
#[cfg(target_os = "linux")]
fn end_with(parent: Pid) {
    let set = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL);
    // The parent may have ended before.
    if set.is_err() || getppid() != parent {
        process::exit(Exit::USAGE.code().into());
    }
}

#[cfg(not(target_os = "linux"))]
fn end_with(parent: Pid) {
    if getppid() != parent {
        process::exit(Exit::USAGE.code().into());
    }
}
