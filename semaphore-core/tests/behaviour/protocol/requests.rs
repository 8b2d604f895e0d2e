//! Recognizes more steps of the protocol in requests.

use semaphore_core::sans_io::api::SEMAPHORE_FLAGS;
use semaphore_core::sans_io::{Method, Request};

use crate::support::steps;

/// Whether a request waits for a change.
pub(crate) fn polls(request: &Request) -> bool {
    request.target().contains("index=")
}

/// Whether a request reads without the majority's word.
pub(crate) fn reads_plainly(request: &Request) -> bool {
    request.method() == Method::Get && !request.target().contains("consistent")
}

/// Whether a request gives a slot to the next local caller.
pub(crate) fn hands_over(request: &Request) -> bool {
    steps::enters(request) && steps::verbs(request).contains(&"get".into())
}

/// Whether a request lists the prefix as the majority knows it.
pub(crate) fn lists_confirmed(request: &Request) -> bool {
    request.target().contains("recurse") && request.target().contains("consistent")
}

/// Whether a request makes a key one that waits for nothing.
pub(crate) fn parks(request: &Request) -> bool {
    let is_parked = |flags: u64| (flags ^ SEMAPHORE_FLAGS) & 3 == 1;
    steps::ties_key(request)
        && (steps::operations(request).iter())
            .any(|it| it["Verb"] == "lock" && it["Flags"].as_u64().is_some_and(is_parked))
}

/// Whether a request removes a dead holder.
pub(crate) fn prunes(request: &Request) -> bool {
    let verbs = if steps::is_transaction(request) {
        steps::verbs(request)
    } else {
        Vec::new()
    };
    verbs.windows(2).any(|pair| pair == ["lock", "delete"])
}

/// Whether a request enters and claims in one write.
pub(crate) fn enters_and_claims(request: &Request) -> bool {
    steps::claims(request) && steps::verbs(request).contains(&"check-not-exists".into())
}

/// The flags of a key that is another program's.
pub(crate) fn flags_of_go() -> u64 {
    SEMAPHORE_FLAGS
}

/// The flags of a waiting key of ours, of a group of this size.
pub(crate) fn flags_of(size: u64) -> u64 {
    SEMAPHORE_FLAGS ^ 1 << 23 ^ (size - 1) << 18
}

pub(crate) fn all(_: &Request) -> bool {
    true
}
