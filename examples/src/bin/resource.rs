//! A resource that serves nobody but the leader: each request carries a sequencer, which the resource
//! has Consul confirm.
//!
//! `cargo run --bin resource`, on a Consul in memory or on the agent at `CONSUL_HTTP_ADDR`.

use std::error::Error;
use std::time::Duration;

use examples::agent::Agent;
use examples::term::Term;
use transport_reqwest::{Discovery, LockKey, ReqwestTransport, Scope, Sequencer, SequencerStatus};

/// A store that takes writes of the present leader only. It knows which election guards it: a
/// sequencer of any other key proves nothing.
struct Store {
    leader: Discovery,
    written: Vec<String>,
}

/// Why the store refuses a write.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    /// For good: its term is over.
    #[error("refused, somebody else may lead by now")]
    Stale,
    /// For now: ask again.
    #[error("refused, Consul does not tell who leads")]
    Unknown,
    /// It is no sequencer of this election, or Consul refuses the store.
    #[error("refused")]
    Failed(#[from] transport_reqwest::Error),
}

impl Store {
    /// `sequencer` is text: it came over the network.
    async fn write(&mut self, sequencer: &str, value: &str) -> Result<(), Refusal> {
        let sequencer: Sequencer = sequencer.parse().map_err(transport_reqwest::Error::from)?;
        // One read. A store that must answer sooner than Consul refuses when its patience is over.
        let verified = self.leader.verify(&sequencer);
        let verified = tokio::time::timeout(Duration::from_secs(5), verified).await;
        match verified.unwrap_or(Ok(SequencerStatus::Unknown))? {
            SequencerStatus::Current => self.written.push(value.to_owned()),
            SequencerStatus::Stale => return Err(Refusal::Stale),
            SequencerStatus::Unknown => return Err(Refusal::Unknown),
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let agent = Agent::find()?;
    let transport = ReqwestTransport::new(agent.url().to_string())?;
    let scope = agent
        .token()
        .map_or_else(Scope::new, |token| Scope::new().with_token(token.clone()));
    let key = LockKey::new("examples/resource/leader")?;
    let leader = Discovery::connect(key.as_str(), scope.clone(), transport.clone())?;
    let mut store = Store {
        leader: leader.clone(),
        written: Vec::new(),
    };

    // A leader learns its own sequencer when it is elected. Here it is read.
    let first = Term::begin(&transport, &scope, &key, "node-1").await?;
    let sequencer = sequencer_of(&leader).await?;
    println!("node-1 leads: {sequencer}");
    show("node-1", store.write(&sequencer, "by node-1").await);

    // It hangs, its session ends, another one is elected. Then it goes on where it was.
    first.end(&transport).await?;
    let second = Term::begin(&transport, &scope, &key, "node-2").await?;
    let newer = sequencer_of(&leader).await?;
    println!("node-2 leads: {newer}");
    show("node-1", store.write(&sequencer, "late").await);
    show("node-2", store.write(&newer, "by node-2").await);

    second.end(&transport).await?;
    show("node-2", store.write(&newer, "late").await);
    println!("written: {}", store.written.join(", "));
    Ok(())
}

async fn sequencer_of(leader: &Discovery) -> Result<String, Box<dyn Error + Send + Sync>> {
    let leader = leader.leader().await?.ok_or("nobody leads")?;
    Ok(leader.sequencer().to_string())
}

fn show(who: &str, result: Result<(), Refusal>) {
    match result {
        Ok(()) => println!("{who} writes: done"),
        Err(refusal) => println!("{who} writes: {refusal}"),
    }
}
