//! The command has the terminal while it runs. So it can read from the terminal, and ^C reaches it
//! as usual.

use std::io::{self, IsTerminal as _};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// The terminal on standard input, which was this process's.
pub(super) struct Terminal {
    former: Pid,
}

impl Terminal {
    /// None where standard input is no terminal, or another group of processes has it, as in a pipe's background.
    pub(super) fn ours() -> Option<Self> {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return None;
        }
        let former = getpgrp();
        (tcgetpgrp(&stdin) == Ok(former)).then_some(Self { former })
    }

    pub(super) fn give_to(group: Pid) {
        set(group);
    }

    pub(super) fn take_back(&self) {
        set(self.former);
    }

    /// In the stage: waits until its parent has given the terminal to it. A command that reads before would be stopped.
    pub(super) fn wait_for_it() {
        const TRIES: u32 = 1000;
        for _ in 0..TRIES {
            if tcgetpgrp(io::stdin()) == Ok(getpgrp()) {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A process that is not in the terminal's group would be stopped by this unless that signal is blocked.
fn set(group: Pid) {
    let mut stops = SigSet::empty();
    stops.add(Signal::SIGTTOU);
    let before = stops.thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK);
    // A terminal that has gone is nobody's.
    let _ = tcsetpgrp(io::stdin(), group);
    if let Ok(before) = before {
        let _ = before.thread_set_mask();
    }
}
