//! The log as text.
//!
//! One subscriber serves the whole program, and keeps each thread's lines apart. With one
//! subscriber per test, lines would get lost when tests run side by side: `tracing` combines what
//! all subscribers want for all threads.

use std::cell::{Cell, RefCell};
use std::io::{self, Write};
use std::sync::Once;

use tracing::level_filters::LevelFilter;
use tracing::{Level, Subscriber as _};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;

thread_local! {
    /// The level of this thread.
    static LEVEL: Cell<LevelFilter> = const { Cell::new(LevelFilter::OFF) };
    static TEXT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Writes to the lines of the current thread.
struct Lines;

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        TEXT.with_borrow_mut(|text| text.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let is_wanted = dynamic_filter_fn(|about, _| *about.level() <= LEVEL.get());
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(|| Lines)
            .with_ansi(false)
            .without_time();
        let subscriber = tracing_subscriber::registry().with(lines.with_filter(is_wanted));
        assert_eq!(
            subscriber.max_level_hint(),
            None,
            "each thread has its level"
        );
        tracing::subscriber::set_global_default(subscriber).expect("the only one");
    });
}

/// The lines that `scene` logs at this level and above, each with its spans.
pub(crate) fn logged(level: Level, scene: impl FnOnce()) -> Vec<String> {
    install();
    TEXT.take();
    LEVEL.set(LevelFilter::from_level(level));
    scene();
    LEVEL.set(LevelFilter::OFF);
    let text = TEXT.take();
    let text = String::from_utf8_lossy(&text);
    text.lines().map(|line| line.trim().to_owned()).collect()
}
