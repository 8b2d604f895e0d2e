//! `resize`: another limit.

use clap::Args;

use crate::agent::AgentOptions;
use crate::confirm::Confirmation;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::print;

/// Change how many may hold a slot at once
#[derive(Args, Clone, Debug)]
pub(crate) struct ResizeOptions {
    /// The semaphore
    prefix: String,
    /// How many may hold a slot from now on
    limit: u32,
    #[command(flatten)]
    confirmation: Confirmation,
}

pub(crate) fn resize(agent: &AgentOptions, options: &ResizeOptions) -> Result<Exit, Failure> {
    let ResizeOptions {
        prefix,
        limit,
        confirmation,
    } = options;
    let agent = agent.connect()?;
    let semaphore = super::semaphore(&agent, prefix)?;
    let before = agent.wait(semaphore.inspect())?;
    if *limit < before.limit && *limit > 0 {
        confirmation.ask(&format!(
            "{prefix} has {} slots, {} of them held, and would have {limit}; holders stay until they release, and \
             programs that were started with another limit are refused",
            before.limit,
            before.holders.len()
        ))?;
    }
    agent.wait(semaphore.resize(*limit))?;
    print(&format!("{prefix}: limit {} -> {limit}\n", before.limit))?;
    Ok(Exit::SUCCESS)
}
