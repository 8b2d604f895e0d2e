//! What the machines' tests share.

use core::time::Duration;

use crate::id::SessionId;
use crate::time::Instant;

pub(super) const A: &str = "aaaaaaaa-0000-0000-0000-000000000000";
pub(super) const B: &str = "bbbbbbbb-0000-0000-0000-000000000000";

pub(super) fn at(millis: u64) -> Instant {
    Instant::from_origin(Duration::from_millis(millis))
}

pub(super) fn session(id: &str) -> SessionId {
    SessionId::new(id).unwrap()
}
