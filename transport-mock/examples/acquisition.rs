//! Acquires once on the Consul in memory, and nothing else. `scripts/rooms` counts the files whose functions run in it.

use std::process;

use semaphore_core::{Error, Permit, Semaphore};
use transport_mock::MockConsul;

fn main() -> Result<(), Error> {
    let world = MockConsul::new(1);
    let semaphore = Semaphore::builder("service/db", 3).connect(world.client("a"))?;
    let permit = acquire(&world, &semaphore)?;
    assert!(permit.is_held());
    // A release is another way.
    process::exit(0)
}

#[inline(never)]
fn acquire(world: &MockConsul, semaphore: &Semaphore) -> Result<Permit, Error> {
    world.run(semaphore.acquire())
}
