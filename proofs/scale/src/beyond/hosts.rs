//! Many hosts with ten semaphores each. Each semaphore has three slots and ten hosts, so three hold
//! and seven wait.

use std::time::Duration;

use semaphore_core::adapter::Runtime as _;
use transport_mock::{MockConsul, Task};

use super::{Fleet, Turns, clients, lengths, valid};

const EACH: u32 = 10;
const HOLD: Duration = Duration::from_secs(60);

pub(super) fn start(world: &MockConsul, fleet: Fleet, turns: &Turns) -> Vec<Task<()>> {
    let hosts = fleet.hosts;
    let mut tasks = Vec::new();
    for (number, (host, client)) in (0..hosts).zip(clients(world, fleet)) {
        for wanted in 0..EACH {
            // The hosts of each semaphore share no other semaphore.
            let of = (number + wanted * hosts / EACH) % hosts;
            let semaphore = valid(client.semaphore(format!("shards/{of}"), 3));
            let (host, turns) = (host.clone(), turns.clone());
            let mut length = lengths(HOLD, number * EACH + wanted);
            tasks.push(world.start(async move {
                // The hosts don't start at the same time.
                host.sleep(length() / 10).await;
                turns.take(host, semaphore, length).await;
            }));
        }
    }
    tasks
}
