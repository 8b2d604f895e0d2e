//! `evict`: ends a session, and so everything that it holds.

use clap::Args;
use semaphore_core::sans_io::api::DestroySession;
use transport_ureq::SessionId;
use transport_ureq::manage::Eviction;

use crate::agent::{Agent, AgentOptions};
use crate::confirm::Confirmation;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::identity::{printable, semaphore};
use crate::output::print;
use crate::overview::details;

/// End a session, and with it whatever it holds or waits for
#[derive(Args, Clone, Debug)]
pub(crate) struct EvictOptions {
    /// The session, as `status` shows it
    session: String,
    /// The reason; a holder of the semaphore in --at is told, and gives its slot back
    #[arg(long, requires = "at", value_name = "TEXT")]
    reason: Option<String>,
    /// The semaphore whose holder is told the reason
    #[arg(long, requires = "reason", value_name = "PREFIX")]
    at: Option<String>,
    #[command(flatten)]
    confirmation: Confirmation,
}

pub(crate) fn evict(agent: &AgentOptions, options: &EvictOptions) -> Result<Exit, Failure> {
    let session = SessionId::new(options.session.clone())?;
    let agent = agent.connect()?;
    let what = format!("session {session}");
    let known = agent.wait_for(&what, async {
        details(&agent, &session).await?.ok_or(Failure::NoSession)
    })?;
    options.confirmation.ask(&format!(
        "the session {session} ({:?} on node {}) would end; what it holds is lost at once, and free for others when its \
         lock delay is over",
        printable(&known.name),
        printable(&known.node)
    ))?;
    let ended = if let (Some(prefix), Some(reason)) = (&options.at, &options.reason) {
        let handle = super::semaphore(&agent, prefix)?;
        agent.wait(handle.evict(&session, reason.as_str()))?
    } else {
        agent.wait_for(&what, end(&agent, &session))?;
        Eviction::Ended
    };
    match ended {
        Eviction::Left => print(&format!("session {session}: told, and has left\n"))?,
        Eviction::NotHere => {
            let prefix = options.at.as_deref().unwrap_or_default();
            let failure = Failure::NotThere { session };
            return Err(failure.about(|| agent.place(semaphore(prefix))));
        }
        _ => print(&format!("session {session}: ended\n"))?,
    }
    Ok(Exit::SUCCESS)
}

async fn end(agent: &Agent, session: &SessionId) -> Result<(), Failure> {
    let request = DestroySession { session }.request(&agent.scope());
    let answer = agent.send(request).await?;
    Ok(DestroySession::parse(&answer)?)
}
