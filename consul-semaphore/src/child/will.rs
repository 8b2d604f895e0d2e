//! What the guard does once this process was killed and the command is dead: it ends the session, so
//! that nobody waits until the session's TTL ends it.
//!
//! The next leader leads at once. The next holder of a semaphore waits for the lock delay, since it
//! can't know that the command is dead.

use std::io::{Read, Write};
use std::thread;
use std::time::Duration;

use semaphore_core::sans_io::api::{DestroySession, ReadKey, ReleaseKey};
use serde::{Deserialize, Serialize};
use transport_ureq::SessionId;

use crate::agent::{Agent, AgentOptions};
use crate::failure::Failure;

/// How often the session's end is tried, in case Consul does not answer at once. Its TTL ends it
/// later.
const TRIES: u32 = 5;

/// The time between two of them.
const PAUSE: Duration = Duration::from_secs(2);

/// The most bytes of a will.
const MOST: u32 = 64 * 1024;

/// It is passed on through a pipe, since it may contain a token.
#[derive(Serialize, Deserialize)]
pub(crate) struct Will {
    pub(crate) agent: AgentOptions,
    pub(crate) sessions: Vec<String>,
    /// The key of an election.
    pub(crate) key: Option<String>,
}

impl Will {
    /// It fits into a pipe that nobody reads yet.
    pub(super) fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        let text = serde_json::to_vec(self)?;
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        // Without a will the guard only kills.
        let text = if length < MOST { text } else { Vec::new() };
        let length = u32::try_from(text.len()).unwrap_or_default();
        out.write_all(&[&length.to_be_bytes(), text.as_slice()].concat())
    }

    /// `None` if its writer was killed before it had written it.
    pub(super) fn read(mut from: impl Read) -> Option<Self> {
        let mut length = [0; 4];
        from.read_exact(&mut length).ok()?;
        let length = u32::from_be_bytes(length).min(MOST);
        let mut text = vec![0; usize::try_from(length).ok()?];
        from.read_exact(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Nobody is there any more who could be told of an error.
    pub(super) fn execute(&self) {
        let Ok(agent) = self.agent.connect() else {
            return;
        };
        for session in &self.sessions {
            let Ok(session) = SessionId::new(session.clone()) else {
                continue;
            };
            for _ in 0..TRIES {
                if agent.wait(self.give_back(&agent, &session)).is_ok() {
                    break;
                }
                thread::sleep(PAUSE);
            }
        }
    }

    async fn give_back(&self, agent: &Agent, session: &SessionId) -> Result<(), Failure> {
        if let Some(key) = &self.key {
            // After the session's end, the lock delay would keep others from the key.
            release(agent, key, session).await?;
        }
        let request = DestroySession { session }.request(&agent.scope());
        Ok(DestroySession::parse(&agent.send(request).await?)?)
    }
}

async fn release(agent: &Agent, key: &str, session: &SessionId) -> Result<(), Failure> {
    let read = ReadKey {
        key,
        wait: None,
        consistent: true,
    };
    let answer = agent.send(read.request(&agent.scope())).await?;
    if let Some(entry) = ReadKey::parse(&answer)?
        && entry.session() == Some(session.as_str())
    {
        let release = ReleaseKey {
            key,
            session,
            value: &entry.value()?,
            flags: entry.flags(),
        };
        let answer = agent.send(release.request(&agent.scope())).await?;
        ReleaseKey::parse(&answer)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_will_comes_through_a_pipe_before_other_words_and_half_a_will_is_none() {
        let will = Will {
            agent: AgentOptions::default(),
            sessions: vec!["0c274d9e-cf27-fb56-3003-3da40744f339".to_owned()],
            key: Some("leader".to_owned()),
        };
        let mut written = Vec::new();
        will.write(&mut written).unwrap();
        let half = &written[..written.len() / 2];
        assert!(Will::read(half).is_none());
        assert!(Will::read(&[][..]).is_none());
        written.extend_from_slice(b"words");
        let mut rest = written.as_slice();
        let read = Will::read(&mut rest).unwrap();
        assert_eq!((read.sessions, read.key), (will.sessions, will.key));
        assert_eq!(rest, b"words");
    }
}
