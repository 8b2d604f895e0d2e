//! The program's output on standard error: lines for people, or with `--json` one event a line for
//! programs.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::queue;

/// Where notices go, and how many.
pub(crate) struct Notices {
    json: bool,
    verbose: bool,
    is_terminal: bool,
    /// Whether a line that changes is on the terminal.
    has_line: AtomicBool,
}

/// An event as JSON.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum Event<'a> {
    /// It asks for its turn.
    Waiting { subject: &'a str },
    /// Its place in the queue, when it is first known and when it has changed.
    Queued { subject: &'a str, ahead: u32 },
    /// It holds, or leads.
    Granted {
        subject: &'a str,
        session: &'a str,
        fencing_token: u64,
        sequencers: Vec<String>,
    },
    /// The command runs.
    Started { pid: u32 },
    /// A signal was passed on.
    Passed { signal: i32 },
    /// The command was told to end.
    Told { signal: i32, why: &'a str },
    /// The slot or lead is lost or will soon be.
    Lost { why: &'a str },
    /// The command and all that it started were killed.
    Killed { why: &'a str },
    /// The command has ended, and nothing of it is left.
    Ended { code: u8 },
    /// Its place is free for others.
    Released,
    /// It could not be given back: its TTL ends it.
    NotReleased { why: &'a str },
    /// This program's exit code, if it is not the command's.
    Failed { code: u8, why: &'a str },
}

#[derive(Serialize)]
struct Stamped<'a> {
    at: jiff::Timestamp,
    #[serde(flatten)]
    event: &'a Event<'a>,
}

impl Event<'_> {
    /// The text for people, and whether only `--verbose` shows it.
    fn words(&self) -> (bool, String) {
        match self {
            Self::Waiting { subject } => (true, format!("waits for {subject}")),
            Self::Queued { subject, ahead } => (
                true,
                format!("waits for {subject}: {}", queue::place(*ahead)),
            ),
            Self::Granted {
                subject,
                session,
                fencing_token,
                ..
            } => (
                true,
                format!("has {subject}, session {session}, fencing token {fencing_token}"),
            ),
            Self::Started { pid } => (true, format!("runs the command, process {pid}")),
            Self::Passed { signal } => (true, format!("passes signal {signal} on")),
            Self::Told { signal, why } => (
                false,
                format!("tells the command to end (signal {signal}): {why}"),
            ),
            Self::Lost { why } => (false, format!("lost: {why}")),
            Self::Killed { why } => (false, format!("kills the command: {why}")),
            Self::Ended { code } => (true, format!("the command has ended with {code}")),
            Self::Released => (true, "has given it back".to_owned()),
            Self::NotReleased { why } => (
                false,
                format!("could not give it back; it is free when its TTL is over: {why}"),
            ),
            Self::Failed { why, .. } => (false, (*why).to_owned()),
        }
    }
}

impl Notices {
    pub(crate) fn new(json: bool, verbose: bool) -> Self {
        Self {
            json,
            verbose,
            is_terminal: io::stderr().is_terminal(),
            has_line: AtomicBool::new(false),
        }
    }

    pub(crate) fn tell(&self, event: &Event<'_>) {
        if self.json {
            let at = jiff::Timestamp::now();
            if let Ok(line) = serde_json::to_string(&Stamped { at, event }) {
                say(&format!("{line}\n"));
            }
            return;
        }
        let (is_detail, words) = event.words();
        if !is_detail || self.verbose {
            self.clear_line();
            say(&format!("consul-semaphore: {words}\n"));
        }
    }

    pub(crate) fn fail(&self, failure: &Failure, exit: Exit) {
        let why = failure.whole();
        let code = exit.code();
        self.tell(&Event::Failed { code, why: &why });
    }

    /// Whether there is a terminal for a line that changes.
    pub(crate) fn has_watcher(&self) -> bool {
        self.is_terminal && !self.json
    }

    /// Draws the changing line again.
    pub(crate) fn draw_line(&self, text: &str) {
        if self.has_watcher() {
            self.has_line.store(true, Ordering::Relaxed);
            say(&format!("\r\x1b[K{text}"));
        }
    }

    pub(crate) fn clear_line(&self) {
        if self.has_line.swap(false, Ordering::Relaxed) {
            say("\r\x1b[K");
        }
    }
}

/// If the output is closed, nobody can be told that either.
fn say(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}
