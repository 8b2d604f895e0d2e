//! The most connections to its agent and the most threads that this process has at once.
//!
//! A proxy that counts connections would add two hops to every request, and no HTTP client reports
//! them. The Consul in memory counts its connections. For a real agent, every TCP socket of the
//! process is a connection. The system lists them (`/proc/self/fd`), at no cost to the measured
//! requests. If there are more than ever, the system says which of them are connected
//! (`/proc/self/net/tcp`); only those count. It counts the threads, too (`/proc/self/status`),
//! including those of the Consul in memory. All are counted every [`PERIOD`]. Clients keep
//! connections open and reuse them, so a peak lasts longer than that. The system takes
//! milliseconds to say who is connected. So it is asked every [`ASKED`]th time if more is open than
//! ever, and otherwise every [`ASKED_AGAIN`]th time: one may just have been about to connect.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::agent::Agent;
use crate::failure::Failure;

/// How often they are counted.
pub const PERIOD: Duration = Duration::from_millis(10);

/// After how many periods the system is asked who is connected, if more is open than ever.
pub const ASKED: u32 = 5;

/// The same if no more is open.
pub const ASKED_AGAIN: u32 = 50;

/// The most at one time. `None` if the system does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peaks {
    /// Open connections to the agent.
    pub connections: Option<usize>,
    /// Threads of the process.
    pub threads: Option<usize>,
}

/// Counts from a separate thread.
#[derive(Debug)]
pub struct Watcher {
    stop: Sender<()>,
    watching: JoinHandle<Peaks>,
}

impl Watcher {
    /// Begins to count. Sockets that are already open don't count.
    ///
    /// # Errors
    /// [`Failure::Thread`].
    pub fn start(agent: &Agent) -> Result<Self, Failure> {
        let consul = agent.in_memory().cloned();
        let others = sockets();
        let mut peaks = Peaks {
            connections: others.as_ref().map(|_| 0),
            threads: None,
        };
        let mut sockets = Sockets::without(others);
        let mut connections = move |peak| match &consul {
            Some(consul) => Some(consul.open_connections()),
            None => sockets.connected_above(peak),
        };
        // Opened now, so that it can be read when no descriptor is left.
        let mut status = File::open("/proc/self/status").ok();
        let mut count = move |peaks: Peaks| Peaks {
            connections: connections(peaks.connections.unwrap_or_default()),
            threads: status.as_mut().and_then(threads),
        };
        let (stop, stopped) = mpsc::channel();
        let watching = thread::Builder::new()
            .name("peaks".to_owned())
            .spawn(move || {
                peaks.raise(count(peaks));
                while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                    peaks.raise(count(peaks));
                }
                peaks
            })
            .map_err(Failure::Thread)?;
        Ok(Self { stop, watching })
    }

    /// The most at one time.
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

/// The process's sockets.
struct Sockets {
    /// They don't count. `None` if the system does not list any.
    others: Option<BTreeSet<String>>,
    /// The most descriptors at one time.
    most: usize,
    /// How many periods ago the system was asked who is connected.
    asked: u32,
}

impl Sockets {
    fn without(others: Option<BTreeSet<String>>) -> Self {
        Self {
            others,
            most: 0,
            asked: ASKED,
        }
    }

    /// How many of them are connected by TCP. `None` if they can't be more than `peak`, or the
    /// system is not asked.
    fn connected_above(&mut self, peak: usize) -> Option<usize> {
        self.asked += 1;
        let open = fs::read_dir(DESCRIPTORS).ok()?.count();
        let period = if open > self.most { ASKED } else { ASKED_AGAIN };
        if self.asked < period {
            return None;
        }
        self.asked = 0;
        self.most = self.most.max(open);
        let open = &sockets()? - self.others.as_ref()?;
        if open.len() <= peak {
            return None;
        }
        // The tables don't show one moment: one that closes may appear together with one that opens
        // later.
        Some(connected(&open).min(connected(&open)))
    }
}

/// Lists the process's descriptors.
const DESCRIPTORS: &str = "/proc/self/fd";

fn connected(open: &BTreeSet<String>) -> usize {
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
    let tables = tables.map(|table| fs::read_to_string(table).unwrap_or_default());
    let rows = tables.iter().flat_map(|table| table.lines());
    let is_connected = |row: &&str| {
        let column = |number| row.split_whitespace().nth(number);
        // Established, or soon to be.
        matches!(column(3), Some("01" | "02"))
            && column(9).is_some_and(|inode| open.contains(inode))
    };
    rows.filter(is_connected).count()
}

/// The inodes of this process's sockets.
fn sockets() -> Option<BTreeSet<String>> {
    let descriptors = fs::read_dir(DESCRIPTORS).ok()?;
    let inode = |descriptor: fs::DirEntry| {
        let target = fs::read_link(descriptor.path()).ok()?;
        let inode = target.to_str()?.strip_prefix("socket:[")?;
        Some(inode.strip_suffix(']')?.to_owned())
    };
    Some(descriptors.flatten().filter_map(inode).collect())
}

/// The number of threads in this status.
fn threads(status: &mut File) -> Option<usize> {
    let mut text = String::new();
    status.rewind().ok()?;
    status.read_to_string(&mut text).ok()?;
    let count = text.lines().find_map(|line| line.strip_prefix("Threads:"));
    count?.trim().parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::sync::{Arc, Barrier};

    use super::*;

    #[test]
    fn a_socket_counts_while_it_is_connected_by_tcp() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let before = sockets().expect("a list");
        let own: Vec<_> = (0..20)
            .map(|_| TcpStream::connect(address).expect("a connection"))
            .collect();
        let _pair = UnixStream::pair().expect("two sockets");
        // Other tests have a few connections besides these.
        let mut counted = Sockets::without(Some(before));
        let connected = counted.connected_above(0).expect("a count");
        assert!((20..40).contains(&connected), "{connected}");
        assert_eq!(counted.connected_above(100), None);
        drop(own);
    }

    #[test]
    fn the_system_is_asked_every_fifth_time_while_more_is_open_than_ever_and_else_every_fiftieth() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let own = TcpStream::connect(address).expect("a connection");
        let mut counted = Sockets::without(Some(BTreeSet::new()));
        assert!(counted.connected_above(0).is_some(), "for the first time");
        let mut asked = |most| {
            counted.asked = 0;
            let all = (0..100).map(|_| {
                // Whatever other tests open and close.
                counted.most = most;
                counted.connected_above(0).is_some()
            });
            all.filter(|is_asked| *is_asked).count()
        };
        assert_eq!(asked(0), 20);
        assert_eq!(asked(usize::MAX), 2);
        drop(own);
    }

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
        // Other tests start and end threads besides this one, but fewer than these.
        assert!(then > before + 100, "{before}, then {then}");
    }
}
