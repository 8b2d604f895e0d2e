//! `elect run`: runs the command while it leads.

use std::ffi::OsString;

use clap::Args;
use transport_ureq::Election;

use crate::agent::{Agent, AgentOptions};
use crate::exit::{Exit, Outcome};
use crate::failure::Failure;
use crate::holding::{Holding, conclude};
use crate::notices::Notices;
use crate::program::Program;
use crate::subject::Subject;
use crate::turn::Turn;

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
    let notices = options.holding.notices();
    let ran = options.run(agent, &notices);
    conclude(&options.holding, &notices, ran)
}

impl RunOptions {
    fn run(&self, agent: &AgentOptions, notices: &Notices) -> Result<Outcome, Failure> {
        let holding = &self.holding;
        holding.check()?;
        let program = Program::find(&self.command, holding.shell)?;
        let agent = agent.connect()?;
        let subject = Subject::Lead {
            election: election(&agent, &self.key, holding)?,
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
}

pub(crate) fn election(agent: &Agent, key: &str, holding: &Holding) -> Result<Election, Failure> {
    let mut builder = Election::builder(key)
        .scope(agent.scope.clone())
        .value(holding.value())
        .ttl(holding.ttl)
        .session_name(holding.session_name());
    if let Some(tokens) = &agent.tokens {
        builder = builder.token_source(tokens.clone());
    }
    Ok(builder.connect(agent.transport.clone())?)
}
