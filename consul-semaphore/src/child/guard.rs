//! A second process that kills the command, and what the command has started, when this process
//! can't. That is the case after it was killed, or while it stands still (stopped, or without a
//! processor) and the lease ends.
//!
//! ```text
//!  this process ── will ────────▶ pipe ──▶ guard: when the pipe ends, kills the group and executes the will
//!               ── until when ──▶                 kills the group then
//!               ── dismissed ───▶                 ends, and does nothing
//! ```
//! On Linux the system can kill the command together with its parent, but not the command's
//! children.
//!
//! A guard must not die with this process if somebody kills all processes of this name or session.
//! So it has another name and a separate session.

use std::env;
use std::ffi::{CStr, OsStr, OsString};
use std::io::{self, PipeWriter, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{self, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Pid, getpgid, getppid, setpgid, setsid};

use super::terminal;
use super::will::Will;
use crate::exit::Exit;

/// A guard's first argument. No subcommand has this name.
const MARK: &str = "__guard";

/// A guard's name among the processes. It has nothing of this program's.
const NAME: &CStr = c"lease-guard";

/// How long a guard waits for what it has killed to be reaped.
const REAPED: Duration = Duration::from_secs(5);

/// How often it looks.
const STEP: Duration = Duration::from_millis(10);

/// How often the clock is read: timers stand still while a machine is suspended.
const LOOK: Duration = Duration::from_secs(1);

/// A message to a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    /// Kill the group at this time.
    Until { millis: u64 },
    /// Nothing of the group is left.
    Dismissed,
}

/// Why a guard kills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// Nobody else guards the group any more.
    Alone,
    /// The lease is about to end.
    Late,
}

/// While this exists, the guard waits at the other end.
pub(super) struct Guard {
    words: PipeWriter,
    process: process::Child,
}

impl Guard {
    /// A guard for this process group.
    pub(super) fn start(group: Pid, will: &Will) -> io::Result<Self> {
        let (end, mut words) = io::pipe()?;
        let mut command = Command::new(super::own_path()?);
        command
            .arg0(OsStr::from_bytes(NAME.to_bytes()))
            .args([OsString::from(MARK), group.to_string().into()])
            .stdin(end)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A signal of the terminal must not reach it before it has a session.
            .process_group(0);
        let process = terminal::without_stops(|| command.spawn())?;
        // A guard that was killed meanwhile is replaced.
        let _ = will.write(&mut words);
        Ok(Self { words, process })
    }

    /// Allows the group to live for this time from now on.
    ///
    /// # Errors
    /// The guard has gone.
    pub(super) fn allow(&mut self, time: Duration) -> io::Result<()> {
        let time = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.say(Word::Until {
            millis: now().saturating_add(time),
        })
    }

    /// Nothing of the group is left. Its number may soon belong to another group.
    pub(super) fn dismiss(mut self) {
        // A guard that has gone needs no message.
        let _ = self.say(Word::Dismissed);
        let _ = self.process.wait();
    }

    fn say(&mut self, word: Word) -> io::Result<()> {
        self.words.write_all(&word.encode())
    }
}

impl Word {
    const LENGTH: usize = 8;

    /// The time zero is long past, so it stands for the end.
    fn encode(self) -> [u8; Self::LENGTH] {
        match self {
            Self::Until { millis } => millis.max(1).to_be_bytes(),
            Self::Dismissed => [0; Self::LENGTH],
        }
    }

    fn decode(bytes: [u8; Self::LENGTH]) -> Self {
        match u64::from_be_bytes(bytes) {
            0 => Self::Dismissed,
            millis => Self::Until { millis },
        }
    }
}

/// Works as a guard, if this process is one.
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
    // Never kill init's group or all processes.
    if group > 1 {
        leave_session();
        let will = Will::read(io::stdin().lock());
        guard(Pid::from_raw(group), will);
    }
    Some(Exit::SUCCESS)
}

fn guard(group: Pid, will: Option<Will>) {
    let Some(why) = wait_for_reason(&listen()) else {
        return;
    };
    // What can't be killed is not gone.
    let _ = killpg(group, Signal::SIGKILL);
    // A supervisor that is only late gives back itself.
    if why == Why::Alone
        && let Some(will) = will
        && is_gone(group)
    {
        will.execute();
    }
}

/// A signal to the supervisor's session, its terminal or its name does not reach the guard.
fn leave_session() {
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_name(NAME);
    // Only SIGKILL ends a guard.
    let _ = SigSet::all().thread_block();
    // The leader of a group can't have a session. It was one until now, so that it was in no other.
    let parents = getpgid(Some(getppid()));
    if parents
        .and_then(|group| setpgid(Pid::from_raw(0), group))
        .is_ok()
    {
        let _ = setsid();
    }
}

/// Waits until all that was killed has ended and was reaped.
fn is_gone(group: Pid) -> bool {
    let end = now().saturating_add(u64::try_from(REAPED.as_millis()).unwrap_or(u64::MAX));
    while killpg(group, None) != Err(Errno::ESRCH) {
        if now() >= end {
            return false;
        }
        thread::sleep(STEP);
    }
    true
}

/// The messages from the pipe, until it ends.
fn listen() -> Receiver<Word> {
    let (sender, words) = mpsc::channel();
    thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        let mut bytes = [0; Word::LENGTH];
        while stdin.read_exact(&mut bytes).is_ok() {
            if sender.send(Word::decode(bytes)).is_err() {
                break;
            }
        }
    });
    words
}

/// Waits until the group has to be killed. `None` if nothing is left to guard.
fn wait_for_reason(words: &Receiver<Word>) -> Option<Why> {
    let mut until = None;
    loop {
        let left = until.map(|until: u64| Duration::from_millis(until.saturating_sub(now())));
        if left.is_some_and(|left| left.is_zero()) {
            return Some(Why::Late);
        }
        match words.recv_timeout(left.unwrap_or(LOOK).min(LOOK)) {
            Ok(Word::Until { millis }) => until = Some(millis),
            Ok(Word::Dismissed) => return None,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Some(Why::Alone),
        }
    }
}

/// A clock that all processes share, and that runs while the machine is suspended.
fn now() -> u64 {
    #[cfg(target_os = "linux")]
    const CLOCK: ClockId = ClockId::CLOCK_BOOTTIME;
    #[cfg(not(target_os = "linux"))]
    const CLOCK: ClockId = ClockId::CLOCK_MONOTONIC;
    let time = clock_gettime(CLOCK).map(Duration::from);
    // Both clocks always exist. Without one, nothing may be believed.
    time.map_or(u64::MAX, |time| {
        u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_comes_through_as_it_was_said() {
        for word in [Word::Until { millis: 77 }, Word::Dismissed] {
            assert_eq!(Word::decode(word.encode()), word);
        }
    }

    #[test]
    fn it_kills_when_the_pipe_ends_or_the_time_has_come_and_not_when_it_is_dismissed() {
        let told = |words: &[Word]| {
            let (sender, receiver) = mpsc::channel();
            for word in words {
                sender.send(*word).unwrap();
            }
            drop(sender);
            wait_for_reason(&receiver)
        };
        let later = Word::Until {
            millis: now() + 3_600_000,
        };
        assert_eq!(told(&[]), Some(Why::Alone));
        assert_eq!(told(&[later]), Some(Why::Alone));
        assert_eq!(told(&[later, Word::Dismissed]), None);
        // It does not wait for the end of the pipe.
        let (sender, receiver) = mpsc::channel();
        sender.send(Word::Until { millis: now() }).unwrap();
        assert_eq!(wait_for_reason(&receiver), Some(Why::Late));
    }
}
