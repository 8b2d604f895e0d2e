//! The most connections to its agent and the most threads that this process has at once.
//!
//! A proxy that counts connections would add two hops to every request, and no HTTP client reports
//! them. The Consul in memory counts its connections. For a real agent, every TCP socket of the
//! process is a connection. The system lists them (`/proc/self/fd`), at no cost to the measured
//! requests. If there are more than ever, the system says which of them are connected
//! (`/proc/self/net/tcp`); only those count. It counts the threads, too (`/proc/self/status`),
//! including those of the Consul in memory. All are counted every [`PERIOD`]. Clients keep
//! connections open and reuse them, so a peak lasts longer than that. The system takes
//! milliseconds to say who is connected, which the measured requests would miss. So it is asked for
//! at most one [`SHARE`]th of the time, and at the end.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::agent::Agent;
use crate::failure::Failure;

/// How often they are counted.
pub const PERIOD: Duration = Duration::from_millis(10);

/// How many times as long as its last answer took the system is not asked who is connected.
pub const SHARE: u32 = 100;

/// The same if no more is open than ever: one may just have been about to connect.
pub const SHARE_AGAIN: u32 = 500;

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
        let mut connections = move |peak, is_last| match &consul {
            Some(consul) => Some(consul.open_connections()),
            None if is_last || sockets.is_asked() => sockets.connected_above(peak),
            None => None,
        };
        // Opened now, so that it can be read when no descriptor is left.
        let mut status = File::open("/proc/self/status").ok();
        let mut count = move |peaks: Peaks, is_last| Peaks {
            connections: connections(peaks.connections.unwrap_or_default(), is_last),
            threads: status.as_mut().and_then(threads),
        };
        let (stop, stopped) = mpsc::channel();
        let watching = thread::Builder::new()
            .name("peaks".to_owned())
            .spawn(move || {
                peaks.raise(count(peaks, false));
                while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                    peaks.raise(count(peaks, false));
                }
                peaks.raise(count(peaks, true));
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
    /// When the system was last asked who is connected, and how long it took.
    asked: Option<(Instant, Duration)>,
}

impl Sockets {
    fn without(others: Option<BTreeSet<String>>) -> Self {
        Self {
            others,
            most: 0,
            asked: None,
        }
    }

    /// Whether the system is asked now who is connected.
    fn is_asked(&self) -> bool {
        let Some((at, took)) = self.asked else {
            return true;
        };
        let open = fs::read_dir(DESCRIPTORS).map_or(0, Iterator::count);
        at.elapsed() >= rest(took, open > self.most)
    }

    /// How many of them are connected by TCP. `None` if they can't be more than `peak`, or the
    /// system does not say.
    fn connected_above(&mut self, peak: usize) -> Option<usize> {
        let began = Instant::now();
        let descriptors = fs::read_dir(DESCRIPTORS).ok()?.count();
        self.most = self.most.max(descriptors);
        let open = &sockets()? - self.others.as_ref()?;
        // The tables don't show one moment: one that closes may appear together with one that opens
        // later.
        let connected = (open.len() > peak).then(|| connected(&open).min(connected(&open)));
        let now = Instant::now();
        self.asked = Some((now, now - began));
        connected
    }
}

/// How long the system is not asked again.
fn rest(took: Duration, is_more_open: bool) -> Duration {
    took * if is_more_open { SHARE } else { SHARE_AGAIN }
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
    fn the_system_is_not_asked_again_for_a_hundred_times_as_long_as_it_took() {
        let took = Duration::from_millis(5);
        assert_eq!(rest(took, true), Duration::from_millis(500));
        assert_eq!(rest(took, false), Duration::from_millis(2_500));
        let mut counted = Sockets::without(Some(BTreeSet::new()));
        assert!(counted.is_asked(), "for the first time");
        let _ = counted.connected_above(usize::MAX);
        let (at, _) = counted.asked.expect("asked");
        counted.asked = Some((at, Duration::from_secs(60)));
        assert!(!counted.is_asked(), "for an hour and more");
        counted.asked = Some((at, Duration::ZERO));
        assert!(counted.is_asked(), "at once");
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
