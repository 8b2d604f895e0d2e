//! The token appears in no line of the log at any level, and nowhere else. This test has its own
//! file, because it collects the logs of the whole process.

#![cfg(feature = "tls")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use support::Tokio;
use transport_conformance::secrecy;

#[test]
fn no_token_is_logged_or_shown() {
    secrecy::no_token_is_logged_or_shown(&Tokio, "hyper_util");
}
