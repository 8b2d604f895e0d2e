//! Removes what dead contenders with behavior `release` leave behind.

use super::{Step, Task};
use crate::api::{DeleteKey, ListKeys};
use crate::error::{Error, RequestError};
use crate::http::{Request, Response};
use crate::id::SessionId;
use crate::input::{Prefix, Scope};
use crate::subject::Subject;
use crate::view::{ContenderFlags, Orphan, View};
use std::collections::BTreeSet;

/// Deletes contender keys that are tied to no session, each by check-and-set. The output is how
/// many it found; all of them are gone then.
///
/// It only deletes keys that are named like a session and have a contender's flags. It ends with
/// [`Error::IncompleteView`] if the list is incomplete: a missing session may then exist.
#[derive(Clone, Debug)]
pub struct Collect {
    prefix: Prefix,
    scope: Scope,
    tried: BTreeSet<SessionId>,
}

impl Collect {
    /// Collects below this prefix.
    pub fn new(prefix: Prefix, scope: Scope) -> Self {
        Self {
            prefix,
            scope,
            tried: BTreeSet::new(),
        }
    }
}

impl Task for Collect {
    type Output = usize;

    fn read(&self) -> Request {
        super::list(&self.prefix, &self.scope)
    }

    fn step(&mut self, answer: &Response) -> Result<Step<usize>, RequestError> {
        let view = View::new(&self.prefix, &ListKeys::parse(answer)?);
        if view.is_filtered() {
            let prefix = self.prefix.to_string();
            return Ok(Step::Done(Err(Error::IncompleteView {
                prefix,
                on: Subject::default(),
            })));
        }
        let is_contenders =
            |orphan: &&Orphan| orphan.flags == 0 || ContenderFlags::decode(orphan.flags).is_some();
        let Some(orphan) = view.orphans().iter().find(is_contenders) else {
            return Ok(Step::Done(Ok(self.tried.len())));
        };
        self.tried.insert(orphan.session.clone());
        let delete = DeleteKey {
            key: &self.prefix.contender_key(&orphan.session),
            index: Some(orphan.modify_index),
        };
        Ok(Step::Write(delete.request(&self.scope)))
    }
}
