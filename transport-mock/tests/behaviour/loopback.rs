//! The Consul in memory over HTTP, as a client with only a socket sees it.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use transport_mock::consul::Version;
use transport_mock::{Fault, LoopbackConsul, RequestKind, Rule};

/// This is long enough for any answer. It makes a test that hangs fail.
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
        Self::open_at(consul.addr())
    }

    fn open_at(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).unwrap();
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

    /// Whether no answer comes within a moment.
    fn is_silent(&mut self) -> bool {
        let moment = Duration::from_millis(100);
        self.0.get_ref().set_read_timeout(Some(moment)).unwrap();
        let read = self.0.read(&mut [0]);
        self.0.get_ref().set_read_timeout(Some(LIMIT)).unwrap();
        matches!(read, Err(error) if error.kind() == ErrorKind::WouldBlock)
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

/// Waits for another thread. Only the test's own limit ends it.
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
    // In pieces that ignore all boundaries.
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
    consul.world().set_max_connections(Some(2));
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

#[test]
fn it_listens_where_it_is_told_to() {
    let consul = LoopbackConsul::bind("[::1]:0").unwrap();
    assert!(consul.url().starts_with("http://[::1]:"), "{consul:?}");
    assert_eq!(Socket::open(&consul).get("/v1/kv/key").status, 404);
    // The port is in use.
    assert!(LoopbackConsul::bind(consul.addr()).is_err());
    let addr = consul.addr();
    drop(consul);
    let again = LoopbackConsul::bind(addr).unwrap();
    assert_eq!(again.addr(), addr);
}

#[test]
fn it_is_of_the_release_that_is_wanted() {
    let consul = LoopbackConsul::bind_with("127.0.0.1:0", 7, Version::V1_22).unwrap();
    let answer = Socket::open(&consul).get("/v1/agent/self");
    assert!(answer.body.contains("\"Version\":\"1.22."), "{answer:?}");
}

#[test]
fn a_refusal_is_answered_as_often_as_it_is_ordered() {
    let consul = LoopbackConsul::start().unwrap();
    let refusal = Rule::new(Fault::too_many_requests()).times(2);
    consul.world().inject(refusal);
    let mut socket = Socket::open(&consul);
    let statuses = [(); 3].map(|()| socket.get("/v1/kv/key").status);
    assert_eq!(statuses, [429, 429, 404]);
    // Orders a fault over HTTP, as for `consul-in-memory`.
    assert_eq!(socket.put("/mock/503?times=1", "").status, 200);
    assert_eq!(socket.get("/v1/kv/key").status, 503);
    assert_eq!(socket.put("/mock/503?rate=2", "").status, 400);
}

#[test]
fn a_write_whose_answer_is_lost_is_applied() {
    let consul = LoopbackConsul::start().unwrap();
    let lost = Rule::new(Fault::LoseAnswer).kind(RequestKind::KvPut);
    consul.world().inject(lost);
    let mut writer = Socket::open(&consul);
    writer.send(put("/v1/kv/key", "value"));
    assert!(writer.is_silent());
    assert_eq!(Socket::open(&consul).get("/v1/kv/key?raw").body, "value");
}

#[test]
fn a_connection_that_is_reset_is_closed() {
    let consul = LoopbackConsul::start().unwrap();
    consul.world().inject(Rule::new(Fault::ResetBefore));
    let mut writer = Socket::open(&consul);
    writer.send(put("/v1/kv/key", "value"));
    assert!(writer.is_closed());
    assert_eq!(Socket::open(&consul).get("/v1/kv/key").status, 404);
}

#[test]
fn a_host_that_is_cut_off_hears_nothing_and_others_do() {
    let consul = LoopbackConsul::start().unwrap();
    let addr = consul.listen("2", "127.0.0.1:0").unwrap();
    let (mut first, mut second) = (Socket::open(&consul), Socket::open_at(addr));
    consul.world().stall("2");
    second.send("GET /v1/kv/key HTTP/1.1\r\n\r\n");
    assert_eq!(first.get("/v1/kv/key").status, 404);
    assert!(second.is_silent());
    consul.world().heal("2");
    assert_eq!(second.receive().status, 404);

    consul.world().partition("1");
    first.send("GET /v1/kv/key HTTP/1.1\r\n\r\n");
    assert!(first.is_silent());
    consul.world().heal("1");
    assert_eq!(Socket::open(&consul).get("/v1/kv/key").status, 404);
}

#[test]
fn an_agent_that_lags_behind_shows_what_was() {
    let consul = LoopbackConsul::start().unwrap();
    let addr = consul.listen("2", "127.0.0.1:0").unwrap();
    let (mut reader, mut writer) = (Socket::open(&consul), Socket::open_at(addr));
    writer.put("/v1/kv/key", "old");
    consul.world().lag("1");
    writer.put("/v1/kv/key", "new");
    assert_eq!(reader.get("/v1/kv/key?raw").body, "old");
    assert_eq!(reader.get("/v1/kv/key?raw&consistent").body, "new");
    consul.world().catch_up("1");
    assert_eq!(reader.get("/v1/kv/key?raw").body, "new");
}

#[test]
fn without_a_leader_requests_are_refused_until_one_is_elected() {
    let consul = LoopbackConsul::start().unwrap();
    let mut socket = Socket::open(&consul);
    consul.world().lose_leader();
    assert_eq!(socket.get("/v1/kv/key").status, 500);
    consul.world().elect_leader();
    assert_eq!(socket.get("/v1/kv/key").status, 404);
    assert!(consul.world().story().contains("leader elected"));
}

#[test]
fn latency_is_waited_for() {
    let consul = LoopbackConsul::start().unwrap();
    let long = Duration::from_secs(3600);
    let mut socket = Socket::open(&consul);
    consul.world().set_latency(long..=long);
    socket.send("GET /v1/kv/key HTTP/1.1\r\n\r\n");
    assert!(socket.is_silent());
}
