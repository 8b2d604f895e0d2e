//! The threads that requests run on.
//!
//! ```text
//!            start                  answered                   start
//!   (none) ────────► running(job) ───────────► resting(agent) ──────► running(job) …
//!                      │      ▲                  │        │
//!      future dropped: │      │ a new agent      │ REST   │ transport dropped
//!      agent shut down └──────┘                  ▼        ▼
//!                                               (ended)
//! ```
//! Each lane has its own worker. For a moment it has two, while a worker that was given up closes
//! its connection.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_channel::oneshot;
use semaphore_core::adapter::{
    AgentUrl, Lane, Request, Response, TransportError, TransportErrorKind,
};

use crate::client::{Agent, Agents, Client};
use crate::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use crate::sync::{Mutex, MutexGuard, receive, thread};

type Answer = Result<Response, TransportError>;

/// Owns the threads: dropping it ends them.
pub(crate) struct Workers {
    shared: Arc<Shared>,
}

struct Shared {
    url: Arc<AgentUrl>,
    max_body: usize,
    agents: Agents,
    rest: fn(Lane) -> Duration,
    resting: Mutex<Resting>,
}

/// The workers without a job. In each lane, the one that rested last is on top.
#[derive(Default)]
struct Resting {
    closed: bool,
    next_id: u64,
    stacks: BTreeMap<Lane, Vec<(u64, Sender<Job>)>>,
}

impl Workers {
    pub(crate) fn new(url: Arc<AgentUrl>, max_body: usize, agents: Agents) -> Self {
        Self::resting(Lane::idle_time, url, max_body, agents)
    }

    fn resting(
        rest: fn(Lane) -> Duration,
        url: Arc<AgentUrl>,
        max_body: usize,
        agents: Agents,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                url,
                max_body,
                agents,
                rest,
                resting: Mutex::default(),
            }),
        }
    }

    /// Hands the request to the lane's worker. The answer comes through the future.
    pub(crate) fn start(&self, lane: Lane, request: Request) -> Result<Pending, TransportError> {
        let (sender, answer) = oneshot::channel();
        let fate = Arc::new(Mutex::new(Fate::Waiting));
        let mut job = Job {
            request,
            answer: sender,
            fate: Arc::clone(&fate),
        };
        let pending = Pending { answer, fate };
        loop {
            let Some(worker) = lock(&self.shared.resting).pop(lane) else {
                break;
            };
            match worker.send(job) {
                Ok(()) => return Ok(pending),
                // This worker has panicked. The next one gets the job.
                Err(mpsc::SendError(unsent)) => job = unsent,
            }
        }
        self.hire(lane, Next::Run(job)).map_err(|error| {
            TransportError::with_source(TransportErrorKind::NoRoom, NoThread(error))
        })?;
        Ok(pending)
    }

    /// Starts the lane's worker, if none rests, so that there is one even when the system gives no
    /// more threads.
    pub(crate) fn prepare(&self, lane: Lane) -> io::Result<()> {
        if lock(&self.shared.resting).has(lane) {
            return Ok(());
        }
        // It rests before its thread has begun. So the first request finds it, even if the thread
        // starts slowly.
        let Some(place) = rest(&self.shared, lane) else {
            return Ok(());
        };
        let id = place.id;
        self.hire(lane, Next::Wait(place))
            .inspect_err(|_| lock(&self.shared.resting).remove(lane, id))
    }

    /// Ends the lane's workers that have no job.
    pub(crate) fn dismiss(&self, lane: Lane) {
        let workers = lock(&self.shared.resting).stacks.remove(&lane);
        drop(workers);
    }

    fn hire(&self, lane: Lane, first: Next) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        thread::Builder::new()
            .name("consul-http".to_owned())
            .spawn(move || work(&shared, lane, first))?;
        Ok(())
    }
}

/// The system gives no thread to send a request on.
#[derive(Debug, thiserror::Error)]
#[error("no thread for a connection")]
struct NoThread(#[source] io::Error);

impl Resting {
    fn pop(&mut self, lane: Lane) -> Option<Sender<Job>> {
        let (_, worker) = self.stacks.get_mut(&lane)?.pop()?;
        Some(worker)
    }

    fn has(&self, lane: Lane) -> bool {
        self.stacks.get(&lane).is_some_and(|it| !it.is_empty())
    }

    fn remove(&mut self, lane: Lane, id: u64) {
        if let Some(stack) = self.stacks.get_mut(&lane) {
            stack.retain(|(of, _)| *of != id);
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let mut resting = lock(&self.shared.resting);
        resting.closed = true;
        resting.stacks.clear();
    }
}

/// A request under way. Dropping this gives the request up.
pub(crate) struct Pending {
    answer: oneshot::Receiver<Answer>,
    fate: Arc<Mutex<Fate>>,
}

impl Future for Pending {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        Pin::new(&mut self.answer).poll(context).map(|answer| {
            // A worker that is gone without an answer has panicked, and nobody knows when.
            answer.unwrap_or_else(|gone| {
                Err(TransportError::with_source(
                    TransportErrorKind::Unknown,
                    gone,
                ))
            })
        })
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let fate = mem::replace(&mut *lock(&self.fate), Fate::GivenUp);
        if let Fate::Running(agent) = fate {
            agent.shutdown();
        }
    }
}

struct Job {
    request: Request,
    answer: oneshot::Sender<Answer>,
    fate: Arc<Mutex<Fate>>,
}

/// All changes happen under one lock. So giving up never shuts down an agent that has begun another
/// request.
enum Fate {
    Waiting,
    Running(Agent),
    Answered,
    GivenUp,
}

/// What a worker does next.
enum Next {
    Run(Job),
    Wait(Place),
}

/// What a worker's thread runs.
fn work(shared: &Arc<Shared>, lane: Lane, first: Next) {
    let mut client = shared.client();
    let mut next = Some(first);
    while let Some(now) = next {
        next = match now {
            Next::Wait(place) => wait(shared, lane, &place).map(Next::Run),
            Next::Run(job) => {
                let answer = run(&client, &job.fate, &job.request);
                if answer.is_none() {
                    client = shared.client();
                }
                // The worker rests before its caller gets the answer. So the caller's next request
                // finds it, with its open connection.
                let place = rest(shared, lane);
                if let Some(answer) = answer {
                    // The caller may be gone.
                    let _ = job.answer.send(answer);
                }
                place.map(Next::Wait)
            }
        };
    }
}

/// The answer, or `None` if the request was given up. Then the client's agent can't be used again.
fn run(client: &Client, fate: &Mutex<Fate>, request: &Request) -> Option<Answer> {
    {
        let mut fate = lock(fate);
        if matches!(*fate, Fate::GivenUp) {
            return None;
        }
        *fate = Fate::Running(client.agent().clone());
    }
    let answer = client.exchange(request);
    match mem::replace(&mut *lock(fate), Fate::Answered) {
        Fate::GivenUp => None,
        _ => Some(answer),
    }
}

/// A worker's place on the stack, and the channel for its next job.
struct Place {
    id: u64,
    jobs: Receiver<Job>,
}

fn rest(shared: &Shared, lane: Lane) -> Option<Place> {
    let mut resting = lock(&shared.resting);
    if resting.closed {
        return None;
    }
    let id = resting.next_id;
    resting.next_id += 1;
    let (sender, jobs) = mpsc::channel();
    resting.stacks.entry(lane).or_default().push((id, sender));
    Some(Place { id, jobs })
}

fn wait(shared: &Shared, lane: Lane, place: &Place) -> Option<Job> {
    match receive(&place.jobs, (shared.rest)(lane)) {
        Ok(job) => Some(job),
        Err(RecvTimeoutError::Disconnected) => None,
        Err(RecvTimeoutError::Timeout) => {
            lock(&shared.resting).remove(lane, place.id);
            // A job may have been sent while the time ran out.
            place.jobs.recv().ok()
        }
    }
}

impl Shared {
    fn client(&self) -> Client {
        Client::new(Arc::clone(&self.url), self.max_body, &self.agents)
    }
}

/// A panic breaks no invariant: each lock protects single assignments.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// The crate `races` also compiles this file, without what this test needs.
#[cfg(all(test, not(semaphore_races)))]
mod tests {
    use semaphore_core::adapter::Method;
    use transport_conformance::server::Server;

    use super::*;

    #[test]
    fn a_prepared_worker_is_found_before_its_thread_has_begun() {
        let url = Arc::new("http://127.0.0.1:8500".parse().unwrap());
        let own = Agents::Own(Box::default());
        let workers = Workers::new(url, 100, own);
        for lane in (0..100).map(Lane::Short) {
            workers.prepare(lane).unwrap();
            assert!(lock(&workers.shared.resting).has(lane));
        }
    }

    /// A worker may get a job at the moment at which its rest is over.
    #[test]
    fn a_request_to_a_worker_that_is_about_to_end_is_answered() {
        let server = Server::start(|connection| connection.answer_all(200, "true"));
        let url = Arc::new(server.url().parse().unwrap());
        let own = Agents::Own(Box::default());
        let workers = Workers::resting(|_| Duration::from_micros(50), url, 100, own);
        for microseconds in (0..100).cycle().take(1000) {
            let request = Request::new(Method::Get, "/v1/status/leader");
            let answer =
                async_io::block_on(workers.start(Lane::Short(0), request).unwrap()).unwrap();
            assert_eq!(answer.body(), b"true");
            thread::sleep(Duration::from_micros(microseconds));
        }
        assert!(server.connections() > 1, "no worker ever ended");
    }
}
