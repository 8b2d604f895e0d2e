//! How to test code that uses a semaphore: no server, no waiting, every failure on demand.
//!
//! The tests are below, as in your own crate: `cargo test --bin testing` runs them, and
//! `cargo run --bin testing` shows what happens in one of them.

use std::error::Error as StdError;
use std::time::Duration;

use semaphore_core::adapter::Runtime;
use semaphore_core::{Error, Semaphore};
use transport_mock::MockConsul;

/// The code under test: an hour of work in steps. It knows nothing about the mock.
async fn nightly_job(semaphore: &Semaphore, runtime: &impl Runtime) -> Result<u32, Error> {
    let permit = semaphore.acquire().await?;
    for minute in 0..60 {
        if !permit.is_held() {
            println!("stopped in minute {minute}");
            return Ok(minute);
        }
        runtime.sleep(Duration::from_secs(60)).await;
    }
    permit.release().await?;
    Ok(60)
}

fn main() -> Result<(), Box<dyn StdError>> {
    // Each test has a separate world. The seed decides everything that happens at random.
    let world = MockConsul::new(7);
    let node = world.client("node-1");
    let semaphore = Semaphore::builder("jobs/nightly", 1).connect(node.clone())?;

    // In minute 30 the host loses its network without notice.
    let job = world.start({
        let (semaphore, node) = (semaphore.clone(), node.clone());
        async move { nightly_job(&semaphore, &node).await }
    });
    world.advance(Duration::from_secs(30 * 60 - 1));
    world.partition("node-1");

    // The job stops without help: its lease ended without any answer from Consul.
    let minutes = world.run(job)?;
    println!(
        "worked for {minutes} minutes, which took {} of virtual time",
        world.now()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use transport_mock::{Fault, RequestKind, Rule};

    use super::*;

    fn run(world: &MockConsul) -> Result<u32, Error> {
        let node = world.client("node-1");
        let semaphore = Semaphore::builder("jobs/nightly", 1).connect(node.clone())?;
        world.run(nightly_job(&semaphore, &node))
    }

    #[test]
    fn the_job_works_for_an_hour_of_virtual_time() {
        let world = MockConsul::new(7);
        assert_eq!(run(&world).expect("a whole job"), 60);
        assert!(world.now().since_origin() >= Duration::from_secs(3600));
    }

    #[test]
    fn a_lost_answer_to_the_claim_costs_nothing() {
        let world = MockConsul::new(7);
        // The first transaction enters, the second creates the record, the third claims.
        let claim = Rule::new(Fault::LoseAnswer).kind(RequestKind::Txn).skip(2);
        world.inject(claim);
        assert_eq!(run(&world).expect("a whole job"), 60);
        assert_eq!(world.pending_rules(), 0, "the fault struck");
    }

    #[test]
    fn a_job_whose_session_is_destroyed_stops() {
        let world = MockConsul::new(7);
        let job = world.start({
            let node = world.client("node-1");
            let semaphore = Semaphore::builder("jobs/nightly", 1).connect(node.clone());
            async move { nightly_job(&semaphore?, &node).await }
        });
        world.advance(Duration::from_secs(30 * 60 - 1));
        // An operator acts on Consul directly.
        world.consul(|consul, now| {
            let sessions: Vec<_> = consul.sessions().map(|s| s.id().to_owned()).collect();
            for session in sessions {
                consul.destroy_session(now, &session);
            }
        });
        assert_eq!(world.run(job).expect("an end"), 30);
    }
}
