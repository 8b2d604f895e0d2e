//! Shows who holds a semaphore and who waits.

use std::collections::BTreeMap;

use super::{Step, Task};
use crate::api::{ListKeys, ListSessions, ListedSession};
use crate::error::{Error, RequestError};
use crate::http::{Request, Response};
use crate::id::SessionId;
use crate::input::{Prefix, Scope};
use crate::view::View;

/// Reads a semaphore. The leader confirms the read.
#[derive(Clone, Debug)]
pub struct Inspect {
    prefix: Prefix,
    scope: Scope,
    /// The content of the prefix, once it is read.
    seen: Option<Snapshot>,
}

/// A semaphore at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serialize", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Snapshot {
    /// How many slots there are.
    pub limit: u32,
    /// The holders, in the order of the record. A dead holder is pruned by a waiting contender when
    /// its lock delay is over.
    pub holders: Vec<Member>,
    /// The waiters, in the order in which they came.
    pub waiters: Vec<Member>,
}

/// A holder or waiter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serialize", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Member {
    /// Its session, as the record or the key names it.
    pub session: String,
    /// The value of its contender key, or empty if it has none.
    #[cfg_attr(feature = "serialize", serde(serialize_with = "as_text"))]
    pub value: Vec<u8>,
    /// Whether its session is alive.
    pub is_alive: bool,
    /// Its place, counted from 1: a holder's in the record, or a waiter's in the queue.
    pub place: usize,
    /// The node that its session is tied to. `None` if the session is gone, or the token may not
    /// read it.
    pub node: Option<String>,
    /// The name of its session, if it is known.
    pub session_name: Option<String>,
    /// The index at which it entered the queue: a lower index came first. `None` if it has no
    /// contender key. Consul stores no times.
    pub since: Option<u64>,
}

impl Member {
    /// The value as text, if it is text.
    pub fn text(&self) -> Option<&str> {
        core::str::from_utf8(&self.value).ok()
    }
}

#[cfg(feature = "serialize")]
fn as_text<S: serde::Serializer>(value: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(value))
}

impl Inspect {
    /// The semaphore under this prefix.
    pub fn new(prefix: Prefix, scope: Scope) -> Self {
        Self {
            prefix,
            scope,
            seen: None,
        }
    }

    /// What the list of the prefix shows.
    fn look(&self, answer: &Response) -> Result<Result<Snapshot, Error>, RequestError> {
        let list = ListKeys::parse(answer)?;
        let view = View::new(&self.prefix, &list);
        if view.is_filtered() {
            return Ok(Err(super::incomplete(&self.prefix)));
        }
        let record = match super::read(&self.prefix, &view) {
            Ok((_, record)) => record,
            Err(error) => return Ok(Err(error)),
        };
        let mut keys = BTreeMap::new();
        for entry in &list.entries {
            if let Some(name) = self.prefix.child_name(entry.key()) {
                keys.insert(name, (entry.value()?, entry.create_index()));
            }
        }
        let member = |(place, session): (usize, &str)| {
            let key = keys.get(session);
            Member {
                session: session.to_owned(),
                value: key.map(|(value, _)| value.clone()).unwrap_or_default(),
                is_alive: view.is_alive(session),
                place,
                node: None,
                session_name: None,
                since: key.map(|(_, index)| index.0),
            }
        };
        let waiters = view.waiters().map(|waiter| waiter.session.as_str());
        Ok(Ok(Snapshot {
            limit: record.limit(),
            holders: (1..).zip(record.holders()).map(member).collect(),
            waiters: (1..).zip(waiters).map(member).collect(),
        }))
    }
}

impl Snapshot {
    /// Adds what the list of sessions says about its members.
    fn learn(&mut self, sessions: &BTreeMap<SessionId, ListedSession>) {
        for member in self.holders.iter_mut().chain(&mut self.waiters) {
            let session = SessionId::read(&member.session);
            let listed = session.and_then(|session| sessions.get(&session));
            member.node = listed.map(|it| it.node.clone());
            member.session_name = listed.map(|it| it.name.clone());
        }
    }

    fn is_empty(&self) -> bool {
        self.holders.is_empty() && self.waiters.is_empty()
    }
}

/// First it reads the prefix, then the sessions. The sessions are for people: without them the rest
/// is still valid.
impl Task for Inspect {
    type Output = Snapshot;

    fn read(&self) -> Request {
        match self.seen {
            None => super::list(&self.prefix, &self.scope),
            Some(_) => ListSessions.request(&self.scope),
        }
    }

    fn step(&mut self, answer: &Response) -> Result<Step<Snapshot>, RequestError> {
        let Some(mut seen) = self.seen.take() else {
            return Ok(match self.look(answer)? {
                Ok(snapshot) if !snapshot.is_empty() => {
                    self.seen = Some(snapshot);
                    Step::Read
                }
                looked => Step::Done(looked),
            });
        };
        match ListSessions::parse(answer) {
            Ok(sessions) => seen.learn(&sessions),
            Err(error) if error.is_permanent() => {}
            Err(error) => {
                self.seen = Some(seen);
                return Err(error);
            }
        }
        Ok(Step::Done(Ok(seen)))
    }

    fn give_up(&self, error: RequestError) -> Result<Snapshot, Error> {
        self.seen.clone().ok_or(error.into())
    }
}
