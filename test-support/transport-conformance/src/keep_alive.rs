use std::sync::mpsc;

use semaphore_core::adapter::{Request, TransportErrorKind};

use crate::server::Server;
use crate::{Backend, get, put, send, send_in_sequence};

pub fn sequential_requests_share_a_connection(backend: &impl Backend) {
    share_a_connection(backend, || [put("/v1/kv/a", "value"), get("/v1/kv/a")]);
}

pub fn sequential_long_polls_share_a_connection(backend: &impl Backend) {
    share_a_connection(backend, || [get("/v1/kv/a?index=1").as_long_poll()]);
}

fn share_a_connection<B: Backend, const N: usize>(backend: &B, requests: fn() -> [Request; N]) {
    let server = Server::start(|connection| connection.answer_all(200, "true"));
    let requests = (0..20).flat_map(|_| requests()).collect();
    send_in_sequence(&backend.to(server.url()), requests);
    assert!(server.connections() <= B::CONNECTIONS_OF_A_SEQUENCE);
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
}
