//! Completions for shells, and the man page.

use clap::{Args, Command};
use clap_complete::Shell;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::print;

/// Print completions for a shell
#[derive(Args, Clone, Debug)]
pub(super) struct CompletionsOptions {
    shell: Shell,
}

pub(super) fn completions(
    mut command: Command,
    options: &CompletionsOptions,
) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut command, "consul-semaphore", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::SUCCESS)
}

/// The page of the whole program, or of a subcommand.
pub(super) fn man(command: &Command, of: &[String]) -> Result<Exit, Failure> {
    let mut command = command.clone().disable_help_subcommand(true);
    command.build();
    let mut page = &command;
    for name in of {
        page = page
            .find_subcommand(name)
            .ok_or_else(|| Failure::usage(format!("there is no subcommand {name:?}")))?;
    }
    let mut text = Vec::new();
    clap_mangen::Man::new(page.clone())
        .render(&mut text)
        .map_err(Failure::system("the man page can't be made"))?;
    print(&String::from_utf8_lossy(&text))?;
    Ok(Exit::SUCCESS)
}
