//! The command line.

pub(crate) mod dashes;
pub(crate) mod duration;
mod pages;

use std::env;
use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, Subcommand};

use self::pages::CompletionsOptions;
use crate::agent::AgentOptions;
use crate::check::{CheckOptions, check};
use crate::elect::ElectCommand;
use crate::exit::{self, Exit};
use crate::like_consul_lock;
use crate::list::{ListOptions, list};
use crate::manage::{DestroyOptions, EvictOptions, ResizeOptions, destroy, evict, resize};
use crate::notices::Notices;
use crate::run::{self, RunOptions};
use crate::status::{StatusOptions, status};

/// Semaphores and elections in Consul, for scripts and operators
#[derive(Parser, Debug)]
#[command(name = "consul-semaphore", version, after_help = exit::HELP, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    agent: AgentOptions,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Run(RunOptions),
    #[command(subcommand)]
    Elect(ElectCommand),
    Status(StatusOptions),
    List(ListOptions),
    Resize(ResizeOptions),
    Evict(EvictOptions),
    Destroy(DestroyOptions),
    Check(CheckOptions),
    #[cfg(feature = "dev")]
    Dev(crate::dev::DevOptions),
    Completions(CompletionsOptions),
    /// Print the man page, or that of a subcommand
    Man {
        /// The subcommand
        of: Vec<String>,
    },
}

/// Executes the command line.
pub(crate) fn main() -> Exit {
    let arguments: Vec<OsString> = env::args_os().collect();
    if let Some(arguments) = like_consul_lock::asked(&arguments) {
        return like_consul_lock::main(arguments);
    }
    let arguments = dashes::doubled(arguments.into_iter());
    match Cli::try_parse_from(arguments) {
        Ok(cli) => cli.run(),
        Err(error) => {
            // If the output is closed, nobody can be told that either.
            let _ = error.print();
            match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::SUCCESS,
                _ => Exit::USAGE,
            }
        }
    }
}

impl Cli {
    fn run(self) -> Exit {
        let agent = &self.agent;
        let done = match &self.command {
            Command::Run(options) => Ok(run::run(agent, options)),
            Command::Elect(command) => command.run(agent),
            Command::Status(options) => status(agent, options),
            Command::List(options) => list(agent, options),
            Command::Resize(options) => resize(agent, options),
            Command::Evict(options) => evict(agent, options),
            Command::Destroy(options) => destroy(agent, options),
            Command::Check(options) => check(agent, options),
            #[cfg(feature = "dev")]
            Command::Dev(options) => crate::dev::dev(options),
            Command::Completions(options) => pages::completions(Self::command(), options),
            Command::Man { of } => pages::man(&Self::command(), of),
        };
        done.unwrap_or_else(|failure| {
            let exit = failure.exit();
            Notices::plain().fail(&failure, exit);
            exit
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
