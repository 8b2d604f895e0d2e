//! What every HTTP transport must do, on tokio.

#![cfg(feature = "tls")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use support::Tokio;

transport_conformance::tests!(Tokio);
