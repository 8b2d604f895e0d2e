//! Heads of answers that are invalid, or never end.

use std::time::Duration;

use semaphore_core::adapter::{Response, TransportError, TransportErrorKind};

use crate::server::{Connection, Server};
use crate::{Backend, put, send};

/// The result of a write that this agent answers. It is sent only once, whatever comes back.
pub(crate) fn outcome(
    backend: &impl Backend,
    timeout: Duration,
    script: impl Fn(&mut Connection) + Send + Sync + 'static,
) -> Result<Response, TransportError> {
    let server = Server::start(script);
    let adapter = backend.to(server.url());
    let answer = send(&adapter, put("/v1/kv/a", "value").with_timeout(timeout));
    assert_eq!(server.connections(), 1, "{answer:?}");
    answer
}

/// This is longer than anything takes except waiting.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) const SHORT: Duration = Duration::from_millis(150);

#[track_caller]
pub(crate) fn assert_bad(answer: Result<Response, TransportError>, what: &str) {
    match answer {
        Err(error) => assert_eq!(
            error.kind(),
            TransportErrorKind::BadAnswer,
            "{what}: {error:?}"
        ),
        Ok(answer) => panic!("{what}: {answer:?}"),
    }
}

/// The client may refuse the answer before the time is over.
#[track_caller]
pub(crate) fn assert_ended(answer: Result<Response, TransportError>, what: &str) {
    let kind = answer.expect_err(what).kind();
    let ended = matches!(
        kind,
        TransportErrorKind::Timeout | TransportErrorKind::BadAnswer
    );
    assert!(ended, "{what}: {kind:?}");
}

pub fn a_head_that_is_none_is_a_bad_answer(backend: &impl Backend) {
    for head in [
        "200 OK\r\nContent-Length: 4",
        "HTTP/1.1\r\nContent-Length: 4",
        "HTTP/1.1 OK\r\nContent-Length: 4",
        "HTTP/1.1 99 Low\r\nContent-Length: 4",
        "HTTP/1.1 2000 High\r\nContent-Length: 4",
        "HTTP/1.1 -20 Minus\r\nContent-Length: 4",
        "HTTP/9.9 200 OK\r\nContent-Length: 4",
        "HTTP/2 200 OK\r\nContent-Length: 4",
        "http/1.1 200 OK\r\nContent-Length: 4",
        "\0\0\0\0 200 OK\r\nContent-Length: 4",
        "\u{16}\u{3}\u{1}\r\nContent-Length: 4",
        "HTTP/1.1 200 OK\r\nno colon here\r\nContent-Length: 4",
        "HTTP/1.1 200 OK\r\n: no name\r\nContent-Length: 4",
        "HTTP/1.1 200 OK\r\nA\0B: nul\r\nContent-Length: 4",
        "HTTP/1.1 200 OK\r\nA: nul\0nul\r\nContent-Length: 4",
    ] {
        let answer = outcome(backend, LONG, move |connection| {
            connection.read();
            let _ = connection.write(format!("{head}\r\n\r\ntrue"));
        });
        assert_bad(answer, head);
    }
}

pub fn headers_without_end_are_a_bad_answer(backend: &impl Backend) {
    let endless: [(&str, &str); 4] = [
        ("HTTP/1.1 200 OK\r\n", "A: b\r\n"),
        ("HTTP/1.1 200 OK\r\nA: ", "bbbbbbbbbbbbbbbb"),
        ("HTTP/1.1 200 OK\r\n", "AAAAAAAAAAAAAAAA"),
        ("HTTP/1.1 200 ", "OK OK OK OK OK "),
    ];
    for (start, more) in endless {
        let answer = outcome(backend, LONG, move |connection| {
            connection.read();
            let more = more.repeat(100);
            let _ = connection.write(start);
            // This ends only when the client stops reading.
            while connection.write(&more).is_ok() {}
        });
        assert_bad(answer, more);
    }
}

pub fn headers_that_trickle_do_not_outlive_the_timeout(backend: &impl Backend) {
    let answer = outcome(backend, SHORT, |connection| {
        connection.read();
        let _ = connection.write("HTTP/1.1 200 OK\r\nA: ");
        while connection.write("b").is_ok() {
            std::thread::sleep(SHORT / 20);
        }
    });
    assert_eq!(answer.unwrap_err().kind(), TransportErrorKind::Timeout);
}

pub fn interim_answers_come_before_the_answer(backend: &impl Backend) {
    let answer = outcome(backend, LONG, |connection| {
        connection.read();
        let _ = connection.write("HTTP/1.1 100 Continue\r\n\r\n");
        let _ = connection.write("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
        connection.answer(200, "true");
        connection.wait_for_close();
    });
    let answer = answer.unwrap();
    assert_eq!((answer.status(), answer.body()), (200, &b"true"[..]));
}

pub fn interim_answers_without_end_do_not_outlive_the_timeout(backend: &impl Backend) {
    for status in [100, 102, 103] {
        let answer = outcome(backend, SHORT, move |connection| {
            connection.read();
            while connection
                .write(format!("HTTP/1.1 {status} Wait\r\n\r\n"))
                .is_ok()
            {
                std::thread::sleep(SHORT / 100);
            }
        });
        assert_ended(answer, &status.to_string());
    }
}

pub fn an_upgrade_that_nobody_asked_for_is_no_success(backend: &impl Backend) {
    let answer = outcome(backend, SHORT, |connection| {
        connection.read();
        let head =
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: foo\r\n\r\n";
        let _ =
            connection.write([head, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntrue"].concat());
        connection.wait_for_close();
    });
    match answer {
        Ok(answer) => assert_eq!((answer.status(), answer.body()), (101, &b""[..])),
        Err(error) => assert!(!error.kind().was_not_applied(), "{error:?}"),
    }
}
