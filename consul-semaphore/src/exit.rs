//! The exit codes, which scripts rely on.
//!
//! As with `timeout`, `env` and `nohup`, they differ from the codes that commands use. 124 to 127
//! mean the same there, and 128 and more are signals.

use std::process::{ExitCode, ExitStatus};

/// How this program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit(u8);

impl Exit {
    pub(crate) const SUCCESS: Self = Self(0);
    /// The answer is no: there is no semaphore, nobody leads, or the user said no.
    pub(crate) const NO: Self = Self(1);
    /// The slot or the lead was lost while the command ran, which was ended.
    pub(crate) const LOST: Self = Self(120);
    /// Consul did not answer, or could not serve. That may be why nothing was granted in time.
    pub(crate) const UNREACHABLE: Self = Self(121);
    /// Consul refused: the token lacks a permission, or Consul does not accept the request.
    pub(crate) const REFUSED: Self = Self(122);
    /// The content of Consul does not fit: another limit, or a key of something else.
    pub(crate) const CONFLICT: Self = Self(123);
    /// Nothing was granted in time; with `--try`, at once. `--conflict-exit-code` chooses another.
    pub(crate) const NOT_GRANTED: Self = Self(124);
    /// The command line or the environment can't be understood, or this program failed.
    pub(crate) const USAGE: Self = Self(125);
    /// The command was found, and can't be run.
    pub(crate) const CANNOT_RUN: Self = Self(126);
    /// The command was not found.
    pub(crate) const NOT_FOUND: Self = Self(127);

    pub(crate) const fn code(self) -> u8 {
        self.0
    }

    pub(crate) const fn of_code(code: u8) -> Self {
        Self(code)
    }

    /// The code that shells use for a process that a signal has ended.
    pub(crate) fn of_signal(signal: i32) -> Self {
        u8::try_from(signal).map_or(Self::USAGE, |signal| Self(128 | signal))
    }

    /// The command's own code.
    pub(crate) fn of_child(status: ExitStatus) -> Self {
        use std::os::unix::process::ExitStatusExt as _;

        match (status.code(), status.signal()) {
            // The system keeps eight bits of it.
            (Some(code), _) => Self(u8::try_from(code & 0xff).unwrap_or(u8::MAX)),
            (None, Some(signal)) => Self::of_signal(signal),
            (None, None) => Self::USAGE,
        }
    }
}

/// How a turn ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    /// The command ran to its end.
    Command(ExitStatus),
    /// It was ended, because its slot or lead was lost.
    Lost,
    /// A signal came before it ran.
    Interrupted(i32),
}

impl Outcome {
    pub(crate) fn exit(self) -> Exit {
        match self {
            Self::Command(status) => Exit::of_child(status),
            Self::Lost => Exit::LOST,
            Self::Interrupted(signal) => Exit::of_signal(signal),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.0)
    }
}

/// The help text about them.
pub(crate) const HELP: &str = "\
Exit codes of `run` and `elect run`:
  0-119    the command's own
  120      the slot or the lead was lost; the command was ended
  121      Consul did not answer, or could not serve
  122      Consul refused: the token lacks a permission, as a rule
  123      what is in Consul does not fit: another limit, a key that is not a semaphore's
  124      nothing was granted in time, or at once with --try (see --conflict-exit-code)
  125      bad usage, or a failure of this program
  126      the command can't be run
  127      the command was not found
  128+N    signal N ended the command, or the wait for its turn

The command may use 120 to 127 itself; with --json or --events an event tells whose code it was.

Called as consul-lock, or with --like-consul-lock as its first argument, it takes the flags of `consul lock`.";

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn a_child_that_ends_tells_its_code_and_one_that_is_killed_its_signal() {
        assert_eq!(Exit::of_child(ExitStatus::from_raw(3 << 8)).code(), 3);
        assert_eq!(Exit::of_child(ExitStatus::from_raw(9)).code(), 137);
        assert_eq!(Exit::of_child(ExitStatus::from_raw(255 << 8)).code(), 255);
    }
}
