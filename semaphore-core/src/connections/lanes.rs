//! What an adapter provides: a way to send on one of several connections, and its clock.

use core::time::Duration;

use std::io::{self, ErrorKind};

use async_trait::async_trait;

use crate::http::{Request, Response};
use crate::time::Instant;
use crate::token_source::TokenProvider;
use crate::transport::TransportError;

/// One connection, which its first request opens. If connections are shared
/// ([`Lanes::polls_per_connection`]), it is a stream of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Lane {
    /// For requests that are answered at once.
    Short(usize),
    /// For blocking queries.
    Poll(usize),
}

impl Lane {
    /// How long its connection stays open without a request. The first short lane's lasts from one
    /// renewal to the next. The others close earlier, to make room for others who use the agent.
    pub const fn idle_time(self) -> Duration {
        match self {
            Self::Short(0) => Duration::from_secs(90),
            Self::Short(_) | Self::Poll(_) => Duration::from_secs(5),
        }
    }
}

/// Whether a connection could not be opened because the process or the machine has no descriptor or
/// port left. An error after something was sent is never of this kind.
pub fn is_no_room(error: &io::Error) -> bool {
    // ENFILE and EMFILE on Unix, WSAEMFILE on Windows. The standard library has no kind for them.
    const DESCRIPTORS: [i32; 3] = [23, 24, 10024];
    let lacks_descriptor = error
        .raw_os_error()
        .is_some_and(|code| DESCRIPTORS.contains(&code));
    lacks_descriptor || error.kind() == ErrorKind::AddrNotAvailable
}

/// Sends requests on lanes. A lane has at most one request at a time, besides one that was given up
/// and whose connection is still closing.
#[async_trait]
pub trait Lanes: Send + Sync {
    /// Sends the request on this lane, as [`Transport::send`](crate::adapter::Transport::send)
    /// does. The connection stays open for [`Lane::idle_time`] afterwards, only for this lane.
    ///
    /// # Errors
    /// As [`Transport::send`](crate::adapter::Transport::send).
    /// [`TransportErrorKind::NoRoom`](crate::adapter::TransportErrorKind::NoRoom) if there is no
    /// descriptor, port or thread for it.
    async fn send_on(&self, lane: Lane, request: Request) -> Result<Response, TransportError>;

    /// Closes the connection of an idle lane. A shared connection stays open.
    fn close(&self, lane: Lane);

    /// How many polls share one connection, according to the last answers. With 1, each lane has
    /// its own connection, as over HTTP/1.1. With more, lanes are streams, as over HTTP/2: all
    /// short lanes share one connection, which no poll uses, and this number of polls shares each
    /// other connection.
    fn polls_per_connection(&self) -> usize {
        1
    }

    /// The source of the token of each request without a token. The default is none.
    fn tokens(&self) -> Option<&TokenProvider> {
        None
    }

    /// As [`Runtime::now`](crate::adapter::Runtime::now).
    fn now(&self) -> Instant;

    /// As [`Runtime::sleep`](crate::adapter::Runtime::sleep).
    async fn sleep(&self, duration: Duration);
}
