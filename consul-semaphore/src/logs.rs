//! The log of the libraries, on standard error with `--verbose`. The program reports what is
//! important without it.

use std::io;

use tracing_subscriber::filter::LevelFilter;

/// Starts the log. It does not include earlier spans.
pub(crate) fn begin() {
    // An error means that it has already started.
    let _ = tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_max_level(LevelFilter::INFO)
        .with_target(false)
        .with_ansi(false)
        .without_time()
        .try_init();
}
