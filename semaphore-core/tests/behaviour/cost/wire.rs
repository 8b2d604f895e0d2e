//! Connections whose answers a test decides, on virtual time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use semaphore_core::adapter::{
    Connections, Instant, Lane, Lanes, Method, Request, Response, Runtime, TransportError,
    TransportErrorKind,
};
use transport_mock::{MockClient, MockConsul};

use crate::support::*;

/// How long an answer takes by default.
pub(crate) const ROUND: Duration = Duration::from_millis(10);

type Answer = Result<Response, TransportErrorKind>;

/// One transport, and the agent at its other end. A blocking query is answered when its wait is over, everything else
/// after [`ROUND`].
pub(crate) struct Wire {
    agent: Agent,
    connections: Connections,
}

struct Agent {
    client: MockClient,
    index: AtomicU64,
    says: Mutex<Vec<(String, Duration, Answer)>>,
    sent: Mutex<Vec<Sent>>,
    closed: Mutex<Vec<Lane>>,
}

/// A request that was sent.
#[derive(Clone)]
pub(crate) struct Sent {
    pub(crate) at: Instant,
    pub(crate) lane: Lane,
    pub(crate) request: Request,
}

impl Wire {
    pub(crate) fn new(world: &MockConsul, most: usize) -> Self {
        let agent = Agent {
            client: world.client("host"),
            index: AtomicU64::new(7),
            says: Mutex::default(),
            sent: Mutex::default(),
            closed: Mutex::default(),
        };
        let connections = Connections::new(most, 1).expect("some");
        Self { agent, connections }
    }

    pub(crate) async fn send(&self, request: Request) -> Result<Response, TransportError> {
        self.connections.send(&self.agent, request).await
    }

    /// Decides the answer to the next request for this path.
    pub(crate) fn says(&self, path: &str, after: Duration, answer: Answer) {
        let mut says = self.agent.says.lock().expect("no panic");
        says.push((path.to_owned(), after, answer));
    }

    /// The index of all answers from now on.
    pub(crate) fn set_index(&self, index: u64) {
        self.agent.index.store(index, Ordering::Relaxed);
    }

    /// The requests for this path that were sent.
    pub(crate) fn sent(&self, path: &str) -> Vec<Sent> {
        let sent = self.agent.sent.lock().expect("no panic");
        let mut sent = sent.clone();
        sent.retain(|it| is_for(&it.request, path));
        sent
    }

    /// The lanes of the requests for this path.
    pub(crate) fn lanes(&self, path: &str) -> Vec<Lane> {
        self.sent(path).iter().map(|it| it.lane).collect()
    }

    /// The connections that were closed without a request.
    pub(crate) fn closed(&self) -> Vec<Lane> {
        self.agent.closed.lock().expect("no panic").clone()
    }
}

#[async_trait]
impl Lanes for Agent {
    async fn send_on(&self, lane: Lane, request: Request) -> Result<Response, TransportError> {
        let sent = Sent {
            at: self.now(),
            lane,
            request: request.clone(),
        };
        self.sent.lock().expect("no panic").push(sent);
        let said = {
            let mut says = self.says.lock().expect("no panic");
            let said = says.iter().position(|(path, ..)| is_for(&request, path));
            said.map(|said| says.remove(said))
        };
        let (after, answer) = match said {
            Some((_, after, answer)) => (after, Some(answer)),
            None if request.is_long_poll() => (request.wait().unwrap_or(ROUND), None),
            None => (ROUND, None),
        };
        self.sleep(after).await;
        let index = self.index.load(Ordering::Relaxed).to_string();
        let usual = || Ok(Response::new(200, "").with_header("X-Consul-Index", index));
        answer.unwrap_or_else(usual).map_err(TransportError::new)
    }

    fn close(&self, lane: Lane) {
        self.closed.lock().expect("no panic").push(lane);
    }

    fn now(&self) -> Instant {
        self.client.now()
    }

    async fn sleep(&self, duration: Duration) {
        self.client.sleep(duration).await;
    }
}

fn is_for(request: &Request, path: &str) -> bool {
    request.target().split('?').next() == Some(path)
}

pub(crate) fn write(path: &str) -> Request {
    Request::new(Method::Put, path)
}

pub(crate) fn read(path: &str) -> Request {
    Request::new(Method::Get, path)
}

/// A poll that waits this long for an index other than 7.
pub(crate) fn poll(path: &str, wait: u64) -> Request {
    let target = format!("{path}?index=7&wait={wait}s");
    let request = Request::new(Method::Get, target).with_timeout(secs(2 * wait));
    request.as_long_poll()
}
