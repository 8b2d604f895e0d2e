//! `elect status`: who leads.

use clap::Args;
use jiff::Timestamp;
use semaphore_core::sans_io::api::SessionDetails;
use serde::Serialize;
use transport_ureq::{Leader, LeaderStatus};

use crate::agent::{Agent, AgentOptions};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::identity::{Identity, election, printable, shown, since_of_name};
use crate::output::{print, print_json};
use crate::overview::{details, is_semaphore};
use crate::status::ago;

/// Show who leads; exit code 1 when nobody does
#[derive(Args, Clone, Debug)]
pub(crate) struct StatusOptions {
    /// The election's key
    key: String,
    /// As one line of JSON
    #[arg(long)]
    json: bool,
}

/// The leader as JSON.
#[derive(Serialize)]
pub(super) struct Shown<'a> {
    pub(super) key: &'a str,
    pub(super) leader: Option<Led>,
}

#[derive(Serialize)]
pub(super) struct Led {
    value: String,
    session: String,
    since: Option<Timestamp>,
    term: u64,
    sequencer: String,
    node: Option<String>,
}

impl Led {
    pub(super) fn new(leader: &Leader, session: Option<SessionDetails>) -> Self {
        let told = Identity::read(&leader.value).map(|identity| identity.since);
        let named = || since_of_name(&session.as_ref()?.name);
        Self {
            value: shown(&leader.value),
            session: leader.session.to_string(),
            since: told.or_else(named),
            term: leader.lock_index,
            sequencer: leader.sequencer().to_string(),
            node: session.map(|session| session.node),
        }
    }

    pub(super) fn words(&self) -> String {
        let since = self.since.map_or_else(String::new, |since| {
            format!(", a candidate since {}", ago(since, Timestamp::now()))
        });
        let node = self.node.as_ref();
        let node = node.map_or_else(String::new, |node| format!(", node {}", printable(node)));
        format!(
            "led by {}{since}{node}, session {}, term {}",
            self.value, self.session, self.term
        )
    }
}

pub(super) fn status(agent: &AgentOptions, options: &StatusOptions) -> Result<Exit, Failure> {
    let agent = agent.connect()?;
    let found = agent.wait_for(election(&options.key), options.read(&agent))?;
    let (leader, nobody) = match found {
        Found::Leader(led) => (Some(led), None),
        Found::Nobody => (None, Some("nobody leads".to_owned())),
        Found::Semaphore => {
            let key = printable(&options.key);
            let text =
                format!("nobody leads; it is a semaphore, and `status {key}` shows who holds");
            (None, Some(text))
        }
    };
    let exit = if leader.is_some() {
        Exit::SUCCESS
    } else {
        Exit::NO
    };
    let key = options.key.as_str();
    if options.json {
        print_json(&Shown { key, leader })?;
    } else {
        let words = leader.map(|led| led.words()).or(nobody).unwrap_or_default();
        print(&format!("{key}: {words}\n"))?;
    }
    Ok(exit)
}

/// What is at the key.
enum Found {
    Leader(Led),
    Nobody,
    Semaphore,
}

impl StatusOptions {
    async fn read(&self, agent: &Agent) -> Result<Found, Failure> {
        let discovery = super::discovery(agent, &self.key)?;
        let leader = match discovery.status().await? {
            LeaderStatus::Led(leader) => leader,
            LeaderStatus::Leaderless { last_value: None }
                if is_semaphore(agent, &self.key).await? =>
            {
                return Ok(Found::Semaphore);
            }
            LeaderStatus::Leaderless { .. } => return Ok(Found::Nobody),
        };
        let details = details(agent, &leader.session).await?;
        Ok(Found::Leader(Led::new(&leader, details)))
    }
}
