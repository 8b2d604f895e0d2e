//! Checks a sequencer that somebody hands over.

use super::{Step, Task};
use crate::api::{ReadKey, is_filtered};
use crate::error::{Error, RequestError};
use crate::http::{Request, Response};
use crate::input::Scope;
use crate::sequencer::{Sequencer, SequencerStatus};

/// Reads the sequencer's key, confirmed by the leader. Where Consul does not tell, the output is
/// [`SequencerStatus::Unknown`]; what it refuses for good is an error.
///
/// It does not know what the key guards: compare [`Sequencer::key`] with the key that it must be.
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
        let status = match ReadKey::parse(answer) {
            // What the answer leaves out is not missing.
            Err(RequestError::Denied { .. }) if is_filtered(answer) => SequencerStatus::Unknown,
            found => self.sequencer.check(found?.as_ref()),
        };
        Ok(Step::Done(Ok(status)))
    }

    fn give_up(&self, error: RequestError) -> Result<SequencerStatus, Error> {
        tracing::debug!(%error, sequencer = %self.sequencer, "not verified");
        Ok(SequencerStatus::Unknown)
    }
}
