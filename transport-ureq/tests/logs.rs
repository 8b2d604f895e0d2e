//! The token is in no line of the log, at any level, and nowhere else. Alone in its file, since it
//! collects the logs of the process.

#![cfg(feature = "tls")]

mod support;

use transport_conformance::secrecy;

#[test]
fn no_token_is_logged_or_shown() {
    secrecy::no_token_is_logged_or_shown(&support::Threads, "ureq_proto");
    #[cfg(feature = "smol")]
    secrecy::no_token_is_logged_or_shown(&support::Smol, "ureq_proto");
}
