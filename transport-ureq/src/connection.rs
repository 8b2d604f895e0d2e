//! A layer between ureq and its connections.
//!
//! ```text
//!   client ── head without token ──► ureq ──► Connected ──► TLS ──► socket
//!      └───────── the token's header ──────────────┘
//! ```
//!
//! - At TRACE, ureq logs the bytes of every head that it writes. So it never gets the token: the
//!   token is added when ureq passes the head's first bytes to the connection.
//! - If a body has no length, ureq takes a reset, or an end that TLS did not announce, for its end.
//!   So such ends are reported to ureq as errors of another kind.

use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use semaphore_core::adapter::Request;
use ureq::Error;
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, Transport};

/// What a worker is doing, shared with its agent's connections.
#[derive(Default)]
pub(crate) struct Exchange {
    connecting: AtomicBool,
    hidden: Mutex<Option<Hidden>>,
}

/// Header lines that ureq doesn't know, and the method of their request. A `CONNECT` to a proxy has
/// another method and doesn't get them.
struct Hidden {
    method: &'static str,
    lines: Vec<u8>,
}

impl Exchange {
    /// A request begins.
    pub(crate) fn begin(&self, request: &Request) {
        self.set_connecting(false);
        let mut lines = Vec::new();
        for (name, value) in request.headers() {
            lines.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        *self.hidden() = (!lines.is_empty()).then(|| Hidden {
            method: request.method().as_str(),
            lines,
        });
    }

    /// Whether a connection is being opened, so that nothing of the request can have been sent.
    pub(crate) fn is_connecting(&self) -> bool {
        self.connecting.load(Ordering::Relaxed)
    }

    fn set_connecting(&self, connecting: bool) -> bool {
        // Only the worker's thread reads and writes this.
        self.connecting.swap(connecting, Ordering::Relaxed)
    }

    /// The head that begins with these bytes, with the hidden lines after the request line. They
    /// are added once only.
    fn complete(&self, written: &[u8]) -> Option<Vec<u8>> {
        let mut hidden = self.hidden();
        let method = hidden.as_ref()?.method.as_bytes();
        if written.strip_prefix(method)?.first() != Some(&b' ') {
            return None;
        }
        let line = written.windows(2).position(|two| two == b"\r\n")? + 2;
        let Hidden { lines, .. } = hidden.take()?;
        Some([&written[..line], &lines, &written[line..]].concat())
    }

    fn hidden(&self) -> MutexGuard<'_, Option<Hidden>> {
        self.hidden.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens connections through another connector, and adds the hidden lines to what is sent on them.
pub(crate) struct Connecting<C> {
    pub(crate) connector: C,
    pub(crate) exchange: Arc<Exchange>,
}

impl<C: Connector> Connector for Connecting<C> {
    type Out = Connected<C::Out>;

    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<()>,
    ) -> Result<Option<Self::Out>, Error> {
        // With a proxy, this is called within another call of it.
        let outer = self.exchange.set_connecting(true);
        let opened = self.connector.connect(details, chained)?;
        self.exchange.set_connecting(outer);
        Ok(opened.map(|transport| Connected {
            transport,
            exchange: Arc::clone(&self.exchange),
        }))
    }
}

impl<C> fmt::Debug for Connecting<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connecting").finish_non_exhaustive()
    }
}

/// A connection as ureq sees it.
pub(crate) struct Connected<T> {
    transport: T,
    exchange: Arc<Exchange>,
}

impl<T: Transport> Transport for Connected<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.transport.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let output = self.transport.buffers().output();
        let size = output.len();
        let Some(head) = self.exchange.complete(&output[..amount]) else {
            return self.transport.transmit_output(amount, timeout);
        };
        for piece in head.chunks(size) {
            self.transport.buffers().output()[..piece.len()].copy_from_slice(piece);
            self.transport.transmit_output(piece.len(), timeout)?;
        }
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.transport
            .await_input(timeout)
            .map_err(|error| match error {
                Error::Io(error) if is_cut(error.kind()) => Error::Io(io::Error::other(error)),
                error => error,
            })
    }

    fn is_open(&mut self) -> bool {
        self.transport.is_open()
    }

    fn is_tls(&self) -> bool {
        self.transport.is_tls()
    }
}

fn is_cut(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset
    )
}

impl<T> fmt::Debug for Connected<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connected").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use semaphore_core::Token;
    use semaphore_core::adapter::Method;

    use super::*;

    fn begun(token: Option<&str>) -> Exchange {
        let token = token.map(|token| Token::new(token).unwrap());
        let exchange = Exchange::default();
        exchange.begin(&Request::new(Method::Put, "/a").with_token(token));
        exchange
    }

    #[test]
    fn the_token_comes_after_the_request_line_once() {
        let exchange = begun(Some("secret"));
        let head = b"PUT /a HTTP/1.1\r\nHost: b\r\n\r\n";
        let expected = b"PUT /a HTTP/1.1\r\nX-Consul-Token: secret\r\nHost: b\r\n\r\n";
        assert_eq!(exchange.complete(head).unwrap(), expected);
        assert!(exchange.complete(head).is_none());
    }

    #[test]
    fn the_rest_of_a_head_may_follow_later() {
        let exchange = begun(Some("secret"));
        let expected = b"PUT /a HTTP/1.1\r\nX-Consul-Token: secret\r\n";
        assert_eq!(exchange.complete(b"PUT /a HTTP/1.1\r\n").unwrap(), expected);
        assert!(exchange.complete(b"Host: b\r\n\r\n").is_none());
    }

    #[test]
    fn what_a_proxy_or_a_handshake_is_told_stays_as_it_is() {
        let exchange = begun(Some("secret"));
        for other in [
            &b"CONNECT b:1 HTTP/1.1\r\n\r\n"[..],
            b"PUTS /a HTTP/1.1\r\n",
            b"\x16\x03\x01PUT \r\n",
            b"PUT",
            b"",
        ] {
            assert!(exchange.complete(other).is_none());
        }
        assert!(exchange.complete(b"PUT /a HTTP/1.1\r\n\r\n").is_some());
    }

    #[test]
    fn a_token_that_was_not_sent_is_not_the_next_requests() {
        let exchange = begun(Some("secret"));
        exchange.begin(&Request::new(Method::Put, "/a"));
        assert!(exchange.complete(b"PUT /a HTTP/1.1\r\n\r\n").is_none());
    }
}
