//! One row of the table.

use std::fmt;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use examples::backend::Backend;
use real_agent::{Agent, Client, Cluster, Proxy, SERVERS};
use serde_json::Value;

use crate::failure::Failure;
use crate::program::Program;

/// What the program holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Semaphore,
    Election,
}

/// What happens to the holder's server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Killed,
    Frozen,
    /// Only the holder can't reach it. No server is removed, and the session ends by its TTL.
    CutOff,
}

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) what: What,
    pub(crate) ttl: u64,
    pub(crate) fault: Fault,
    /// Whether the server is the cluster's leader.
    pub(crate) leader: bool,
    pub(crate) backend: Backend,
}

/// Times in seconds from the moment when the server went away.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// When its node was seen to be missing in the catalog.
    pub(crate) reaped: Option<f64>,
    pub(crate) admitted: f64,
    pub(crate) believed: f64,
}

/// The semaphore's prefix, and the election's key.
pub(crate) const PLACE: &str = "early/ends";
/// How much a loaded machine and an election may add to a time.
const SLACK: Duration = Duration::from_secs(45);
/// By then, a renewal has been answered.
const ANSWERED: Duration = Duration::from_millis(700);
const POLL: Duration = Duration::from_millis(50);

/// Every row, on each backend.
pub(crate) fn rows() -> Vec<Row> {
    use Fault::{CutOff, Frozen, Killed};
    use What::{Election, Semaphore};
    let scenes = [
        // A lock delay is at most a minute, and so is every belief.
        (Semaphore, 120, Killed, false),
        (Semaphore, 60, Frozen, false),
        (Election, 60, Killed, false),
        (Semaphore, 60, Killed, true),
        (Election, 60, Frozen, true),
        (Semaphore, 30, Killed, false),
        (Election, 30, Frozen, false),
        (Semaphore, 30, CutOff, false),
        (Election, 30, CutOff, false),
        (Semaphore, 15, Frozen, false),
        (Semaphore, 15, Frozen, true),
        (Election, 15, Killed, true),
    ];
    let each = |backend| {
        scenes.map(|(what, ttl, fault, leader)| Row {
            what,
            ttl,
            fault,
            leader,
            backend,
        })
    };
    [Backend::Tokio, Backend::Threads, Backend::Smol]
        .into_iter()
        .flat_map(each)
        .collect()
}

impl Row {
    /// A row that takes less than a minute.
    pub(crate) fn quick() -> Self {
        Self {
            what: What::Semaphore,
            ttl: 20,
            fault: Fault::Killed,
            leader: false,
            backend: Backend::Tokio,
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.what {
            What::Semaphore => "semaphore",
            What::Election => "election",
        };
        let fault = match self.fault {
            Fault::Killed => "killed",
            Fault::Frozen => "frozen",
            Fault::CutOff => "cut off",
        };
        let leader = if self.leader { "the leader, " } else { "" };
        write!(
            f,
            "{what} | {} | {leader}{fault} | {}",
            self.ttl, self.backend
        )
    }
}

impl Measured {
    /// For how long two held at the same time.
    pub(crate) fn both(&self) -> f64 {
        (self.believed - self.admitted).max(0.0)
    }
}

/// Measures one row on a separate cluster.
///
/// # Errors
/// [`Failure`] if it can't be measured. Two holders at the same time are not a failure.
pub(crate) fn measure(row: &Row, lock_delay: Option<u64>) -> Result<Measured, Failure> {
    let mut cluster = Cluster::start_with(&Agent::builder().reaped())?;
    let leader = cluster.wait_for_leader()?;
    let theirs = if row.leader {
        leader
    } else {
        (leader + 1) % SERVERS
    };
    let others = (theirs + 1) % SERVERS;
    let witness = cluster.server((theirs + 2) % SERVERS).client();
    let witness = witness.with_timeout(Duration::from_secs(2));
    let node = cluster.server(theirs).node().to_owned();

    let proxy = Proxy::start(cluster.server(theirs).addr()).map_err(Failure::system("no proxy"))?;
    let mut holder = Program::start(row, &proxy.url(), lock_delay)?;
    let granted = holder.granted(SLACK)?;
    let mut waiter = Program::start(row, &cluster.server(others).url(), lock_delay)?;
    until_both_contend(row, &witness)?;
    until_renewed(row, granted);

    let gone = match row.fault {
        Fault::Killed => cluster.kill(theirs).map(|()| now()),
        Fault::Frozen => cluster.stop(theirs).map(|()| now()),
        Fault::CutOff => {
            proxy.silence();
            Ok(now())
        }
    };
    let gone = gone.map_err(Failure::system("the server can't be hurt"))?;
    let ttl = Duration::from_secs(row.ttl);
    let reaped = match row.fault {
        Fault::CutOff => None,
        Fault::Killed | Fault::Frozen => Some(until_reaped(&node, &witness, ttl)? - gone),
    };
    let believed = holder.ended(ttl + SLACK)? - gone;
    // At most twice the TTL until the session ends, and the lock delay.
    let admitted = waiter.granted(ttl * 2 + Duration::from_mins(1) + SLACK)? - gone;
    Ok(Measured {
        reaped,
        admitted,
        believed,
    })
}

/// Waits until the waiter is in the queue, so it knows the holder.
fn until_both_contend(row: &Row, witness: &Client) -> Result<(), Failure> {
    let deadline = Instant::now() + SLACK;
    loop {
        let seen = match row.what {
            // `contend` creates its sessions before that.
            What::Semaphore => witness.leftovers(PLACE).map(|left| left.keys.len()),
            What::Election => witness.sessions().map(|all| all.len()),
        };
        if seen.is_ok_and(|count| count >= 2) {
            // Its watch starts right after its key or its session.
            thread::sleep(Duration::from_millis(500));
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(Failure::Late("the waiter", "nothing".to_owned()));
        }
        thread::sleep(POLL);
    }
}

/// Waits until after the first renewal, which comes within a twelfth of the TTL. Then the last
/// renewal is recent, so the belief lasts nearly as long as possible.
fn until_renewed(row: &Row, granted: f64) {
    let apart = Duration::from_secs(row.ttl) / 12;
    let held = Duration::from_secs_f64((now() - granted).max(0.0));
    thread::sleep((apart + ANSWERED).saturating_sub(held));
}

/// Waits until the node is missing, and returns when.
fn until_reaped(node: &str, witness: &Client, ttl: Duration) -> Result<f64, Failure> {
    let deadline = Instant::now() + ttl + SLACK;
    while Instant::now() < deadline {
        let nodes = witness.get("/v1/catalog/nodes?stale");
        if let Ok(Ok(Value::Array(nodes))) = nodes.map(|answer| answer.json())
            && !nodes.is_empty()
            && nodes.iter().all(|it| it["Node"] != node)
        {
            return Ok(now());
        }
        thread::sleep(POLL);
    }
    Err(Failure::NotReaped)
}

/// The machine's clock, in seconds since 1970.
fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}
