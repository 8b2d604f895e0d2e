//! `elect watch`: a line for each change.

use clap::Args;
use jiff::Timestamp;
use serde::Serialize;
use transport_ureq::LeaderEvent;

use super::status::{Led, Shown};
use crate::agent::{Agent, AgentOptions};
use crate::exit::Exit;
use crate::failure::{Failure, whole};
use crate::output::{print, print_json};
use crate::queue::clock;

/// Show each change of the leader, until interrupted
#[derive(Args, Clone, Debug)]
pub(crate) struct WatchOptions {
    /// The election's key
    key: String,
    /// One line of JSON for each change
    #[arg(long)]
    json: bool,
}

/// A change as JSON.
#[derive(Serialize)]
struct Change<'a> {
    at: Timestamp,
    event: &'static str,
    #[serde(flatten)]
    shown: Shown<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

pub(super) fn watch(agent: &AgentOptions, options: &WatchOptions) -> Result<Exit, Failure> {
    let agent = agent.connect()?;
    agent.wait(options.follow(&agent))
}

impl WatchOptions {
    async fn follow(&self, agent: &Agent) -> Result<Exit, Failure> {
        let mut follower = super::discovery(agent, &self.key)?.follow();
        while let Some(event) = follower.next().await {
            self.tell(&event?)?;
        }
        Err(Failure::Ended)
    }

    fn tell(&self, event: &LeaderEvent) -> Result<(), Failure> {
        let at = Timestamp::now();
        let (name, leader, why) = match event {
            LeaderEvent::Elected(leader) => ("elected", Some(Led::new(leader, None)), None),
            LeaderEvent::ValueChanged(leader) => {
                ("value-changed", Some(Led::new(leader, None)), None)
            }
            LeaderEvent::Leaderless { .. } => ("leaderless", None, None),
            LeaderEvent::Interrupted(error) => ("interrupted", None, Some(whole(error))),
            LeaderEvent::Resumed => ("resumed", None, None),
            // An event of a newer library.
            _ => return Ok(()),
        };
        let key = self.key.as_str();
        if self.json {
            return print_json(&Change {
                at,
                event: name,
                shown: Shown { key, leader },
                why,
            });
        }
        let words = match (leader, why, name) {
            (Some(led), ..) => led.words(),
            (None, Some(why), _) => format!("the leader is not known now: {why}"),
            (None, None, "resumed") => "the leader is known again".to_owned(),
            (None, None, _) => "nobody leads".to_owned(),
        };
        print(&format!("{} {key}: {words}\n", clock(at)))
    }
}
