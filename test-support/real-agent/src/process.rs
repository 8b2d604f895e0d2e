//! A Consul process that can't outlive the test.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{fs, thread};

use rustix::process::{Pid, Signal};

/// Runs Consul and waits for it, while a background shell reads the pipe from the test process. A
/// line on the pipe kills Consul, and so does the pipe's end. If the pipe ends without a line, the
/// test process is gone, and the shell removes the scratch folder, too. Consul itself must not
/// inherit the pipe.
///
/// The shells ignore the signals that would end them, so only the pipe does. One signal is certain:
/// if the test process dies while Consul is frozen, the system sends `SIGHUP` to their group.
///
/// The reading shell ignores signals, too, so it is killed when Consul has ended. Otherwise it
/// would mistake the end of the pipe for the end of the test process.
///
/// `$1` is the scratch folder, the rest is the command.
const WATCHDOG: &str = r#"
trap '' HUP INT QUIT TERM
scratch=$1; shift
exec 3<&0 </dev/null
"$@" 3<&- >&2 &
consul=$!
echo "$consul"
exec >&2
{ read -r _ <&3 || : >"$scratch/orphaned"; kill -9 "$consul"; } 2>/dev/null &
reader=$!
exec 3<&-
wait "$consul"
if [ -e "$scratch/orphaned" ]; then rm -rf "$scratch"; else kill -9 "$reader" 2>/dev/null; fi
"#;

/// A running Consul. Dropping this kills it.
#[derive(Debug)]
pub(crate) struct Process {
    watchdog: Child,
    consul: Pid,
    log: PathBuf,
}

impl Process {
    /// Starts `binary` in the folder `scratch`, with its output appended to `scratch/log`.
    pub(crate) fn start<A: AsRef<OsStr>>(
        binary: &Path,
        args: &[A],
        scratch: &Path,
    ) -> io::Result<Self> {
        let log = scratch.join("log");
        let output = OpenOptions::new().create(true).append(true).open(&log)?;
        let mut watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "watchdog"])
            .arg(scratch)
            .arg(binary)
            .args(args)
            .current_dir(scratch)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(output)
            // A test runner may signal the test's group, for example on a timeout. That must not
            // end the watchdog before Consul.
            .process_group(0)
            .spawn()?;
        match first_line_as_pid(&mut watchdog) {
            Ok(consul) => Ok(Self {
                watchdog,
                consul,
                log,
            }),
            Err(error) => {
                drop(watchdog.stdin.take());
                watchdog.wait()?;
                Err(error)
            }
        }
    }

    /// Whether Consul still exists, frozen or not.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.watchdog.try_wait(), Ok(None))
    }

    /// Freezes Consul (`SIGSTOP`), and waits until all its threads have stopped. Before that, a
    /// thread could still answer.
    pub(crate) fn stop(&mut self) -> io::Result<()> {
        self.signal(Signal::STOP)?;
        while self.is_alive() && !is_frozen(self.pid())? {
            thread::yield_now();
        }
        Ok(())
    }

    /// Continues a frozen Consul (`SIGCONT`).
    pub(crate) fn cont(&mut self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Kills Consul (`SIGKILL`), even if it is frozen, and waits until it is gone.
    pub(crate) fn kill(&mut self) -> io::Result<()> {
        if let Some(mut pipe) = self.watchdog.stdin.take() {
            // This fails if Consul is gone already, and with it the watchdog.
            let _ = pipe.write_all(b"end\n");
        }
        self.watchdog.wait().map(drop)
    }

    /// Tells Consul to end (`SIGTERM`), and waits until it is gone.
    pub(crate) fn terminate(&mut self) -> io::Result<()> {
        self.signal(Signal::TERM)?;
        // Waiting for the watchdog would close its pipe, and that kills Consul. So the pipe is
        // kept.
        let pipe = self.watchdog.stdin.take();
        let waited = self.watchdog.wait();
        drop(pipe);
        waited.map(drop)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.consul.as_raw_nonzero().get().unsigned_abs()
    }

    pub(crate) fn log(&self) -> String {
        fs::read(&self.log).map_or_else(
            |error| format!("(the log can't be read: {error})"),
            |bytes| String::from_utf8_lossy(&bytes).into_owned(),
        )
    }

    /// The last lines of the log.
    pub(crate) fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Only the watchdog reaps Consul. So while the watchdog lives, no other process has Consul's
    /// id.
    fn signal(&mut self, signal: Signal) -> io::Result<()> {
        if !self.is_alive() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "consul has ended"));
        }
        Ok(rustix::process::kill_process(self.consul, signal)?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if thread::panicking() && self.is_alive() {
            eprintln!("consul's log ends with:\n{}", self.log_tail());
        }
        if let Err(error) = self.kill() {
            eprintln!("consul could not be ended: {error}");
        }
    }
}

/// Whether all threads of `process` are stopped. Only Linux tells. Elsewhere the signal has to be
/// enough.
fn is_frozen(process: u32) -> io::Result<bool> {
    let threads = Path::new("/proc").join(process.to_string()).join("task");
    if !threads.exists() {
        return Ok(true);
    }
    for thread in fs::read_dir(threads)? {
        // A thread that is gone can't answer either.
        let Ok(stat) = fs::read_to_string(thread?.path().join("stat")) else {
            continue;
        };
        // The state follows the name in parentheses, which may contain parentheses itself.
        let state = stat.rsplit(") ").next().unwrap_or_default();
        if !state.starts_with(['T', 't']) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn first_line_as_pid(watchdog: &mut Child) -> io::Result<Pid> {
    let mut line = String::new();
    if let Some(stdout) = watchdog.stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    line.trim_end()
        .parse()
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| io::Error::other(format!("the watchdog said {line:?}")))
}
