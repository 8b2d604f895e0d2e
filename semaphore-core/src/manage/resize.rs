//! Changes the limit of a semaphore.

use super::{Step, Task};
use crate::api::{CasKey, ListKeys};
use crate::error::RequestError;
use crate::http::{Request, Response};
use crate::input::InvalidInput;
use crate::input::{Prefix, Scope};
use crate::view::View;

/// Writes another limit into the record, by check-and-set. Everything else in the record stays.
///
/// If the new limit is smaller, extra holders stay until they release. Participants with the old
/// limit get a limit conflict on their next acquisition, unless they adopt the record's limit.
#[derive(Clone, Debug)]
pub struct Resize {
    prefix: Prefix,
    scope: Scope,
    limit: u32,
}

impl Resize {
    /// Resizes to this limit.
    ///
    /// # Errors
    /// [`InvalidInput::LimitZero`].
    pub fn new(prefix: Prefix, scope: Scope, limit: u32) -> Result<Self, InvalidInput> {
        if limit == 0 {
            return Err(InvalidInput::LimitZero);
        }
        Ok(Self {
            prefix,
            scope,
            limit,
        })
    }
}

impl Task for Resize {
    type Output = ();

    fn read(&self) -> Request {
        super::list(&self.prefix, &self.scope)
    }

    fn step(&mut self, answer: &Response) -> Result<Step<()>, RequestError> {
        let view = View::new(&self.prefix, &ListKeys::parse(answer)?);
        let (lock, mut record) = match super::read(&self.prefix, &view) {
            Ok((lock, record)) => (lock, record.clone()),
            Err(error) => return Ok(Step::Done(Err(error))),
        };
        if record.limit() == self.limit {
            return Ok(Step::Done(Ok(())));
        }
        record.set_limit(self.limit);
        let write = CasKey {
            key: &self.prefix.record_key(),
            index: lock.modify_index,
            value: &record.encode(),
            flags: record.flags(),
        };
        Ok(Step::Write(write.request(&self.scope)))
    }
}
