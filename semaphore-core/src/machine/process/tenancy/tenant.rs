//! Who uses a shared session, and where.

use std::sync::Arc;

use crate::machine::process::tenancy::loan::LoanNo;

/// Identifies a member that shares sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemberNo(pub u64);

/// Where a session can be used once: the prefix of a semaphore, or an election's key after a slash.
pub(crate) type Place = Arc<str>;

/// One loan of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tenant {
    pub(super) member: MemberNo,
    pub(super) loan: LoanNo,
}
