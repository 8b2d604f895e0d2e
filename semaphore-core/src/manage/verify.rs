//! Checks a client's sequencer.

use super::{Step, Task};
use crate::api::{ReadKey, is_filtered};
use crate::error::{Error, RequestError};
use crate::http::{Request, Response};
use crate::input::Scope;
use crate::sequencer::{Sequencer, SequencerStatus};

/// Reads the sequencer's key. The leader confirms the read. If Consul does not answer, the output
/// is [`SequencerStatus::Unknown`]; a permanent refusal is an error.
///
/// It does not know which key guards the resource: compare [`Sequencer::key`] with the right key.
#[derive(Clone, Debug)]
pub struct Verify {
    sequencer: Sequencer,
    scope: Scope,
}

impl Verify {
    /// Checks this sequencer.
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
            // What is hidden from the token may still exist.
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
