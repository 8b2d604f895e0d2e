//! `evict`: ends a session, and with it whatever it holds.

use clap::Args;
use semaphore_core::sans_io::api::DestroySession;
use transport_ureq::SessionId;

use crate::agent::{Agent, AgentOptions};
use crate::confirm::Confirmation;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::identity::printable;
use crate::output::print;
use crate::overview::details;

/// End a session, and with it whatever it holds or waits for
#[derive(Args, Clone, Debug)]
pub(crate) struct EvictOptions {
    /// The session, as `status` shows it
    session: String,
    #[command(flatten)]
    confirmation: Confirmation,
}

pub(crate) fn evict(agent: &AgentOptions, options: &EvictOptions) -> Result<Exit, Failure> {
    let session = SessionId::new(options.session.clone())?;
    let agent = agent.connect()?;
    let Some(known) = agent.wait(details(&agent, &session))? else {
        return Err(Failure::NoSession { session });
    };
    options.confirmation.ask(&format!(
        "the session {session} ({:?} on node {}) would end; what it holds is lost at once, and free for others when its \
         lock delay is over",
        printable(&known.name),
        printable(&known.node)
    ))?;
    agent.wait(end(&agent, &session))?;
    print(&format!("session {session}: ended\n"))?;
    Ok(Exit::SUCCESS)
}

async fn end(agent: &Agent, session: &SessionId) -> Result<(), Failure> {
    let request = DestroySession { session }.request(&agent.scope());
    let answer = agent.send(request).await?;
    Ok(DestroySession::parse(&answer)?)
}
