//! Leading as services do it, compared with HashiCorp's Go client: the reports of
//! `leader --candidates` and `bench/go-client`.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use real_agent::Agent;
use semaphore_core::Error;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::runtime::{self, Runtime};
use transport_reqwest::{Discovery, Election, ReqwestTransport};

use crate::counter::Counter;
use crate::failure::Failure;
use crate::ours::without_consul;

/// Where `scripts/bench` has built `bench/go-client`, if Go is installed.
const GO_CLIENT: &str = "BENCH_GO_CLIENT";

/// The result of a contest of candidates, by either program.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Contest {
    /// Terms in a second.
    pub(crate) terms_per_s: f64,
    /// From one leader's end to the next one's beginning, in the median.
    pub(crate) gap_p50_ms: f64,
    /// The same, at the 99th percentile.
    pub(crate) gap_p99_ms: f64,
    /// The most candidates that led at the same time.
    pub(crate) max_leaders: u64,
}

/// A contest's result with what it cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    pub(crate) contest: Contest,
    /// Requests for each term.
    pub(crate) requests: f64,
    /// Connections at the peak.
    pub(crate) connections: f64,
}

/// How often something was done per second, and what it cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub(crate) per_s: f64,
    /// Requests each time.
    pub(crate) requests: f64,
}

/// Runs `leader` with `size.candidates` candidates, which share what `share` says.
///
/// # Errors
/// [`Failure`].
pub(crate) fn contest(url: &str, share: &str, key: &str, size: Size) -> Result<Contest, Failure> {
    let here = std::env::current_exe().map_err(Failure::system("this program is nowhere"))?;
    let mut command = Command::new(here.with_file_name("leader"));
    command.args([key, "--json", "--share", share]);
    command.args(["--candidates", &size.candidates.to_string()]);
    command.args(["--terms", &size.terms.to_string()]);
    command.args(["--term-ms", &size.term.as_millis().to_string()]);
    report(&mut command, url)
}

/// The same, with a request counter in front of the agent.
///
/// # Errors
/// [`Failure`].
pub(crate) fn counted_contest(agent: &Agent, key: &str, size: Size) -> Result<Counted, Failure> {
    counted(agent, size, |url| contest(url, "client", key, size))
}

/// The same with Go's client, counted. The result is `None` where Go is not installed.
///
/// # Errors
/// [`Failure`].
pub(crate) fn counted_go(agent: &Agent, key: &str, size: Size) -> Result<Option<Counted>, Failure> {
    if go_client().is_none() {
        return Ok(None);
    }
    let contest = |url: &str| {
        go_contest(url, key, size)?.ok_or(Failure::Late {
            what: "Go's client",
            after: Duration::ZERO,
        })
    };
    counted(agent, size, contest).map(Some)
}

fn counted(
    agent: &Agent,
    size: Size,
    contest: impl FnOnce(&str) -> Result<Contest, Failure>,
) -> Result<Counted, Failure> {
    let counter = Counter::start(agent.addr())?;
    let contest = contest(&format!("http://{}", counter.addr()))?;
    Ok(Counted {
        contest,
        requests: number(counter.requests()) / f64::from(size.terms),
        connections: number(counter.peak()),
    })
}

/// How large a contest is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) candidates: u32,
    pub(crate) terms: u32,
    pub(crate) term: Duration,
}

/// The same with Go's client. The result is `None` where Go is not installed.
///
/// # Errors
/// [`Failure`].
pub(crate) fn go_contest(url: &str, key: &str, size: Size) -> Result<Option<Contest>, Failure> {
    let Some(program) = go_client() else {
        return Ok(None);
    };
    let mut command = Command::new(program);
    command.args(["contest", "-key", key]);
    command.args(["-candidates", &size.candidates.to_string()]);
    command.args(["-terms", &size.terms.to_string()]);
    command.args(["-term", &format!("{}ms", size.term.as_millis())]);
    report(&mut command, url).map(Some)
}

/// One caller that tries again and again to lead for five milliseconds, beside a leader.
///
/// # Errors
/// [`Failure`].
pub(crate) fn tries(agent: &Agent, key: &str, time: Duration) -> Result<Rate, Failure> {
    let counter = Counter::start(agent.addr())?;
    let runtime = runtime()?;
    let _entered = runtime.enter();
    let leader = election(&agent.url(), key)?;
    let candidate = election(&format!("http://{}", counter.addr()), key)?;
    let count = runtime.block_on(async {
        let leads = leader.campaign().await?;
        let (began, mut count) = (Instant::now(), 0_u64);
        while began.elapsed() < time {
            match candidate.campaign_timeout(Duration::from_millis(5)).await {
                Err(Error::Timeout { .. }) => count += 1,
                tried => drop(tried?),
            }
        }
        candidate.shutdown().await;
        leads.resign().await?;
        leader.shutdown().await;
        Ok::<u64, Error>(count)
    })?;
    Ok(rate(count, counter.requests(), time))
}

/// The same with Go's client, with tries of the same length.
///
/// # Errors
/// [`Failure`].
pub(crate) fn go_tries(agent: &Agent, key: &str, time: Duration) -> Result<Option<Rate>, Failure> {
    #[derive(Deserialize)]
    struct Tries {
        tries: u64,
    }
    let Some(program) = go_client() else {
        return Ok(None);
    };
    let counter = Counter::start(agent.addr())?;
    let mut command = Command::new(program);
    command.args([
        "tries",
        "-key",
        key,
        "-for",
        &format!("{}ms", time.as_millis()),
    ]);
    let Tries { tries } = report(&mut command, &format!("http://{}", counter.addr()))?;
    Ok(Some(rate(tries, counter.requests(), time)))
}

/// Requests per second of that many followers of a missing key, while twenty other keys are written
/// per second.
///
/// # Errors
/// [`Failure`].
pub(crate) fn followers(
    agent: &Agent,
    key: &str,
    count: usize,
    time: Duration,
) -> Result<f64, Failure> {
    let counter = Counter::start(agent.addr())?;
    let runtime = runtime()?;
    let _entered = runtime.enter();
    let transport = ReqwestTransport::new(format!("http://{}", counter.addr()))?;
    let discovery = Discovery::builder(key).connect(transport)?;
    beside_writes(agent, || {
        runtime.block_on(async {
            let follow = (0..count).map(|_| async {
                let mut follower = discovery.follow();
                let told = async { while follower.next().await.is_some() {} };
                let _ = tokio::time::timeout(time, told).await;
            });
            join_all(follow).await;
        });
        Ok(())
    })?;
    Ok(number(counter.requests()) / time.as_secs_f64())
}

/// The same with Go's client. It has no followers, so each one is a blocking query.
///
/// # Errors
/// [`Failure`].
pub(crate) fn go_followers(
    agent: &Agent,
    key: &str,
    count: usize,
    time: Duration,
) -> Result<Option<f64>, Failure> {
    let Some(program) = go_client() else {
        return Ok(None);
    };
    let counter = Counter::start(agent.addr())?;
    let mut command = Command::new(program);
    command.args(["follow", "-key", key, "-followers", &count.to_string()]);
    command.args(["-for", &format!("{}ms", time.as_millis())]);
    let url = format!("http://{}", counter.addr());
    beside_writes(agent, || report::<serde_json::Value>(&mut command, &url))?;
    Ok(Some(number(counter.requests()) / time.as_secs_f64()))
}

/// Runs `work` while twenty other keys are written per second.
fn beside_writes<T>(
    agent: &Agent,
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let client = agent.client();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let ended = || stopped.recv_timeout(Duration::from_millis(50));
            while ended() == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                // A write that fails makes no difference to what is counted.
                let _ = client.put("/v1/kv/bench/of-others", b"something else");
            }
        });
        let done = work();
        drop(stop);
        done
    })
}

/// Where `scripts/bench` has built the Go client.
pub(crate) fn go_client() -> Option<PathBuf> {
    std::env::var_os(GO_CLIENT).map(PathBuf::from)
}

/// Runs a program on the agent at `url`, and reads the JSON that it prints.
///
/// # Errors
/// [`Failure`].
pub(crate) fn report<T: DeserializeOwned>(command: &mut Command, url: &str) -> Result<T, Failure> {
    let output = without_consul(command)
        .env("CONSUL_HTTP_ADDR", url)
        .stdin(Stdio::null())
        .output()
        .map_err(Failure::system(
            "a program can't be run: build it with the same profile",
        ))?;
    if output.stdout.is_empty() {
        return Err(Failure::NoReport {
            args: format!("{command:?}"),
            said: String::from_utf8_lossy(&output.stderr).into_owned(),
        });
    }
    serde_json::from_slice(&output.stdout).map_err(Failure::Report)
}

fn election(url: &str, key: &str) -> Result<Election, Failure> {
    Ok(Election::builder(key).connect(ReqwestTransport::new(url)?)?)
}

fn runtime() -> Result<Runtime, Failure> {
    let runtime = runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(Failure::system("no runtime"))
}

fn rate(count: u64, requests: u64, time: Duration) -> Rate {
    Rate {
        per_s: number(count) / time.as_secs_f64(),
        requests: number(requests) / number(count.max(1)),
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(crate) fn number(count: u64) -> f64 {
    count as f64
}
