//! `contend` and `leader`, started as a user would.

use std::env;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::row::{PLACE, Row, What};

/// In milliseconds. It is longer than any row, and ends the program if nobody is left to kill it.
const HOLD: &str = "600000";

/// A running program. Dropping this kills it.
#[derive(Debug)]
pub(crate) struct Program {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Program {
    /// Starts the program that the row needs. It only knows the agent at this address.
    ///
    /// # Errors
    /// [`Failure::System`].
    pub(crate) fn start(row: &Row, url: &str, lock_delay: Option<u64>) -> Result<Self, Failure> {
        let here = env::current_exe().map_err(Failure::system("this program is nowhere"))?;
        let name = match row.what {
            What::Semaphore => "contend",
            What::Election => "leader",
        };
        let mut command = Command::new(here.with_file_name(name));
        for (name, _) in env::vars_os() {
            if name.to_string_lossy().starts_with("CONSUL_") {
                command.env_remove(name);
            }
        }
        command.env("CONSUL_HTTP_ADDR", url);
        match row.what {
            What::Semaphore => command
                .args(["--mode", "hold", "--limit", "1", "--hold-ms", HOLD])
                .args(["--prefix", PLACE]),
            What::Election => command.args([PLACE, "--hold-ms", HOLD]),
        };
        command.args(["--ttl", &row.ttl.to_string()]);
        command.args(["--backend", &row.backend.to_string()]);
        if let Some(delay) = lock_delay {
            command.args(["--lock-delay", &delay.to_string()]);
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(Failure::system("a program can't be started"))?;
        let (tell, lines) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    // The receiver may be gone.
                    let _ = tell.send(line);
                }
            });
        }
        Ok(Self {
            child,
            lines,
            said: Vec::new(),
        })
    }

    /// When it first held, by the machine's clock.
    ///
    /// # Errors
    /// [`Failure::Late`].
    pub(crate) fn granted(&mut self, within: Duration) -> Result<f64, Failure> {
        self.moment("a grant", within, &["granted at ", ", since "])
    }

    /// When it held no more.
    ///
    /// # Errors
    /// [`Failure::Late`].
    pub(crate) fn ended(&mut self, within: Duration) -> Result<f64, Failure> {
        self.moment(
            "the end of a belief",
            within,
            &["not held any more at ", "leads no more since "],
        )
    }

    fn moment(
        &mut self,
        what: &'static str,
        within: Duration,
        signs: &[&str],
    ) -> Result<f64, Failure> {
        let deadline = Instant::now() + within;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                return Err(Failure::Late(what, self.said.join("; ")));
            };
            let found = signs.iter().find_map(|sign| {
                let (_, rest) = line.split_once(sign)?;
                let digits = |c: char| !c.is_ascii_digit() && c != '.';
                rest.split(digits).next()?.parse().ok()
            });
            self.said.push(line);
            if let Some(found) = found {
                return Ok(found);
            }
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
