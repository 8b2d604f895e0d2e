//! Finds an election's leader, and what Consul knows about its session.

use super::{Step, Task};
use crate::api::{ReadKey, SessionDetails, SessionInfo};
use crate::error::{Error, RequestError};
use crate::http::{Request, Response};
use crate::id::SessionId;
use crate::input::{LockKey, Scope};
use crate::leader::{LeaderStatus, Sighting};
use crate::subject::Subject;

/// Reads an election's key once. Consul's leader confirms the read.
#[derive(Clone, Debug)]
pub struct DiscoverLeader {
    key: LockKey,
    scope: Scope,
}

impl DiscoverLeader {
    /// Reads the election of this key.
    pub fn new(key: LockKey, scope: Scope) -> Self {
        Self { key, scope }
    }
}

impl Task for DiscoverLeader {
    type Output = LeaderStatus;

    fn read(&self) -> Request {
        ReadKey {
            key: self.key.as_str(),
            wait: None,
            consistent: true,
        }
        .request(&self.scope)
    }

    fn step(&mut self, answer: &Response) -> Result<Step<LeaderStatus>, RequestError> {
        let found = Sighting::of(&self.key, answer)?.found;
        Ok(Step::Done(found.map_err(|conflict| Error::NotAnElection {
            key: self.key.to_string(),
            conflict,
            on: Subject::default(),
        })))
    }
}

/// Reads what Consul knows about a session: node, name, TTL, behavior and checks. The output is
/// `None` if the session is gone. It is hidden from a token without `session` read. Agents from
/// 1.11 on say so, which is [`RequestError::Denied`]. Older agents answer as if it were gone, and
/// so do all agents to a request without a token.
#[derive(Clone, Debug)]
pub struct DescribeSession {
    session: SessionId,
    scope: Scope,
}

impl DescribeSession {
    /// Describes this session.
    pub fn new(session: SessionId, scope: Scope) -> Self {
        Self { session, scope }
    }
}

impl Task for DescribeSession {
    type Output = Option<SessionDetails>;

    fn read(&self) -> Request {
        let session = &self.session;
        SessionInfo { session }.request(&self.scope)
    }

    fn step(&mut self, answer: &Response) -> Result<Step<Self::Output>, RequestError> {
        Ok(Step::Done(Ok(SessionInfo::parse(answer)?)))
    }
}
