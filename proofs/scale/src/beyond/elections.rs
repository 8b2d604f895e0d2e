//! Each host leads ten elections and follows ten others. A term takes ten minutes, and then the
//! same host leads again.

use std::time::Duration;

use semaphore_core::adapter::Runtime as _;
use transport_mock::{MockConsul, Task};

use super::{Fleet, Turns, clients, valid};

const EACH: u32 = 10;
const TERM: Duration = Duration::from_secs(600);

pub(super) fn start(world: &MockConsul, fleet: Fleet, turns: &Turns) -> Vec<Task<()>> {
    let hosts = fleet.hosts;
    let mut tasks = Vec::new();
    for (number, (host, client)) in (0..hosts).zip(clients(world, fleet)) {
        for led in 0..EACH {
            let election = valid(client.election(format!("shards/{number}-{led}")));
            let (host, turns) = (host.clone(), turns.clone());
            tasks.push(world.start(async move {
                // The first terms are shorter, so they don't end together.
                host.sleep(Duration::from_millis(u64::from(number % 100) * 100))
                    .await;
                let mut term = TERM * (number * EACH + led) / (hosts * EACH) + TERM / 20;
                loop {
                    if let Ok(leadership) = election.campaign().await {
                        turns.begin();
                        host.sleep(term).await;
                        if leadership.is_leader() {
                            turns.end();
                        }
                        let _ = leadership.resign().await;
                        term = TERM;
                    }
                }
            }));
            let of = (number + 1) % hosts;
            let discovery = valid(client.discovery(format!("shards/{of}-{led}")));
            tasks.push(world.start(async move {
                let mut follower = discovery.follow();
                while follower.next().await.is_some() {}
            }));
        }
    }
    tasks
}
