//! `elect run`: runs the command while it leads.

use std::ffi::OsString;

use clap::Args;
use transport_ureq::Election;

use crate::agent::{Agent, AgentOptions};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::holding::Holding;
use crate::subject::Subject;
use crate::turn::run_command;

/// Run a command while leading
#[derive(Args, Clone, Debug)]
pub(crate) struct RunOptions {
    #[command(flatten)]
    holding: Holding,
    /// The election's key, such as service/db/leader
    key: String,
    /// The command, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(super) fn run(agent: &AgentOptions, options: &RunOptions) -> Exit {
    run_command(agent, &options.holding, &options.command, |agent| {
        let election = election(agent, &options.key, &options.holding)?;
        Ok(Subject::Lead { election })
    })
}

pub(crate) fn election(agent: &Agent, key: &str, holding: &Holding) -> Result<Election, Failure> {
    let builder = Election::builder(key)
        .scope(agent.scope.clone())
        .value(holding.value())
        .ttl(holding.ttl)
        .session_name(holding.session_name());
    Ok(builder.connect(agent.transport.clone())?)
}
