//! The Consul in memory behind a loopback port, for any HTTP client.
//!
//! ```text
//!  accepting thread ──▶ connection: a thread that serves and one that reads ahead
//!                                     │ submit, abandon        ▲ answers
//!                                     ▼                        │
//!  timing thread  ─────────────────▶ hub: Consul behind a lock, on the real clock
//! ```

mod connection;
pub(crate) mod http;
mod hub;

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use semaphore_core::adapter::Instant;

use self::hub::Hub;
use crate::consul::Consul;

/// A Consul in memory that listens on `127.0.0.1`, on the real clock: for an adapter's tests, the
/// `consul` command, `curl`, or a client in another language.
///
/// It stops when it is dropped: every connection is closed and every thread has ended then.
///
/// ```
/// use std::io::{Read, Write};
/// use transport_mock::LoopbackConsul;
///
/// let consul = LoopbackConsul::start()?;
/// let mut stream = std::net::TcpStream::connect(consul.addr())?;
/// stream.write_all(b"GET /v1/status/leader HTTP/1.1\r\nConnection: close\r\n\r\n")?;
/// let mut answer = String::new();
/// stream.read_to_string(&mut answer)?;
/// assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct LoopbackConsul {
    hub: Arc<Hub>,
    addr: SocketAddr,
    accepting: Option<JoinHandle<()>>,
    timing: Option<JoinHandle<()>>,
}

impl LoopbackConsul {
    /// Serves an empty Consul on a port that the system chooses.
    ///
    /// # Errors
    /// When the system has no port or no thread to give.
    pub fn start() -> io::Result<Self> {
        Self::serve(Consul::new(0), 0)
    }

    /// Serves `consul`, as it was prepared, on `port`; 0 lets the system choose.
    ///
    /// # Errors
    /// When the port is taken, and when the system has no port or no thread to give.
    pub fn serve(consul: Consul, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let addr = listener.local_addr()?;
        let hub = Arc::new(Hub::new(consul));
        let mut server = Self {
            hub: Arc::clone(&hub),
            addr,
            accepting: None,
            timing: None,
        };
        server.timing = Some(
            thread::Builder::new()
                .name("consul-time".to_owned())
                .spawn({
                    let hub = Arc::clone(&hub);
                    move || hub.keep_time()
                })?,
        );
        server.accepting = Some(
            thread::Builder::new()
                .name("consul-accept".to_owned())
                .spawn(move || accept_all(&listener, &hub))?,
        );
        Ok(server)
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Where it listens, as a client wants it: `http://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Acts on Consul itself, as an operator would, or looks into it. Whom it concerns learns of
    /// it in the usual way.
    pub fn consul<T>(&self, act: impl FnOnce(&mut Consul, Instant) -> T) -> T {
        self.hub.consul(act)
    }

    /// How many connections may be open at once; one more is closed. 200, as on an agent, unless
    /// this says otherwise.
    pub fn set_max_connections(&self, most: Option<usize>) {
        self.hub.set_max_connections(most);
    }

    /// How many connections are open now.
    pub fn open_connections(&self) -> usize {
        self.hub.open_connections()
    }
}

impl Drop for LoopbackConsul {
    fn drop(&mut self) {
        self.hub.close();
        // The accepting thread looks whether it is to stop after each connection.
        let looked = TcpStream::connect(self.addr).is_ok();
        if let Some(thread) = self.accepting.take().filter(|_| looked) {
            let _ = thread.join();
        }
        if let Some(thread) = self.timing.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for LoopbackConsul {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopbackConsul")
            .field("addr", &self.addr)
            .finish_non_exhaustive()
    }
}

fn accept_all(listener: &TcpListener, hub: &Arc<Hub>) {
    while !hub.is_stopping() {
        match listener.accept() {
            // Without a thread for it, the connection is closed, and the client tries again.
            Ok((stream, _)) => drop(hub.serve(stream)),
            // Out of file descriptors, most likely: some may be free in a moment.
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
}
