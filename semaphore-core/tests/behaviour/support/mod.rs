//! A world with a semaphore, and what is left of it afterwards.

pub(crate) mod aftermath;
pub(crate) mod bench;
pub(crate) mod candidate;
pub(crate) mod election;
pub(crate) mod election_bench;
pub(crate) mod environment;
pub(crate) mod forking;
pub(crate) mod onlooker;
pub(crate) mod spy;
pub(crate) mod steps;
pub(crate) mod stranger;

use std::time::Duration;

use semaphore_core::sans_io::{Response, Settings};
use semaphore_core::{Builder, Client, Prefix, Semaphore};
use transport_mock::{MockClient, MockConsul, Task};

/// The prefix of most tests.
pub(crate) const PREFIX: &str = "service/db";

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The first waiter takes the slot of a dead holder so long after its lock delay at most: it looks at
/// the keys when a poll ends, and Consul may refuse the first attempt.
pub(crate) const DEAD_SEEN_AFTER: Duration = secs(6);

/// A holder learns so late at most that somebody has edited the record or its key: with the next read
/// that confirms its hold, or with the answer of its watch.
pub(crate) const EDIT_SEEN_AFTER: Duration = millis(1_010);

/// How long an unused session is kept at most, with the default TTL: two fifths of it.
pub(crate) const KEPT: Duration = millis(6_010);

/// A builder of the usual semaphore.
pub(crate) fn builder(limit: u32) -> Builder {
    builder_of(PREFIX, limit).value("test")
}

/// A builder of a semaphore below another prefix.
pub(crate) fn builder_of(prefix: &str, limit: u32) -> Builder {
    Semaphore::builder(prefix, limit)
}

/// Settings for tests that drive the machine by hand.
pub(crate) fn settings(prefix: &str, limit: u32) -> Settings {
    let prefix = Prefix::new(prefix).expect("a prefix");
    Settings::new(prefix, limit).expect("a limit")
}

/// Temporary refusals that don't come from Consul's rules: a token is being replaced, or a gateway
/// answers instead.
pub(crate) fn passing_refusals() -> Vec<Response> {
    vec![
        Response::new(403, "ACL not found"),
        Response::new(403, "<html>Forbidden</html>"),
        Response::new(404, "<html>no backend</html>"),
        Response::new(413, "<html>too large</html>"),
        Response::new(500, "rpc error making call: Permission denied"),
    ]
}

/// The usual semaphore on one host.
pub(crate) fn semaphore(world: &MockConsul, host: &str, limit: u32) -> Semaphore {
    connect(builder(limit), &world.client(host))
}

pub(crate) fn connect(builder: Builder, client: &MockClient) -> Semaphore {
    if environment::number("THROUGH_CLIENT", 0) == 1 {
        let shared = Client::builder().connect(client.clone());
        return builder
            .connect(shared.expect("valid options"))
            .expect("valid settings");
    }
    builder.connect(client.clone()).expect("valid settings")
}

/// The sessions in the record, in its order.
pub(crate) fn holders(world: &MockConsul) -> Vec<String> {
    record(world).map_or_else(Vec::new, |record| {
        record.holders().map(str::to_owned).collect()
    })
}

pub(crate) fn record(world: &MockConsul) -> Option<semaphore_core::sans_io::Record> {
    let key = Prefix::new(PREFIX).expect("a prefix").record_key();
    world.consul(|consul, _| {
        let entry = consul.entry(&key)?;
        semaphore_core::sans_io::Record::decode(entry.value(), entry.flags()).ok()
    })
}

/// Everything below the prefix except the record: contender keys, dead or alive.
pub(crate) fn contender_keys(world: &MockConsul) -> Vec<String> {
    let prefix = Prefix::new(PREFIX).expect("a prefix");
    world.consul(|consul, _| {
        consul
            .entries(&prefix.directory())
            .map(transport_mock::consul::Entry::key)
            .filter(|key| *key != prefix.record_key())
            .collect()
    })
}

pub(crate) fn session_count(world: &MockConsul) -> usize {
    world.consul(|consul, _| consul.sessions().count())
}

/// Asserts that no session, contender key or holder entry of ours is left (invariant L2). A session
/// that is kept for the next turn is gone after two fifths of the TTL.
#[track_caller]
pub(crate) fn assert_nothing_left(world: &MockConsul) {
    assert_eq!(holders(world), [""; 0], "holders\n{}", world.trace());
    assert_eq!(contender_keys(world), [""; 0], "keys\n{}", world.trace());
    world.advance(KEPT);
    assert_eq!(session_count(world), 0, "sessions\n{}", world.trace());
}

/// Loses the leader while the task runs. Elects another one when agents have held the writes for
/// longer than their caller waits. Then gives the task up, so a write of it may arrive late.
pub(crate) fn give_up_without_leader<T>(world: &MockConsul, mut task: Task<T>, seed: u64) {
    world.advance(millis(seed % 12));
    world.lose_leader();
    world.advance(secs(9) + millis(20 * seed));
    world.elect_leader();
    world.advance(millis(10));
    let granted = task.try_take();
    task.abort();
    drop(granted);
}
