//! One process that holds a slot of each of thousands of semaphores, over 64 connections, as with
//! the adapters for a real agent.

use std::time::Duration;

use semaphore_core::Client;
use semaphore_core::adapter::Runtime as _;
use transport_mock::{MockConsul, Task};

use super::{Fleet, Turns, valid};

/// The number of semaphores that each host of the other scenes has.
const EACH: u32 = 10;
const CONNECTIONS: usize = 64;

pub(super) fn start(world: &MockConsul, fleet: Fleet, turns: &Turns) -> Vec<Task<()>> {
    let host = world.client("host");
    let pooled = host.clone().pooled(CONNECTIONS);
    let pooled = pooled.unwrap_or_else(|error| unreachable!("no input of a user: {error}"));
    let client = valid(Client::builder().ttl(fleet.ttl).connect(pooled));
    let start = |number: u32| {
        let semaphore = valid(client.semaphore(format!("shards/{number}"), 3));
        let (host, turns) = (host.clone(), turns.clone());
        world.start(async move {
            loop {
                if let Ok(permit) = semaphore.acquire().await {
                    turns.begin();
                    // Nobody ends the hold, so every end is a loss.
                    let _ = permit.lost().await;
                    turns.end();
                }
                host.sleep(Duration::from_millis(1)).await;
            }
        })
    };
    (0..fleet.hosts * EACH).map(start).collect()
}
