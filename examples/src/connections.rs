//! How many connections this process has open to its agent.
//!
//! A proxy that counts them would put two more hops into every request, and no HTTP client tells.
//! The Consul in memory tells itself. To a real agent, every socket that the process opens is a
//! connection, and the system lists those (`/proc/self/fd`), at no cost to the measured requests.
//! They are counted every [`PERIOD`]: clients keep connections open and reuse them, so that a peak
//! lasts for longer than that.

use std::fs;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::agent::Agent;

/// How often they are counted.
pub const PERIOD: Duration = Duration::from_millis(10);

/// Counts connections from a thread of its own.
#[derive(Debug)]
pub struct Watcher {
    stop: Sender<()>,
    watching: JoinHandle<Option<usize>>,
}

impl Watcher {
    /// Begins to count. Sockets that are open already are none of the connections.
    pub fn start(agent: &Agent) -> Self {
        let consul = agent.in_memory().cloned();
        let others = sockets();
        let count = move || match &consul {
            Some(consul) => Some(consul.open_connections()),
            None => sockets()
                .zip(others)
                .map(|(open, others)| open.saturating_sub(others)),
        };
        let (stop, stopped) = mpsc::channel();
        let watching = thread::spawn(move || {
            let mut peak = count();
            while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                peak = peak.max(count());
            }
            peak
        });
        Self { stop, watching }
    }

    /// The most that were open at one time; none on a system that does not list sockets.
    pub fn peak(self) -> Option<usize> {
        drop(self.stop);
        self.watching.join().unwrap_or_default()
    }
}

/// How many sockets this process has.
fn sockets() -> Option<usize> {
    let descriptors = fs::read_dir("/proc/self/fd").ok()?;
    let is_socket = |descriptor: &fs::DirEntry| {
        fs::read_link(descriptor.path())
            .is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
    };
    Some(descriptors.flatten().filter(is_socket).count())
}
