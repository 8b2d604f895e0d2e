//! One row of the table.

use std::fmt;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use examples::backend::Backend;
use real_agent::{Agent, Client, Cluster, Proxy, SERVERS};
use serde_json::Value;

use crate::failure::Failure;
use crate::program::Program;

/// What is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Semaphore,
    Election,
}

/// What becomes of the holder's server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Killed,
    Frozen,
    /// The holder alone can't reach it: nothing is reaped, and the session ends by its TTL.
    CutOff,
}

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) what: What,
    pub(crate) ttl: u64,
    pub(crate) fault: Fault,
    /// Whether it is the cluster's leader that goes.
    pub(crate) leader: bool,
    pub(crate) backend: Backend,
}

/// In seconds from the moment that the server went.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// When its node was seen to be gone from the catalog.
    pub(crate) reaped: Option<f64>,
    pub(crate) admitted: f64,
    pub(crate) believed: f64,
}

/// The semaphore's prefix, and the election's key.
pub(crate) const PLACE: &str = "early/ends";
/// What a loaded machine and an election may add to anything.
const SLACK: Duration = Duration::from_secs(45);
/// A renewal has come back by then.
const ANSWERED: Duration = Duration::from_millis(700);
const POLL: Duration = Duration::from_millis(50);

/// Every row, on each backend.
pub(crate) fn rows() -> Vec<Row> {
    use Fault::{CutOff, Frozen, Killed};
    use What::{Election, Semaphore};
    let scenes = [
        // No lock delay is longer than a minute, so that no belief is.
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
    /// One that takes less than a minute.
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
    /// For how long two held at once.
    pub(crate) fn both(&self) -> f64 {
        (self.believed - self.admitted).max(0.0)
    }
}

/// Measures one row on a separate cluster.
///
/// # Errors
/// [`Failure`] when it can't be measured. That two held is none.
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
    // Twice the TTL until the session ends, and the lock delay at most.
    let admitted = waiter.granted(ttl * 2 + Duration::from_mins(1) + SLACK)? - gone;
    Ok(Measured {
        reaped,
        admitted,
        believed,
    })
}

/// The waiter has entered the queue, so that it knew the holder.
fn until_both_contend(row: &Row, witness: &Client) -> Result<(), Failure> {
    let deadline = Instant::now() + SLACK;
    loop {
        let seen = match row.what {
            // `contend` makes separate sessions before.
            What::Semaphore => witness.leftovers(PLACE).map(|left| left.keys.len()),
            What::Election => witness.sessions().map(|all| all.len()),
        };
        if seen.is_ok_and(|count| count >= 2) {
            // Its watch follows its key or its session at once.
            thread::sleep(Duration::from_millis(500));
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(Failure::Late("the waiter", "nothing".to_owned()));
        }
        thread::sleep(POLL);
    }
}

/// After the first renewal, which comes within a twelfth of the TTL. From then on none is longer ago, so that the belief is nearly
/// as long as it can be.
fn until_renewed(row: &Row, granted: f64) {
    let apart = Duration::from_secs(row.ttl) / 12;
    let held = Duration::from_secs_f64((now() - granted).max(0.0));
    thread::sleep((apart + ANSWERED).saturating_sub(held));
}

/// When the node was seen to be gone.
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
