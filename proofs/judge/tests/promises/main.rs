//! Each promise is broken by a history that it forbids, and not by the one next to it.

mod delays;
mod discovery;
mod leases;
mod limit;
mod losses;
mod support;
mod tokens;
