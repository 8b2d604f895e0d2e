//! What the program says. The reader may go in the middle, as `head` does: `println!` panics then, and a slot that is held
//! would be left to its TTL.

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
