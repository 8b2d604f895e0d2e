//! The program's standard output.

use std::io::{self, Write as _};

use serde::Serialize;

use crate::failure::Failure;

pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    written.map_err(Failure::system("nothing can be written to standard output"))
}

/// One line of JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let line = serde_json::to_string(value).map_err(|error| Failure::System {
        what: "the JSON can't be made",
        source: error.into(),
    })?;
    print(&format!("{line}\n"))
}
