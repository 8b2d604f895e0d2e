//! What a process shares, whatever it contends for.

pub(super) mod failed;
pub(super) mod late;
pub(super) mod latency;
pub(super) mod moment;
pub(super) mod outage;
pub(super) mod reader;
pub(super) mod requests;
pub(super) mod service;
pub(super) mod tenancy;
