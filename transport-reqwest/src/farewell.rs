//! Gives back what is held when a tokio runtime ends. Its tasks are dropped in the middle, and its sockets and timers work no
//! longer, so a thread with a separate runtime and separate connections does it.
//!
//! ```text
//!  the runtime is dropped ─▶ a driver is dropped ─▶ finish() ──┐ waits for the answer
//!                                                              ▼
//!                                                     the thread: gives back
//! ```

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use semaphore_core::Scope;
use semaphore_core::adapter::{Connections, Unfinished};
use tokio::runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use crate::runtime::seed;
use crate::transport::ReqwestTransport;
use crate::wire::Wire;

/// So many connections are enough for what is left of all who share a transport.
const CONNECTIONS: usize = 8;

/// The thread, once there is a need for it. It ends when this is dropped and it has nothing left to do.
#[derive(Default)]
pub(crate) struct Farewell {
    jobs: Mutex<Option<UnboundedSender<Job>>>,
    /// Whether one took too long: nobody waits after that, so that the end is put off once, not by each semaphore.
    is_late: Arc<AtomicBool>,
}

/// What is left, and where it is told whether that is done.
struct Job {
    rest: Unfinished,
    done: mpsc::Sender<bool>,
}

impl Farewell {
    /// Brings it to its end, and waits for that on this thread. `wire` makes what it is sent with on the runtime that it
    /// is given.
    pub(crate) fn finish(
        &self,
        rest: Unfinished,
        wire: impl FnOnce(runtime::Handle) -> Wire + Send + 'static,
    ) {
        let (done, is_done) = mpsc::channel();
        let job = Job { rest, done };
        if let Err(error) = self.begin(job, wire) {
            tracing::warn!(%error, "nothing can be given back: the TTL of the sessions does it");
            return;
        }
        if !self.is_late.load(Ordering::Relaxed) && !is_done.recv().unwrap_or(false) {
            self.is_late.store(true, Ordering::Relaxed);
            tracing::warn!(
                "not everything could be given back in time: the TTL of the sessions does it"
            );
        }
    }

    fn begin(
        &self,
        job: Job,
        wire: impl FnOnce(runtime::Handle) -> Wire + Send + 'static,
    ) -> io::Result<()> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let job = match &*jobs {
            Some(worker) => match worker.send(job) {
                Ok(()) => return Ok(()),
                Err(unsent) => unsent.0,
            },
            None => job,
        };
        let runtime = runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let wire = wire(runtime.handle().clone());
        let connections = Connections::new(CONNECTIONS, seed()).map_err(io::Error::other)?;
        let transport = ReqwestTransport::from_parts(wire, connections, Scope::new());
        let (sender, receiver) = unbounded_channel();
        thread::Builder::new()
            .name("consul-farewell".to_owned())
            .spawn(move || runtime.block_on(work(receiver, transport)))?;
        // The thread takes what is sent here until this is dropped.
        let _ = sender.send(job);
        *jobs = Some(sender);
        Ok(())
    }
}

/// The life of the thread.
async fn work(mut jobs: UnboundedReceiver<Job>, transport: ReqwestTransport) {
    let transport = Arc::new(transport);
    let mut running = JoinSet::new();
    while let Some(Job { rest, done }) = jobs.recv().await {
        let finished = rest.finish(transport.clone(), transport.clone());
        running.spawn(async move {
            // A caller that has stopped waiting needs no answer.
            let _ = done.send(finished.await);
        });
        while running.try_join_next().is_some() {}
    }
    running.join_all().await;
}
