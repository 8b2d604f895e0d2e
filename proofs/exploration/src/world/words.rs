//! Events in words.

use std::fmt::Write as _;

use super::State;
use super::actor::Actor;
use super::message::{Content, Message};
use super::node::Step;
use crate::action::Action;

impl<A: Actor> State<A> {
    /// Describes an action in this state.
    pub(crate) fn describe(&self, action: Action) -> String {
        let node = |at: u8| self.nodes[usize::from(at)].name;
        let caller = |at: u8, caller: u8| self.nodes[usize::from(at)].name_of(usize::from(caller));
        let message = |at: u8| match self.messages.get(usize::from(at)) {
            Some(message) => self.show(message),
            None => "a poll that waits".into(),
        };
        let session = |at: u8| {
            let session = self.agent.sessions().nth(usize::from(at));
            short(&session.unwrap_or_default())
        };
        match action {
            Action::Acquire(at, it) => format!("{} asks", caller(at, it)),
            Action::Release(at, it) => format!("{} gives back", caller(at, it)),
            Action::Cancel(at, it) => format!("{} gives up", caller(at, it)),
            Action::SetValue(at, it) => format!("{} changes its value", caller(at, it)),
            Action::Deliver(at) => message(at),
            Action::Vanish(at) => format!("lost: {}", message(at)),
            Action::Resume(at) => format!("{} goes on", node(at)),
            Action::Tick => "time passes".into(),
            Action::Expire(at) => format!("Consul ends the session {}", session(at)),
            Action::Resign => "the stranger resigns".into(),
            Action::Cut(at) => format!("! connection broken: {}", message(at)),
            Action::LoseAnswer(at) => format!("! answer lost: {}", message(at)),
            Action::Delay(at) => format!("! held up: {}", message(at)),
            Action::Repeat(at) => format!("! will arrive twice: {}", message(at)),
            Action::Crash(at) => format!("! {} crashes", node(at)),
            Action::Invite(at) => format!("{}'s neighbour comes", node(at)),
            Action::Dismiss(at) => format!("{}'s neighbour gives back", node(at)),
            Action::Pause(at) => format!("! {} pauses", node(at)),
            Action::LoseServer(at) => {
                format!("! {} stands still, and its sessions end", node(at))
            }
            Action::Destroy(at) => format!("! an operator ends the session {}", session(at)),
        }
    }

    /// The holders as they believe, and as the record says.
    pub(crate) fn summary(&self) -> String {
        let mut summary = String::new();
        for node in &self.nodes {
            for (at, caller) in node.callers.iter().enumerate() {
                let believes = node.believes(self.now, at);
                let word = match caller.step {
                    _ if node.actor.is_none() => "crashed",
                    Step::Away => continue,
                    Step::Holds if believes => "HOLDS",
                    Step::Holds => "held, lease over",
                    Step::Waits => "waits",
                    Step::Lost => "lost",
                    Step::Releases => "releases",
                    Step::Done => "done",
                };
                let _ = write!(summary, "{} {word}, ", node.name_of(at));
                for change in &caller.changes {
                    let _ = write!(summary, "is to say {}, ", change.value);
                }
            }
        }
        let holders: Vec<_> = self.agent.holders().iter().map(|it| short(it)).collect();
        let sessions: Vec<_> = self.agent.sessions().map(|it| short(&it)).collect();
        let _ = write!(
            summary,
            "record [{}], sessions [{}]",
            holders.join(" "),
            sessions.join(" ")
        );
        if let Some(says) = self.agent.says() {
            let _ = write!(summary, ", the key says {says:?}");
        }
        summary
    }

    fn show(&self, message: &Message) -> String {
        let name = self.nodes[message.node].name;
        let late = if message.id.is_none() {
            " (nobody waits)"
        } else {
            ""
        };
        match &*message.content {
            Content::Request(request) => {
                let body = String::from_utf8_lossy(request.body());
                let target = shorten(request.target());
                format!(
                    "{name} → {} {target} {}{late}",
                    request.method(),
                    shorten(&body)
                )
            }
            Content::Answer(Ok(response)) => {
                let index = response.header("X-Consul-Index").unwrap_or("-");
                let body = String::from_utf8_lossy(response.body());
                format!(
                    "{name} ← {} index {index} {}",
                    response.status(),
                    shorten(&entries(&body))
                )
            }
            Content::Answer(Err(kind)) => format!("{name} ← no answer: {kind:?}"),
        }
    }
}

/// Shortens session ids to their last digits.
fn shorten(text: &str) -> String {
    text.replace("00000000-0000-4000-8000-0000000000", "…")
}

fn short(session: &str) -> String {
    shorten(session)
}

/// A list of entries by their keys. Other text stays as it is.
fn entries(body: &str) -> String {
    let keys: Vec<_> = body
        .split("\"Key\":\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    if keys.is_empty() {
        body.to_owned()
    } else {
        keys.join(" ")
    }
}
