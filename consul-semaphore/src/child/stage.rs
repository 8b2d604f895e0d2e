//! A stage between this process and the command. The same program runs once more. It asks the
//! system to end it with its parent, takes the terminal, and becomes the command.
//!
//! Safe Rust can't do these steps between fork and exec, but it can after an exec.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{self, Command};

use nix::unistd::{Pid, getppid};

use super::terminal;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::notices::Notices;

/// The stage's first argument. No subcommand has this name.
const MARK: &str = "__stage";

/// The arguments of the stage before the command.
pub(super) fn arguments(takes_terminal: bool) -> [OsString; 3] {
    let place = if takes_terminal {
        "terminal"
    } else {
        "elsewhere"
    };
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
    let takes_terminal = arguments.next().is_some_and(|place| place == "terminal");
    let (Some(parent), Some(program)) = (parent, arguments.next()) else {
        return Some(Exit::USAGE);
    };
    end_with(Pid::from_raw(parent));
    if takes_terminal {
        terminal::take_from_parent();
    }
    terminal::allow_stops();
    let source = Command::new(&program).args(arguments).exec();
    let program = program.to_string_lossy().into_owned();
    let failure = Failure::Program { program, source };
    let exit = failure.exit();
    Notices::plain().fail(&failure, exit);
    Some(exit)
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
