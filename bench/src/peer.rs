//! `consul lock`: the peer that comes with every Consul binary. With one slot it elects a leader.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use examples::gauge::Belief;
use examples::holds::{self, Clock};
use real_agent::{Agent, Client};
use tempfile::TempDir;

use crate::counter::Counter;
use crate::failure::Failure;
use crate::ours::{read_or_empty, without_consul};

/// How many may hold at once, in all scenes of semaphores.
pub(crate) const LIMIT: usize = 3;
/// The slots of an election.
pub(crate) const ONE: usize = 1;

const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(5);

/// Where `consul lock` locks, and where its children write.
pub(crate) struct Lockers {
    binary: PathBuf,
    address: SocketAddr,
    client: Client,
    prefix: String,
    slots: usize,
    folder: TempDir,
}

/// What a crowd of `consul lock` costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// How many waited.
    pub(crate) waiters: usize,
    /// Handoffs per second, measured once all of them waited.
    pub(crate) per_s: f64,
    /// Requests for each acquisition.
    pub(crate) requests: f64,
    /// Connections at the peak.
    pub(crate) connections: f64,
}

impl Lockers {
    /// Lockers on this agent.
    ///
    /// # Errors
    /// [`Failure::System`].
    pub(crate) fn new(agent: &Agent, prefix: &str, slots: usize) -> Result<Self, Failure> {
        Ok(Self {
            binary: agent.binary(),
            address: agent.addr(),
            client: agent.client(),
            prefix: prefix.to_owned(),
            slots,
            folder: tempfile::tempdir().map_err(Failure::system("no folder for holds"))?,
        })
    }

    /// Where the holds are written down.
    pub(crate) fn holds(&self) -> PathBuf {
        self.folder.path().join("holds")
    }

    /// The holds that have been written down.
    ///
    /// # Errors
    /// [`Failure::System`].
    pub(crate) fn beliefs(&self) -> Result<Vec<Belief>, Failure> {
        let text = read_or_empty(&self.holds())?;
        holds::parse(&text, &Clock::read()).map_err(Failure::system("holds can't be read"))
    }

    /// Runs one that locks and holds for `millis` milliseconds, and waits for it.
    ///
    /// # Errors
    /// [`Failure::Lock`], [`Failure::Late`].
    pub(crate) fn lock_once(&self, millis: u64) -> Result<(), Failure> {
        let mut lock = Lock(self.start(self.address, millis, None, &self.holds())?);
        finish(lock.wait_until(Instant::now() + PATIENCE)?)
    }

    fn start(
        &self,
        address: SocketAddr,
        millis: u64,
        until: Option<&Path>,
        holds: &Path,
    ) -> Result<Child, Failure> {
        let here = std::env::current_exe().map_err(Failure::system("this program is nowhere"))?;
        let mut command = Command::new(&self.binary);
        without_consul(&mut command)
            .args(["lock", "-shell=false", "-n", &self.slots.to_string()])
            .args(["-http-addr", &format!("http://{address}"), &self.prefix])
            .arg(here)
            .args(["hold", "--millis", &millis.to_string(), "--holds"])
            .arg(holds)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some(gate) = until {
            command.arg("--until").arg(gate);
        }
        command.spawn().map_err(Failure::system("`consul lock`"))
    }

    /// Lets `waiters` queue behind holders, then lets the holders go. The timing starts there, so
    /// it does not include starting the processes. The requests are those of all, from the
    /// beginning.
    fn herd(&self, waiters: usize, address: SocketAddr) -> Result<f64, Failure> {
        let gate = self.folder.path().join("gate");
        let first = self.folder.path().join("first");
        let start = |until: Option<&Path>, holds: &Path| {
            let millis = if until.is_some() { 0 } else { 10 };
            self.start(address, millis, until, holds).map(Lock)
        };
        let mut locks = Vec::new();
        for _ in 0..self.slots {
            locks.push(start(Some(&gate), &first)?);
        }
        wait_for("`consul lock` to hold", || self.holders() == self.slots)?;
        for _ in 0..waiters {
            locks.push(start(None, &self.holds())?);
        }
        let all = self.slots + waiters;
        wait_for("`consul lock` to queue", || self.contenders() == all)?;
        let began = Instant::now();
        fs::write(&gate, "").map_err(Failure::system("the gate can't be opened"))?;
        let deadline = Instant::now() + PATIENCE;
        for lock in &mut locks {
            finish(lock.wait_until(deadline)?)?;
        }
        let beliefs = self.beliefs()?;
        let last = beliefs.iter().map(|belief| belief.until).max();
        let total = last.map_or(Duration::ZERO, |last| last.saturating_duration_since(began));
        Ok(number(beliefs.len()) / total.as_secs_f64())
    }

    fn holders(&self) -> usize {
        let path = format!("/v1/kv/{}/.lock", self.prefix);
        if self.slots == ONE {
            let entry = self.client.get(&path).and_then(|answer| answer.json());
            return entry.map_or(0, |entry| usize::from(entry[0]["Session"].is_string()));
        }
        let record = self.client.get(&format!("{path}?raw"));
        let record = record.and_then(|answer| answer.json());
        record.map_or(0, |record| {
            record["Holders"]
                .as_object()
                .map_or(0, serde_json::Map::len)
        })
    }

    /// How many hold or wait. With one slot each has a session; with more slots each has a key
    /// beside the record.
    fn contenders(&self) -> usize {
        if self.slots == ONE {
            let left = self.client.leftovers(&self.prefix);
            return left.map_or(0, |left| left.sessions.len());
        }
        let path = format!("/v1/kv/{}/?keys", self.prefix);
        let keys = self.client.get(&path).and_then(|answer| answer.json());
        let keys = keys.map_or(0, |keys| keys.as_array().map_or(0, Vec::len));
        keys.saturating_sub(1)
    }
}

/// Measures a crowd twice: at full speed, and through a counter of requests.
///
/// # Errors
/// [`Failure`].
pub(crate) fn crowd(agent: &Agent, slots: usize, waiters: usize) -> Result<Cost, Failure> {
    let prefix = format!("bench/lock-{slots}-{waiters}");
    let timed = Lockers::new(agent, &prefix, slots)?;
    let per_s = timed.herd(waiters, timed.address)?;
    let counter = Counter::start(agent.addr())?;
    let again = Lockers::new(agent, &format!("{prefix}-counted"), slots)?;
    again.herd(waiters, counter.addr())?;
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    Ok(Cost {
        waiters,
        per_s,
        requests: counter.requests() as f64 / (waiters + slots) as f64,
        connections: counter.peak() as f64,
    })
}

/// What one alone costs: the requests for its acquisition.
///
/// # Errors
/// [`Failure`].
pub(crate) fn alone(agent: &Agent, slots: usize) -> Result<f64, Failure> {
    let counter = Counter::start(agent.addr())?;
    let mut lockers = Lockers::new(agent, &format!("bench/lock-{slots}-alone"), slots)?;
    lockers.address = counter.addr();
    lockers.lock_once(0)?;
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    Ok(counter.requests() as f64)
}

/// A `consul lock`. It ends when this is dropped.
struct Lock(Child);

impl Lock {
    fn wait_until(&mut self, deadline: Instant) -> Result<ExitStatus, Failure> {
        loop {
            let ended = self.0.try_wait();
            if let Some(status) = ended.map_err(Failure::system("`consul lock`"))? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                return Err(late("`consul lock` to end"));
            }
            thread::sleep(POLL);
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // This fails if it has ended already, as it should have.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn finish(status: ExitStatus) -> Result<(), Failure> {
    let code = status.code();
    if status.success() {
        Ok(())
    } else {
        Err(Failure::Lock { code })
    }
}

pub(crate) fn wait_for(
    what: &'static str,
    mut happened: impl FnMut() -> bool,
) -> Result<(), Failure> {
    let deadline = Instant::now() + PATIENCE;
    while !happened() {
        if Instant::now() > deadline {
            return Err(late(what));
        }
        thread::sleep(POLL);
    }
    Ok(())
}

fn late(what: &'static str) -> Failure {
    Failure::Late {
        what,
        after: PATIENCE,
    }
}

pub(crate) fn number(count: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    {
        count as f64
    }
}
