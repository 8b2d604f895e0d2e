//! With an agent that offers HTTP/2, requests are streams of a few connections.

#![cfg(feature = "tls")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod connections;
mod failures;
mod requests;
mod scene;
mod server;
mod versions;
