//! `elect`: run a command while leading, and see who leads.

mod run;
mod status;
mod watch;

use clap::Subcommand;
use transport_ureq::Discovery;

use self::run::RunOptions;
pub(crate) use self::run::election;
use self::status::StatusOptions;
use self::watch::WatchOptions;
use crate::agent::{Agent, AgentOptions};
use crate::exit::Exit;
use crate::failure::Failure;

/// Run a command while leading, or see who leads
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum ElectCommand {
    Run(RunOptions),
    Status(StatusOptions),
    Watch(WatchOptions),
}

impl ElectCommand {
    pub(crate) fn run(&self, agent: &AgentOptions) -> Result<Exit, Failure> {
        match self {
            Self::Run(options) => Ok(run::run(agent, options)),
            Self::Status(options) => status::status(agent, options),
            Self::Watch(options) => watch::watch(agent, options),
        }
    }
}

pub(crate) fn discovery(agent: &Agent, key: &str) -> Result<Discovery, Failure> {
    let builder = Discovery::builder(key).scope(agent.scope.clone());
    Ok(builder.connect(agent.transport.clone())?)
}
