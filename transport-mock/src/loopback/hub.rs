//! One Consul, shared by all connections, on the real clock.

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant as RealInstant;

use semaphore_core::adapter::{Instant, Request};

use super::connection::{self, Event};
use crate::consul::{Consul, Exchange};

/// Names one connection. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ConnectionId(u64);

pub(super) struct Hub {
    started: RealInstant,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    consul: Consul,
    /// Who waits for the answer to an exchange.
    waiting: BTreeMap<Exchange, Sender<Event>>,
    connections: BTreeMap<ConnectionId, (TcpStream, JoinHandle<()>)>,
    accepted: u64,
    max_connections: Option<usize>,
    stopping: bool,
}

impl Hub {
    pub(super) fn new(consul: Consul) -> Self {
        Self {
            started: RealInstant::now(),
            state: Mutex::new(State {
                consul,
                waiting: BTreeMap::new(),
                connections: BTreeMap::new(),
                accepted: 0,
                max_connections: Some(200),
                stopping: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// Ends timeouts when they are due, until the hub is closed.
    pub(super) fn keep_time(&self) {
        let mut state = self.lock();
        while !state.stopping {
            state.catch_up(self.now());
            let wait = state
                .consul
                .poll_timeout()
                .map(|due| due.saturating_since(self.now()));
            state = match wait {
                Some(wait) => {
                    self.changed
                        .wait_timeout(state, wait)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
                None => self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Hands a request to Consul. An answer that needs no waiting is in the inbox on return.
    pub(super) fn submit(&self, request: &Request, inbox: &Sender<Event>) -> Exchange {
        self.with(|state, now| {
            let exchange = state.consul.submit(now, request);
            state.waiting.insert(exchange, inbox.clone());
            exchange
        })
    }

    /// The client has gone.
    pub(super) fn abandon(&self, exchange: Exchange) {
        self.with(|state, _| {
            if state.waiting.remove(&exchange).is_some() {
                state.consul.abandon(exchange);
            }
        });
    }

    pub(super) fn consul<T>(&self, act: impl FnOnce(&mut Consul, Instant) -> T) -> T {
        self.with(|state, now| act(&mut state.consul, now))
    }

    pub(super) fn set_max_connections(&self, most: Option<usize>) {
        self.lock().max_connections = most;
    }

    pub(super) fn open_connections(&self) -> usize {
        self.lock().connections.len()
    }

    /// Serves a connection on a thread of its own. One too many is dropped, as the agent does it.
    pub(super) fn serve(self: &Arc<Self>, stream: TcpStream) -> io::Result<()> {
        let handle = stream.try_clone()?;
        let mut state = self.lock();
        let open = state.connections.len();
        if state.stopping || state.max_connections.is_some_and(|most| open >= most) {
            return Ok(());
        }
        state.accepted += 1;
        let id = ConnectionId(state.accepted);
        let hub = Arc::clone(self);
        // The thread can't remove its entry before it is there: that takes the lock.
        let thread = thread::Builder::new()
            .name(format!("consul-connection-{}", id.0))
            .spawn(move || {
                connection::serve(&hub, stream);
                hub.lock().connections.remove(&id);
            })?;
        state.connections.insert(id, (handle, thread));
        Ok(())
    }

    /// Closes every connection and waits for their threads.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.stopping = true;
        let connections = std::mem::take(&mut state.connections);
        drop(state);
        self.changed.notify_all();
        for (stream, _) in connections.values() {
            // It fails when the other side was faster.
            let _ = stream.shutdown(Shutdown::Both);
        }
        for (_, thread) in connections.into_values() {
            // A panic there has already been printed.
            let _ = thread.join();
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.lock().stopping
    }

    /// Acts at the present time, and sends on what Consul answers to it.
    fn with<T>(&self, act: impl FnOnce(&mut State, Instant) -> T) -> T {
        let mut state = self.lock();
        let now = self.now();
        state.catch_up(now);
        let result = act(&mut state, now);
        state.send_answers();
        drop(state);
        self.changed.notify_all();
        result
    }

    fn now(&self) -> Instant {
        Instant::from_origin(self.started.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn catch_up(&mut self, now: Instant) {
        if self.consul.poll_timeout().is_some_and(|due| due <= now) {
            self.consul.handle_timeout(now);
        }
        self.send_answers();
    }

    fn send_answers(&mut self) {
        while let Some((exchange, response)) = self.consul.poll_answer() {
            if let Some(inbox) = self.waiting.remove(&exchange) {
                // The connection may have ended meanwhile.
                let _ = inbox.send(Event::Answer(response));
            }
        }
    }
}
