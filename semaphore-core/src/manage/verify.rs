//! Checks a sequencer that somebody hands over.

use super::{Step, Task};
use crate::api::ReadKey;
use crate::error::RequestError;
use crate::http::{Request, Response};
use crate::input::Scope;
use crate::sequencer::{Sequencer, SequencerStatus};

/// Reads the sequencer's key, confirmed by the leader.
#[derive(Clone, Debug)]
pub struct Verify {
    sequencer: Sequencer,
    scope: Scope,
}

impl Verify {
    /// Is this one current?
    pub fn new(sequencer: Sequencer, scope: Scope) -> Self {
        Self { sequencer, scope }
    }
}

impl Task for Verify {
    type Output = SequencerStatus;

    fn read(&self) -> Request {
        self.sequencer.verify(&self.scope)
    }

    fn step(&mut self, answer: &Response) -> Result<Step<SequencerStatus>, RequestError> {
        let found = ReadKey::parse(answer)?;
        Ok(Step::Done(Ok(self.sequencer.check(found.as_ref()))))
    }
}
