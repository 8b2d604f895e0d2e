//! Asks before something is taken from somebody.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use clap::Args;

use crate::failure::Failure;
use crate::text;

/// Whether to ask.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Confirmation {
    /// Don't ask
    #[arg(long, short = 'y')]
    yes: bool,
}

impl Confirmation {
    /// Asks, unless the command line has the answer. Without a terminal nobody can be asked.
    pub(crate) fn ask(self, what: &str) -> Result<(), Failure> {
        if self.yes {
            return Ok(());
        }
        if !io::stdin().is_terminal() {
            return Err(Failure::usage(format!(
                "{what}; nobody can be asked here: say --yes if that is meant"
            )));
        }
        let cannot = || Failure::system("the answer can't be read");
        let mut stderr = io::stderr().lock();
        write!(stderr, "{}. Go on? [y/N] ", text::safe(what)).map_err(cannot())?;
        stderr.flush().map_err(cannot())?;
        let mut answer = String::new();
        io::stdin()
            .lock()
            .read_line(&mut answer)
            .map_err(cannot())?;
        match answer.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(Failure::Declined),
        }
    }
}
