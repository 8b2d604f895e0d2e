//! A request that has failed, and when it was sent.

use crate::error::RequestError;
use crate::time::Instant;

/// It says nothing about those who came after it was sent.
#[derive(Clone, Debug)]
pub(in crate::machine) struct Failed {
    pub(in crate::machine) sent_at: Instant,
    pub(in crate::machine) error: RequestError,
}
