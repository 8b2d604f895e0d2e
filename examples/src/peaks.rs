//! How many connections to its agent and how many threads this process has at most.
//!
//! A proxy that counts connections would put two more hops into every request, and no HTTP client
//! tells. The Consul in memory tells itself. To a real agent, every socket that the process opens is a
//! connection, and the system lists those (`/proc/self/fd`), at no cost to the measured requests. It
//! counts the threads, too (`/proc/self/status`), the Consul in memory's included.
//! They are counted every [`PERIOD`]: clients keep connections open and reuse them, so that a peak
//! lasts for longer than that.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::agent::Agent;
use crate::failure::Failure;

/// How often they are counted.
pub const PERIOD: Duration = Duration::from_millis(10);

/// The most that there were at one time; none on a system that does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peaks {
    /// Open connections to the agent.
    pub connections: Option<usize>,
    /// Threads of the process.
    pub threads: Option<usize>,
}

/// Counts from a thread of its own.
#[derive(Debug)]
pub struct Watcher {
    stop: Sender<()>,
    watching: JoinHandle<Peaks>,
}

impl Watcher {
    /// Begins to count. Sockets that are open already are none of the connections.
    ///
    /// # Errors
    /// [`Failure::Thread`].
    pub fn start(agent: &Agent) -> Result<Self, Failure> {
        let consul = agent.in_memory().cloned();
        let others = sockets();
        let connections = move || match &consul {
            Some(consul) => Some(consul.open_connections()),
            None => sockets()
                .zip(others)
                .map(|(open, others)| open.saturating_sub(others)),
        };
        // Kept open, so that it can be read where no descriptor is left.
        let mut status = File::open("/proc/self/status").ok();
        let mut count = move || Peaks {
            connections: connections(),
            threads: status.as_mut().and_then(threads),
        };
        let (stop, stopped) = mpsc::channel();
        let watching = thread::Builder::new()
            .name("peaks".to_owned())
            .spawn(move || {
                let mut peaks = count();
                while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                    peaks.raise(count());
                }
                peaks
            })
            .map_err(Failure::Thread)?;
        Ok(Self { stop, watching })
    }

    /// The most that there were at one time.
    pub fn peaks(self) -> Peaks {
        drop(self.stop);
        self.watching.join().unwrap_or_default()
    }
}

impl Peaks {
    fn raise(&mut self, other: Self) {
        self.connections = self.connections.max(other.connections);
        self.threads = self.threads.max(other.threads);
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

/// How many threads the process has whose status this is.
fn threads(status: &mut File) -> Option<usize> {
    let mut text = String::new();
    status.rewind().ok()?;
    status.read_to_string(&mut text).ok()?;
    let count = text.lines().find_map(|line| line.strip_prefix("Threads:"));
    count?.trim().parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::{Arc, Barrier};

    use super::*;

    #[test]
    fn threads_are_counted_each_time_anew() {
        let mut status = File::open("/proc/self/status").expect("a status");
        let before = threads(&mut status).expect("a count");
        let stay = Arc::new(Barrier::new(201));
        let more: Vec<_> = (0..200)
            .map(|_| {
                let stay = Arc::clone(&stay);
                thread::spawn(move || stay.wait())
            })
            .collect();
        let then = threads(&mut status).expect("a count");
        stay.wait();
        for thread in more {
            thread.join().expect("no panic");
        }
        // Other tests start and end threads beside this one: fewer than these.
        assert!(then > before + 100, "{before}, then {then}");
    }
}
