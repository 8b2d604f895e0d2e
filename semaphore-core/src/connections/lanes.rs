//! What an adapter brings: a way to send on one of several connections, and its clock.

use core::time::Duration;

use std::io::{self, ErrorKind};

use async_trait::async_trait;

use crate::http::{Request, Response};
use crate::time::Instant;
use crate::transport::TransportError;

/// One connection, which is opened by the first request on it. Where connections are shared
/// ([`Lanes::polls_per_connection`]), a stream of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Lane {
    /// For requests that are answered at once.
    Short(usize),
    /// For blocking queries.
    Poll(usize),
}

impl Lane {
    /// How long its connection stays open without a request. That of the first short lane outlasts
    /// what lies between two renewals; the others make room for anyone who shares the agent.
    pub const fn idle_time(self) -> Duration {
        match self {
            Self::Short(0) => Duration::from_secs(90),
            Self::Short(_) | Self::Poll(_) => Duration::from_secs(5),
        }
    }
}

/// Whether a connection could not be opened because the process or the machine has no descriptor or port left
/// for it. What has been sent does not end so.
pub fn is_no_room(error: &io::Error) -> bool {
    // ENFILE and EMFILE on Unix, WSAEMFILE on Windows. The standard library has no kind for them.
    const DESCRIPTORS: [i32; 3] = [23, 24, 10024];
    let lacks_descriptor = error
        .raw_os_error()
        .is_some_and(|code| DESCRIPTORS.contains(&code));
    lacks_descriptor || error.kind() == ErrorKind::AddrNotAvailable
}

/// Sends requests on lanes. There is never more than one request on a lane, but for one that was given up
/// and whose connection has yet to be closed.
#[async_trait]
pub trait Lanes: Send + Sync {
    /// Sends the request on this lane, as [`Transport::send`](crate::adapter::Transport::send) does. The connection
    /// is kept open for [`Lane::idle_time`] after it, and used for nothing else.
    ///
    /// # Errors
    /// As [`Transport::send`](crate::adapter::Transport::send). What has no descriptor, port or thread to be
    /// sent with ends with [`TransportErrorKind::NoRoom`](crate::adapter::TransportErrorKind::NoRoom).
    async fn send_on(&self, lane: Lane, request: Request) -> Result<Response, TransportError>;

    /// Closes the connection of a lane without a request. One that is shared stays open.
    fn close(&self, lane: Lane);

    /// How many polls share one connection, as the last answers say. One: each lane has its own connection, as over HTTP/1.1.
    /// More: lanes are streams, as over HTTP/2. Then all short lanes share one connection, which no poll uses, and the polls
    /// share others, this many each.
    fn polls_per_connection(&self) -> usize {
        1
    }

    /// As [`Runtime::now`](crate::adapter::Runtime::now).
    fn now(&self) -> Instant;

    /// As [`Runtime::sleep`](crate::adapter::Runtime::sleep).
    async fn sleep(&self, duration: Duration);
}
