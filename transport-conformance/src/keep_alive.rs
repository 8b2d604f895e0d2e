use std::sync::mpsc;

use semaphore_core::TransportErrorKind;

use crate::server::Server;
use crate::{Backend, get, put, send};

pub fn sequential_requests_share_one_connection(backend: &impl Backend) {
    let server = Server::start(|connection| connection.answer_all(200, "true"));
    let adapter = backend.to(server.url());
    for _ in 0..20 {
        send(&adapter, put("/v1/kv/a", "value")).unwrap();
        send(&adapter, get("/v1/kv/a")).unwrap();
    }
    assert_eq!(server.connections(), 1);
}

pub fn sequential_long_polls_share_one_connection(backend: &impl Backend) {
    let server = Server::start(|connection| connection.answer_all(200, "[]"));
    let adapter = backend.to(server.url());
    for _ in 0..20 {
        send(&adapter, get("/v1/kv/a?index=1").as_long_poll()).unwrap();
    }
    assert_eq!(server.connections(), 1);
}

pub fn a_connection_that_the_agent_wants_closed_is_not_used_again(backend: &impl Backend) {
    let server = Server::start(|connection| {
        connection.read();
        let _ =
            connection.write("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
        connection.wait_for_close();
    });
    let adapter = backend.to(server.url());
    for expected in 1..=3 {
        assert_eq!(send(&adapter, get("/v1/kv/a")).unwrap().body(), b"ok");
        assert_eq!(server.connections(), expected);
    }
}

pub fn a_request_that_dies_on_a_kept_connection_is_not_sent_twice(backend: &impl Backend) {
    let (arrived, arrivals) = mpsc::channel();
    let server = Server::start(move |connection| {
        while let Some(request) = connection.read() {
            let is_last = request.target == "/v1/last";
            arrived.send(request.target).unwrap();
            if is_last {
                return;
            }
            connection.answer(200, "true");
        }
    });
    let adapter = backend.to(server.url());
    send(&adapter, put("/v1/first", "")).unwrap();
    let error = send(&adapter, put("/v1/last", "")).unwrap_err();
    assert_eq!(error.kind(), TransportErrorKind::Unknown);
    assert!(!error.kind().was_not_applied());
    let arrived: Vec<_> = arrivals.try_iter().collect();
    assert_eq!(arrived, ["/v1/first", "/v1/last"]);
    assert_eq!(server.connections(), 1);
}
