//! Leaders that follow one another. Each candidate has separate connections, as if on a separate
//! machine.

use std::time::{Duration, Instant};

use real_agent::Agent;
use semaphore_core::Error;
use tokio::runtime::{self, Runtime};
use transport_reqwest::{Election, ReqwestTransport};

use crate::counter::Counter;
use crate::failure::Failure;
use crate::peer::{number, wait_for};

/// How long each leads, as the children of `consul lock` do.
const TERM: Duration = Duration::from_millis(10);

/// How many leaders there would be in a second if handovers took no time.
pub(crate) const IDEAL_PER_S: f64 = 100.0;

/// What a crowd of candidates costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Handoffs per second, measured once all candidates waited.
    pub(crate) per_s: f64,
    /// Requests for each leadership.
    pub(crate) requests: f64,
}

/// What one candidate alone costs: the requests from its campaign to its end.
///
/// # Errors
/// [`Failure`].
pub(crate) fn alone(agent: &Agent) -> Result<f64, Failure> {
    let counter = Counter::start(agent.addr())?;
    let runtime = runtime()?;
    let _entered = runtime.enter();
    let election = candidate(
        &format!("http://{}", counter.addr()),
        "bench/election-alone",
    )?;
    runtime.block_on(async {
        election.campaign().await?.resign().await?;
        election.shutdown().await;
        Ok::<(), Error>(())
    })?;
    Ok(counted(counter.requests()))
}

/// Measures a crowd at full speed (the median of `runs` runs), and once through a request counter.
///
/// # Errors
/// [`Failure`].
pub(crate) fn crowd(agent: &Agent, waiters: usize, runs: usize) -> Result<Cost, Failure> {
    let key = |run: usize| format!("bench/election-{waiters}-{run}");
    let mut rates = (0..runs)
        .map(|run| herd(agent, &agent.url(), &key(run), waiters))
        .collect::<Result<Vec<_>, _>>()?;
    rates.sort_by(f64::total_cmp);
    let counter = Counter::start(agent.addr())?;
    herd(
        agent,
        &format!("http://{}", counter.addr()),
        &key(runs),
        waiters,
    )?;
    Ok(Cost {
        per_s: rates.get(runs / 2).copied().unwrap_or(f64::NAN),
        requests: counted(counter.requests()) / number(waiters + 1),
    })
}

/// Lets `waiters` campaign behind a leader, then lets the leader resign. The timing starts there,
/// as for `consul lock`. Each of them leads for a moment.
fn herd(agent: &Agent, url: &str, key: &str, waiters: usize) -> Result<f64, Failure> {
    let runtime = runtime()?;
    let _entered = runtime.enter();
    let first = candidate(url, key)?;
    let leadership = runtime.block_on(first.campaign())?;
    let others = (0..waiters)
        .map(|_| candidate(url, key))
        .collect::<Result<Vec<_>, _>>()?;
    let leading = others.into_iter().map(|it| runtime.spawn(lead(it)));
    let leading: Vec<_> = leading.collect();
    let client = agent.client();
    wait_for("candidates to campaign", || {
        client
            .leftovers(key)
            .is_ok_and(|left| left.sessions.len() == waiters + 1)
    })?;
    let began = Instant::now();
    let last = runtime.block_on(async {
        leadership.resign().await?;
        first.shutdown().await;
        let mut last = began;
        for led in leading {
            last = last.max(
                led.await
                    .map_err(|_| Error::from(semaphore_core::error::ClosedBy::RuntimeEnded))??,
            );
        }
        Ok::<Instant, Error>(last)
    })?;
    Ok(number(waiters) / last.saturating_duration_since(began).as_secs_f64())
}

/// Leads for a moment, and returns when the leadership ended.
async fn lead(election: Election) -> Result<Instant, Error> {
    let leadership = election.campaign().await?;
    tokio::time::sleep(TERM).await;
    let end = Instant::now();
    leadership.resign().await?;
    election.shutdown().await;
    Ok(end)
}

fn candidate(url: &str, key: &str) -> Result<Election, Failure> {
    Ok(Election::builder(key).connect(ReqwestTransport::new(url)?)?)
}

fn runtime() -> Result<Runtime, Failure> {
    let runtime = runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(Failure::system("no runtime"))
}

fn counted(requests: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    {
        requests as f64
    }
}
