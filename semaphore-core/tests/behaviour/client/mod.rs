//! What the semaphores of a client share: the process is one participant.

pub(crate) mod fate;
pub(crate) mod handles;
pub(crate) mod late_keys;
mod next_semaphores;
mod reads;
pub(crate) mod sharing;
pub(crate) mod together;
mod waits;

use semaphore_core::{Builder, Client, Permit, Semaphore};
use transport_mock::{MockConsul, MockProcess};

use crate::support::*;

/// A client of this host.
pub(crate) fn client(world: &MockConsul, host: &str) -> Client {
    let builder = Client::builder().value("test");
    builder.connect(world.client(host)).expect("valid options")
}

/// The semaphore with that number. It has three slots.
pub(crate) fn numbered(client: &Client, number: usize) -> Semaphore {
    let semaphore = client.semaphore(format!("service/{number}"), 3);
    semaphore.expect("valid settings")
}

/// One slot of each of that many semaphores.
pub(crate) fn hold_each(world: &MockConsul, client: &Client, semaphores: usize) -> Vec<Permit> {
    let acquired = (0..semaphores).map(|number| numbered(client, number));
    let acquired = acquired.map(|it| world.run(it.acquire()).expect("a free slot"));
    acquired.collect()
}

/// The session of a permit of one slot.
pub(crate) fn session_of(permit: &Permit) -> String {
    permit.sequencers()[0].session.to_string()
}

/// A builder of a semaphore that shares nothing with others.
pub(crate) fn isolated(prefix: &str) -> Builder {
    builder_of(prefix, 3).isolated()
}

/// A client in a process that can be killed.
pub(crate) fn client_of(process: &MockProcess) -> Client {
    let builder = Client::builder().value("test");
    builder.connect(process.clone()).expect("valid options")
}
