//! Removes the record of a semaphore that nobody uses.

use super::{Step, Task};
use crate::api::{DeleteKey, ListKeys};
use crate::error::{Error, RequestError};
use crate::http::{Request, Response};
use crate::id::Index;
use crate::input::{Prefix, Scope};
use crate::subject::Subject;
use crate::view::View;

/// Deletes the record by check-and-set, if no live session holds a slot or waits for one.
///
/// It does not wait for lock delays. A holder that is cut off, and whose session ended early, may
/// believe in its slot for another minute. If that matters, wait for a minute after the end of the
/// last session.
#[derive(Clone, Debug)]
pub struct Destroy {
    prefix: Prefix,
    scope: Scope,
    /// The record's index in the last deletion.
    named: Option<Index>,
}

impl Destroy {
    /// Destroys the semaphore under this prefix.
    pub fn new(prefix: Prefix, scope: Scope) -> Self {
        Self {
            prefix,
            scope,
            named: None,
        }
    }
}

impl Task for Destroy {
    type Output = ();

    fn read(&self) -> Request {
        super::list(&self.prefix, &self.scope)
    }

    fn step(&mut self, answer: &Response) -> Result<Step<()>, RequestError> {
        let view = View::new(&self.prefix, &ListKeys::parse(answer)?);
        if view.is_filtered() {
            return Ok(Step::Done(Err(super::incomplete(&self.prefix))));
        }
        let (lock, record) = match super::read(&self.prefix, &view) {
            Ok(found) => found,
            Err(Error::NotFound { .. }) if self.named.is_some() => return Ok(Step::Done(Ok(()))),
            Err(error) => return Ok(Step::Done(Err(error))),
        };
        let holders = record
            .holders()
            .filter(|holder| view.is_alive(holder))
            .count();
        let waiters = view.waiters().count();
        if holders + waiters > 0 {
            let in_use = Err(Error::InUse {
                holders,
                waiters,
                on: Subject::default(),
            });
            // A deletion that was given up may be applied later, unless the record has changed
            // since.
            return Ok(if self.named == Some(lock.modify_index) {
                Step::Unmoved(in_use)
            } else {
                Step::Done(in_use)
            });
        }
        self.named = Some(lock.modify_index);
        let delete = DeleteKey {
            key: &self.prefix.record_key(),
            index: Some(lock.modify_index),
        };
        Ok(Step::Write(delete.request(&self.scope)))
    }
}
