//! The semaphore on smol: a try without waiting, and a wait with a timeout.
//!
//! `cargo run --bin on_smol`, on a Consul in memory or on the agent at `CONSUL_HTTP_ADDR`.

use std::error::Error;
use std::time::Duration;

use examples::agent::Agent;
use transport_ureq::{Error as SemaphoreError, Semaphore, SmolTransport};

fn main() -> Result<(), Box<dyn Error>> {
    smol::block_on(run())
}

async fn run() -> Result<(), Box<dyn Error>> {
    let agent = Agent::find()?;

    // Requests run on separate threads. There is no tokio in this program.
    let transport = SmolTransport::from(agent.ureq()?);
    let semaphore = Semaphore::builder("examples/on-smol", 1).connect(transport)?;

    let permit = semaphore.acquire_timeout(Duration::from_secs(30)).await?;
    println!(
        "the only slot is held, with token {}",
        permit.fencing_token()
    );

    // A try does not wait: either a slot is free now, or not.
    match semaphore.try_acquire().await? {
        Ok(_) => println!("a try got a slot that is held: impossible"),
        Err(refusal) => println!("a try is refused: {refusal}"),
    }

    // A timeout is a separate kind of error. Dropping the future would also give up.
    match semaphore.acquire_timeout(Duration::from_millis(300)).await {
        Err(SemaphoreError::Timeout { waited, .. }) => println!("gave up after {waited:?}"),
        Err(error) => return Err(error.into()),
        Ok(_) => println!("got a slot that is held: impossible"),
    }

    permit.release().await?;
    let again = semaphore.acquire_timeout(Duration::from_secs(30)).await?;
    println!(
        "released, and acquired with token {}",
        again.fencing_token()
    );
    again.release().await?;

    semaphore.shutdown().await;
    semaphore.destroy().await?;
    println!("nothing is left");
    Ok(())
}
