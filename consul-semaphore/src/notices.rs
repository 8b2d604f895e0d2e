//! What the program says while it waits and holds: lines for people on standard error, or with
//! `--json` one event a line for programs. With `--events` the events go to a file, too.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use serde::Serialize;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::outlet::Outlet;
use crate::queue;
use crate::text;

/// Where notices go, and how many.
pub(crate) struct Notices {
    json: bool,
    verbose: bool,
    is_terminal: bool,
    stderr: Outlet,
    events: Option<Outlet>,
}

/// How long a reader that takes nothing is waited for before the command starts. Usually what was said
/// before is then written before what the command prints.
const BEFORE_COMMAND: Duration = Duration::from_millis(200);

/// The same before this program ends or stops, since it may say nothing more. A busy machine may leave
/// the writer without a processor for some tenths of a second.
const AT_END: Duration = Duration::from_secs(2);

/// How long the reader of a pipe may take to open it. A script often starts both at once.
const FOR_A_READER: Duration = Duration::from_secs(5);

/// The time between two tries to open it.
const PAUSE: Duration = Duration::from_millis(20);

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
    /// A signal did not reach the command.
    NotSent { signal: i32, why: &'a str },
    /// The command has stopped, and so may its job: see `why`.
    Stopped { signal: i32, why: &'a str },
    /// It goes on.
    Continued,
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
    /// Events are missing here, because nobody read them in time.
    Dropped { lines: u64 },
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
            Self::NotSent { signal, why } => (
                false,
                format!("signal {signal} can't be sent to the command: {why}"),
            ),
            Self::Stopped { signal, why } => (
                false,
                format!("the command has stopped (signal {signal}): {why}"),
            ),
            Self::Continued => (true, "the command goes on".to_owned()),
            Self::Told { signal, why } => (
                false,
                format!("tells the command to end (signal {signal}): {why}"),
            ),
            // The reason says what is lost.
            Self::Lost { why } | Self::Failed { why, .. } => (false, (*why).to_owned()),
            Self::Killed { why } => (false, format!("kills the command: {why}")),
            Self::Ended { code } => (true, format!("the command has ended with {code}")),
            Self::Released => (true, "has given it back".to_owned()),
            Self::NotReleased { why } => (
                false,
                format!("could not give it back; it is free when its TTL is over: {why}"),
            ),
            Self::Dropped { lines } => (
                false,
                format!("{lines} lines are missing here: nobody read them in time"),
            ),
        }
    }

    /// One line of JSON.
    fn json(&self) -> String {
        let stamped = Stamped {
            at: jiff::Timestamp::now(),
            event: self,
        };
        // Strings and numbers always serialize.
        let json = serde_json::to_string(&stamped).unwrap_or_default();
        format!("{}\n", text::safe_json(&json))
    }

    fn line(&self) -> String {
        let (_, words) = self.words();
        format!("consul-semaphore: {}\n", text::safe(&words))
    }
}

impl Notices {
    /// Lines for people.
    pub(crate) fn plain() -> Self {
        Self::new(false, false)
    }

    pub(crate) fn new(json: bool, verbose: bool) -> Self {
        let gap = if json { json_gap } else { gap };
        Self {
            json,
            verbose,
            is_terminal: io::stderr().is_terminal(),
            stderr: Outlet::stderr(gap),
            events: None,
        }
    }

    /// The same, with all events in this file, too. They are added at its end, so that several may
    /// write to one file. They have values and sessions, so others may not read it.
    pub(crate) fn with_events(mut self, file: &Path) -> Result<Self, Failure> {
        let opened = open(file)?;
        self.events = Some(Outlet::new(move |bytes| (&opened).write(bytes), json_gap));
        Ok(self)
    }

    /// Where the lines for people go.
    pub(crate) fn stderr(&self) -> Outlet {
        self.stderr.clone()
    }

    pub(crate) fn tell(&self, event: &Event<'_>) {
        if let Some(events) = &self.events {
            events.say(event.json());
        }
        if self.json {
            self.stderr.say(event.json());
        } else if !event.words().0 || self.verbose {
            self.stderr.say(event.line());
        }
    }

    pub(crate) fn fail(&self, failure: &Failure, exit: Exit) {
        // As other programs of a pipeline that is cut, it ends without a word.
        if matches!(failure, Failure::ReaderGone) {
            return;
        }
        let why = failure.whole();
        let code = exit.code();
        self.tell(&Event::Failed { code, why: &why });
    }

    /// Whether there is a terminal for a line that changes.
    pub(crate) fn has_watcher(&self) -> bool {
        self.is_terminal && !self.json
    }

    /// Draws the changing line again. It stays within one row, so that it can be erased.
    pub(crate) fn draw_line(&self, line: &str) {
        if self.has_watcher() {
            let size = terminal_size::terminal_size_of(io::stderr());
            let columns = size.map_or(80, |(columns, _)| usize::from(columns.0));
            // In the last column some terminals begin a row already.
            let columns = columns.saturating_sub(1).max(1);
            self.stderr.draw(text::cut(line, columns));
        }
    }

    /// Removes the changing line, before the command has the terminal.
    pub(crate) fn clear_line(&self) {
        self.stderr.clear();
    }

    /// Waits until all is written, but not for a reader that takes nothing.
    pub(crate) fn settle(&self) {
        self.settle_within(BEFORE_COMMAND);
    }

    /// The same before this program stops.
    pub(crate) fn settle_before_stop(&self) {
        self.settle_within(AT_END);
    }

    fn settle_within(&self, patience: Duration) {
        self.stderr.settle(patience);
        if let Some(events) = &self.events {
            events.settle(patience);
        }
    }
}

/// Opens a file of events. A pipe whose reader stops or ends must keep nobody, so it does not block.
fn open(file: &Path) -> Result<File, Failure> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600);
    options.custom_flags(OFlag::O_NONBLOCK.bits());
    let begun = Instant::now();
    loop {
        let error = match options.open(file) {
            Ok(opened) => return Ok(opened),
            Err(error) => error,
        };
        // `open` says so of a pipe without a reader, and of sockets and devices that are not there.
        let is_unread = error.raw_os_error() == Some(Errno::ENXIO as i32)
            && fs::metadata(file).is_ok_and(|it| it.file_type().is_fifo());
        if !is_unread {
            return Err(Failure::file("written", file)(error));
        }
        if begun.elapsed() >= FOR_A_READER {
            let file = file.to_owned();
            return Err(Failure::NoReader { file });
        }
        thread::sleep(PAUSE);
    }
}

/// What was said last is read as a rule.
impl Drop for Notices {
    fn drop(&mut self) {
        self.settle_within(AT_END);
    }
}

fn gap(lines: u64) -> String {
    Event::Dropped { lines }.line()
}

fn json_gap(lines: u64) -> String {
    Event::Dropped { lines }.json()
}
