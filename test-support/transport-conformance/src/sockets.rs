//! An agent that listens on a Unix socket.

use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use semaphore_core::Token;
use semaphore_core::adapter::TransportErrorKind;
use socket2::{Domain, SockAddr, Socket, Type};
use tempfile::TempDir;

use crate::cancellation::{Outcome, send_in_background};
use crate::server::{Connection, Server};
use crate::{Backend, get, put, send, send_in_sequence};

const SHORT: Duration = Duration::from_millis(100);

/// A server on a socket, and the folder that it is in.
fn start(script: impl Fn(&mut Connection) + Send + Sync + 'static) -> (TempDir, Server) {
    let (folder, path) = fresh();
    (folder, Server::start_on_socket(path, script))
}

/// A path with characters that a URL would have to encode.
fn fresh() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a consul? \u{fc}%41.sock");
    (folder, path)
}

fn url(path: &std::path::Path) -> String {
    format!("unix://{}", path.display())
}

pub fn a_request_goes_through_a_socket_of_the_file_system(backend: &impl Backend) {
    let (arrived, arrivals) = mpsc::channel();
    let (_folder, server) = start(move |connection| {
        while let Some(request) = connection.read() {
            arrived.send(request).unwrap();
            connection.answer_with(200, "X-Consul-Index: 17\r\n", "true");
        }
    });
    let token = Token::new("b1gs33cr3t").ok();
    let target = "/v1/kv/service/d%20b/%3F%23?cas=0&dc=a%26b";
    let request = put(target, "value").with_token(token);
    let answer = send(&backend.to(server.url()), request).unwrap();
    assert_eq!((answer.status(), answer.body()), (200, &b"true"[..]));
    assert_eq!(answer.header("x-consul-index"), Some("17"));
    let request = arrivals.try_recv().unwrap();
    assert_eq!((&*request.method, &*request.target), ("PUT", target));
    assert_eq!(request.body, b"value");
    assert_eq!(request.header("host"), Some("localhost"));
    assert_eq!(request.header("x-consul-token"), Some("b1gs33cr3t"));
    assert_eq!(request.header("content-length"), Some("5"));
}

pub fn bodies_larger_than_any_buffer_go_through_a_socket(backend: &impl Backend) {
    let (_folder, server) = start(|connection| {
        while let Some(request) = connection.read() {
            let body = String::from_utf8(request.body).unwrap();
            connection.answer(200, &body.repeat(4));
        }
    });
    let body = "0123456789abcdef".repeat(64 * 1024);
    let answer = send(&backend.to(server.url()), put("/v1/kv/a", &body)).unwrap();
    assert!(answer.body() == body.repeat(4).as_bytes());
}

pub fn sequential_requests_share_a_connection_to_a_socket<B: Backend>(backend: &B) {
    let (_folder, server) = start(|connection| connection.answer_all(200, "true"));
    let requests = (0..20).flat_map(|_| [put("/v1/kv/a", "value"), get("/v1/kv/a")]);
    send_in_sequence(&backend.to(server.url()), requests.collect());
    assert!(server.connections() <= B::CONNECTIONS_OF_A_SEQUENCE);
}

pub fn dropping_the_future_closes_the_connection_to_a_socket(backend: &impl Backend) {
    let (event, events) = mpsc::channel();
    let (_folder, server) = start(move |connection| {
        connection.read();
        event.send("arrived").unwrap();
        connection.wait_for_close();
        event.send("closed").unwrap();
    });
    let adapter = backend.to(server.url());
    for request in [put("/v1/kv/a", ""), get("/v1/kv/a").as_long_poll()] {
        let (abort, outcome) = send_in_background(&adapter, request);
        assert_eq!(events.recv().unwrap(), "arrived");
        abort.abort();
        assert_eq!(events.recv().unwrap(), "closed");
        assert_eq!(outcome.recv().unwrap(), Outcome::Dropped);
    }
}

pub fn a_silent_agent_on_a_socket_ends_in_a_timeout(backend: &impl Backend) {
    let (_folder, server) = start(|connection| {
        connection.read();
        connection.wait_for_close();
    });
    let request = put("/v1/kv/a", "value").with_timeout(SHORT);
    let error = send(&backend.to(server.url()), request).unwrap_err();
    assert_eq!(error.kind(), TransportErrorKind::Timeout);
}

pub fn an_agent_on_a_socket_that_reads_nothing_ends_in_a_timeout(backend: &impl Backend) {
    let (ended, end) = mpsc::channel::<()>();
    let end = std::sync::Mutex::new(end);
    let (_folder, server) = start(move |_| {
        let _ = end.lock().unwrap().recv();
    });
    // This is more than a socket's buffer holds.
    let request = put("/v1/kv/a", &"v".repeat(8 * 1024 * 1024)).with_timeout(SHORT);
    let error = send(&backend.to(server.url()), request).unwrap_err();
    assert_eq!(error.kind(), TransportErrorKind::Timeout);
    drop(ended);
}

pub fn an_answer_that_trickles_from_a_socket_does_not_outlive_the_timeout(backend: &impl Backend) {
    let (_folder, server) = start(|connection| {
        connection.read();
        let _ = connection.write("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n");
        while connection.write("x").is_ok() {
            std::thread::sleep(SHORT / 20);
        }
    });
    let request = get("/v1/kv/a").with_timeout(SHORT);
    let error = send(&backend.to(server.url()), request).unwrap_err();
    assert_eq!(error.kind(), TransportErrorKind::Timeout);
}

pub fn an_answer_from_a_socket_that_is_cut_is_a_bad_answer(backend: &impl Backend) {
    for head in ["Content-Length: 9\r\n", "Transfer-Encoding: chunked\r\n"] {
        let (_folder, server) = start(move |connection| {
            connection.read();
            let _ = connection.write(format!("HTTP/1.1 200 OK\r\n{head}\r\n4\r\n[]"));
        });
        let error = send(&backend.to(server.url()), get("/v1/kv/a")).expect_err(head);
        assert_eq!(error.kind(), TransportErrorKind::BadAnswer, "{head}");
    }
}

pub fn a_connection_to_a_socket_that_was_closed_meanwhile_is_not_used(backend: &impl Backend) {
    let (end, ends) = mpsc::channel();
    let (_folder, server) = start(move |connection| {
        connection.read();
        connection.answer(200, "true");
        // The script's end closes both directions at the same time.
        let _ = end.send(());
    });
    let adapter = backend.to(server.url());
    for _ in 0..5 {
        // Some requests fail: those that are on their way when their connection ends.
        let answered = (0..50).any(|_| send(&adapter, put("/v1/kv/a", "")).is_ok());
        assert!(answered);
        ends.recv().unwrap();
    }
    assert!(server.connections() >= 5);
}

pub fn a_socket_on_which_nobody_listens_was_not_applied(backend: &impl Backend) {
    let (_folder, path) = fresh();
    let adapter = backend.to(url(&path));
    let fails = || {
        for request in [put("/v1/kv/a", ""), get("/v1/kv/a").as_long_poll()] {
            let error = send(&adapter, request).unwrap_err();
            assert_eq!(error.kind(), TransportErrorKind::NotSent, "{error:?}");
        }
    };
    fails();
    // A killed agent leaves this behind.
    drop(UnixListener::bind(&path).unwrap());
    fails();
    std::fs::remove_file(&path).unwrap();
    let server = Server::start_on_socket(&path, |connection| connection.answer_all(200, "true"));
    assert_eq!(server.url(), url(&path));
    assert_eq!(send(&adapter, get("/v1/kv/a")).unwrap().body(), b"true");
}

pub fn a_socket_without_room_was_not_applied(backend: &impl Backend) {
    let (_folder, path) = fresh();
    let address = SockAddr::unix(&path).unwrap();
    let socket = || Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
    let listener = socket();
    listener.bind(&address).unwrap();
    listener.listen(0).unwrap();
    // A frozen agent does the same: it accepts none of these.
    let mut waiting = Vec::new();
    loop {
        let one = socket();
        one.set_nonblocking(true).unwrap();
        if one.connect(&address).is_err() {
            break;
        }
        waiting.push(one);
    }
    let error = send(&backend.to(url(&path)), put("/v1/kv/a", "")).unwrap_err();
    assert!(error.kind().was_not_applied(), "{error:?}");
    assert!(!error.kind().is_permanent(), "{error:?}");
}
