//! A world with an election, and what is left of it afterwards.

use semaphore_core::adapter::Request;
use semaphore_core::sans_io::api::LOCK_FLAGS;
use semaphore_core::{Builder, Election, Leadership};
use transport_mock::{MockClient, MockConsul, RequestKind};

use crate::support::*;

/// The key of most tests.
pub(crate) const KEY: &str = "service/db/leader";

pub(crate) fn builder_for(key: &str) -> Builder<Election> {
    Election::builder(key)
}

/// The usual election on one host. The host's name is the value.
pub(crate) fn election(world: &MockConsul, host: &str) -> Election {
    elect_with(builder_for(KEY).value(host), &world.client(host))
}

pub(crate) fn elect_with(builder: Builder<Election>, client: &MockClient) -> Election {
    builder.connect(client.clone()).expect("valid settings")
}

/// A leader on the host `a`.
pub(crate) fn leader(world: &MockConsul) -> (Election, Leadership) {
    let election = election(world, "a");
    let leadership = world.run(election.campaign()).expect("elected");
    (election, leadership)
}

/// The content of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) session: String,
    pub(crate) value: String,
    pub(crate) flags: u64,
    pub(crate) lock_index: u64,
}

pub(crate) fn found(world: &MockConsul) -> Option<Found> {
    world.consul(|consul, _| {
        let entry = consul.entry(KEY)?;
        Some(Found {
            session: entry.session().unwrap_or_default().to_owned(),
            value: String::from_utf8_lossy(entry.value()).into_owned(),
            flags: entry.flags(),
            lock_index: entry.lock_index(),
        })
    })
}

/// Whether it gives the key back.
pub(crate) fn resigns(request: &Request) -> bool {
    let body = String::from_utf8_lossy(request.body());
    RequestKind::of(request) == RequestKind::Txn && body.contains("\"unlock\"")
}

/// Asserts that nothing of ours is left but the key, and that nobody holds it.
#[track_caller]
pub(crate) fn assert_only_key_left(world: &MockConsul) {
    world.advance(KEPT);
    assert_eq!(session_count(world), 0, "sessions\n{}", world.trace());
    let Some(key) = found(world) else {
        return;
    };
    assert_eq!(key.session, "", "{}", world.trace());
    assert_eq!(key.flags, LOCK_FLAGS);
}
