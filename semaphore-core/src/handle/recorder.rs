//! Records the inputs of a machine, for [`replay`](crate::recording::replay).

use core::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use crate::http::Response;
use crate::id::RequestId;
use crate::machine::{Command, Member, News, Report, RequestEnd};
use crate::recording::{Answer, Head, Line, Step, digest_of, end_line};
use crate::time::Instant;
use crate::transport::TransportError;

/// Where the recording of one semaphore or election goes, for example a file. The threads that give
/// commands and the driver write to it, one line at a time, under a lock. So its writes must not
/// block for long.
///
/// The recording begins when the first handle that is built with it is connected. It ends when
/// there is no more room, when a line can't be written, or with the handle. Without its beginning a
/// recording could not be replayed: no line has what the machine knew by then. To keep only the
/// newest part without end, use an [`Observer`](crate::observe::Observer) that keeps the newest
/// notices as text. If a semaphore of a [`Client`](crate::Client) is recorded, it gets separate
/// sessions, as with [`Builder::isolated`](crate::Builder::isolated): the recording could not show
/// what others do to a shared session.
#[derive(Clone)]
pub struct Recorder {
    to: Arc<Mutex<Option<Box<dyn Write + Send>>>>,
    most: u64,
}

/// The default limit.
const MOST: u64 = 64 * 1024 * 1024;

impl Recorder {
    /// Records to this writer, up to 64 MiB. While one slot is held it writes some tens of KiB a
    /// minute.
    pub fn new(to: impl Write + Send + 'static) -> Self {
        Self {
            to: Arc::new(Mutex::new(Some(Box::new(to)))),
            most: MOST,
        }
    }

    /// Sets the limit in bytes. The last line says that there was no room for more.
    #[must_use]
    pub fn with_most(self, bytes: u64) -> Self {
        Self {
            most: bytes,
            ..self
        }
    }

    /// Begins, unless another handle has begun.
    pub(super) fn begin(&self, head: &Head) -> Tape {
        let to = self
            .to
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let mut tape = Tape {
            to,
            left: self.most,
        };
        tape.write(end_line(head));
        tape
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("most", &self.most)
            .finish_non_exhaustive()
    }
}

/// A recording that has begun.
pub(super) struct Tape {
    to: Option<Box<dyn Write + Send>>,
    left: u64,
}

/// Room for the line about the limit.
const FOR_THE_END: u64 = 64;

impl Tape {
    pub(super) fn commanded(&mut self, at: Instant, command: Command) {
        self.note(at, || Step::Command(command));
    }

    fn note(&mut self, at: Instant, step: impl FnOnce() -> Step) {
        if self.to.is_some() {
            let at = at.into();
            let text = end_line(&Line { at, step: step() });
            let is_full = text
                .as_ref()
                .is_some_and(|text| text.len() as u64 + FOR_THE_END > self.left);
            if is_full {
                let step = Step::Full;
                self.write(end_line(&Line { at, step }));
                self.to = None;
            } else {
                self.write(text);
            }
        }
    }

    fn write(&mut self, line: Option<String>) {
        let (Some(to), Some(line)) = (&mut self.to, line) else {
            return;
        };
        self.left = self.left.saturating_sub(line.len() as u64);
        if let Err(error) = to.write_all(line.as_bytes()) {
            tracing::warn!(name: "recording-ended", %error, "the recording can't be written, and ends here");
            self.to = None;
        }
    }
}

/// A machine with its recorder.
pub(super) struct Taped<'a, M> {
    pub(super) machine: &'a mut M,
    pub(super) tape: &'a mut Tape,
}

impl<M: Member> Member for Taped<'_, M> {
    fn attend(&mut self, now: Instant) -> Report {
        let report = self.machine.attend(now);
        let sent = || digest_of(report.transmits());
        self.tape.note(now, || Step::Time { sent: sent() });
        report
    }

    fn handle(&mut self, now: Instant, news: News<'_>) -> Option<RequestEnd> {
        if let News::Response(id, result) = &news {
            self.tape.note(now, || answer(*id, result));
        }
        self.machine.handle(now, news)
    }
}

fn answer(id: RequestId, result: &Result<Response, TransportError>) -> Step {
    Step::Answer(Answer::new(id, result))
}
