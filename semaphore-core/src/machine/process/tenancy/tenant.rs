//! Who uses a shared session, and where.

use std::sync::Arc;

use crate::id::SessionId;
use crate::machine::process::tenancy::loan::LoanNo;
use crate::machine::process::tenancy::settings::SessionSettings;

/// Identifies a member that shares sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemberNo(pub u64);

/// Where a session can be used once: the prefix of a semaphore, or an election's key after a slash.
pub(crate) type Place = Arc<str>;

/// Which sessions a member shares with others, and the place where it uses each of them once.
#[derive(Clone, Debug)]
pub struct Shares {
    /// How the sessions are created.
    pub(crate) settings: SessionSettings,
    pub(crate) place: Place,
}

/// The election's key, if the place is one.
pub(in crate::machine) fn election_at(place: &Place) -> Option<&str> {
    place.strip_prefix('/')
}

/// The key that is tied to a session there.
pub(in crate::machine) fn key_at(place: &Place, session: &SessionId) -> String {
    match election_at(place) {
        Some(key) => key.to_owned(),
        None => format!("{place}/{session}"),
    }
}

/// One loan of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::machine) struct Tenant {
    pub(in crate::machine) member: MemberNo,
    pub(in crate::machine) loan: LoanNo,
}
