//! Shows who holds a semaphore and who waits.

use std::collections::BTreeMap;

use super::{Step, Task};
use crate::api::ListKeys;
use crate::error::{Error, RequestError};
use crate::http::{Request, Response};
use crate::id::SessionId;
use crate::input::{Prefix, Scope};
use crate::subject::Subject;
use crate::view::View;

/// Reads a semaphore, confirmed by the leader.
#[derive(Clone, Debug)]
pub struct Inspect {
    prefix: Prefix,
    scope: Scope,
}

/// A semaphore at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// How many may hold a slot at once.
    pub limit: u32,
    /// Who holds one, in the order of the record. A holder that is not alive is pruned by whoever
    /// claims when its lock delay is over.
    pub holders: Vec<Member>,
    /// Who waits, first come first.
    pub waiters: Vec<Member>,
    /// Contender keys that are tied to no session, see [`Collect`](super::Collect).
    pub orphans: Vec<SessionId>,
}

/// A holder or waiter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// Its session, as it stands in the record or the key.
    pub session: String,
    /// The value of its contender key; empty when it has none.
    pub value: Vec<u8>,
    /// Whether its session is alive.
    pub is_alive: bool,
}

impl Inspect {
    /// The semaphore under this prefix.
    pub fn new(prefix: Prefix, scope: Scope) -> Self {
        Self { prefix, scope }
    }
}

impl Task for Inspect {
    type Output = Snapshot;

    fn read(&self) -> Request {
        super::list(&self.prefix, &self.scope)
    }

    fn step(&mut self, answer: &Response) -> Result<Step<Snapshot>, RequestError> {
        let list = ListKeys::parse(answer)?;
        let view = View::new(&self.prefix, &list);
        if view.is_filtered() {
            let prefix = self.prefix.to_string();
            return Ok(Step::Done(Err(Error::IncompleteView {
                prefix,
                on: Subject::default(),
            })));
        }
        let Some(lock) = view.lock() else {
            return Ok(Step::Done(Err(Error::NotFound {
                on: Subject::default(),
            })));
        };
        let record = match &lock.record {
            Ok(record) => record,
            Err(conflict) => return Ok(super::conflict(&self.prefix, conflict)),
        };
        let mut values = BTreeMap::new();
        for entry in &list.entries {
            if let Some(name) = self.prefix.child_name(entry.key()) {
                values.insert(name, entry.value()?);
            }
        }
        let member = |session: &str| Member {
            session: session.to_owned(),
            value: values.get(session).cloned().unwrap_or_default(),
            is_alive: view.is_alive(session),
        };
        Ok(Step::Done(Ok(Snapshot {
            limit: record.limit(),
            holders: record.holders().map(member).collect(),
            waiters: view
                .waiters()
                .map(|waiter| member(waiter.session.as_str()))
                .collect(),
            orphans: view
                .orphans()
                .iter()
                .map(|orphan| orphan.session.clone())
                .collect(),
        })))
    }
}
