//! The Consul in memory over HTTP, as a client with nothing but a socket sees it.
#![cfg(feature = "loopback")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use transport_mock::LoopbackConsul;

/// Long enough for any answer, so that a test that hangs fails.
const LIMIT: Duration = Duration::from_secs(30);

struct Socket(BufReader<TcpStream>);

#[derive(Debug)]
struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers
            .iter()
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map_or("", |(_, value)| value)
    }
}

impl Socket {
    fn open(consul: &LoopbackConsul) -> Self {
        let stream = TcpStream::connect(consul.addr()).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        Self(BufReader::new(stream))
    }

    fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.get_mut().write_all(bytes.as_ref()).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn receive(&mut self) -> Answer {
        let status = self.line();
        let status = status.split(' ').nth(1).expect("a status line");
        let mut answer = Answer {
            status: status.parse().unwrap(),
            headers: Vec::new(),
            body: String::new(),
        };
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(": ") else {
                break;
            };
            answer.headers.push((name.to_owned(), value.to_owned()));
        }
        let length = answer.header("content-length").parse().unwrap();
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        answer.body = String::from_utf8(body).unwrap();
        answer
    }

    fn is_closed(&mut self) -> bool {
        matches!(self.0.read(&mut [0]), Ok(0) | Err(_))
    }

    fn get(&mut self, target: &str) -> Answer {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n"));
        self.receive()
    }

    fn put(&mut self, target: &str, body: &str) -> Answer {
        self.send(put(target, body));
        self.receive()
    }
}

fn put(target: &str, body: &str) -> String {
    let length = body.len();
    format!("PUT {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// Waits for what another thread does, without a limit but the test's own.
fn eventually(holds: impl Fn() -> bool) {
    while !holds() {
        std::thread::yield_now();
    }
}

#[test]
fn one_connection_carries_many_requests() {
    let consul = LoopbackConsul::start().unwrap();
    let mut socket = Socket::open(&consul);
    for round in 0..20 {
        assert_eq!(
            socket.put("/v1/kv/key", &round.to_string()).body.trim(),
            "true"
        );
        assert_eq!(socket.get("/v1/kv/key?raw").body, round.to_string());
    }
    assert_eq!(consul.open_connections(), 1);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let consul = LoopbackConsul::start().unwrap();
    let mut socket = Socket::open(&consul);
    let read = "GET /v1/kv/key?raw HTTP/1.1\r\n\r\n";
    let all = [&put("/v1/kv/key", "1"), read, &put("/v1/kv/key", "2"), read].concat();
    // In pieces that respect no boundary.
    for piece in all.as_bytes().chunks(7) {
        socket.send(piece);
    }
    let bodies: Vec<_> = (0..4)
        .map(|_| socket.receive().body.trim().to_owned())
        .collect();
    assert_eq!(bodies, ["true", "1", "true", "2"]);
}

#[test]
fn keys_and_values_of_any_bytes_survive() {
    let consul = LoopbackConsul::start().unwrap();
    let mut socket = Socket::open(&consul);
    socket.put("/v1/kv/a%20b%3F%23%25%C3%A9", "käse\r\n\r\n");
    let answer = socket.get("/v1/kv/a%20b%3F%23%25%C3%A9?raw");
    assert_eq!((answer.status, answer.body.as_str()), (200, "käse\r\n\r\n"));
    assert_eq!(socket.get("/v1/kv/?keys").body.trim(), "[\"a b?#%é\"]");
}

#[test]
fn a_blocking_query_is_held_open_until_the_key_changes() {
    let consul = LoopbackConsul::start().unwrap();
    let (mut watcher, mut writer) = (Socket::open(&consul), Socket::open(&consul));
    writer.put("/v1/kv/key", "old");
    let index = watcher
        .get("/v1/kv/key")
        .header("X-Consul-Index")
        .to_owned();
    watcher.send(format!(
        "GET /v1/kv/key?raw&wait=600s&index={index} HTTP/1.1\r\n\r\n"
    ));
    assert_eq!(writer.put("/v1/kv/other", "x").status, 200);
    assert_eq!(writer.put("/v1/kv/key", "new").status, 200);
    assert_eq!(watcher.receive().body, "new");
}

#[test]
fn a_blocking_query_ends_by_the_real_clock() {
    let consul = LoopbackConsul::start().unwrap();
    let mut socket = Socket::open(&consul);
    let index = socket.get("/v1/kv/key").header("X-Consul-Index").to_owned();
    let answer = socket.get(&format!("/v1/kv/key?wait=50ms&index={index}"));
    assert_eq!(answer.status, 404);
}

#[test]
fn a_client_that_hangs_up_during_a_blocking_query_is_noticed() {
    let consul = LoopbackConsul::start().unwrap();
    let mut socket = Socket::open(&consul);
    let index = socket.get("/v1/kv/key").header("X-Consul-Index").to_owned();
    socket.send(format!(
        "GET /v1/kv/key?wait=600s&index={index} HTTP/1.1\r\n\r\n"
    ));
    eventually(|| consul.consul(|consul, _| consul.poll_timeout().is_some()));
    drop(socket);
    eventually(|| consul.open_connections() == 0);
    assert_eq!(consul.consul(|consul, _| consul.poll_timeout()), None);
}

#[test]
fn a_client_that_has_closed_its_half_still_gets_its_answer() {
    let consul = LoopbackConsul::start().unwrap();
    let mut socket = Socket::open(&consul);
    socket.send(put("/v1/kv/key", "value"));
    socket
        .0
        .get_ref()
        .shutdown(std::net::Shutdown::Write)
        .unwrap();
    assert_eq!(socket.receive().status, 200);
    assert!(socket.is_closed());
}

#[test]
fn an_operator_reaches_into_the_served_consul() {
    let consul = LoopbackConsul::start().unwrap();
    let mut socket = Socket::open(&consul);
    let created = socket.put("/v1/session/create", r#"{"NodeChecks":[]}"#);
    let id = created.body.split('"').nth(3).unwrap();
    assert_eq!(
        socket.put(&format!("/v1/session/renew/{id}"), "").status,
        200
    );
    consul.consul(|consul, now| consul.destroy_session(now, id));
    assert_eq!(
        socket.put(&format!("/v1/session/renew/{id}"), "").status,
        404
    );
}

#[test]
fn a_chunked_body_is_decoded_for_a_key_and_ignored_for_a_session() {
    let consul = LoopbackConsul::start().unwrap();
    let mut socket = Socket::open(&consul);
    let chunked = "HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    socket.send(format!(
        "PUT /v1/kv/key {chunked}3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: t\r\n\r\n"
    ));
    assert_eq!(socket.receive().status, 200);
    assert_eq!(socket.get("/v1/kv/key?raw").body, "abcde");
    let name = r#"{"Name":"chunked"}"#;
    socket.send(format!(
        "PUT /v1/session/create {chunked}{:x}\r\n{name}\r\n0\r\n\r\n",
        name.len()
    ));
    assert_eq!(socket.receive().status, 200);
    assert!(!socket.get("/v1/session/list").body.contains("chunked"));
}

#[test]
fn a_client_that_asks_first_is_told_to_continue() {
    let consul = LoopbackConsul::start().unwrap();
    let mut socket = Socket::open(&consul);
    socket.send("PUT /v1/kv/key HTTP/1.1\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(socket.line(), "HTTP/1.1 100 Continue");
    assert_eq!(socket.line(), "");
    socket.send("abc");
    assert_eq!(socket.receive().status, 200);
    assert_eq!(socket.get("/v1/kv/key?raw").body, "abc");
}

#[test]
fn a_connection_ends_when_the_client_says_so() {
    let consul = LoopbackConsul::start().unwrap();
    for request in [
        "GET /v1/kv/key HTTP/1.1\r\nConnection: close\r\n\r\n",
        "GET /v1/kv/key HTTP/1.0\r\n\r\n",
    ] {
        let mut socket = Socket::open(&consul);
        socket.send(request);
        assert_eq!(socket.receive().status, 404);
        assert!(socket.is_closed());
    }
}

#[test]
fn what_is_not_a_request_is_refused_and_the_connection_closed() {
    let consul = LoopbackConsul::start().unwrap();
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(70_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(200));
    for (request, status) in [
        ("nonsense\r\n\r\n", 400),
        ("GET v1 HTTP/1.1\r\n\r\n", 400),
        ("PUT / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (
            "PUT / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            400,
        ),
        (
            "PUT / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
        ),
        (
            "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
            400,
        ),
        ("PUT / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        ("PUT / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
        ("PATCH / HTTP/1.1\r\n\r\n", 405),
        (&long, 431),
        (&many, 431),
    ] {
        let mut socket = Socket::open(&consul);
        socket.send(request);
        assert_eq!(socket.receive().status, status, "{request:.60}");
        assert!(socket.is_closed());
    }
    assert_eq!(Socket::open(&consul).get("/v1/kv/key").status, 404);
}

#[test]
fn one_connection_too_many_is_closed() {
    let consul = LoopbackConsul::start().unwrap();
    consul.set_max_connections(Some(2));
    let mut allowed: Vec<_> = (0..2).map(|_| Socket::open(&consul)).collect();
    for socket in &mut allowed {
        assert_eq!(socket.get("/v1/kv/key").status, 404);
    }
    assert!(Socket::open(&consul).is_closed());
    drop(allowed.pop());
    eventually(|| consul.open_connections() == 1);
    assert_eq!(Socket::open(&consul).get("/v1/kv/key").status, 404);
}

#[test]
fn stopping_closes_every_connection_and_frees_the_port() {
    let consul = LoopbackConsul::start().unwrap();
    let mut socket = Socket::open(&consul);
    let index = socket.get("/v1/kv/key").header("X-Consul-Index").to_owned();
    socket.send(format!(
        "GET /v1/kv/key?wait=600s&index={index} HTTP/1.1\r\n\r\n"
    ));
    let addr = consul.addr();
    drop(consul);
    assert!(socket.is_closed());
    assert!(TcpStream::connect(addr).is_err());
}
