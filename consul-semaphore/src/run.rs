//! `run`: runs the command while it has a slot.

use std::ffi::OsString;

use clap::Args;
use transport_ureq::Semaphore;

use crate::agent::{Agent, AgentOptions};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::holding::Holding;
use crate::subject::Subject;
use crate::turn::run_command;

/// Run a command while holding a slot
#[derive(Args, Clone, Debug)]
pub(crate) struct RunOptions {
    /// How many may hold a slot at once; it must be the same for all who share the semaphore
    #[arg(short = 'n', long, default_value_t = 1, value_name = "LIMIT")]
    limit: u32,
    /// How many slots to take, all or nothing
    #[arg(long, default_value_t = 1, value_name = "K")]
    permits: u32,
    /// Adopt another limit from the record
    #[arg(long)]
    adopt_limit: bool,
    /// Replace another limit in the record by this one, if nobody holds a slot
    #[arg(long)]
    resize_if_idle: bool,
    #[command(flatten)]
    holding: Holding,
    /// The semaphore, such as service/db
    prefix: String,
    /// The command, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn run(agent: &AgentOptions, options: &RunOptions) -> Exit {
    run_command(agent, &options.holding, &options.command, |agent| {
        Ok(Subject::Slots {
            semaphore: options.connect(agent)?,
            permits: options.permits,
            limit: options.limit,
        })
    })
}

impl RunOptions {
    fn connect(&self, agent: &Agent) -> Result<Semaphore, Failure> {
        let holding = &self.holding;
        let mut builder = Semaphore::builder(&self.prefix, self.limit)
            .scope(agent.scope.clone())
            .value(holding.value())
            .ttl(holding.ttl)
            .session_name(holding.session_name())
            // The command may need its grace time to end.
            .keep_lost();
        if self.adopt_limit {
            builder = builder.adopt_limit();
        }
        if self.resize_if_idle {
            builder = builder.resize_if_idle();
        }
        Ok(builder.connect(agent.transport.clone())?)
    }
}
