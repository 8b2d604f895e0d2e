//! The semaphore in a blocking program: no async, no runtime, the same names.
//!
//! `cargo run --bin on_threads`, on a Consul in memory or on the agent at `CONSUL_HTTP_ADDR`.

use std::error::Error;
use std::thread;
use std::time::Duration;

use examples::agent::Agent;
use transport_ureq::blocking;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let agent = Agent::find()?;
    let transport = agent.ureq()?;
    let semaphore = blocking::Semaphore::builder("examples/on-threads", 2)
        .value("on_threads")
        .connect(transport)?;

    // Each thread has a clone. All share one watch and a few connections.
    thread::scope(|scope| {
        let workers: Vec<_> = (1..=4)
            .map(|number| {
                let semaphore = semaphore.clone();
                scope.spawn(move || use_the_resource(number, &semaphore))
            })
            .collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|_| Err("it panicked".into())))
    })?;

    semaphore.shutdown();
    semaphore.destroy()?;
    println!("nothing is left");
    Ok(())
}

fn use_the_resource(
    number: u32,
    semaphore: &blocking::Semaphore,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let permit = semaphore.acquire_timeout(Duration::from_secs(30))?;
    println!("thread {number} holds a slot");

    for _step in 0..4 {
        // It only asks the clock, so it is also right after any pause of the process.
        if !permit.is_held() {
            return Err(permit.lost().into());
        }
        thread::sleep(Duration::from_millis(50));
    }

    println!("thread {number} is done");
    permit.release()?;
    Ok(())
}
