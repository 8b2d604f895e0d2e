//! The scripts, one file per family of rules.

#![expect(clippy::too_many_lines, reason = "a table is as long as it is")]

mod acl;
mod blocking;
mod checks;
mod keys;
mod locks;
mod nodes;
mod paths;
mod session_bodies;
mod sessions;
mod time;
mod transaction_verbs;
mod transactions;
mod writes;

use crate::script::Script;

/// The scripts in which no time passes.
pub(crate) fn quick() -> Vec<Script> {
    [
        sessions::scripts(),
        session_bodies::scripts(),
        checks::scripts(),
        nodes::scripts(),
        keys::scripts(),
        writes::scripts(),
        locks::scripts(),
        paths::scripts(),
        blocking::scripts(),
        transactions::scripts(),
        transaction_verbs::scripts(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The scripts for agents with access control.
pub(crate) fn acl() -> Vec<Script> {
    acl::scripts()
}

/// The scripts that wait for sessions and delays to end.
pub(crate) fn slow() -> Vec<Script> {
    time::scripts()
}
