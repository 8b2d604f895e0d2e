use std::sync::mpsc;

use semaphore_core::adapter::Request;

use crate::server::Server;
use crate::{Backend, get, put, send};

pub fn a_redirect_of_a_read_is_the_answer(backend: &impl Backend) {
    for status in [301, 302, 303, 307, 308] {
        is_the_answer(backend, status, get("/v1/kv/a"));
    }
}

pub fn a_redirect_of_a_write_is_the_answer(backend: &impl Backend) {
    for status in [301, 302, 303, 307, 308] {
        is_the_answer(backend, status, put("/v1/kv/a", "value"));
    }
}

fn is_the_answer(backend: &impl Backend, status: u16, request: Request) {
    let (arrived, arrivals) = mpsc::channel();
    let server = Server::start(move |connection| {
        while let Some(request) = connection.read() {
            arrived.send(request.target).unwrap();
            let _ = connection.write(format!(
                "HTTP/1.1 {status} Go\r\nLocation: /v1/elsewhere\r\nContent-Length: 4\r\n\r\nmove"
            ));
        }
    });
    let answer = send(&backend.to(server.url()), request).unwrap();
    assert_eq!(answer.status(), status);
    assert_eq!(answer.header("location"), Some("/v1/elsewhere"));
    assert_eq!(answer.body(), b"move");
    let arrived: Vec<_> = arrivals.try_iter().collect();
    assert_eq!(arrived, ["/v1/kv/a"]);
}
