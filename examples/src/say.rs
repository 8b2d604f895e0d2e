//! A program's output.
//!
//! Its reader may close the pipe, as `head` does. `println!` would then panic, and a held slot
//! would be left to its TTL.

use std::fmt;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

/// Like `println!`, but continues if nobody reads any more.
#[macro_export]
macro_rules! say {
    () => { $crate::say::line(format_args!("")) };
    ($($text:tt)*) => { $crate::say::line(format_args!($($text)*)) };
}

/// Like `eprintln!`, in the same way.
#[macro_export]
macro_rules! complain {
    ($($text:tt)*) => { $crate::say::complaint(format_args!($($text)*)) };
}

static IS_UNREAD: AtomicBool = AtomicBool::new(false);

/// Prints a line.
pub fn line(text: fmt::Arguments<'_>) {
    if writeln!(io::stdout().lock(), "{text}").is_err() {
        IS_UNREAD.store(true, Ordering::Relaxed);
    }
}

/// Prints a line on stderr. If that fails, nobody can be told.
pub fn complaint(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Whether nobody reads the output any more.
pub fn is_unread() -> bool {
    IS_UNREAD.load(Ordering::Relaxed)
}
