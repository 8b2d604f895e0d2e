//! The order of what one participant sends and learns.
//!
//! A read tells what became of a write, or of anything else that an answer was about, only if it was
//! sent after that answer had come. The clock can't say so: it may show the same time for both. So
//! what happens is put in order by the numbers that the participant gives to what it sends.

use crate::id::RequestId;

/// A place in the order of one participant: how many numbers it had given out.
///
/// A request is sent at the moment of its own number. Everything else happens at the moment of
/// the last number before it. So a read was sent after something else if its moment is greater, and
/// before it otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::machine) struct Moment(pub(in crate::machine) u64);

impl Moment {
    /// Before all that happens.
    pub(in crate::machine) const START: Self = Self(0);

    /// When a request was sent.
    pub(in crate::machine) const fn of(request: RequestId) -> Self {
        Self(request.0)
    }
}
