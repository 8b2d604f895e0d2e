//! The log of the libraries, on standard error with `--verbose`. The program reports what is
//! important without it.

use std::io;

use tracing_subscriber::filter::LevelFilter;

use crate::outlet::Outlet;
use crate::text;

/// Starts the log. It does not include earlier spans.
pub(crate) fn begin(outlet: Outlet) {
    // An error means that it has already started.
    let _ = tracing_subscriber::fmt()
        .with_writer(move || Lines(outlet.clone()))
        .with_max_level(LevelFilter::INFO)
        .with_target(false)
        .with_ansi(false)
        .without_time()
        .try_init();
}

/// Each line is written at once. The threads that log also renew what is held, so they must not wait
/// for a reader.
struct Lines(Outlet);

impl io::Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        self.0.say(text::safe(&text).into_owned());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
