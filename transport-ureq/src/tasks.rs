//! The thread that all tasks of a process share.
//!
//! A task is the driver of a semaphore or election, and mostly waits. It never blocks on a request:
//! requests have [separate threads](crate::workers).

use std::cell::Cell;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread;

use async_executor::Executor;
use semaphore_core::adapter::BoxFuture;

/// A task that panics ends, but no other does.
static TASKS: Executor<'static> = Executor::new();

/// The process in which the thread was started. The thread runs until that process ends.
static STARTED_IN: Mutex<Option<u32>> = Mutex::new(None);

thread_local! {
    static IS_THIS_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Runs the task until it ends.
///
/// # Errors
/// If the system gives no thread. Then the task is dropped.
pub(crate) fn spawn(task: BoxFuture<'static, ()>) -> io::Result<()> {
    start()?;
    TASKS.spawn(task).detach();
    Ok(())
}

/// Blocks this thread until a task has done something.
pub(crate) fn wait_for(done: BoxFuture<'_, ()>) {
    // The thread of the tasks would wait forever for itself.
    if !IS_THIS_THREAD.get() {
        async_io::block_on(done);
    }
}

fn start() -> io::Result<()> {
    let mut started_in = STARTED_IN.lock().unwrap_or_else(PoisonError::into_inner);
    match *started_in {
        Some(process) if process != std::process::id() => {
            // The executor holds the parent's tasks, which run there.
            return Err(io::Error::other(
                "this process was forked off from one that speaks to Consul on threads, and has none of them: fork before that, \
                 or start another program",
            ));
        }
        Some(_) => {}
        None => {
            thread::Builder::new()
                .name("consul-tasks".to_owned())
                .spawn(|| {
                    IS_THIS_THREAD.set(true);
                    async_io::block_on(TASKS.run(std::future::pending::<()>()));
                })?;
            *started_in = Some(std::process::id());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use futures_channel::oneshot;

    use super::*;

    #[test]
    fn a_task_that_panics_ends_no_other() {
        let (told, others) = oneshot::channel();
        spawn(Box::pin(async { panic!("as a bug would") })).unwrap();
        spawn(Box::pin(async move { told.send(()).unwrap() })).unwrap();
        async_io::block_on(others).unwrap();
    }

    #[test]
    fn a_task_never_waits_for_tasks() {
        let (told, others) = oneshot::channel();
        spawn(Box::pin(async move {
            wait_for(Box::pin(std::future::pending()));
            told.send(()).unwrap();
        }))
        .unwrap();
        async_io::block_on(others).unwrap();
    }
}
