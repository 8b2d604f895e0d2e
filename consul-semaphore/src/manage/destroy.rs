//! `destroy`: the record of a semaphore that nobody uses.

use clap::Args;

use crate::agent::AgentOptions;
use crate::confirm::Confirmation;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::print;

/// Remove a semaphore that nobody uses
#[derive(Args, Clone, Debug)]
pub(crate) struct DestroyOptions {
    /// The semaphore
    prefix: String,
    #[command(flatten)]
    confirmation: Confirmation,
}

pub(crate) fn destroy(agent: &AgentOptions, options: &DestroyOptions) -> Result<Exit, Failure> {
    let DestroyOptions {
        prefix,
        confirmation,
    } = options;
    let agent = agent.connect()?;
    let semaphore = super::semaphore(&agent, prefix)?;
    let before = agent.wait(semaphore.inspect())?;
    confirmation.ask(&format!(
        "the record of {prefix}, with its limit of {}, would be removed",
        before.limit
    ))?;
    agent.wait(semaphore.destroy())?;
    print(&format!("{prefix}: removed\n"))?;
    Ok(Exit::SUCCESS)
}
