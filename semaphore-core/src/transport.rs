//! The two traits that an adapter implements, and how a request can fail below HTTP.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::time::Duration;
use std::error::Error as StdError;
use std::io;
use std::sync::Arc;

use async_trait::async_trait;

use crate::farewell::Unfinished;
use crate::http::{Request, Response};
use crate::time::Instant;

/// A future on the heap that may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Sends one described request and returns its answer.
///
/// # Contract
/// - An answer of any status is `Ok`: statuses are the core's to judge.
/// - Redirects are not followed, proxies not used unless the user asked for it, and nothing is
///   sent twice: a request whose outcome is unclear ends as [`TransportErrorKind::Unknown`].
/// - [`Request::timeout`] bounds the whole exchange.
///
/// # Cancel safety
/// Dropping the future gives the request up and frees its connection soon. Whether the server
/// has seen it is then unknown.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Sends `request` and waits for the whole answer.
    ///
    /// # Errors
    /// [`TransportError`] when there is no whole answer; its kind says what is known of the
    /// request's fate.
    async fn send(&self, request: Request) -> Result<Response, TransportError>;
}

/// A clock, a timer and somewhere to run the driver.
#[async_trait]
pub trait Runtime: Send + Sync {
    /// The present time on a clock that never goes backwards.
    fn now(&self) -> Instant;

    /// Waits for `duration`.
    async fn sleep(&self, duration: Duration);

    /// Runs a future in the background until it ends.
    ///
    /// # Errors
    /// Where there is nothing to run it on, such as a thread. The future is dropped then.
    fn spawn(&self, future: BoxFuture<'static, ()>) -> io::Result<()>;

    /// A number that differs from process to process and from call to call: the seed of a
    /// participant's jitter, so that many that fail together do not retry together.
    fn seed(&self) -> u64;

    /// The last handle was dropped before everything was given back, and `rest` ends when that is done, or when it has taken as
    /// long as a [farewell](crate::Builder::farewell) may. The driver goes on meanwhile.
    ///
    /// A runtime whose threads end unasked when `main` does waits for it on the calling thread, unless that is one that
    /// the driver needs. By default nobody waits.
    fn linger(&self, rest: BoxFuture<'_, ()>) {
        drop(rest);
    }

    /// A driver was dropped before everything was given back.
    ///
    /// A runtime that drops its tasks when it ends [finishes](Unfinished::finish) it elsewhere and waits for it, since a
    /// program ends next. By default it is left to the TTL.
    fn finish(&self, rest: Unfinished) {
        drop(rest);
    }
}

/// A runtime on which a thread can wait for a future: what the blocking handles need.
pub trait BlockOn: Runtime {
    /// Runs `future` to its end on the calling thread.
    fn block_on(&self, future: BoxFuture<'_, ()>);
}

#[async_trait]
impl<T: Transport + ?Sized> Transport for Arc<T> {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        T::send(self, request).await
    }
}

#[async_trait]
impl<T: Runtime + ?Sized> Runtime for Arc<T> {
    fn now(&self) -> Instant {
        T::now(self)
    }

    async fn sleep(&self, duration: Duration) {
        T::sleep(self, duration).await;
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) -> io::Result<()> {
        T::spawn(self, future)
    }

    fn seed(&self) -> u64 {
        T::seed(self)
    }

    fn linger(&self, rest: BoxFuture<'_, ()>) {
        T::linger(self, rest);
    }

    fn finish(&self, rest: Unfinished) {
        T::finish(self, rest);
    }
}

impl<T: BlockOn + ?Sized> BlockOn for Arc<T> {
    fn block_on(&self, future: BoxFuture<'_, ()>) {
        T::block_on(self, future);
    }
}

/// What is known of a request that got no whole answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TransportErrorKind {
    /// The request never left: name resolution failed, or the connection was refused. It was not
    /// applied, and trying again may help.
    NotSent,
    /// The connection broke after the request may have left. Whether it was applied is unknown.
    Unknown,
    /// There was no connection for the request: the process has no descriptor, port or thread for one, or too
    /// many requests are under way. It was not applied, and trying again may help.
    NoRoom,
    /// [`Request::timeout`] ran out. Whether it was applied is unknown.
    Timeout,
    /// An answer came that is too large, breaks HTTP, or is cut short. Whether the request was
    /// applied is unknown.
    BadAnswer,
    /// The request can't be sent like this, now or later: a certificate that is not trusted, a
    /// client certificate that is refused, an address that is none. Trying again does not help.
    Misconfigured,
}

impl TransportErrorKind {
    /// Whether the request certainly had no effect.
    pub const fn was_not_applied(self) -> bool {
        matches!(self, Self::NotSent | Self::NoRoom | Self::Misconfigured)
    }

    /// Whether trying again is pointless.
    pub const fn is_permanent(self) -> bool {
        matches!(self, Self::Misconfigured)
    }

    const fn describe(self) -> &'static str {
        match self {
            Self::NotSent => "the agent could not be reached",
            Self::Unknown => "the connection to the agent broke",
            Self::NoRoom => "there is no room for one more connection to the agent",
            Self::Timeout => "the agent did not answer in time",
            Self::BadAnswer => "the answer could not be read",
            Self::Misconfigured => "the connection to the agent is misconfigured",
        }
    }
}

/// Why a request got no answer. The cause, where there is one, is its
/// [`source`](StdError::source).
#[derive(Clone, Debug)]
pub struct TransportError {
    kind: TransportErrorKind,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl TransportError {
    /// An error without a further cause.
    pub const fn new(kind: TransportErrorKind) -> Self {
        Self { kind, source: None }
    }

    /// An error with the HTTP client's own error as its cause. The cause must not contain the
    /// request's token.
    pub fn with_source(
        kind: TransportErrorKind,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self {
            kind,
            source: Some(Arc::from(source.into())),
        }
    }

    /// What is known of the request.
    pub const fn kind(&self) -> TransportErrorKind {
        self.kind
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.describe())
    }
}

impl StdError for TransportError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source
            .as_deref()
            .map(|source| source as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn each_kind_of_error_says_something_of_its_own_and_names_its_cause() {
        use TransportErrorKind::{BadAnswer, Misconfigured, NoRoom, NotSent, Timeout, Unknown};
        for (kind, text) in [
            (NotSent, "the agent could not be reached"),
            (Unknown, "the connection to the agent broke"),
            (
                NoRoom,
                "there is no room for one more connection to the agent",
            ),
            (Timeout, "the agent did not answer in time"),
            (BadAnswer, "the answer could not be read"),
            (
                Misconfigured,
                "the connection to the agent is misconfigured",
            ),
        ] {
            let error = TransportError::with_source(kind, "no route to host");
            assert_eq!(error.kind(), kind);
            assert_eq!(error.to_string(), text);
            let cause = error.source().map(ToString::to_string);
            assert_eq!(cause.as_deref(), Some("no route to host"));
            assert!(TransportError::new(kind).source().is_none());
        }
    }

    #[test]
    fn a_shared_runtime_blocks_and_is_seeded_as_the_one_inside_is() {
        #[derive(Default)]
        struct Noting(AtomicBool);

        #[async_trait]
        impl Runtime for Noting {
            fn now(&self) -> Instant {
                Instant::ORIGIN
            }

            async fn sleep(&self, _: Duration) {}

            fn spawn(&self, future: BoxFuture<'static, ()>) -> io::Result<()> {
                drop(future);
                Ok(())
            }

            fn seed(&self) -> u64 {
                7
            }
        }

        impl BlockOn for Noting {
            fn block_on(&self, future: BoxFuture<'_, ()>) {
                drop(future);
                self.0.store(true, Ordering::Relaxed);
            }
        }

        let shared = Arc::new(Noting::default());
        BlockOn::block_on(&shared, Box::pin(async {}));
        assert!(shared.0.load(Ordering::Relaxed));
        assert_eq!(Runtime::seed(&shared), 7);
    }
}
