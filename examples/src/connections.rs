//! How many connections this process has open to an agent, as the kernel says.
//!
//! A proxy that counts them would put two more hops into every request, and an HTTP client doesn't
//! tell. The kernel's table of sockets (`/proc/self/net/tcp`) costs the measured requests nothing.
//! It is read every [`PERIOD`]: the connections of a client are kept open and reused, so that a peak
//! lasts for longer than that.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use semaphore_core::AgentUrl;

/// How often the table is read.
pub const PERIOD: Duration = Duration::from_millis(5);

/// Watches the connections from a thread of its own.
#[derive(Debug)]
pub struct Watcher {
    stop: Sender<()>,
    watching: JoinHandle<Option<usize>>,
}

impl Watcher {
    /// Begins to watch the connections to the agent at `url`.
    pub fn start(url: &AgentUrl) -> Self {
        let agent = (url.host(), url.port()).to_socket_addrs();
        let mut table = Table {
            agent: agent.map(Iterator::collect).unwrap_or_default(),
            own: BTreeMap::new(),
        };
        let (stop, stopped) = mpsc::channel();
        let watching = thread::spawn(move || {
            let mut peak = table.open();
            while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                peak = peak.max(table.open());
            }
            peak
        });
        Self { stop, watching }
    }

    /// The most that were seen open at one time; none on a system without such a table.
    pub fn peak(self) -> Option<usize> {
        drop(self.stop);
        self.watching.join().unwrap_or_default()
    }
}

struct Table {
    agent: Vec<SocketAddr>,
    /// The sockets that were seen in the table, by inode, and whether they are this process's.
    own: BTreeMap<u64, bool>,
}

impl Table {
    fn open(&mut self) -> Option<usize> {
        let files = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
        let tables: Vec<_> = files
            .iter()
            .filter_map(|file| fs::read_to_string(file).ok())
            .collect();
        if tables.is_empty() {
            return None;
        }
        let inodes: Vec<_> = tables
            .iter()
            .flat_map(|table| table.lines().filter_map(established))
            .filter(|(remote, _)| self.agent.contains(remote))
            .map(|(_, inode)| inode)
            .collect();
        // The table has the sockets of all processes; whose they are is asked once for each.
        if inodes.iter().any(|inode| !self.own.contains_key(inode)) {
            let own = own_sockets();
            for inode in &inodes {
                self.own.insert(*inode, own.contains(inode));
            }
        }
        Some(inodes.iter().filter(|inode| self.own[inode]).count())
    }
}

/// The remote address and the inode of an established connection, from a line of the table.
fn established(line: &str) -> Option<(SocketAddr, u64)> {
    let mut fields = line.split_ascii_whitespace();
    let remote = fields.nth(2)?;
    let state = fields.next()?;
    let inode = fields.nth(5)?;
    (state == "01").then_some(())?;
    Some((address(remote)?, inode.parse().ok()?))
}

/// An address as the kernel prints it: words in the byte order of the machine.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let words: Option<Vec<[u8; 4]>> = (0..ip.len())
        .step_by(8)
        .map(|at| {
            Some(
                u32::from_str_radix(ip.get(at..at + 8)?, 16)
                    .ok()?
                    .to_ne_bytes(),
            )
        })
        .collect();
    let bytes = words?.concat();
    let ip = match bytes.len() {
        4 => IpAddr::from(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        _ => IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
    };
    Some(SocketAddr::new(ip.to_canonical(), port))
}

fn own_sockets() -> Vec<u64> {
    let Ok(descriptors) = fs::read_dir("/proc/self/fd") else {
        return Vec::new();
    };
    descriptors
        .filter_map(|descriptor| {
            let target = fs::read_link(descriptor.ok()?.path()).ok()?;
            let inode = target
                .to_str()?
                .strip_prefix("socket:[")?
                .strip_suffix(']')?;
            inode.parse().ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn an_established_connection_is_read_from_the_table() {
        let line = "   4: 0100007F:A0C2 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  \
                    1000        0 987654 1 0000000000000000 20 4 30 10 -1";
        let ip = Ipv4Addr::from(0x0100_007F_u32.to_ne_bytes());
        assert_eq!(
            established(line),
            Some((SocketAddr::from((ip, 8080)), 987_654))
        );
    }

    #[test]
    fn a_listening_socket_and_the_heading_are_passed_over() {
        let listening = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 \
                         1000        0 12345 1 0000000000000000 100 0 0 10 0";
        let heading = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   \
                       uid  timeout inode";
        assert_eq!(established(listening), None);
        assert_eq!(established(heading), None);
    }

    #[test]
    fn an_address_of_version_six_is_read() {
        let loopback: String = Ipv6Addr::LOCALHOST
            .octets()
            .chunks(4)
            .map(|word| {
                let word: [u8; 4] = word.try_into().expect("four bytes");
                format!("{:08X}", u32::from_ne_bytes(word))
            })
            .collect();
        assert_eq!(
            address(&format!("{loopback}:1F90")),
            Some(SocketAddr::from((Ipv6Addr::LOCALHOST, 8080)))
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn connections_are_seen_while_they_are_open() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let agent = listener.local_addr().expect("an address");
        let mut table = Table {
            agent: vec![agent],
            own: BTreeMap::new(),
        };
        assert_eq!(table.open(), Some(0));
        let first = TcpStream::connect(agent).expect("a connection");
        let second = TcpStream::connect(agent).expect("a connection");
        assert_eq!(table.open(), Some(2));
        drop(first);
        assert_eq!(table.open(), Some(1));
        drop(second);
        assert_eq!(table.open(), Some(0));
    }
}
