//! The command has the terminal while it runs. So it can read from the terminal, and ^C reaches it
//! as usual.

use std::io::{self, IsTerminal as _};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// The terminal on standard input, which belonged to this process.
pub(super) struct Terminal {
    former: Pid,
}

impl Terminal {
    /// `None` if standard input is not a terminal, or if another process group has it, as in a
    /// background pipe.
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

    /// In the stage: waits until its parent has given the terminal to it. A command that reads
    /// earlier would be stopped.
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

/// This would stop a process outside the terminal's group, so the signal is blocked.
fn set(group: Pid) {
    let mut stops = SigSet::empty();
    stops.add(Signal::SIGTTOU);
    let before = stops.thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK);
    // An error means that the terminal is gone.
    let _ = tcsetpgrp(io::stdin(), group);
    if let Ok(before) = before {
        let _ = before.thread_set_mask();
    }
}
