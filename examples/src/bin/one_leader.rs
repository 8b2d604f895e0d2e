//! A service of which one instance leads. Start two, and stop the leading one with ^C or SIGTERM.
use std::{error::Error, sync::Arc, time::Duration};

use examples::agent::Agent;
use tokio::signal::unix::{SignalKind, signal};
use transport_reqwest::{Election, Leadership};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let agent = Agent::find()?;
    let builder = Election::builder("examples/one-leader");
    let election = builder.connect(agent.reqwest()?)?;
    let mut terminated = signal(SignalKind::terminate())?;
    println!("campaigns; ^C ends it");
    tokio::select! {
        refused = election.run(work) => refused?,
        _ = terminated.recv() => {} // drops the work
        _ = tokio::signal::ctrl_c() => {}
    }
    election.shutdown().await;
    println!("nothing is left but the key");
    Ok(())
}

async fn work(leadership: Arc<Leadership>) {
    while leadership.is_leader() {
        println!("leads, with token {}", leadership.fencing_token());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
