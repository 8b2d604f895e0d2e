//! S2: a belief ends in time, and no reported lease is too long.

use std::time::Duration;

use crate::Wrong;
use crate::event::{Moment, Place};

pub(crate) fn believe(
    at: Moment,
    (place, name): (Place, &str),
    until: Moment,
    longest: Option<Duration>,
) -> Result<(), Wrong> {
    let left = until.0.saturating_sub(at.0);
    let why = if left.is_zero() {
        format!("though it was over at {until}")
    } else if longest.is_some_and(|longest| left > longest) {
        format!("until {until}, which is too long")
    } else {
        return Ok(());
    };
    Err((place, format!("{name} believed {why}")))
}
