//! Where this program prints while it waits and holds. A thread writes the lines, and nobody waits
//! for it without a bound: a reader that has stopped (a full pipe, ^S on a terminal) must not keep a
//! slot from others.
//!
//! ```text
//!  say ──▶ a queue of bounded length ──▶ the writing thread ──▶ standard error, or a file
//!            └ full: the line is dropped and counted; the next line that fits says how many
//! ```

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write as _};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};

/// The most lines that wait to be written.
const MOST: usize = 256;

/// How long a writer that waits for its reader sleeps, if its file says that it would block.
const PAUSE: Duration = Duration::from_millis(20);

/// Writes a part of these bytes, and says how many.
type Write = dyn Fn(&[u8]) -> io::Result<usize> + Send + Sync;

/// Lines on their way to one reader. All clones are the same.
#[derive(Clone)]
pub(crate) struct Outlet(Arc<Shared>);

struct Shared {
    pending: Mutex<Pending>,
    /// For the writer: something is there. For those who wait for it: it has come further.
    changed: Condvar,
    write: Box<Write>,
    /// The line that says how many were dropped.
    gap: fn(u64) -> String,
}

#[derive(Default)]
struct Pending {
    lines: VecDeque<Text>,
    /// How many lines were dropped since the last line.
    dropped: u64,
    change: Option<Change>,
    /// Whether a line that changes is on the terminal.
    is_drawn: bool,
    writer: Writer,
    /// Whether the last line could not be written, as to a closed pipe.
    is_broken: bool,
    /// How often something was written.
    steps: u64,
}

/// What the writing thread does.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Writer {
    /// There is none yet.
    #[default]
    None,
    Waits,
    Writes,
}

/// What is written at once.
struct Text {
    text: String,
    /// How many lines are lost without it.
    lines: u64,
}

/// What becomes of the line that changes. Only the last change counts.
enum Change {
    Draw(String),
    Clear,
}

/// Back to the beginning of the line, which is erased.
const ERASE: &str = "\r\x1b[K";

impl Outlet {
    pub(crate) fn new(
        write: impl Fn(&[u8]) -> io::Result<usize> + Send + Sync + 'static,
        gap: fn(u64) -> String,
    ) -> Self {
        Self(Arc::new(Shared {
            pending: Mutex::default(),
            changed: Condvar::new(),
            write: Box::new(write),
            gap,
        }))
    }

    pub(crate) fn stderr(gap: fn(u64) -> String) -> Self {
        Self::new(|bytes| io::stderr().write(bytes), gap)
    }

    /// Prints a line. It never waits.
    pub(crate) fn say(&self, text: String) {
        let gap = self.0.gap;
        self.push(|pending| {
            let room = MOST - pending.lines.len();
            if pending.dropped > 0 && room > 1 {
                let missing = pending.gap(gap);
                pending.lines.extend(missing);
            }
            if pending.dropped > 0 || room == 0 {
                pending.dropped += 1;
            } else {
                pending.lines.push_back(Text { text, lines: 1 });
            }
        });
    }

    /// Draws the line that changes, below all others.
    pub(crate) fn draw(&self, text: String) {
        self.push(|pending| pending.change = Some(Change::Draw(text)));
    }

    /// Erases the line that changes.
    pub(crate) fn clear(&self) {
        if self.0.lock().may_be_drawn() {
            self.push(|pending| pending.change = Some(Change::Clear));
        }
    }

    /// Waits until all is written, or until the writer has not come further for this time. Returns
    /// whether all is written. If not, the line that changes is left as it is: what is on the terminal
    /// by then may be another program's.
    pub(crate) fn settle(&self, patience: Duration) -> bool {
        let mut pending = self.0.lock();
        while !pending.is_empty() {
            let before = pending.steps;
            let is_stuck = |now: &mut Pending| now.steps == before && !now.is_empty();
            let waited = self
                .0
                .changed
                .wait_timeout_while(pending, patience, is_stuck);
            let (now, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            pending = now;
            if timeout.timed_out() {
                pending.change = None;
                pending.is_drawn = false;
                return false;
            }
        }
        true
    }

    fn push(&self, change: impl FnOnce(&mut Pending)) {
        let mut pending = self.0.lock();
        change(&mut pending);
        if pending.writer == Writer::None {
            let shared = Arc::clone(&self.0);
            let writer = thread::Builder::new().name("output".to_owned());
            if writer.spawn(move || shared.write_all()).is_err() {
                // Without a thread nothing can be held, since the command needs one, too. So
                // nobody is kept waiting, and the user learns why.
                self.0.write_pending(pending, Writer::None);
                return;
            }
            pending.writer = Writer::Waits;
        }
        drop(pending);
        self.0.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The writing thread.
    fn write_all(&self) {
        // With `stty tostop`, a process that writes while another has the terminal is stopped.
        let mut stops = SigSet::empty();
        stops.add(Signal::SIGTTOU);
        // An error leaves the writer as it was.
        let _ = stops.thread_block();
        loop {
            let pending = self.lock();
            let waited = self.changed.wait_while(pending, |it| it.is_empty());
            let pending = waited.unwrap_or_else(PoisonError::into_inner);
            self.write_pending(pending, Writer::Waits);
        }
    }

    fn write_pending<'a>(&'a self, mut pending: MutexGuard<'a, Pending>, after: Writer) {
        while let Some(Text { text, lines }) = pending.next(self.gap) {
            pending.writer = Writer::Writes;
            drop(pending);
            let is_written = self.write(text.as_bytes());
            pending = self.lock();
            pending.writer = after;
            pending.is_broken = !is_written;
            pending.steps += 1;
            if !is_written {
                pending.dropped += lines;
            }
            self.changed.notify_all();
        }
        drop(pending);
        self.changed.notify_all();
    }

    /// Whether all was written.
    fn write(&self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            match (self.write)(bytes) {
                Ok(0) => return false,
                Ok(length) => bytes = bytes.get(length..).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Some programs leave a pipe that does not block.
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(PAUSE),
                Err(_) => return false,
            }
        }
        true
    }
}

impl Pending {
    /// Whether there is nothing left to write, or nothing that could be written.
    fn is_empty(&self) -> bool {
        let is_told = self.dropped == 0 || self.is_broken;
        self.lines.is_empty() && self.change.is_none() && is_told && !self.is_writing()
    }

    fn may_be_drawn(&self) -> bool {
        self.is_drawn || self.change.is_some() || self.is_writing()
    }

    fn is_writing(&self) -> bool {
        self.writer == Writer::Writes
    }

    fn gap(&mut self, gap: fn(u64) -> String) -> Option<Text> {
        let lines = mem::take(&mut self.dropped);
        (lines > 0).then(|| Text {
            text: gap(lines),
            lines,
        })
    }

    /// What is written next.
    fn next(&mut self, gap: fn(u64) -> String) -> Option<Text> {
        let line = self.lines.pop_front();
        let line = line.or_else(|| if self.is_broken { None } else { self.gap(gap) });
        if let Some(mut line) = line {
            if mem::take(&mut self.is_drawn) {
                line.text.insert_str(0, ERASE);
            }
            return Some(line);
        }
        let text = match self.change.take()? {
            Change::Draw(text) => {
                self.is_drawn = true;
                format!("{ERASE}{text}")
            }
            Change::Clear if mem::take(&mut self.is_drawn) => ERASE.to_owned(),
            Change::Clear => return None,
        };
        Some(Text { text, lines: 0 })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Receiver, Sender};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// An outlet whose reader takes a text for each word to it, and what it has taken.
    fn slow() -> (Outlet, Sender<()>, Receiver<String>) {
        let (go, words) = mpsc::channel::<()>();
        let (taker, texts) = mpsc::channel();
        let words = Mutex::new(words);
        let write = move |bytes: &[u8]| {
            let _ = words.lock().unwrap().recv();
            let _ = taker.send(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        };
        let gap = |lines| format!("{lines} are missing");
        (Outlet::new(write, gap), go, texts)
    }

    fn one_is_being_written(outlet: &Outlet) {
        while !outlet.0.lock().is_writing() {
            thread::yield_now();
        }
    }

    #[test]
    fn nobody_waits_for_a_reader_that_has_stopped_and_what_is_dropped_is_counted() {
        let (outlet, go, texts) = slow();
        outlet.say("first".to_owned());
        one_is_being_written(&outlet);
        for line in 0..MOST + 7 {
            outlet.say(line.to_string());
        }
        assert!(!outlet.settle(Duration::from_millis(1)));
        drop(go);
        assert!(outlet.settle(PATIENCE));
        outlet.say("last".to_owned());
        assert!(outlet.settle(PATIENCE));
        let texts: Vec<String> = texts.try_iter().collect();
        assert_eq!(texts.len(), 1 + MOST + 2);
        assert_eq!(texts[MOST], (MOST - 1).to_string());
        assert_eq!(texts[MOST + 1..], ["7 are missing", "last"]);
    }

    #[test]
    fn the_line_that_changes_is_drawn_as_it_is_last_and_leaves_before_others_print() {
        let (outlet, go, texts) = slow();
        outlet.draw("1 ahead".to_owned());
        one_is_being_written(&outlet);
        for line in ["2 ahead", "3 ahead"] {
            outlet.draw(line.to_owned());
        }
        outlet.say("a line\n".to_owned());
        go.send(()).unwrap();
        go.send(()).unwrap();
        go.send(()).unwrap();
        assert!(outlet.settle(PATIENCE));
        outlet.clear();
        outlet.clear();
        drop(go);
        assert!(outlet.settle(PATIENCE));
        let texts: Vec<String> = texts.try_iter().collect();
        let expected = ["1 ahead", "a line\n", "3 ahead", ""];
        assert_eq!(texts, expected.map(|text| format!("{ERASE}{text}")));
    }

    #[test]
    fn what_a_stopped_reader_finds_on_its_terminal_is_not_erased_later() {
        let (outlet, go, texts) = slow();
        outlet.draw("1 ahead".to_owned());
        one_is_being_written(&outlet);
        outlet.clear();
        assert!(!outlet.settle(Duration::from_millis(1)));
        drop(go);
        assert!(outlet.settle(PATIENCE));
        outlet.clear();
        assert!(outlet.settle(PATIENCE));
        let texts: Vec<String> = texts.try_iter().collect();
        assert_eq!(texts, [format!("{ERASE}1 ahead")]);
    }

    #[test]
    fn a_closed_output_keeps_nobody() {
        let write = |_: &[u8]| Err(io::Error::from(ErrorKind::BrokenPipe));
        let outlet = Outlet::new(write, |lines| lines.to_string());
        for line in 0..10 {
            outlet.say(line.to_string());
        }
        assert!(outlet.settle(PATIENCE));
    }
}
