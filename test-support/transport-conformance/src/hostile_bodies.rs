//! Bodies with a wrong length, and answers that end or come too early.

use semaphore_core::adapter::TransportErrorKind;

use crate::hostile_heads::{LONG, SHORT, assert_bad, assert_ended, outcome};
use crate::server::{Connection, Server};
use crate::{Backend, Options, get, put, send};

const WITH_LENGTH: &str = "HTTP/1.1 200 OK\r\nX-Consul-Index: 17\r\nContent-Length: 4\r\n\r\ntrue";
const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\ntr\r\n2\r\nue\r\n0\r\n\r\n";

pub fn a_connection_closed_at_any_byte_of_the_answer_is_no_answer(backend: &impl Backend) {
    // The last CRLF of a chunked answer ends its trailers, and this one has none.
    let chunked = &CHUNKED[..CHUNKED.len() - 2];
    for whole in [WITH_LENGTH, chunked] {
        for end in 0..whole.len() {
            let part = &whole[..end];
            if part.ends_with("0\r\n") && part.contains("ue") {
                continue;
            }
            let answer = outcome(backend, LONG, move |connection| {
                connection.read();
                let _ = connection.write(part);
            });
            let kind = answer.expect_err(part).kind();
            let honest = matches!(
                kind,
                TransportErrorKind::Unknown | TransportErrorKind::BadAnswer
            );
            assert!(honest, "{part:?}: {kind:?}");
        }
    }
}

pub fn a_connection_closed_before_the_request_is_read_is_no_answer(backend: &impl Backend) {
    for bytes in ["", "HTTP/1.1 "] {
        let server = Server::start(move |connection| {
            connection.wait_for_request();
            let _ = connection.write(bytes);
        });
        let adapter = backend.to(server.url());
        for length in [10, 5_000_000] {
            let body = "x".repeat(length);
            let kind = send(&adapter, put("/v1/kv/a", &body)).unwrap_err().kind();
            assert!(!kind.is_permanent(), "{kind:?}");
        }
    }
}

pub fn an_answer_before_the_request_is_read_holds_nothing_up(backend: &impl Backend) {
    for length in [10, 20_000_000] {
        let (done, dones) = std::sync::mpsc::channel::<()>();
        let dones = std::sync::Mutex::new(dones);
        let server = Server::start(move |connection| {
            let _ = connection.write("HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig");
            // Reads nothing until the other side has given up.
            let _ = dones.lock().unwrap().recv();
        });
        let body = "x".repeat(length);
        let request = put("/v1/kv/a", &body).with_timeout(SHORT);
        match send(&backend.to(server.url()), request) {
            Ok(answer) => assert_eq!(answer.status(), 413),
            Err(error) => assert!(!error.kind().is_permanent(), "{error:?}"),
        }
        drop(done);
    }
}

pub fn lengths_that_disagree_are_a_bad_answer(backend: &impl Backend) {
    for lengths in [
        "Content-Length: 4\r\nContent-Length: 2",
        "Content-Length: 2\r\nContent-Length: 4",
        "Content-Length: 4, 2",
        "Content-Length: 4 4",
        "Content-Length:",
        "Content-Length: 0x4",
        "Content-Length: 4.0",
        "Content-Length: -1",
        "Content-Length: 18446744073709551616",
    ] {
        let answer = outcome(backend, LONG, move |connection| {
            connection.read();
            let _ = connection.write(format!("HTTP/1.1 200 OK\r\n{lengths}\r\n\r\ntrue"));
        });
        assert_bad(answer, lengths);
    }
}

pub fn chunks_that_are_none_are_a_bad_answer(backend: &impl Backend) {
    for chunks in [
        "x\r\ntrue\r\n0\r\n\r\n",
        "-4\r\ntrue\r\n0\r\n\r\n",
        "\r\ntrue\r\n0\r\n\r\n",
        "4\r\ntrueX\r\n0\r\n\r\n",
        "2\r\ntrue\r\n0\r\n\r\n",
        "4true\r\n0\r\n\r\n",
        "10000000000000004\r\ntrue\r\n0\r\n\r\n",
        "fffffffffffffffffffffff\r\ntrue\r\n0\r\n\r\n",
        "ffffffffffffffff\r\ntrue\r\n0\r\n\r\n",
        "9\r\ntrue\r\n0\r\n\r\n",
    ] {
        let answer = outcome(backend, LONG, move |connection| {
            connection.read();
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            let _ = connection.write([head, chunks].concat());
        });
        assert_bad(answer, chunks);
    }
}

pub fn what_stands_around_chunks_without_end_does_not_outlive_the_timeout(backend: &impl Backend) {
    for (start, more) in [
        ("", "0"),
        ("4;", "extension;"),
        ("4\r\ntrue\r\n0\r\n", "A: b\r\n"),
        ("4\r\ntrue\r\n0\r\nA: ", "bbbbbbbb"),
    ] {
        let answer = outcome(backend, SHORT, move |connection| {
            connection.read();
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            let _ = connection.write([head, start].concat());
            let more = more.repeat(100);
            while connection.write(&more).is_ok() {}
        });
        assert_ended(answer, more);
    }
}

pub fn a_body_without_a_length_is_bounded(backend: &impl Backend) {
    for head in ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\n"] {
        let server = Server::start(move |connection: &mut Connection| {
            connection.read();
            let _ = connection.write(head);
            while connection.write([b'x'; 1024]).is_ok() {}
        });
        let options = Options {
            max_body: Some(100_000),
            ..Options::to(server.url())
        };
        let adapter = backend.build(options).unwrap();
        assert_bad(send(&adapter, get("/v1/kv/a")), head);
    }
}

pub fn a_body_without_a_length_that_is_reset_is_no_answer(backend: &impl Backend) {
    for _ in 0..20 {
        let answer = outcome(backend, LONG, |connection| {
            connection.wait_for_request();
            let _ = connection.write("HTTP/1.1 200 OK\r\n\r\n[");
        });
        assert!(!answer.unwrap_err().kind().is_permanent());
    }
}

pub fn an_empty_answer_with_a_body_does_not_begin_the_next(backend: &impl Backend) {
    for status in [204, 304] {
        let server = Server::start(move |connection| {
            while connection.read().is_some() {
                let head = format!("HTTP/1.1 {status} Empty\r\nContent-Length: 42\r\n\r\n");
                let _ = connection.write(head + "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
            }
        });
        let adapter = backend.to(server.url());
        for _ in 0..5 {
            if let Ok(answer) = send(&adapter, get("/v1/kv/a").with_timeout(SHORT)) {
                assert_eq!(answer.status(), status);
            }
        }
    }
}

pub fn a_packed_body_is_not_unpacked(backend: &impl Backend) {
    // The output of `printf true | gzip`. A larger one would be a bomb.
    let packed: &[u8] =
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03+)*M\x05\x00\x8e)\xb7\xff\x04\x00\x00\x00";
    for encoding in ["gzip", "br", "deflate", "zstd"] {
        let answer = outcome(backend, LONG, move |connection| {
            connection.read();
            let length = packed.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: {length}\r\n\r\n"
            );
            let _ = connection.write([head.as_bytes(), packed].concat());
            connection.wait_for_close();
        });
        assert_eq!(answer.unwrap().body(), packed, "{encoding}");
    }
}
