//! A TCP proxy that can become silent or slow.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::given_up::{GivenUp, UnderWay};

/// A proxy on a free port of 127.0.0.1, in front of an agent. By default it forwards all bytes.
/// Dropping it closes all its connections.
///
/// Silence is like a partition: connections stay open and new ones are accepted, but neither bytes
/// nor the end of a connection come through. [`Proxy::resume`] forwards everything that was held
/// back, as when a network heals.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

/// What a [`Proxy`] has forwarded since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// All connections that were accepted.
    pub connections: u64,
    /// Connections that are open now.
    pub open: u64,
    /// The most that were open at one time.
    pub peak: u64,
    /// Bytes forwarded to the agent.
    pub bytes_up: u64,
    /// Bytes forwarded to clients.
    pub bytes_down: u64,
}

impl Proxy {
    /// Starts a proxy in front of `target`.
    ///
    /// # Errors
    /// If no port is free.
    pub fn start(target: SocketAddr) -> io::Result<Self> {
        Self::start_at((Ipv4Addr::LOCALHOST, 0).into(), target)
    }

    /// Starts a proxy on another address of this machine.
    ///
    /// # Errors
    /// If that address is not free.
    pub fn start_at(address: SocketAddr, target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared::new(target));
        let accepting = thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        });
        Ok(Self {
            addr,
            shared,
            accepting: Some(accepting),
        })
    }

    /// The address that clients connect to.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The URL of [`Proxy::addr`].
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Stops forwarding in both directions.
    pub fn silence(&self) {
        self.shared.set(|state| {
            state.up.silent = true;
            state.down.silent = true;
        });
    }

    /// Stops forwarding answers: the agent still sees and applies what clients send.
    pub fn silence_answers(&self) {
        self.shared.set(|state| state.down.silent = true);
    }

    /// Stops forwarding on the connections that are open now, in both directions, and serves new
    /// ones. That is what happens when a device on the way has forgotten a connection. One that was
    /// opened a moment ago may count as new.
    pub fn stall(&self) {
        self.shared.set(|state| {
            for connection in state.open.values_mut() {
                connection.is_stalled = true;
            }
        });
    }

    /// Forwards again, starting with what was held back.
    pub fn resume(&self) {
        self.shared.set(|state| {
            state.up.silent = false;
            state.down.silent = false;
            for connection in state.open.values_mut() {
                connection.is_stalled = false;
            }
        });
    }

    /// Holds everything back for this long from now on, in each direction, so an answer comes twice
    /// as much later. More than 16 KiB at once come in pieces, one after the other.
    pub fn set_delay(&self, delay: Duration) {
        self.shared.set(|state| state.delay = delay);
    }

    /// Closes the open connections on both sides, and accepts new ones. A connection that was
    /// opened a moment ago may not be accepted yet, and then counts as new.
    pub fn cut(&self) {
        self.shared.set(|state| {
            for connection in core::mem::take(&mut state.open).into_values() {
                connection.close();
            }
        });
    }

    /// Sends new connections to another agent.
    pub fn set_target(&self, target: SocketAddr) {
        self.shared.set(|state| state.target = target);
    }

    /// What was forwarded so far.
    pub fn traffic(&self) -> Traffic {
        let state = self.shared.lock();
        Traffic {
            connections: state.accepted,
            open: state.open.len() as u64,
            peak: state.peak,
            bytes_up: state.up.bytes,
            bytes_down: state.down.bytes,
        }
    }

    /// What became of writes whose client hung up before the answer, so far.
    pub fn given_up(&self) -> GivenUp {
        self.shared.lock().given_up.clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.set(|state| state.closed = true);
        self.cut();
        // The accepting thread notices the end only when a connection comes.
        let _ = TcpStream::connect(self.addr);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    target: SocketAddr,
    delay: Duration,
    up: Flow,
    down: Flow,
    closed: bool,
    /// The connections, numbered as they were accepted. One that is cut is removed, and its threads
    /// notice.
    open: BTreeMap<u64, Connection>,
    accepted: u64,
    peak: u64,
    given_up: GivenUp,
}

/// One direction of all connections.
#[derive(Debug, Default)]
struct Flow {
    silent: bool,
    bytes: u64,
}

#[derive(Clone, Copy)]
enum Direction {
    Up,
    Down,
}

#[derive(Debug)]
struct Connection {
    client: TcpStream,
    agent: Option<TcpStream>,
    under_way: UnderWay,
    is_stalled: bool,
}

impl Connection {
    /// Wakes the threads that read from the connection. This fails if the other side was faster.
    fn close(&self) {
        let _ = self.client.shutdown(Shutdown::Both);
        if let Some(agent) = &self.agent {
            let _ = agent.shutdown(Shutdown::Both);
        }
    }
}

impl State {
    fn flow(&mut self, direction: Direction) -> &mut Flow {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }

    /// Records these bytes of the connection. `None` means that this side has hung up.
    fn note(&mut self, id: u64, direction: Direction, bytes: Option<&[u8]>) {
        let Some(connection) = self.open.get_mut(&id) else {
            return;
        };
        let under_way = &mut connection.under_way;
        match (direction, bytes) {
            (Direction::Up, Some(bytes)) => under_way.sent(bytes),
            (Direction::Up, None) => under_way.hung_up(&mut self.given_up),
            (Direction::Down, Some(bytes)) => under_way.answered(bytes, &mut self.given_up),
            (Direction::Down, None) => {}
        }
    }
}

impl Shared {
    fn new(target: SocketAddr) -> Self {
        Self {
            state: Mutex::new(State {
                target,
                delay: Duration::ZERO,
                up: Flow::default(),
                down: Flow::default(),
                closed: false,
                open: BTreeMap::new(),
                accepted: 0,
                peak: 0,
                given_up: GivenUp::default(),
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Waits while `direction` is silent or the connection is stalled. `None` if connection `id`
    /// was cut.
    fn pass(&self, id: u64, direction: Direction) -> Option<MutexGuard<'_, State>> {
        let state = self
            .changed
            .wait_while(self.lock(), |state| {
                let is_silent = state.flow(direction).silent;
                let connection = state.open.get(&id);
                connection.is_some_and(|it| is_silent || it.is_stalled)
            })
            .unwrap_or_else(PoisonError::into_inner);
        state.open.contains_key(&id).then_some(state)
    }

    fn close(&self, id: u64) {
        self.set(|state| {
            if let Some(connection) = state.open.remove(&id) {
                connection.close();
            }
        });
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        let mut state = shared.lock();
        if state.closed {
            return;
        }
        // There are no descriptors left, or the client is gone. Then there is nothing to forward.
        let Ok((client, kept)) = client.and_then(|client| Ok((client.try_clone()?, client))) else {
            continue;
        };
        let id = state.accepted;
        let connection = Connection {
            client: kept,
            agent: None,
            under_way: UnderWay::default(),
            is_stalled: false,
        };
        state.accepted += 1;
        state.open.insert(id, connection);
        state.peak = state.peak.max(state.open.len() as u64);
        drop(state);
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            // An error ends the connection, which its client sees.
            let _ = forward(&shared, id, client);
            shared.close(id);
        });
    }
}

/// Connecting counts as sending, so it waits during silence.
fn forward(shared: &Arc<Shared>, id: u64, client: TcpStream) -> io::Result<()> {
    let Some(target) = shared.pass(id, Direction::Up).map(|state| state.target) else {
        return Ok(());
    };
    let agent = TcpStream::connect(target)?;
    // Forwards small writes without delay.
    agent.set_nodelay(true)?;
    client.set_nodelay(true)?;
    let kept = agent.try_clone()?;
    match shared.lock().open.get_mut(&id) {
        Some(connection) => connection.agent = Some(kept),
        None => return Ok(()),
    }
    let (from_agent, to_client) = (agent.try_clone()?, client.try_clone()?);
    let down = thread::spawn({
        let shared = Arc::clone(shared);
        move || copy(&shared, id, Direction::Down, from_agent, to_client)
    });
    copy(shared, id, Direction::Up, client, agent);
    let _ = down.join();
    Ok(())
}

/// Forwards one direction of a connection up to and including its end.
fn copy(shared: &Shared, id: u64, direction: Direction, mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = from.read(&mut buffer);
        let Some(mut state) = shared.pass(id, direction) else {
            return;
        };
        match read {
            Ok(length) if length > 0 => {
                state.flow(direction).bytes += length as u64;
                state.note(id, direction, Some(&buffer[..length]));
                let delay = state.delay;
                drop(state);
                thread::sleep(delay);
                if to.write_all(&buffer[..length]).is_err() {
                    break;
                }
            }
            Ok(_) => {
                state.note(id, direction, None);
                drop(state);
                let _ = to.shutdown(Shutdown::Write);
                return;
            }
            Err(_) => break,
        }
    }
    shared.close(id);
}
