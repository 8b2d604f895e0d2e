//! The command on a terminal, as a shell's child expects it. The command has a separate process
//! group, so this process does for it what a shell with job control does for its jobs.
//!
//! ```text
//!               ┌───── it starts, and standard input and output are the terminal ─────┐
//!               │                                                                     ▼
//!  the terminal is ours ── the command was stopped as it used the terminal, or ──▶ it is the command's
//!               ▲          the user has put this job in the foreground (`fg`)         │
//!               └────────── the command has stopped (^Z), or has ended ───────────────┘
//! ```
//! A job in the background whose command wants the terminal stops as a whole, and the shell says so.
//! The lease goes on to its end, and then the guard kills the command. Where no shell could continue
//! the job, nothing stays stopped: after ^Z the command goes on, and one that wants the terminal of
//! another job is told to end.
//!
//! If this process alone is stopped, the shell takes the terminal from the command without a word.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{SigSet, SigmaskHow, Signal, killpg};
use nix::unistd::{Pid, getpgid, getpgrp, getppid, tcgetpgrp, tcsetpgrp};
use signal_hook::flag;

use crate::signals;

/// The terminal that controls this process.
pub(super) struct Terminal {
    tty: File,
    ours: Pid,
    theirs: Pid,
    /// Whether the command uses it, as far as that is known.
    is_wanted: bool,
    /// Whether the command, or a job of a shell that it is, has it from this process.
    is_given: bool,
    /// Whether this process was stopped and continued since this was last read.
    stood_still: Arc<AtomicBool>,
}

impl Terminal {
    /// `None` if no terminal controls this process.
    ///
    /// The command wants it at its start if standard input and output are the terminal. In a pipeline,
    /// or in the background of a script, another command may use the terminal, so the command gets it
    /// there only when it uses it itself.
    pub(super) fn find() -> Option<Self> {
        let tty = open().ok()?;
        let ours = getpgrp();
        let is_wanted = io::stdin().is_terminal() && io::stdout().is_terminal();
        let is_given = is_wanted && tcgetpgrp(&tty) == Ok(ours);
        let stood_still = Arc::default();
        if !signals::is_ignored(Signal::SIGCONT) {
            // Without it, a terminal that the shell has taken meanwhile is taken from the shell.
            let _ = flag::register(Signal::SIGCONT as i32, Arc::clone(&stood_still));
        }
        Some(Self {
            tty,
            ours,
            theirs: ours,
            is_wanted,
            is_given,
            stood_still,
        })
    }

    /// Whether the stage has to take it.
    pub(super) fn is_given(&self) -> bool {
        self.is_given
    }

    /// The command has started, with this group.
    pub(super) fn of(self, group: Pid) -> Self {
        Self {
            theirs: group,
            ..self
        }
    }

    /// The command has been stopped because it used the terminal.
    pub(super) fn note_use(&mut self) {
        self.is_wanted = true;
    }

    /// Gives the terminal to the command if it wants it. Returns false if it is another job's.
    pub(super) fn give(&mut self) -> bool {
        let has_it = self.look();
        if has_it == Some(self.ours) && self.is_wanted {
            set(&self.tty, self.theirs);
            self.is_given = true;
        }
        has_it == Some(self.ours) || has_it == Some(self.theirs)
    }

    /// Takes it from the command. What another job has stays there.
    pub(super) fn take_back(&mut self) {
        self.look();
        if mem::take(&mut self.is_given) {
            set(&self.tty, self.ours);
        }
    }

    /// The group that has the terminal.
    fn look(&mut self) -> Option<Pid> {
        let has_it = tcgetpgrp(&self.tty).ok();
        let is_theirs = has_it == Some(self.theirs);
        // What was given stays given until this process stood still. If the command is a shell, one
        // of its jobs may have it.
        if self.stood_still.swap(false, Ordering::SeqCst) || is_theirs {
            self.is_given = is_theirs;
        }
        has_it
    }

    /// Stops this whole job until its shell continues it. It returns at once if the shell has just
    /// ended: the system does not stop a process that nobody would continue.
    pub(super) fn stop_the_job(&mut self) {
        self.take_back();
        // This process listens for SIGTSTP, which therefore does not stop it.
        let _ = killpg(self.ours, Signal::SIGTTIN);
    }
}

/// In the stage: takes the terminal if the parent's group has it.
pub(super) fn take_from_parent() {
    if let Ok(tty) = open()
        && let (Ok(has_it), Ok(parents)) = (tcgetpgrp(&tty), getpgid(Some(getppid())))
        && has_it == parents
    {
        set(&tty, getpgrp());
    }
}

fn open() -> io::Result<File> {
    File::options().read(true).write(true).open("/dev/tty")
}

/// This would stop a process outside the terminal's group.
fn set(tty: &File, group: Pid) {
    without_stops(|| {
        // An error means that the terminal or the group is gone.
        let _ = tcsetpgrp(tty, group);
    });
}

/// The signals by which a terminal stops its jobs.
fn stops() -> SigSet {
    SigSet::from_iter([Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU])
}

/// Does something without being stopped by the terminal. A program that is started by it must
/// [allow stops](allow_stops).
///
/// The start of a program lasts until it is executed. The new process is in this one's group at first,
/// and leaves it. If ^Z stopped it in between, this process would wait for it, and nobody would
/// continue it.
pub(super) fn without_stops<T>(act: impl FnOnce() -> T) -> T {
    let before = stops().thread_swap_mask(SigmaskHow::SIG_BLOCK);
    let done = act();
    if let Ok(before) = before {
        let _ = before.thread_set_mask();
    }
    done
}

/// In the stage: what was held back stops it now.
pub(super) fn allow_stops() {
    let _ = stops().thread_unblock();
}
