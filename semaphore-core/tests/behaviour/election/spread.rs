//! What a limit for each process does to shards. The recipe that spreads them is the code of
//! docs/guides/LEADING.md, which is run there.

use std::num::NonZeroUsize;

use semaphore_core::Client;
use semaphore_core::terms::TermLimit;
use transport_mock::MockConsul;

use crate::support::*;

const SHARDS: usize = 16;
const HOSTS: [&str; 3] = ["a", "b", "c"];

fn key(shard: usize) -> String {
    format!("shards/{shard}/leader")
}

/// Starts this process.
fn start(world: &MockConsul, host: &str, limit: &TermLimit) -> Client {
    let builder = Client::builder().value(host);
    let client = builder.connect(world.client(host)).expect("valid options");
    for shard in 0..SHARDS {
        let election = client.election(key(shard)).expect("valid settings");
        let terms = election.terms().at_most(limit);
        drop(world.start(terms.run(|_| std::future::pending())));
    }
    client
}

/// How many shards each process leads, as the keys say.
fn led(world: &MockConsul) -> [usize; 3] {
    HOSTS.map(|host| {
        let leads = |shard: &usize| world.leader(key(*shard)).as_deref() == Some(host);
        (0..SHARDS).filter(leads).count()
    })
}

#[test]
fn a_limit_caps_what_a_process_leads_and_does_not_spread() {
    let world = MockConsul::new(1);
    let mut clients = Vec::new();
    for host in HOSTS {
        let limit = TermLimit::new(NonZeroUsize::new(8).expect("some"));
        clients.push(start(&world, host, &limit));
        world.advance(secs(3));
    }
    world.advance(secs(60));
    assert_eq!(led(&world), [8, 8, 0]);
}
