use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use semaphore_core::adapter::AgentUrl;
use semaphore_core::sans_io::{Request, Response, TransportError, TransportErrorKind};
use shuttle::thread;

/// The number of clients: one per worker that has not ended.
#[derive(Clone, Default)]
pub(crate) struct Running(Arc<AtomicUsize>);

impl Running {
    /// Waits until no worker is left. If one never ends, that is a deadlock.
    pub(crate) fn assert_none_left(&self) {
        while self.0.load(Ordering::SeqCst) > 0 {
            thread::yield_now();
        }
    }
}

pub(crate) struct Agents(Running);

impl Agents {
    pub(crate) fn counted(running: &Running) -> Self {
        Self(running.clone())
    }
}

/// Knows whether it was shut down.
#[derive(Clone, Default)]
pub(crate) struct Agent(Arc<AtomicBool>);

impl Agent {
    pub(crate) fn shutdown(&self) {
        thread::yield_now();
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Answers each request with its target, after some steps.
pub(crate) struct Client {
    agent: Agent,
    running: Running,
}

impl Client {
    pub(crate) fn new(_: Arc<AgentUrl>, _: usize, Agents(running): &Agents) -> Self {
        running.0.fetch_add(1, Ordering::SeqCst);
        Self {
            agent: Agent::default(),
            running: running.clone(),
        }
    }

    pub(crate) fn agent(&self) -> &Agent {
        &self.agent
    }

    pub(crate) fn exchange(&self, request: &Request) -> Result<Response, TransportError> {
        for _ in 0..3 {
            thread::yield_now();
            if self.agent.0.load(Ordering::SeqCst) {
                return Err(TransportError::new(TransportErrorKind::Unknown));
            }
        }
        Ok(Response::new(200, request.target()))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.running.0.fetch_sub(1, Ordering::SeqCst);
    }
}
