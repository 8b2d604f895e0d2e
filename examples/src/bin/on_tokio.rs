//! The semaphore on tokio: tasks share a handle, and stop when their permit is lost.
//!
//! `cargo run --bin on_tokio`, on a Consul in memory or on the agent at `CONSUL_HTTP_ADDR`.

use std::error::Error;
use std::time::Duration;

use examples::agent::Agent;
use tokio::task::JoinSet;
use transport_reqwest::{FencingToken, Semaphore};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let agent = Agent::find()?;

    // The transport is also the runtime: it runs the semaphore's driver as a task. If there is
    // always an agent, use `ReqwestTransport::from_env()`, which reads its address, token and TLS
    // settings from `CONSUL_*`.
    let transport = agent.reqwest()?;
    let semaphore = Semaphore::builder("examples/on-tokio", 2)
        .value("on_tokio")
        .connect(transport)?;

    // Clones share one watch, one queue and a few connections, however many tasks wait.
    let mut tasks = JoinSet::new();
    for number in 1..=4 {
        let semaphore = semaphore.clone();
        tasks.spawn(async move { use_the_resource(number, &semaphore).await });
    }
    for result in tasks.join_all().await {
        result?;
    }

    // Waits until nothing of ours is left in Consul. Otherwise the TTL of the sessions cleans up.
    semaphore.shutdown().await;
    semaphore.destroy().await?;
    println!("nothing is left");
    Ok(())
}

async fn use_the_resource(
    number: u32,
    semaphore: &Semaphore,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let permit = semaphore.acquire_timeout(Duration::from_secs(30)).await?;
    println!("task {number} holds a slot");

    // Holding is a lease. Work that can't stop in the middle sends the fencing token with every
    // write, so that the resource can refuse a late write.
    tokio::select! {
        () = work(permit.fencing_token()) => println!("task {number} is done"),
        lost = permit.lost() => return Err(lost.into()),
    }

    // Dropping the permit releases it in the background. This waits, and reports failures.
    permit.release().await?;
    Ok(())
}

async fn work(_token: FencingToken) {
    tokio::time::sleep(Duration::from_millis(200)).await;
}
