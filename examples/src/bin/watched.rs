//! A service under load that is observed: its log at WARN, and its figures.
//!
//! `cargo run --bin watched`, on the agent at `CONSUL_HTTP_ADDR`. `scripts/outage`
//! runs it, and stops the agent for 20 s meanwhile. Without an agent it runs on a Consul in memory
//! without failures.

use std::error::Error;
use std::time::Duration;

use clap::Parser;
use examples::agent::Agent;
use examples::say;
use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::time::{Instant, sleep, sleep_until};
use tracing_subscriber::filter::LevelFilter;
use transport_reqwest::Semaphore;
use transport_reqwest::observe::Metrics;

/// Tasks that share slots, and one that keeps a slot as long as it can.
#[derive(Debug, Parser)]
struct Flags {
    /// How many seconds it runs
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// How many tasks take turns
    #[arg(long, default_value_t = 4)]
    tasks: u32,
    /// The lowest level that is logged
    #[arg(long, default_value = "warn")]
    log: LevelFilter,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let flags = Flags::parse();
    tracing_subscriber::fmt()
        .with_max_level(flags.log)
        .with_ansi(false)
        .with_target(false)
        .init();
    // A service would use an exporter that listens: see the documentation of that crate.
    let figures = PrometheusBuilder::new().install_recorder()?;

    let agent = Agent::find()?;
    let semaphore = Semaphore::builder("examples/watched", 2)
        .value("watched")
        .observer(Metrics::new().with_names())
        .connect(agent.reqwest()?)?;

    let end = Instant::now() + Duration::from_secs(flags.seconds);
    let keeper = tokio::spawn(keep(semaphore.clone(), end));
    let turns = (0..flags.tasks).map(|_| tokio::spawn(take_turns(semaphore.clone(), end)));
    let turns: Vec<_> = turns.collect();
    sleep_until(end).await;
    say!("{:#?}", semaphore.status());
    keeper.await??;
    for task in turns {
        task.await??;
    }
    semaphore.shutdown().await;
    for line in figures.render().lines() {
        if is_a_figure(line) {
            say!("{line}");
        }
    }
    Ok(())
}

/// Of each histogram, the sum and the count are enough here.
fn is_a_figure(line: &str) -> bool {
    !line.starts_with('#') && !line.is_empty() && !line.contains("quantile=")
}

type Outcome = Result<(), transport_reqwest::Error>;

/// Holds a slot until the end. After a loss it acquires again.
async fn keep(semaphore: Semaphore, end: Instant) -> Outcome {
    while Instant::now() < end {
        let permit = semaphore.acquire().await?;
        tokio::select! {
            lost = permit.lost() => say!("the keeper has lost its slot: {lost}"),
            () = sleep_until(end) => permit.release().await?,
        }
    }
    Ok(())
}

/// Repeatedly holds a slot for a moment.
async fn take_turns(semaphore: Semaphore, end: Instant) -> Outcome {
    while Instant::now() < end {
        let permit = semaphore.acquire().await?;
        tokio::select! {
            _ = permit.lost() => {}
            () = sleep(Duration::from_millis(200)) => drop(permit),
        }
    }
    Ok(())
}
