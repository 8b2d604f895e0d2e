//! A world that is served by a separate thread, on the real clock.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use semaphore_core::adapter::Instant;
use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;

use crate::consul::{Consul, Profile};
use crate::mock::MockConsul;

/// The host of clients that connect to the first address.
const FIRST_HOST: &str = "1";

/// A Consul in memory that listens on a port of this machine, on the real clock. It is for an
/// adapter's tests, the `consul` command, `curl`, or a client in another language.
///
/// Its [world](Self::world) has all the faults and queries of a [`MockConsul`]. Clients that
/// connect are on the host `1`; [`Self::listen`] adds other hosts. `/mock` also takes
/// [orders](MockConsul::order).
///
/// Dropping it closes every connection and ends its thread.
///
/// ```
/// use std::io::{Read, Write};
/// use transport_mock::{Fault, LoopbackConsul, Rule};
///
/// let consul = LoopbackConsul::start()?;
/// consul.world().inject(Rule::new(Fault::too_many_requests()));
/// let mut answers = String::new();
/// for _ in 0..2 {
///     let mut stream = std::net::TcpStream::connect(consul.addr())?;
///     stream.write_all(b"GET /v1/status/leader HTTP/1.1\r\nConnection: close\r\n\r\n")?;
///     stream.read_to_string(&mut answers)?;
/// }
/// assert!(answers.starts_with("HTTP/1.1 429 Too Many Requests\r\n"));
/// assert!(answers.contains("HTTP/1.1 200 OK\r\n"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct LoopbackConsul {
    world: MockConsul,
    addr: SocketAddr,
    runtime: Handle,
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl LoopbackConsul {
    /// Serves an empty Consul on a port of `127.0.0.1` that the system chooses.
    ///
    /// # Errors
    /// If the system has no port or no thread to give.
    pub fn start() -> io::Result<Self> {
        Self::bind((Ipv4Addr::LOCALHOST, 0))
    }

    /// Like [`start`](Self::start), at this address: `127.0.0.1:8500`, `[::1]:0`. The system
    /// chooses the port if it is 0.
    ///
    /// # Errors
    /// If the address does not belong to this machine, the port is taken, or the system has no
    /// thread to give.
    pub fn bind(addr: impl ToSocketAddrs) -> io::Result<Self> {
        Self::bind_with(addr, 0, Profile::default())
    }

    /// Like [`bind`](Self::bind), with this seed, and another release or edition of Consul.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub fn bind_with(
        addr: impl ToSocketAddrs,
        seed: u64,
        profile: impl Into<Profile>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(addr)?;
        let addr = listener.local_addr()?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let world = {
            let _inside = runtime.enter();
            MockConsul::on_tokio_with_profile(seed, profile)
        };
        world.set_patience(Duration::MAX);
        world.set_latency(Duration::ZERO..=Duration::ZERO);
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("consul-in-memory".to_owned())
            .spawn(move || runtime.block_on(stopped.notified()))?;
        let consul = Self {
            world,
            addr,
            runtime: handle,
            stop,
            thread: Some(thread),
        };
        consul.serve(listener, FIRST_HOST)?;
        Ok(consul)
    }

    /// Listens at another address. Clients that connect there are on this host, which has separate
    /// faults.
    ///
    /// # Errors
    /// If the address does not belong to this machine, or the port is taken.
    pub fn listen(
        &self,
        host: impl AsRef<str>,
        addr: impl ToSocketAddrs,
    ) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind(addr)?;
        let addr = listener.local_addr()?;
        self.serve(listener, host.as_ref())?;
        Ok(addr)
    }

    /// The address at which it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Its URL: `http://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The world that is served.
    pub fn world(&self) -> &MockConsul {
        &self.world
    }

    /// Acts on Consul as an operator would, or inspects it. Clients notice changes in the usual
    /// way.
    pub fn consul<T>(&self, act: impl FnOnce(&mut Consul, Instant) -> T) -> T {
        self.world.consul(act)
    }

    /// How many connections are open now.
    pub fn open_connections(&self) -> usize {
        self.world.open_connections()
    }

    fn serve(&self, listener: TcpListener, host: &str) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let _inside = self.runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let (world, host) = (self.world.clone(), host.to_owned());
        self.runtime.spawn(async move {
            world.serve(&listener, host).await;
        });
        Ok(())
    }
}

impl Drop for LoopbackConsul {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            // Joining also ends the runtime and all connections. A panic there was already printed.
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
