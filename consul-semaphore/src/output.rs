//! The program's standard output.

use std::io::{self, IsTerminal as _, Write as _};

use serde::Serialize;

use crate::failure::Failure;
use crate::text;

/// Lines. What others have written into them can't reach a terminal as a command to it.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    write(&text::safe(text))
}

/// Lines that replace everything on a terminal. Elsewhere they follow the others.
pub(crate) fn redraw(text: &str) -> Result<(), Failure> {
    let text = text::safe(text);
    if io::stdout().is_terminal() {
        // Moves the cursor home, and clears the rest.
        write(&format!("\x1b[H\x1b[J{text}"))
    } else {
        write(&text)
    }
}

fn write(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    written.map_err(|source| match source.kind() {
        io::ErrorKind::BrokenPipe => Failure::ReaderGone,
        _ => Failure::system("nothing can be written to standard output")(source),
    })
}

/// One line of JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let line = serde_json::to_string(value).map_err(|error| Failure::System {
        what: "the JSON can't be made",
        source: error.into(),
    })?;
    write(&format!("{}\n", text::safe_json(&line)))
}
