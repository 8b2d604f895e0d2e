//! A server that repeats the same odd answer to one kind of request.

use semaphore_core::sans_io::{Response, TransportError};

use crate::choices::Choices;
use crate::mangle;

/// How one kind of request is answered.
pub(crate) struct Habit {
    /// Every second request gets an honest answer.
    alternates: bool,
    /// The first answer is repeated, whatever changes.
    is_frozen: bool,
    first: Option<Response>,
    count: u64,
    /// The choices for each answer.
    bytes: Vec<u8>,
}

impl Habit {
    pub(crate) fn new(choices: &mut Choices<'_>) -> Self {
        Self {
            alternates: choices.once_in(4),
            is_frozen: choices.once_in(4),
            first: None,
            count: 0,
            bytes: choices.bytes(24).to_vec(),
        }
    }

    pub(crate) fn answer(&mut self, honest: Response) -> Result<Response, TransportError> {
        self.count += 1;
        if self.alternates && self.count.is_multiple_of(2) {
            return Ok(honest);
        }
        let first = self.first.get_or_insert_with(|| honest.clone());
        let answer = if self.is_frozen {
            first.clone()
        } else {
            honest
        };
        mangle::result(answer, &mut Choices::new(&self.bytes))
    }
}
