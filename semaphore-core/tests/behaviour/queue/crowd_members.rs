//! The waiters of a crowd take one turn each.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use semaphore_core::Semaphore;
use transport_mock::{MockConsul, Task};

use crate::support::*;

/// The sessions in the order in which they were admitted.
pub(crate) type Log = Arc<Mutex<Vec<String>>>;

/// A semaphore for which two contenders are a crowd.
pub(crate) fn in_crowd(world: &MockConsul, host: &str, limit: u32) -> Semaphore {
    connect(builder(limit), &world.client(host))
}

pub(crate) fn name(host: usize) -> String {
    format!("node-{host}")
}

/// Takes one turn, and records its session.
pub(crate) fn turn(world: &MockConsul, semaphore: Semaphore, log: &Log) -> Task<()> {
    let (log, clock) = (Arc::clone(log), world.clone());
    world.start(async move {
        let permit = semaphore.acquire().await.expect("a slot");
        let session = permit.sequencers()[0].session.to_string();
        log.lock().expect("a log").push(session);
        clock.sleep(millis(10)).await;
        assert!(permit.is_held());
        permit.release().await.expect("released");
    })
}

/// The sessions with a contender key, in the order of the queue.
pub(crate) fn in_line(world: &MockConsul) -> Vec<String> {
    let mut keys = world.consul(|consul, _| {
        let entries = consul.entries(PREFIX);
        let tied = entries.filter_map(|it| Some((it.create_index(), it.session()?.to_owned())));
        tied.collect::<Vec<_>>()
    });
    keys.sort();
    keys.into_iter().map(|(_, session)| session).collect()
}

/// Runs all tasks, and returns how long that took.
pub(crate) fn run_all(world: &MockConsul, tasks: Vec<Task<()>>) -> Duration {
    let start = world.now();
    for task in tasks {
        world.run(task);
    }
    world.now().saturating_since(start)
}
