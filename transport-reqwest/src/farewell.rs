//! Gives back what is held when a tokio runtime ends. The runtime drops its tasks, and its sockets
//! and timers stop working. So a thread does it, with a separate runtime and separate connections.
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

/// Enough connections for the remaining work of all users of a transport.
const CONNECTIONS: usize = 8;

/// The thread, started when first needed. It ends when this is dropped and its work is done.
#[derive(Default)]
pub(crate) struct Farewell {
    jobs: Mutex<Option<UnboundedSender<Job>>>,
    /// Whether one job took too long. After that nobody waits, so that the runtime's end is delayed
    /// once and not by each semaphore.
    is_late: Arc<AtomicBool>,
}

/// The remaining work, and the channel that reports whether it is done.
struct Job {
    rest: Unfinished,
    done: mpsc::Sender<bool>,
}

impl Farewell {
    /// Does the remaining work, and waits for it on this thread. `wire` makes the connection to the
    /// agent on the given runtime.
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
        // The thread takes jobs until this sender is dropped.
        let _ = sender.send(job);
        *jobs = Some(sender);
        Ok(())
    }
}

/// What the thread runs.
async fn work(mut jobs: UnboundedReceiver<Job>, transport: ReqwestTransport) {
    let transport = Arc::new(transport);
    let mut running = JoinSet::new();
    while let Some(Job { rest, done }) = jobs.recv().await {
        let finished = rest.finish(transport.clone(), transport.clone());
        running.spawn(async move {
            // The caller may have stopped waiting.
            let _ = done.send(finished.await);
        });
        while running.try_join_next().is_some() {}
    }
    running.join_all().await;
}
