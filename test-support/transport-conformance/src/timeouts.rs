use std::sync::mpsc;
use std::time::Duration;

use semaphore_core::adapter::TransportErrorKind;

use crate::server::Server;
use crate::{Backend, get, put, send};

const SHORT: Duration = Duration::from_millis(100);

pub fn a_silent_agent_ends_in_a_timeout(backend: &impl Backend) {
    let (ended, ends) = mpsc::channel();
    let server = Server::start(move |connection| {
        connection.read();
        connection.wait_for_close();
        ended.send(()).unwrap();
    });
    let adapter = backend.to(server.url());
    for request in [
        put("/v1/kv/a", "value"),
        get("/v1/kv/a?index=1").as_long_poll(),
    ] {
        let error = send(&adapter, request.with_timeout(SHORT)).unwrap_err();
        assert_eq!(error.kind(), TransportErrorKind::Timeout);
        assert!(!error.kind().was_not_applied());
        ends.recv().unwrap();
    }
}

pub fn an_answer_that_stalls_ends_in_a_timeout(backend: &impl Backend) {
    let server = Server::start(|connection| {
        connection.read();
        let _ = connection.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ntrue");
        connection.wait_for_close();
    });
    let request = get("/v1/kv/a").with_timeout(SHORT);
    let error = send(&backend.to(server.url()), request).unwrap_err();
    assert_eq!(error.kind(), TransportErrorKind::Timeout);
}

pub fn an_answer_that_trickles_does_not_outlive_the_timeout(backend: &impl Backend) {
    let server = Server::start(|connection| {
        connection.read();
        let _ = connection.write("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n");
        // Each byte comes long before a timeout between two bytes would end the request.
        while connection.write("x").is_ok() {
            std::thread::sleep(SHORT / 20);
        }
    });
    let request = get("/v1/kv/a").with_timeout(SHORT);
    let error = send(&backend.to(server.url()), request).unwrap_err();
    assert_eq!(error.kind(), TransportErrorKind::Timeout);
}
