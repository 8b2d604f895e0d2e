//! A semaphore at one moment, from one list of its keys.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use semaphore_core::sans_io::View;
use semaphore_core::sans_io::api::{
    Entry, KeyList, LOCK_FLAGS, ListKeys, ReadKey, SessionDetails, SessionInfo,
};
use semaphore_core::sans_io::{Index, Record};
use serde::Serialize;
use transport_ureq::{Conflict, Prefix, RequestError, SessionId};

use crate::agent::Agent;
use crate::failure::Failure;
use crate::identity::{Identity, shown, since_of_name};

/// The holders and the waiters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Overview {
    pub(crate) prefix: String,
    pub(crate) limit: u32,
    /// In the order of the record.
    pub(crate) holders: Vec<Member>,
    /// In the order in which they came.
    pub(crate) waiters: Vec<Member>,
}

/// A holder or a waiter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Member {
    pub(crate) session: String,
    /// Its value, in few words.
    pub(crate) value: String,
    /// Since when it has contended, by its own value.
    pub(crate) since: Option<Timestamp>,
    /// The node of its session, if the token may see it.
    pub(crate) node: Option<String>,
    /// The session's name.
    pub(crate) name: Option<String>,
    /// Whether its session lives. A dead holder is removed when its lock delay is over.
    pub(crate) alive: bool,
}

/// Reads overviews. It caches the data of the sessions that it saw last, which does not change.
pub(crate) struct Reader<'a> {
    agent: &'a Agent,
    prefix: Prefix,
    sessions: BTreeMap<SessionId, Option<SessionDetails>>,
}

/// The most sessions of an overview that are requested: each is a request.
const MOST_SESSIONS: usize = 64;

impl<'a> Reader<'a> {
    pub(crate) fn new(agent: &'a Agent, prefix: &str) -> Result<Self, Failure> {
        Ok(Self {
            agent,
            prefix: Prefix::new(prefix)?,
            sessions: BTreeMap::new(),
        })
    }

    /// The present state. With an index: when something has changed, or after this time.
    pub(crate) async fn read(
        &mut self,
        wait: Option<(Index, Duration)>,
    ) -> Result<(Index, Overview), Failure> {
        let list = ListKeys {
            prefix: &self.prefix,
            wait,
            consistent: wait.is_none(),
        };
        let answer = self.agent.send(list.request(&self.agent.scope())).await?;
        let list = ListKeys::parse(&answer)?;
        let mut overview = match of_list(&self.prefix, &list) {
            Err(Failure::NoSemaphore) if is_election(self.agent, &self.prefix).await? => {
                let key = self.prefix.to_string();
                return Err(Failure::AnElection { key });
            }
            overview => overview?,
        };
        let members = overview.holders.iter().chain(&overview.waiters);
        let present: BTreeSet<&str> = members.map(|member| member.session.as_str()).collect();
        self.sessions
            .retain(|session, _| present.contains(session.as_str()));
        let members = overview.holders.iter_mut().chain(&mut overview.waiters);
        for member in members.filter(|member| member.alive) {
            self.describe(member).await?;
        }
        Ok((list.index, overview))
    }

    async fn describe(&mut self, member: &mut Member) -> Result<(), Failure> {
        let Ok(session) = SessionId::new(member.session.clone()) else {
            return Ok(());
        };
        if !self.sessions.contains_key(&session) {
            if self.sessions.len() >= MOST_SESSIONS {
                return Ok(());
            }
            let details = details(self.agent, &session).await?;
            self.sessions.insert(session.clone(), details);
        }
        if let Some(details) = self.sessions.get(&session).and_then(Option::as_ref) {
            member.node = Some(details.node.clone());
            member.name = Some(details.name.clone());
            member.since = member.since.or_else(|| since_of_name(&details.name));
        }
        Ok(())
    }
}

/// Consul's data about a session. `None` if there is no session, or the token may not see it.
pub(crate) async fn details(
    agent: &Agent,
    session: &SessionId,
) -> Result<Option<SessionDetails>, Failure> {
    let request = SessionInfo { session }.request(&agent.scope());
    let answer = agent.send(request).await?;
    match SessionInfo::parse(&answer) {
        Ok(details) => Ok(details),
        Err(RequestError::Denied { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether this is an election's key: it has the flags of one, or somebody leads with it.
pub(crate) async fn is_election(agent: &Agent, prefix: &Prefix) -> Result<bool, Failure> {
    let is = |it: &Entry<'_>| it.flags() == LOCK_FLAGS || it.session().is_some();
    is_at(agent, prefix.as_str(), is).await
}

/// Whether there is a semaphore at this name.
pub(crate) async fn is_semaphore(agent: &Agent, name: &str) -> Result<bool, Failure> {
    let is = |it: &Entry<'_>| {
        let value = it.value().ok();
        value.is_some_and(|value| Record::decode(&value, it.flags()).is_ok())
    };
    is_at(agent, &format!("{name}/.lock"), is).await
}

/// Whether this key is so, as far as the token may look.
async fn is_at(
    agent: &Agent,
    key: &str,
    is: impl FnOnce(&Entry<'_>) -> bool,
) -> Result<bool, Failure> {
    let read = ReadKey {
        key,
        wait: None,
        consistent: true,
    };
    let answer = agent.send(read.request(&agent.scope())).await?;
    match ReadKey::parse(&answer) {
        Ok(found) => Ok(found.is_some_and(|entry| is(&entry))),
        Err(RequestError::Denied { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The semaphore at this prefix in a list of keys.
pub(crate) fn of_list(prefix: &Prefix, list: &KeyList<'_>) -> Result<Overview, Failure> {
    let view = View::new(prefix, list);
    if view.is_filtered() {
        let prefix = prefix.to_string();
        return Err(Failure::Hidden { prefix });
    }
    let lock = view.lock().ok_or(Failure::NoSemaphore)?;
    let record = lock.record.as_ref().map_err(|conflict| {
        let key = prefix.record_key();
        match conflict {
            // `consul lock -n 1` elects there.
            Conflict::Flags { flags: LOCK_FLAGS } => Failure::AnElection { key },
            _ => Failure::NotASemaphore {
                key,
                source: conflict.clone(),
            },
        }
    })?;
    let member = |session: &str| member(prefix, list, &view, session);
    let waits = |session: &SessionId| !record.holds(session.as_str());
    let waiters = view.waiters().map(|waiter| &waiter.session);
    Ok(Overview {
        prefix: prefix.to_string(),
        limit: Record::limit(record),
        holders: record.holders().map(member).collect::<Result<_, _>>()?,
        waiters: waiters
            .filter(|session| waits(session))
            .map(|session| member(session.as_str()))
            .collect::<Result<_, _>>()?,
    })
}

fn member(
    prefix: &Prefix,
    list: &KeyList<'_>,
    view: &View,
    session: &str,
) -> Result<Member, RequestError> {
    let key = format!("{}{session}", prefix.directory());
    let entry = list.entries.iter().find(|entry| entry.key() == key);
    let value = entry.map(Entry::value).transpose()?;
    let value = value.unwrap_or_default();
    Ok(Member {
        session: session.to_owned(),
        value: shown(&value),
        since: Identity::read(&value).map(|identity| identity.since),
        node: None,
        name: None,
        alive: view.is_alive(session),
    })
}
