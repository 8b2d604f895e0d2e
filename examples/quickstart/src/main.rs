//! Fifteen contenders share three slots. The program prints who holds one when, and draws it at the
//! end.
//!
//! ```sh
//! cargo run -p quickstart                                      # a Consul in memory
//! CONSUL_HTTP_ADDR=127.0.0.1:8500 cargo run -p quickstart      # a real agent
//! cargo run -p quickstart -- --svg docs/quickstart.svg         # the README's picture
//! ```
//! ```text
//!  main ── flags ── failure
//!    ├ in_memory      hosts of a Consul in memory, one of which is cut off
//!    ├ on_agent       hosts of the agent that the environment names
//!    └ contest        all contenders: acquire, hold, release. The same code for both
//!        └ story      who waited, held and lost when
//!            ├ timeline   as rows of characters
//!            └ picture    as SVG
//! ```

mod contest;
mod failure;
mod flags;
mod in_memory;
mod on_agent;
mod picture;
mod say;
mod story;
mod timeline;

use std::env;
use std::fs;
use std::process::ExitCode;

use crate::failure::Failure;
use crate::flags::{Asked, Flags};
use crate::say::{complain, say};
use crate::story::Story;

fn main() -> ExitCode {
    let asked = match flags::read(env::args_os()) {
        Ok(asked) => asked,
        Err(failure) => return failure.report(),
    };
    let flags = match asked {
        Asked::Help => {
            say(flags::HELP);
            return ExitCode::SUCCESS;
        }
        Asked::Run(flags) => flags,
    };
    match run(&flags) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => failure.report(),
    }
}

/// Returns whether the limit was kept and nothing failed.
fn run(flags: &Flags) -> Result<bool, Failure> {
    let is_named = env::var_os("CONSUL_HTTP_ADDR").is_some_and(|addr| !addr.is_empty());
    let (story, errors) = if is_named {
        on_agent::run(flags)?
    } else {
        in_memory::run(flags)?
    };
    for error in &errors {
        complain(format_args!("error: {error}"));
    }
    let most = tell(&story);
    if let Some(path) = &flags.svg {
        let drawn = picture::draw(&story);
        fs::write(path, drawn).map_err(|source| Failure::Picture {
            path: path.clone(),
            source,
        })?;
    }
    Ok(errors.is_empty() && most <= story.limit())
}

/// Prints the result. Returns how many held at once.
fn tell(story: &Story) -> usize {
    say("");
    say(timeline::draw(story).trim_end());
    let most = story.most_at_once();
    say(format_args!("max concurrent: {most} of {}", story.limit()));
    most
}
