//! What every blocking handle is made of: an async handle, and a thread that waits for it.

use core::future::Future;
use core::time::Duration;

use crate::error::{Awaited, Error};
use crate::handle::owner::{Ending, Owner};
use crate::machine::Machine;
use crate::runtime::BlockOn;

/// Writes a blocking handle around an async one: the type, its making, and its `Debug`.
macro_rules! blocking {
    ($(#[$attribute:meta])* struct $handle:ident($inner:ty)) => {
        $(#[$attribute])*
        pub struct $handle {
            pub(in crate::handle) inner: $inner,
            pub(in crate::handle) thread: Arc<dyn BlockOn>,
        }

        impl $handle {
            pub(in crate::handle) fn new(inner: $inner, thread: Arc<dyn BlockOn>) -> Self {
                Self { inner, thread }
            }
        }

        impl core::fmt::Debug for $handle {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                self.inner.fmt(f)
            }
        }
    };
}

/// Writes the methods that are the async handle's.
macro_rules! same {
    ($($(#[$doc:meta])* fn $name:ident(&self $(, $arg:ident: $type:ty)*) $(-> $output:ty)?;)*) => {$(
        $(#[$doc])*
        pub fn $name(&self $(, $arg: $type)*) $(-> $output)? {
            self.inner.$name($($arg),*)
        }
    )*};
}

/// Writes the methods that wait for the future of the async handle's.
macro_rules! waits {
    ($($(#[$doc:meta])* fn $name:ident(&self $(, $arg:ident: $type:ty)*) -> $output:ty;)*) => {$(
        $(#[$doc])*
        pub fn $name(&self $(, $arg: $type)*) -> $output {
            let result = self.thread.wait(self.inner.$name($($arg),*));
            result.unwrap_or_else(|| Err(self.inner.ended()))
        }
    )*};
}

pub(super) use {blocking, same, waits};

impl dyn BlockOn + '_ {
    /// The future's output, or `None` if the runtime ended first.
    pub(super) fn wait<T: Send>(&self, future: impl Future<Output = T> + Send) -> Option<T> {
        let mut output = None;
        self.block_on(Box::pin(async { output = Some(future.await) }));
        output
    }

    /// The future's output, if it comes within this time by the calling thread's clock.
    pub(super) fn wait_for<T: Send>(
        &self,
        timeout: Duration,
        future: impl Future<Output = T> + Send,
    ) -> Option<T> {
        let mut output = None;
        let future = Box::pin(async { output = Some(future.await) });
        self.block_on_for(timeout, future);
        output
    }

    /// Waits for an acquisition or a campaign.
    pub(super) fn obtain<M: Machine, T: Send>(
        &self,
        owner: &Owner<M>,
        obtained: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        let obtained = self.wait(obtained);
        obtained.unwrap_or_else(|| Err(owner.ended()))
    }

    /// The same, which the machine ends after `timeout`. If the driver is late or nobody runs it,
    /// this ends it.
    pub(super) fn obtain_for<M: Machine, T: Send>(
        &self,
        owner: &Owner<M>,
        timeout: Duration,
        obtained: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        let deadline = owner.runtime().now() + timeout;
        let mut obtained = Box::pin(obtained);
        let in_time = self.wait_for(timeout, &mut obtained);
        in_time.unwrap_or_else(|| {
            let unattended = owner.end_what_is_late(deadline);
            let late = self.obtain(owner, obtained);
            late.map_err(|error| error.unattended(unattended))
        })
    }

    /// Waits at most `timeout` for a shutdown.
    pub(super) fn shut_down_for(
        &self,
        of: &impl Ending,
        timeout: Duration,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), Error> {
        let began_at = of.runtime().now();
        let done = self.wait_for(timeout, shutdown);
        done.ok_or_else(|| of.late(Awaited::Shutdown, timeout))?;
        of.ensure_nothing_left(began_at)
    }
}
