//! Prints the story of a recording: what was requested, answered, granted and lost, and when.
//!
//! `cargo run --bin replay -- FILE`. `Builder::recorder` writes a recording; `watched` makes one.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use transport_reqwest::recording::{ReplayError, Story, replay};

/// Replays a recording, and prints its story.
#[derive(Debug, Parser)]
struct Flags {
    /// The recording
    file: PathBuf,
    /// Shows only lines with this text, such as `event` or `notice`
    #[arg(long)]
    only: Option<String>,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{file:?} can't be read: {source}")]
    Unreadable {
        file: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{file:?} can't be replayed: {source}")]
    Replay {
        file: PathBuf,
        #[source]
        source: ReplayError,
    },
}

fn main() -> ExitCode {
    let Flags { file, only } = Flags::parse();
    match story(file) {
        Ok(story) => {
            let is_shown = |line: &&str| only.as_ref().is_none_or(|only| line.contains(only));
            for line in story.lines().filter(is_shown) {
                examples::say!("{line}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn story(file: PathBuf) -> Result<Story, Failure> {
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(source) => return Err(Failure::Unreadable { file, source }),
    };
    replay(&text).map_err(|source| Failure::Replay { file, source })
}
