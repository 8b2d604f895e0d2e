//! Ten callers on each host, all for one semaphore, or for one that is split over several keys.

use std::time::Duration;

use semaphore_core::adapter::Runtime as _;
use transport_mock::{MockConsul, Task};

use super::{Fleet, Turns, clients, lengths, valid};

const EACH: u32 = 10;
const LIMIT: u32 = 10;
const HOLD: Duration = Duration::from_secs(1);

pub(super) fn start(world: &MockConsul, fleet: Fleet, turns: &Turns) -> Vec<Task<()>> {
    let (hosts, parts) = (fleet.hosts, fleet.parts);
    let mut tasks = Vec::new();
    for (number, (host, client)) in (0..hosts).zip(clients(world, fleet)) {
        let semaphore =
            valid(client.semaphore(format!("service/db-{}", number % parts), LIMIT / parts));
        for caller in 0..EACH {
            let mut length = lengths(HOLD, number * EACH + caller);
            let (host, semaphore) = (host.clone(), semaphore.clone());
            let turns = turns.clone();
            tasks.push(world.start(async move {
                host.sleep(length() * (number % 100) / 10).await;
                turns.take(host, semaphore, length).await;
            }));
        }
    }
    tasks
}
