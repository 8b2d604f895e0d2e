use std::net::{TcpListener, TcpStream};

use semaphore_core::adapter::TransportErrorKind;

use crate::{Backend, get, put, send};

pub fn an_unknown_host_was_not_applied(backend: &impl Backend) {
    // The name is reserved, so no resolver ever finds it.
    let adapter = backend.to("http://agent.invalid:8500");
    let error = send(&adapter, put("/v1/kv/a", "")).unwrap_err();
    assert_eq!(error.kind(), TransportErrorKind::NotSent);
}

/// A port that nobody listens on, and that no other test gets: the own end of a connection.
pub(crate) struct NobodyListens {
    _listener: TcpListener,
    taken: TcpStream,
}

impl NobodyListens {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        Self {
            _listener: listener,
            taken,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.taken.local_addr().unwrap())
    }
}

pub fn a_refused_connection_was_not_applied(backend: &impl Backend) {
    let nobody = NobodyListens::new();
    let adapter = backend.to(nobody.url());
    for request in [put("/v1/kv/a", ""), get("/v1/kv/a").as_long_poll()] {
        let error = send(&adapter, request).unwrap_err();
        assert_eq!(error.kind(), TransportErrorKind::NotSent);
        assert!(error.kind().was_not_applied());
        assert!(!error.kind().is_permanent());
    }
}
