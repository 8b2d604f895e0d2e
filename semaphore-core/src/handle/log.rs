//! The log of a semaphore or an election. `docs/LOGS.md` is the contract: levels, names and fields.

use core::time::Duration;

use tracing::{Span, debug, field, info, trace, warn};

use crate::machine::{Notice, name_of_loss};
use crate::subject::Subject;

/// The span of everything that is logged of the participant or candidate. It exists at all levels,
/// so that a warning names its subject.
pub(super) fn span(of: &Subject) -> Span {
    let address = of.agent().unwrap_or("unknown");
    match of.limit() {
        None if of.is_client() => {
            tracing::error_span!(target: "semaphore_core", "client", address)
        }
        Some(limit) => {
            tracing::error_span!(target: "semaphore_core", "semaphore", prefix = of.name(), limit, address)
        }
        None => {
            tracing::error_span!(target: "semaphore_core", "election", key = of.name(), address)
        }
    }
}

/// One acquisition or campaign, from its beginning to its outcome.
pub(super) fn command_span(of: &Span, permits: Option<u32>) -> Span {
    match permits {
        Some(permits) => {
            tracing::debug_span!(target: "semaphore_core", parent: of, "acquire", permits, waited = field::Empty, outcome = field::Empty)
        }
        None => {
            tracing::debug_span!(target: "semaphore_core", parent: of, "campaign", waited = field::Empty, outcome = field::Empty)
        }
    }
}

/// The outcome of a command.
pub(super) fn record_outcome(span: &Span, waited: Duration, outcome: &str) {
    if !span.is_disabled() {
        span.record("waited", field::debug(waited));
        span.record("outcome", outcome);
    }
}

/// The subject within a sentence.
fn name(of: &Subject) -> &str {
    if of.is_client() {
        "the client"
    } else {
        of.name()
    }
}

/// Logs one notice as one line. A refusal or conflict that is no news is a detail.
pub(super) fn write(of: &Subject, notice: &Notice, is_news: bool) {
    let name = name(of);
    match notice {
        Notice::Granted {
            command,
            token,
            waited,
            ..
        } if of.is_election() => {
            info!(name: "granted", target: "semaphore_core", %command, %token, ?waited, "leads {name}");
        }
        Notice::Released { command, held, .. } if of.is_election() => {
            info!(name: "released", target: "semaphore_core", %command, ?held, "leads {name} no more, as it was given back");
        }
        Notice::Leader {
            session: Some(session),
        } => {
            info!(name: "leader", target: "semaphore_core", %session, "{name} has another leader");
        }
        Notice::Leader { session: None } => {
            info!(name: "leader", target: "semaphore_core", "nobody leads {name}");
        }
        Notice::Lost {
            command,
            reason,
            held,
            ..
        } => {
            let what = if of.is_election() {
                "the lead"
            } else {
                "a slot"
            };
            let why = name_of_loss(reason);
            warn!(name: "lost", target: "semaphore_core", %command, why, %reason, ?held, "{what} of {name} is lost");
        }
        Notice::Retrying { cause, .. } => {
            warn!(name: "retrying", target: "semaphore_core", %cause, "Consul has not served {name} for a second or more, and is asked again until it does");
        }
        Notice::Recovered { after } => {
            warn!(name: "recovered", target: "semaphore_core", ?after, "Consul serves {name} again");
        }
        Notice::Unasked { after } => {
            warn!(name: "unasked", target: "semaphore_core", ?after, "Consul is not asked for {name} any more, so whether it serves again is unknown");
        }
        Notice::Refused { error } if is_news => {
            warn!(name: "refused", target: "semaphore_core", %error, "Consul refuses {name}: all who wait fail");
        }
        Notice::Conflict { error } if is_news => {
            warn!(name: "conflict", target: "semaphore_core", %error, "{name} is not what it was built as: all who wait fail");
        }
        Notice::Pruned { sessions } => {
            info!(name: "pruned", target: "semaphore_core", ?sessions, "dead holders of {name} were taken out");
        }
        Notice::Renewed { command, left, .. } => {
            trace!(name: "renewed", target: "semaphore_core", %command, ?left, "a lease of {name} is longer");
        }
        notice => write_details(of, notice),
    }
}

/// Details for debugging.
fn write_details(of: &Subject, notice: &Notice) {
    let name = name(of);
    match notice {
        Notice::Queued {
            command,
            permits,
            place,
        } => {
            debug!(name: "queued", target: "semaphore_core", %command, permits, place, "waits for {name}");
        }
        Notice::Granted {
            command,
            permits,
            token,
            waited,
        } => {
            debug!(name: "granted", target: "semaphore_core", %command, permits, %token, ?waited, "holds {name}");
        }
        Notice::NotAvailable {
            command, refusal, ..
        } => {
            debug!(name: "not-available", target: "semaphore_core", %command, %refusal, "nothing of {name} is free");
        }
        Notice::Failed {
            command,
            error,
            waited,
        } => {
            debug!(name: "failed", target: "semaphore_core", %command, %error, ?waited, "does not get {name}");
        }
        Notice::GivenUp { command, waited } => {
            debug!(name: "given-up-waiting", target: "semaphore_core", %command, ?waited, "waits for {name} no more");
        }
        Notice::LosingSoon { command, left } => {
            debug!(name: "losing-soon", target: "semaphore_core", %command, ?left, "a lease of {name} ends soon, unless a renewal succeeds");
        }
        Notice::Released { command, held, .. } => {
            debug!(name: "released", target: "semaphore_core", %command, ?held, "gives {name} back");
        }
        Notice::Refused { error } => {
            debug!(name: "refused", target: "semaphore_core", %error, "Consul still refuses {name}: all who wait fail");
        }
        Notice::Conflict { error } => {
            debug!(name: "conflict", target: "semaphore_core", %error, "{name} still is not what it was built as: all who wait fail");
        }
        Notice::RequestFailed { error } => {
            debug!(name: "request-failed", target: "semaphore_core", %error, "a request for {name} failed, and is tried again");
        }
        _ => {}
    }
}
