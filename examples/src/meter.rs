//! Counts what is sent and received, as a [`Transport`] around the real one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use semaphore_core::Scope;
use semaphore_core::adapter::{Request, Response, Transport, TransportError};
use serde::Serialize;
use transport_mock::RequestKind;

use crate::place::Place;

/// The traffic since the program began.
#[derive(Debug, Default)]
pub struct Meter(Mutex<Reading>);

/// A reading of a [`Meter`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Requests that were passed to the transport, including long polls and lost ones.
    pub requests: Requests,
    /// Answers in which the agent said that it had created a session.
    pub sessions: u64,
    /// Answers in which the agent said that it had put a write through Raft. A failed check counts
    /// (`false`, or a transaction answered with 409): it was found when the log was applied. A
    /// renewal does not: it only restarts the leader's timer. A write whose answer was lost does
    /// not count either.
    pub raft_writes: u64,
    /// Bytes of HTTP that were sent: request line, Consul's own headers and body. What the client's
    /// library adds (`Host`, `User-Agent` and the like) does not count.
    pub bytes_up: u64,
    /// Bytes of HTTP that were received: status line, headers and body of every whole answer. Chunk
    /// framing and TLS do not count.
    pub bytes_down: u64,
}

/// Requests by their purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Requests {
    /// `PUT /v1/session/create`
    pub session_creates: u64,
    /// `PUT /v1/session/renew/<id>`
    pub session_renews: u64,
    /// `PUT /v1/session/destroy/<id>`
    pub session_destroys: u64,
    /// Any other `/v1/session/…`
    pub session_reads: u64,
    /// `GET /v1/kv/…` without an index
    pub kv_reads: u64,
    /// `GET /v1/kv/…?index=…`: blocking queries
    pub kv_watches: u64,
    /// `PUT` and `DELETE /v1/kv/…`
    pub kv_writes: u64,
    /// `PUT /v1/txn`
    pub txns: u64,
    /// Everything else
    pub other_requests: u64,
}

impl Meter {
    /// The counts so far.
    pub fn read(&self) -> Reading {
        *self.lock()
    }

    fn sent(&self, request: &Request, kind: RequestKind) {
        let mut reading = self.lock();
        *reading.requests.of(kind) += 1;
        reading.bytes_up += request_length(request);
    }

    fn answered(&self, kind: RequestKind, is_write: bool, response: &Response) {
        let mut reading = self.lock();
        reading.bytes_down += response_length(response);
        reading.sessions += u64::from(made_a_session(kind, response));
        reading.raft_writes += u64::from(is_write && went_through_raft(kind, response));
    }

    fn lock(&self) -> MutexGuard<'_, Reading> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reading {
    /// The counts since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            requests: self.requests.since(earlier.requests),
            sessions: self.sessions - earlier.sessions,
            raft_writes: self.raft_writes - earlier.raft_writes,
            bytes_up: self.bytes_up - earlier.bytes_up,
            bytes_down: self.bytes_down - earlier.bytes_down,
        }
    }
}

impl Requests {
    /// All of them.
    pub fn total(&self) -> u64 {
        let Self {
            session_creates,
            session_renews,
            session_destroys,
            session_reads,
            kv_reads,
            kv_watches,
            kv_writes,
            txns,
            other_requests,
        } = self;
        session_creates
            + session_renews
            + session_destroys
            + session_reads
            + kv_reads
            + kv_watches
            + kv_writes
            + txns
            + other_requests
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            session_creates: self.session_creates - earlier.session_creates,
            session_renews: self.session_renews - earlier.session_renews,
            session_destroys: self.session_destroys - earlier.session_destroys,
            session_reads: self.session_reads - earlier.session_reads,
            kv_reads: self.kv_reads - earlier.kv_reads,
            kv_watches: self.kv_watches - earlier.kv_watches,
            kv_writes: self.kv_writes - earlier.kv_writes,
            txns: self.txns - earlier.txns,
            other_requests: self.other_requests - earlier.other_requests,
        }
    }

    fn of(&mut self, kind: RequestKind) -> &mut u64 {
        match kind {
            RequestKind::SessionCreate => &mut self.session_creates,
            RequestKind::SessionRenew => &mut self.session_renews,
            RequestKind::SessionDestroy => &mut self.session_destroys,
            RequestKind::SessionRead => &mut self.session_reads,
            RequestKind::KvRead => &mut self.kv_reads,
            RequestKind::KvWatch => &mut self.kv_watches,
            RequestKind::KvAcquire
            | RequestKind::KvRelease
            | RequestKind::KvCas
            | RequestKind::KvPut
            | RequestKind::KvDelete => &mut self.kv_writes,
            RequestKind::Txn => &mut self.txns,
            _ => &mut self.other_requests,
        }
    }
}

/// A transport for which a [`Meter`] counts, and in which a [`Place`] searches.
pub struct Metered<T> {
    inner: T,
    meter: Arc<Meter>,
    place: Arc<Place>,
}

impl<T> Metered<T> {
    /// Sends through `inner`.
    pub fn new(inner: T, meter: Arc<Meter>, place: Arc<Place>) -> Self {
        Self {
            inner,
            meter,
            place,
        }
    }

    /// Sends through the same, with a separate place.
    #[must_use]
    pub fn beside(&self, place: Arc<Place>) -> Self
    where
        T: Clone,
    {
        Self::new(self.inner.clone(), Arc::clone(&self.meter), place)
    }
}

#[async_trait]
impl<T: Transport> Transport for Metered<T> {
    fn address(&self) -> Option<String> {
        self.inner.address()
    }

    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        let kind = RequestKind::of(&request);
        self.place.asks(kind, &request);
        self.meter.sent(&request, kind);
        // A transaction that only reads is no write of Consul's log.
        let is_write = !request.target().contains("consistent");
        let response = self.inner.send(request).await?;
        self.meter.answered(kind, is_write, &response);
        self.place.hears(response.body());
        Ok(response)
    }

    fn defaults(&self) -> Scope {
        self.inner.defaults()
    }
}

fn made_a_session(kind: RequestKind, response: &Response) -> bool {
    kind == RequestKind::SessionCreate && response.status() == 200
}

fn went_through_raft(kind: RequestKind, response: &Response) -> bool {
    kind.is_write() && kind != RequestKind::SessionRenew && matches!(response.status(), 200 | 409)
}

const AROUND_A_HEADER: usize = ": \r\n".len();

fn request_length(request: &Request) -> u64 {
    const AROUND_THE_LINE: usize = "  HTTP/1.1\r\n".len();
    let line = request.method().as_str().len() + request.target().len() + AROUND_THE_LINE;
    let headers: usize = request
        .headers()
        .map(|(name, value)| name.len() + value.len() + AROUND_A_HEADER)
        .sum();
    (line + headers + "\r\n".len() + request.body().len()) as u64
}

fn response_length(response: &Response) -> u64 {
    const STATUS_LINE: usize = "HTTP/1.1 200 OK\r\n".len();
    let headers: usize = response
        .headers()
        .map(|(name, value)| name.len() + value.len() + AROUND_A_HEADER)
        .sum();
    (STATUS_LINE + headers + "\r\n".len() + response.body().len()) as u64
}

#[cfg(test)]
mod tests {
    use semaphore_core::Token;
    use semaphore_core::adapter::Method;
    use transport_mock::MockConsul;

    use super::*;

    #[test]
    fn an_answer_has_the_length_that_it_has_on_the_wire() {
        let on_the_wire = "HTTP/1.1 200 OK\r\nX-Consul-Index: 7\r\n\r\ntrue";
        let response = Response::new(200, "true").with_header("X-Consul-Index", "7");
        assert_eq!(response_length(&response), on_the_wire.len() as u64);
    }

    #[test]
    fn a_request_has_the_length_that_it_has_on_the_wire() {
        let on_the_wire = "PUT /v1/kv/a HTTP/1.1\r\nX-Consul-Token: secret\r\n\r\nvalue";
        let request = Request::new(Method::Put, "/v1/kv/a")
            .with_token(Token::new("secret").ok())
            .with_body("value");
        assert_eq!(request_length(&request), on_the_wire.len() as u64);
    }

    #[test]
    fn requests_writes_and_bytes_are_counted_from_one_reading_to_the_next() {
        let world = MockConsul::new(1);
        let meter = Arc::new(Meter::default());
        let transport = Metered::new(world.client("node"), Arc::clone(&meter), Arc::default());
        let put = || transport.send(Request::new(Method::Put, "/v1/kv/a").with_body("1"));

        world.run(put()).expect("an answer");
        let first = meter.read();
        world.run(put()).expect("an answer");

        assert_eq!(first.requests.kv_writes, 1);
        assert_eq!(first.requests.total(), 1);
        assert_eq!(first.raft_writes, 1);
        assert!(first.bytes_down > 4);
        assert!(first.bytes_up > 4);
        assert_eq!(meter.read().since(first), first);
    }

    #[test]
    fn each_kind_of_request_is_counted_apart() {
        let mut requests = Requests::default();
        for (method, target) in [
            (Method::Put, "/v1/session/create"),
            (Method::Put, "/v1/session/renew/x"),
            (Method::Put, "/v1/session/destroy/x"),
            (Method::Get, "/v1/session/info/x"),
            (Method::Get, "/v1/kv/a/?recurse"),
            (Method::Get, "/v1/kv/a/?recurse&index=7&wait=5s"),
            (Method::Put, "/v1/kv/a?acquire=x"),
            (Method::Delete, "/v1/kv/a?cas=3"),
            (Method::Put, "/v1/txn"),
            (Method::Get, "/v1/status/leader"),
        ] {
            *requests.of(RequestKind::of(&Request::new(method, target))) += 1;
        }
        let expected = Requests {
            session_creates: 1,
            session_renews: 1,
            session_destroys: 1,
            session_reads: 1,
            kv_reads: 1,
            kv_watches: 1,
            kv_writes: 2,
            txns: 1,
            other_requests: 1,
        };
        assert_eq!(requests, expected);
        assert_eq!(requests.total(), 10);
    }

    #[test]
    fn a_session_counts_when_it_was_made() {
        let world = MockConsul::new(1);
        let meter = Arc::new(Meter::default());
        let transport = Metered::new(world.client("node"), Arc::clone(&meter), Arc::default());
        for body in [r#"{"TTL":"15s"}"#, r#"{"TTL":"15"}"#] {
            let create = Request::new(Method::Put, "/v1/session/create").with_body(body);
            world.run(transport.send(create)).expect("an answer");
        }
        assert_eq!(meter.read().requests.session_creates, 2);
        assert_eq!(meter.read().sessions, 1);
    }

    #[test]
    fn a_renewal_and_a_refusal_are_no_writes_of_raft() {
        let through = |kind, status| went_through_raft(kind, &Response::new(status, "false"));
        assert!(through(RequestKind::KvCas, 200));
        assert!(through(RequestKind::Txn, 409));
        assert!(!through(RequestKind::Txn, 403));
        assert!(!through(RequestKind::SessionRenew, 200));
        assert!(!through(RequestKind::KvWatch, 200));
    }
}
