//! A resource that serves only the leader. Each request carries a sequencer, which the resource
//! checks with Consul.
//!
//! `cargo run --bin resource`, on a Consul in memory or on the agent at `CONSUL_HTTP_ADDR`.

use std::error::Error;
use std::time::Duration;

use examples::agent::Agent;
use transport_reqwest::{Discovery, Election, Sequencer, SequencerStatus};

/// The election that decides who may write.
const KEY: &str = "examples/resource/leader";

/// A store that only accepts writes of the present leader. It knows which election guards it: a
/// sequencer of any other key proves nothing.
struct Store {
    leader: Discovery,
    written: Vec<String>,
}

/// Why the store refuses a write.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    /// Permanently: its term is over.
    #[error("refused, somebody else may lead by now")]
    Stale,
    /// For now: it may ask again.
    #[error("refused, Consul does not tell who leads")]
    Unknown,
    /// It is not a sequencer of this election, or Consul refuses the store.
    #[error("refused")]
    Failed(#[from] transport_reqwest::Error),
}

impl Store {
    /// `sequencer` is text, as it came over the network.
    async fn write(&mut self, sequencer: &str, value: &str) -> Result<(), Refusal> {
        let sequencer: Sequencer = sequencer.parse().map_err(transport_reqwest::Error::from)?;
        // One read. A store that can't wait for Consul refuses after its own timeout.
        let verified = self.leader.verify(&sequencer);
        let verified = tokio::time::timeout(Duration::from_secs(5), verified).await;
        match verified.unwrap_or(Ok(SequencerStatus::Unknown))? {
            SequencerStatus::Current => self.written.push(value.to_owned()),
            SequencerStatus::Stale => return Err(Refusal::Stale),
            // Only the current leader is served.
            _ => return Err(Refusal::Unknown),
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let agent = Agent::find()?;
    let transport = agent.reqwest()?;
    let campaign = async |node: &str| {
        let election = Election::builder(KEY).value(node);
        election.connect(transport.clone())?.campaign().await
    };
    let mut store = Store {
        leader: Discovery::builder(KEY).connect(transport.clone())?,
        written: Vec::new(),
    };

    let first = campaign("node-1").await?;
    let old = first.sequencer().to_string();
    println!("node-1 leads: {old}");
    show("node-1", store.write(&old, "by node-1").await);

    // A write of the former leader is still on its way when another one leads.
    first.resign().await?;
    let second = campaign("node-2").await?;
    let new = second.sequencer().to_string();
    println!("node-2 leads: {new}");
    show("node-1", store.write(&old, "late").await);
    show("node-2", store.write(&new, "by node-2").await);

    second.resign().await?;
    show("node-2", store.write(&new, "late").await);
    println!("written: {}", store.written.join(", "));
    Ok(())
}

fn show(who: &str, result: Result<(), Refusal>) {
    match result {
        Ok(()) => println!("{who} writes: done"),
        Err(refusal) => println!("{who} writes: {refusal}"),
    }
}
