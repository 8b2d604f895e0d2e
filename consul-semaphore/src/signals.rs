//! The signals of this process.
//!
//! | signal | while it waits | while the command runs |
//! |---|---|---|
//! | each that ends a process, and is not below: HUP, INT, QUIT, TERM, ABRT, USR1, … | the wait ends | passed on |
//! | a realtime signal, which can't be passed on without `unsafe` code | the wait ends | the command gets TERM |
//! | WINCH, CONT | nothing | passed on |
//! | TSTP | stops this process | passed on |
//! | CHLD, URG, PIPE, XFSZ: of this process's own children and files | nothing | nothing |
//! | TTIN, TTOU, STOP | stop this process | stop this process |
//! | KILL, and the faults, after which nothing may go on: ILL, BUS, FPE, SEGV, SYS | end it | end it |
//! | 32 and 33, which the C library keeps for itself | end it | end it |

use std::fs;
use std::thread;

use futures_channel::mpsc::{self, UnboundedReceiver};
use futures_util::StreamExt as _;
use nix::sys::signal::Signal;
use signal_hook::iterator::{Handle, Signals as Delivered};

use crate::failure::Failure;

/// They end nothing.
const HARMLESS: &[Signal] = &[
    Signal::SIGWINCH,
    Signal::SIGCONT,
    #[cfg(not(target_os = "linux"))]
    Signal::SIGINFO,
];

/// This process receives them, and does nothing.
///
/// CHLD tells of a child, which is waited for elsewhere. If the parent ignores it, the system reaps the
/// children, and the end of one is not told before all have ended. So it has a handler. After XFSZ
/// a write fails, which its writer handles.
const KEPT: &[Signal] = &[Signal::SIGCHLD, Signal::SIGXFSZ];

/// This process leaves them to the system.
const LEFT: &[Signal] = &[
    // Nobody can receive these.
    Signal::SIGKILL,
    Signal::SIGSTOP,
    // They stop it. `listen_for_stops` changes that for the first.
    Signal::SIGTSTP,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
    // After a fault, a handler that returns would meet it again.
    Signal::SIGILL,
    Signal::SIGBUS,
    Signal::SIGFPE,
    Signal::SIGSEGV,
    Signal::SIGSYS,
    // The system, and Rust for the second, ignore them.
    Signal::SIGURG,
    Signal::SIGPIPE,
];

/// The signals that this process gets, in order.
pub(crate) struct Signals {
    received: UnboundedReceiver<i32>,
    handle: Handle,
    ignored: u64,
}

impl Signals {
    /// From now on these signals don't end the process.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let ignored = ignored();
        let named = Signal::iterator().filter(|signal| !LEFT.contains(signal));
        let wanted = named
            .map(|signal| signal as i32)
            .chain(realtime())
            // What `nohup` or a background shell has turned off stays off, also for the command.
            .filter(|signal| !has(ignored, *signal))
            // The command gets the default: an exec resets what has a handler.
            .chain([Signal::SIGCHLD as i32]);
        let mut delivered =
            Delivered::new(wanted).map_err(Failure::system("signals can't be received"))?;
        let handle = delivered.handle();
        let (sender, received) = mpsc::unbounded();
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                for signal in &mut delivered {
                    if KEPT.iter().any(|kept| *kept as i32 == signal) {
                        continue;
                    }
                    if sender.unbounded_send(signal).is_err() {
                        break;
                    }
                }
            })
            .map_err(Failure::system("no thread for signals can be started"))?;
        Ok(Self {
            received,
            handle,
            ignored,
        })
    }

    /// From now on SIGTSTP does not stop this process: the command has to be stopped with it.
    pub(crate) fn listen_for_stops(&self) {
        let stop = Signal::SIGTSTP as i32;
        if !has(self.ignored, stop) {
            // Without it, ^Z in the background stops this process alone. Its guard covers that.
            let _ = self.handle.add_signal(stop);
        }
    }

    /// The next one.
    pub(crate) async fn next(&mut self) -> i32 {
        match self.received.next().await {
            Some(signal) => signal,
            // The sending thread lives as long as the process.
            None => std::future::pending().await,
        }
    }

    /// The next one that asks this process to end.
    pub(crate) async fn next_that_ends(&mut self) -> i32 {
        loop {
            let signal = self.next().await;
            if ends(signal) {
                return signal;
            }
        }
    }

    /// A signal that has already come, and asks this process to end.
    pub(crate) fn pending_that_ends(&mut self) -> Option<i32> {
        while let Ok(signal) = self.received.try_recv() {
            if ends(signal) {
                return Some(signal);
            }
        }
        None
    }
}

/// Whether a process that does not expect this signal ends.
fn ends(signal: i32) -> bool {
    let harmless = HARMLESS.iter().chain(&[Signal::SIGTSTP]);
    !harmless
        .into_iter()
        .any(|harmless| *harmless as i32 == signal)
}

/// Signals without a name.
#[cfg(target_os = "linux")]
fn realtime() -> std::ops::RangeInclusive<i32> {
    nix::libc::SIGRTMIN()..=nix::libc::SIGRTMAX()
}

#[cfg(not(target_os = "linux"))]
fn realtime() -> std::iter::Empty<i32> {
    std::iter::empty()
}

/// Whether this process ignores a signal, as the command then does, too.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    has(ignored(), signal as i32)
}

fn has(mask: u64, signal: i32) -> bool {
    mask & (1 << (signal - 1)) != 0
}

/// The mask of signals that this process ignores, from `/proc`. Without `/proc` it is empty.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .map(str::trim);
    mask.and_then(|mask| u64::from_str_radix(mask, 16).ok())
        .unwrap_or(0)
}
