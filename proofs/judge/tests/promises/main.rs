//! Each promise is broken by a history that it forbids, and not by a similar one that it allows.

mod delays;
mod discovery;
mod leases;
mod limit;
mod losses;
mod support;
mod tokens;
