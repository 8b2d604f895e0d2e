//! Whether the tokio runtime still has sockets and timers. Using them panics after the runtime's
//! end, or if it was built without them.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use semaphore_core::error::ClosedBy;
use tokio::runtime::Handle;
use tokio::sync::watch;

/// Knows when the runtime ends, because a task of it ends too.
#[derive(Clone)]
pub(crate) struct Life {
    task: watch::Receiver<()>,
    process: u32,
}

impl Life {
    /// Watches this runtime. The task ends with the last clone.
    pub(crate) fn of(runtime: &Handle) -> Self {
        let (alive, task) = watch::channel(());
        runtime.spawn(async move { alive.closed().await });
        Self {
            task,
            process: std::process::id(),
        }
    }

    /// Why the runtime has ended, or `None` while it runs.
    pub(crate) fn end(&self) -> Option<ClosedBy> {
        // A forked process has none of the threads.
        if std::process::id() != self.process {
            Some(ClosedBy::Fork)
        } else if self.task.has_changed().is_err() {
            Some(ClosedBy::RuntimeEnded)
        } else {
            None
        }
    }

    /// Waits for the runtime's end.
    pub(crate) async fn ended(&self) {
        let mut task = self.task.clone();
        while task.changed().await.is_ok() {}
    }

    /// Fails if a task of this runtime could never reach an agent.
    pub(crate) fn ensure_able(&self, runtime: &Handle) -> io::Result<()> {
        if let Some(by) = self.end() {
            return Err(io::Error::other(match by {
                ClosedBy::Fork => "this process was forked off from the one with the tokio runtime",
                _ => "the tokio runtime has ended",
            }));
        }
        let _inside = runtime.enter();
        // Tokio has no other way to ask.
        let timers = || drop(tokio::time::sleep(Duration::ZERO));
        if catch_unwind(AssertUnwindSafe(timers)).is_err() {
            return Err(io::Error::other(
                "the tokio runtime has no timers: build it with `enable_all`",
            ));
        }
        let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0));
        let Ok(socket) = socket.and_then(|it| it.set_nonblocking(true).map(|()| it)) else {
            // Without a socket this can't be checked.
            return Ok(());
        };
        let sockets = || drop(tokio::net::UdpSocket::from_std(socket));
        if catch_unwind(AssertUnwindSafe(sockets)).is_err() {
            return Err(io::Error::other(
                "the tokio runtime has no I/O: build it with `enable_all`",
            ));
        }
        Ok(())
    }
}
