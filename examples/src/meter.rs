//! Counts what goes over the wire, as a [`Transport`] around the one that sends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use semaphore_core::{Request, Response, Transport, TransportError};

/// What was sent and received since the program began.
#[derive(Debug, Default)]
pub struct Meter {
    requests: AtomicU64,
    bytes_down: AtomicU64,
}

/// A reading of a [`Meter`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Requests that were handed to the transport, long polls and lost ones included.
    pub requests: u64,
    /// Bytes of HTTP that came back: status line, headers and body of every whole answer. The
    /// framing of chunks is not in it, nor is TLS.
    pub bytes_down: u64,
}

impl Meter {
    /// What it counted so far.
    pub fn read(&self) -> Reading {
        Reading {
            requests: self.requests.load(Ordering::Relaxed),
            bytes_down: self.bytes_down.load(Ordering::Relaxed),
        }
    }
}

impl Reading {
    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            requests: self.requests - earlier.requests,
            bytes_down: self.bytes_down - earlier.bytes_down,
        }
    }
}

/// A transport that a [`Meter`] watches.
pub struct Metered<T> {
    inner: T,
    meter: Arc<Meter>,
}

impl<T> Metered<T> {
    /// Sends through `inner`.
    pub fn new(inner: T, meter: Arc<Meter>) -> Self {
        Self { inner, meter }
    }
}

#[async_trait]
impl<T: Transport> Transport for Metered<T> {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        self.meter.requests.fetch_add(1, Ordering::Relaxed);
        let response = self.inner.send(request).await?;
        self.meter
            .bytes_down
            .fetch_add(wire_length(&response), Ordering::Relaxed);
        Ok(response)
    }
}

fn wire_length(response: &Response) -> u64 {
    const STATUS_LINE: usize = "HTTP/1.1 200 OK\r\n".len();
    const AROUND_A_HEADER: usize = ": \r\n".len();
    let headers: usize = response
        .headers()
        .map(|(name, value)| name.len() + value.len() + AROUND_A_HEADER)
        .sum();
    (STATUS_LINE + headers + "\r\n".len() + response.body().len()) as u64
}

#[cfg(test)]
mod tests {
    use semaphore_core::Method;
    use transport_mock::MockConsul;

    use super::*;

    #[test]
    fn an_answer_has_the_length_that_it_has_on_the_wire() {
        let on_the_wire = "HTTP/1.1 200 OK\r\nX-Consul-Index: 7\r\n\r\ntrue";
        let response = Response::new(200, "true").with_header("X-Consul-Index", "7");
        assert_eq!(wire_length(&response), on_the_wire.len() as u64);
    }

    #[test]
    fn requests_and_bytes_are_counted_from_one_reading_to_the_next() {
        let world = MockConsul::new(1);
        let meter = Arc::new(Meter::default());
        let transport = Metered::new(world.client("node"), Arc::clone(&meter));
        let put = || transport.send(Request::new(Method::Put, "/v1/kv/a").with_body("1"));

        world.run(put()).expect("an answer");
        let first = meter.read();
        world.run(put()).expect("an answer");

        assert_eq!(first.requests, 1);
        assert!(first.bytes_down > 4);
        assert_eq!(meter.read().since(first), first);
    }
}
