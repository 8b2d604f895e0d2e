//! `replay`: the story of a recording by `run --record` or by a program.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use transport_ureq::recording;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::print;

/// Tell what happened to a semaphore or election that was recorded
#[derive(Args, Clone, Debug)]
#[command(after_help = HELP)]
pub(crate) struct ReplayOptions {
    /// What `--record` or `Builder::recorder` wrote
    file: PathBuf,
    /// Show only the lines that contain this text, such as `event` or `notice`
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

const HELP: &str = "\
Exit codes:
  0    the story was told
  30   the file is not a recording, or is cut off
  31   another version of this program recorded it
  125  the file can't be read";

pub(crate) fn replay(options: &ReplayOptions) -> Result<Exit, Failure> {
    let ReplayOptions { file, only } = options;
    let bytes = fs::read(file).map_err(Failure::file("read", file))?;
    // A file that is not text is no recording, and is reported as such.
    let text = String::from_utf8_lossy(&bytes);
    let story = recording::replay(&text).map_err(|source| Failure::Replay {
        file: file.clone(),
        source,
    })?;
    let is_shown = |line: &&str| only.as_ref().is_none_or(|only| line.contains(only));
    let shown: Vec<&str> = story.lines().filter(is_shown).collect();
    if shown.is_empty() {
        return Ok(Exit::SUCCESS);
    }
    print(&format!("{}\n", shown.join("\n")))?;
    Ok(Exit::SUCCESS)
}
