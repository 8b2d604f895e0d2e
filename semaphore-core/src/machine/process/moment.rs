//! The order in which one participant sends and learns things.
//!
//! A read tells the outcome of a write, or of anything else, only if it was sent after that one's
//! answer had come. The clock can't tell that: both may have the same time. So the order follows
//! the numbers that the participant gives to its requests.

use crate::id::RequestId;

/// A place in the order of one participant: how many numbers it had used.
///
/// A request is sent at the moment of its own number. Everything else happens at the moment of the
/// last number before it. So a read was sent after something else if and only if its moment is
/// greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::machine) struct Moment(pub(in crate::machine) u64);

impl Moment {
    /// Before everything.
    pub(in crate::machine) const START: Self = Self(0);

    /// When a request was sent.
    pub(in crate::machine) const fn of(request: RequestId) -> Self {
        Self(request.0)
    }
}
