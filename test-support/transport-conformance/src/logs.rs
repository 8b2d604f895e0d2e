//! Everything that is logged in this process, through `log` or `tracing`, at every level.

use std::io;
use std::mem;
use std::sync::{Mutex, OnceLock, PoisonError};

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::FmtSpan;

/// The lines so far.
pub struct Logs(Mutex<Vec<u8>>);

static LOGS: OnceLock<Logs> = OnceLock::new();

impl Logs {
    /// Starts to collect. This works once in a process, and nothing else may collect logs in it.
    pub fn collect() -> &'static Self {
        LOGS.get_or_init(|| {
            tracing_subscriber::fmt()
                .with_max_level(LevelFilter::TRACE)
                .with_span_events(FmtSpan::FULL)
                .with_ansi(false)
                .with_writer(|| Writer)
                .init();
            Self(Mutex::default())
        })
    }

    /// The lines since the last call.
    pub fn take(&self) -> String {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&mem::take(&mut *lines)).into_owned()
    }
}

struct Writer;

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(Logs(lines)) = LOGS.get() {
            let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
            lines.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
