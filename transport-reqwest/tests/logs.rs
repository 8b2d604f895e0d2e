//! The token is in no line of the log, at any level, and nowhere else. Alone in its file, since it
//! collects the logs of the process.

#![cfg(feature = "tls")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use support::Tokio;
use transport_conformance::secrecy;

#[test]
fn no_token_is_logged_or_shown() {
    secrecy::no_token_is_logged_or_shown(&Tokio, "hyper_util");
}
