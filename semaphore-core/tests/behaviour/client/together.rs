//! The two ways in which a client looks at what it holds, waits for or follows.

use semaphore_core::sans_io::Request;

use crate::support::steps::{is_transaction, verbs};

/// Whether the request checks several semaphores or elections at once.
pub(crate) fn checks(request: &Request) -> bool {
    is_transaction(request) && verbs(request).iter().all(|it| it.starts_with("check-"))
}

/// Whether it reads the keys of holders, and records.
pub(crate) fn proves(request: &Request) -> bool {
    is_transaction(request) && verbs(request).iter().all(|it| it == "get-tree")
}

/// Whether it waits for a change of one.
pub(crate) fn polls(request: &Request) -> bool {
    request.is_long_poll()
}
