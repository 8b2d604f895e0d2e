//! The two ways in which a client looks at what it holds, waits for or follows.

use semaphore_core::sans_io::{Priority, Request};

use crate::support::steps::{is_transaction, verbs};

/// Whether the request checks several semaphores or elections at once.
pub(crate) fn checks(request: &Request) -> bool {
    let is_check = || verbs(request).iter().all(|it| it.starts_with("check-"));
    is_transaction(request) && is_check() && !proves(request)
}

/// Whether it proves that sessions live: it reads the keys of holders and records, or checks who has
/// the keys of leaders.
pub(crate) fn proves(request: &Request) -> bool {
    is_transaction(request) && request.priority() == Priority::Renewal
}

/// Whether it waits for a change of one.
pub(crate) fn polls(request: &Request) -> bool {
    request.is_long_poll()
}
