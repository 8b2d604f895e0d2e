//! The program's output. Its reader may close the pipe, as `head` does. `println!` would then
//! panic, and a held slot would be left to its TTL.

use std::fmt::Display;
use std::io::{self, Write as _};

/// Prints a line.
pub(crate) fn say(line: impl Display) {
    let _ = writeln!(io::stdout().lock(), "{line}");
}

/// Prints a line on the standard error.
pub(crate) fn complain(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
