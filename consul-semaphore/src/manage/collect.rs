//! `collect`: what dead contenders have left behind.

use clap::Args;

use crate::agent::AgentOptions;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::print;

/// Remove the keys that dead contenders have left behind
#[derive(Args, Clone, Debug)]
pub(crate) struct CollectOptions {
    /// The semaphore
    prefix: String,
}

/// It does not ask: the sessions of such keys are gone.
pub(crate) fn collect(agent: &AgentOptions, options: &CollectOptions) -> Result<Exit, Failure> {
    let prefix = &options.prefix;
    let agent = agent.connect()?;
    let semaphore = super::semaphore(&agent, prefix)?;
    let found = agent.wait(semaphore.collect())?;
    print(&format!("{prefix}: {found} keys removed\n"))?;
    Ok(Exit::SUCCESS)
}
