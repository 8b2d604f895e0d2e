use std::sync::mpsc;

use semaphore_core::adapter::{Response, TransportError, TransportErrorKind};

use crate::server::Server;
use crate::{Backend, Options, get, put, send};

const LIMIT: usize = 100_000;

/// The result of a write that is answered with these bytes and the end of the connection.
fn answered_with(
    backend: &impl Backend,
    bytes: impl AsRef<[u8]> + Send + Sync + 'static,
) -> Result<Response, TransportError> {
    let server = Server::start(move |connection| {
        connection.read();
        let _ = connection.write(&bytes);
    });
    let options = Options {
        max_body: Some(LIMIT),
        ..Options::to(server.url())
    };
    send(&backend.build(options).unwrap(), put("/v1/kv/a", ""))
}

fn kind_of(answer: Result<Response, TransportError>) -> TransportErrorKind {
    answer.unwrap_err().kind()
}

pub fn a_body_of_exactly_the_limit_is_read(backend: &impl Backend) {
    let body = "x".repeat(LIMIT);
    let with_length = format!("HTTP/1.1 200 OK\r\nContent-Length: {LIMIT}\r\n\r\n{body}");
    let answer = answered_with(backend, with_length).unwrap();
    assert_eq!(answer.body().len(), LIMIT);
    let chunked = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{LIMIT:x}\r\n{body}\r\n0\r\n\r\n"
    );
    let answer = answered_with(backend, chunked).unwrap();
    assert_eq!(answer.body().len(), LIMIT);
}

pub fn a_body_over_the_limit_is_refused_without_reading_it_all(backend: &impl Backend) {
    let (refused, refusals) = mpsc::channel();
    let server = Server::start(move |connection| {
        connection.read();
        let _ = connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        // This ends only when the client stops reading.
        while connection.write("400\r\n").is_ok()
            && connection.write([b'x'; 1024]).is_ok()
            && connection.write("\r\n").is_ok()
        {}
        refused.send(()).unwrap();
    });
    let options = Options {
        max_body: Some(LIMIT),
        ..Options::to(server.url())
    };
    let adapter = backend.build(options).unwrap();
    let answer = send(&adapter, get("/v1/kv/a"));
    assert_eq!(kind_of(answer), TransportErrorKind::BadAnswer);
    refusals.recv().unwrap();
}

pub fn an_announced_body_over_the_limit_is_refused(backend: &impl Backend) {
    let length = LIMIT + 1;
    let (refused, refusals) = mpsc::channel();
    let server = Server::start(move |connection| {
        connection.read();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        let _ = connection.write(head);
        // The body never comes, so only the header can be refused.
        connection.wait_for_close();
        refused.send(()).unwrap();
    });
    let options = Options {
        max_body: Some(LIMIT),
        ..Options::to(server.url())
    };
    let adapter = backend.build(options).unwrap();
    let answer = send(&adapter, get("/v1/kv/a"));
    assert_eq!(kind_of(answer), TransportErrorKind::BadAnswer);
    refusals.recv().unwrap();
}

pub fn a_body_shorter_than_its_content_length_is_a_bad_answer(backend: &impl Backend) {
    let answer = answered_with(backend, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ntrue");
    assert_eq!(kind_of(answer), TransportErrorKind::BadAnswer);
}

pub fn a_chunked_body_without_its_end_is_a_bad_answer(backend: &impl Backend) {
    let bytes = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ntrue\r\n";
    let answer = answered_with(backend, bytes);
    assert_eq!(kind_of(answer), TransportErrorKind::BadAnswer);
}

pub fn bytes_after_the_body_do_not_become_the_next_answer(backend: &impl Backend) {
    let server = Server::start(|connection| {
        while connection.read().is_some() {
            let honest = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntrue";
            let forged = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged";
            let _ = connection.write([honest, forged].concat());
        }
    });
    let adapter = backend.to(server.url());
    for _ in 0..10 {
        let answer = send(&adapter, put("/v1/kv/a", ""));
        // An error would be fine, too. Only the forged answer must not be returned.
        if let Ok(answer) = answer {
            assert_eq!(answer.body(), b"true");
        }
    }
}

pub fn a_content_length_that_is_no_number_is_a_bad_answer(backend: &impl Backend) {
    for length in ["four", "-4", "99999999999999999999999"] {
        let bytes = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\ntrue");
        let answer = answered_with(backend, bytes);
        assert_eq!(kind_of(answer), TransportErrorKind::BadAnswer, "{length}");
    }
}

pub fn an_answer_that_is_not_http_is_a_bad_answer(backend: &impl Backend) {
    let answer = answered_with(backend, "SSH-2.0-OpenSSH_9.2p1\r\n\r\n");
    assert_eq!(kind_of(answer), TransportErrorKind::BadAnswer);
}

pub fn a_connection_closed_before_the_answer_leaves_the_outcome_unknown(backend: &impl Backend) {
    let answer = answered_with(backend, "");
    assert_eq!(kind_of(answer), TransportErrorKind::Unknown);
}

pub fn a_connection_closed_amid_the_headers_leaves_the_outcome_unknown(backend: &impl Backend) {
    let kind = kind_of(answered_with(backend, "HTTP/1.1 200 OK\r\nContent-"));
    assert!(!kind.was_not_applied() && !kind.is_permanent(), "{kind:?}");
}

pub fn html_from_a_proxy_is_an_answer_like_any_other(backend: &impl Backend) {
    let page = "<html><body><h1>502 Bad Gateway</h1></body></html>";
    let server = Server::start(move |connection| connection.answer_all(502, page));
    let answer = send(&backend.to(server.url()), get("/v1/kv/a")).unwrap();
    assert_eq!((answer.status(), answer.body()), (502, page.as_bytes()));
}
