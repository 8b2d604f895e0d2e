//! `run`: runs the command while it has a slot.

use std::ffi::OsString;

use clap::Args;
use transport_ureq::Semaphore;

use crate::agent::{Agent, AgentOptions};
use crate::exit::{Exit, Outcome};
use crate::failure::Failure;
use crate::holding::{Holding, conclude};
use crate::notices::Notices;
use crate::program::Program;
use crate::subject::Subject;
use crate::turn::Turn;

/// Run a command while holding a slot
#[derive(Args, Clone, Debug)]
pub(crate) struct RunOptions {
    /// How many may hold a slot at once; all who share the semaphore must agree
    #[arg(short = 'n', long, default_value_t = 1, value_name = "LIMIT")]
    limit: u32,
    /// How many slots to take, all or nothing
    #[arg(long, default_value_t = 1, value_name = "K")]
    permits: u32,
    /// Take over another limit that is found there
    #[arg(long)]
    adopt_limit: bool,
    #[command(flatten)]
    holding: Holding,
    /// The semaphore, such as service/db
    prefix: String,
    /// The command, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn run(agent: &AgentOptions, options: &RunOptions) -> Exit {
    let notices = options.holding.notices();
    let ran = RunOptions::run(options, agent, &notices);
    conclude(&options.holding, &notices, ran)
}

impl RunOptions {
    fn run(&self, agent: &AgentOptions, notices: &Notices) -> Result<Outcome, Failure> {
        let holding = &self.holding;
        holding.check()?;
        let program = Program::find(&self.command, holding.shell)?;
        let agent = agent.connect()?;
        let value = holding.value();
        let subject = Subject::Slots {
            semaphore: self.connect(&agent, &value)?,
            permits: self.permits,
            limit: self.limit,
            value,
        };
        Turn {
            agent: &agent,
            subject: &subject,
            holding,
            notices,
            program: &program,
            variables: &[],
        }
        .take()
    }

    fn connect(&self, agent: &Agent, value: &[u8]) -> Result<Semaphore, Failure> {
        let holding = &self.holding;
        let mut builder = Semaphore::builder(&self.prefix, self.limit)
            .scope(agent.scope.clone())
            .value(value)
            .ttl(holding.ttl)
            .session_name(holding.session_name());
        if let Some(tokens) = &agent.tokens {
            builder = builder.token_source(tokens.clone());
        }
        if self.adopt_limit {
            builder = builder.adopt_limit();
        }
        Ok(builder.connect(agent.transport.clone())?)
    }
}
