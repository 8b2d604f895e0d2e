//! Many semaphores of one process share an agent's connections: nothing that was granted is lost, and whoever waits
//! is served.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use semaphore_core::{MOST_CONNECTIONS, Semaphore};
use transport_mock::{MockConsul, PooledClient};

/// The connections of one transport on a host of this name.
fn transport(world: &MockConsul, host: &str) -> PooledClient {
    world.client(host).pooled(MOST_CONNECTIONS).expect("some")
}

fn semaphore(prefix: &str, limit: u32, transport: &PooledClient) -> Semaphore {
    let builder = Semaphore::builder(prefix, limit);
    builder.connect(transport.clone()).expect("connected")
}

/// How many turns a second this many handles of their own get, on a semaphore of three slots.
fn turns_per_second(handles: usize) -> f64 {
    const ROUNDS: u32 = 4;
    let world = MockConsul::new(1);
    let transport = transport(&world, "host");
    let turns = AtomicU32::new(0);
    let contend = |handle: Semaphore| {
        let (turns, world) = (&turns, &world);
        async move {
            for _ in 0..ROUNDS {
                let permit = handle.acquire().await.expect("a slot");
                world.sleep(Duration::from_millis(10)).await;
                permit.release().await.expect("released");
                turns.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    let all = (0..handles).map(|_| contend(semaphore("jobs", 3, &transport)));
    let began = world.now();
    world.run(join_all(all));
    let took = world.now().saturating_since(began);
    println!("{handles} handles: {turns:?} turns in {took:?} {:?}", world.stats());
    f64::from(turns.into_inner()) / took.as_secs_f64()
}

#[test]
fn three_hundred_who_wait_get_as_many_turns_as_half_of_them() {
    let few = turns_per_second(150);
    let many = turns_per_second(300);
    assert!(many >= 0.8 * few, "{many:.1} turns a second, not {few:.1}");
}
