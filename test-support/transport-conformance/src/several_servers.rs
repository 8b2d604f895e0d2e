//! A name that resolves to several servers, as in a cluster without client agents. One may be gone,
//! silent, or without a leader, and the others serve.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use semaphore_core::adapter::{BlockOn, Request, Response, Transport, TransportErrorKind};

use crate::server::{Connection, Server};
use crate::tls::{Authority, Names};
use crate::{Backend, Lookup, Options, get, put, send};

const FIRST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const SECOND: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
const THIRD: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 3));

const SHORT: Duration = Duration::from_millis(300);

/// This is longer than any expected step takes.
const PATIENCE: Duration = Duration::from_mins(1);

/// The server's port, which the other servers use on their own addresses.
fn port(server: &Server) -> u16 {
    let url = server.url();
    url.rsplit(':').next().unwrap().parse().unwrap()
}

/// This address with the port of the first server.
fn beside(first: &Server, ip: IpAddr) -> SocketAddr {
    SocketAddr::new(ip, port(first))
}

/// A transport to a name that has these addresses, in this order.
fn named<B: Backend, const N: usize>(
    backend: &B,
    server: &Server,
    addresses: [IpAddr; N],
) -> B::Adapter {
    let options = Options {
        connect_timeout: Some(3 * SHORT),
        lookup: Some(Lookup::new(move || addresses.to_vec())),
        ..Options::to(server.url_at("consul.test"))
    };
    backend.build(options).unwrap()
}

/// Answers each request with the server's name, and closes the connection.
fn one_by_one(name: &'static str) -> impl Fn(&mut Connection) + Send + Sync + 'static {
    move |connection| {
        if connection.read().is_some() {
            connection.answer_with(200, "Connection: close\r\n", name);
        }
        connection.wait_for_close();
    }
}

/// Accepts connections, and answers nothing.
fn frozen(connection: &mut Connection) {
    connection.wait_for_close();
}

/// An address where no connection is refused, and none is accepted.
struct Silent {
    listener: TcpListener,
    _waiting: Vec<TcpStream>,
}

impl Silent {
    /// Its port is chosen here first: most programs of this machine talk from this address, and one
    /// of them may use the port that was free on another.
    fn first() -> Self {
        Self::at(SocketAddr::new(FIRST, 0))
    }

    /// This address with the port of this one.
    fn beside(&self, ip: IpAddr) -> SocketAddr {
        let address = self.listener.local_addr().unwrap();
        SocketAddr::new(ip, address.port())
    }

    fn at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(100));
        // The system accepts connections until the listener's queue is full. Then it is silent.
        let waiting = std::iter::from_fn(|| connect().ok()).collect();
        Self {
            listener,
            _waiting: waiting,
        }
    }
}

/// Sends the request up to as many times as there are servers. A failed attempt was not applied, or
/// timed out.
#[track_caller]
fn served(adapter: &(impl Transport + BlockOn), request: &Request) -> Response {
    for _ in 0..2 {
        match send(adapter, request.clone()) {
            Ok(answer) => return answer,
            Err(error) => {
                let kind = error.kind();
                assert!(!kind.is_permanent(), "{error:?}");
            }
        }
    }
    send(adapter, request.clone()).unwrap()
}

pub fn the_one_server_that_serves_is_found(backend: &impl Backend) {
    let silent = Silent::first();
    let third = silent.beside(THIRD).to_string();
    let third = Server::start_at(&third, one_by_one("third"));
    let addresses = [FIRST, SECOND, THIRD];
    for request in [put("/v1/kv/a", ""), get("/v1/kv/a").as_long_poll()] {
        let adapter = named(backend, &third, addresses);
        assert_eq!(send(&adapter, request).unwrap().body(), b"third");
    }
}

/// A request may run out of time before it reaches a server that serves. The next request then goes
/// on from there.
pub fn several_silent_servers_are_passed_by(backend: &impl Backend) {
    let silent = Silent::first();
    let _silent_too = Silent::at(silent.beside(SECOND));
    let third = silent.beside(THIRD).to_string();
    let third = Server::start_at(&third, one_by_one("third"));
    let adapter = named(backend, &third, [FIRST, SECOND, THIRD]);
    let request = put("/v1/kv/a", "").with_timeout(SHORT * 3 / 2);
    assert_eq!(served(&adapter, &request).body(), b"third");
}

pub fn a_server_that_failed_is_tried_last(backend: &impl Backend) {
    let first = Server::start(frozen);
    let address = beside(&first, SECOND).to_string();
    let _second = Server::start_at(&address, one_by_one("second"));
    let adapter = named(backend, &first, [FIRST, SECOND]);
    let error = send(&adapter, put("/v1/kv/a", "").with_timeout(SHORT)).unwrap_err();
    assert_eq!(error.kind(), TransportErrorKind::Timeout);
    for _ in 0..5 {
        let answer = send(&adapter, put("/v1/kv/a", "")).unwrap();
        assert_eq!(answer.body(), b"second");
    }
    assert_eq!(first.connections(), 1);
}

/// It is silent on new connections, too. On a busy machine both servers may have failed, and then
/// it is tried once more.
pub fn a_server_that_falls_silent_is_left(backend: &impl Backend) {
    let is_silent = Arc::new(AtomicBool::new(false));
    let silence = Arc::clone(&is_silent);
    let first = Server::start(move |connection| {
        while connection.read().is_some() {
            if silence.load(Ordering::SeqCst) {
                return connection.wait_for_close();
            }
            connection.answer(200, "first");
        }
    });
    let address = beside(&first, SECOND).to_string();
    let _second = Server::start_at(&address, one_by_one("second"));
    let adapter = named(backend, &first, [FIRST, SECOND]);
    let answer = send(&adapter, put("/v1/kv/a", "")).unwrap();
    assert_eq!(answer.body(), b"first");
    is_silent.store(true, Ordering::SeqCst);
    let request = put("/v1/kv/a", "").with_timeout(SHORT);
    // This request meets the silence, unless the client connects to the second server in time.
    if let Ok(answer) = send(&adapter, request) {
        assert_eq!(answer.body(), b"second");
    }
    // This request has more time than the silence took, since the second server may need longer
    // than that.
    let request = put("/v1/kv/a", "");
    for _ in 0..3 {
        assert_eq!(served(&adapter, &request).body(), b"second");
    }
}

pub fn an_open_connection_to_a_server_that_failed_is_not_used(backend: &impl Backend) {
    let first = Server::start(|connection| {
        while let Some(request) = connection.read() {
            if request.target != "/v1/kv/a?index=1" {
                return connection.wait_for_close();
            }
            connection.answer(200, "first");
        }
    });
    let address = beside(&first, SECOND).to_string();
    let _second = Server::start_at(&address, one_by_one("second"));
    let adapter = named(backend, &first, [FIRST, SECOND]);
    let poll = || get("/v1/kv/a?index=1").as_long_poll();
    assert_eq!(send(&adapter, poll()).unwrap().body(), b"first");
    send(&adapter, put("/v1/kv/a", "").with_timeout(SHORT)).unwrap_err();
    assert_eq!(send(&adapter, poll()).unwrap().body(), b"second");
}

pub fn a_server_without_a_leader_for_long_is_left(backend: &impl Backend) {
    let first = Server::start(|connection| connection.answer_all(500, "No cluster leader"));
    let address = beside(&first, SECOND).to_string();
    let _second = Server::start_at(&address, one_by_one("second"));
    let adapter = named(backend, &first, [FIRST, SECOND]);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = send(&adapter, get("/v1/kv/a")).unwrap();
        if answer.body() == b"second" {
            break;
        }
        assert_eq!(answer.status(), 500);
        assert!(Instant::now() < deadline, "the first server is never left");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn each_new_connection_resolves_the_name_anew(backend: &impl Backend) {
    let first = Server::start(one_by_one("first"));
    let address = beside(&first, SECOND).to_string();
    let _second = Server::start_at(&address, one_by_one("second"));
    let is_moved = Arc::new(AtomicBool::new(false));
    let moved = Arc::clone(&is_moved);
    let found = move || {
        let server = if moved.load(Ordering::SeqCst) {
            SECOND
        } else {
            FIRST
        };
        vec![server]
    };
    let options = Options {
        lookup: Some(Lookup::new(found)),
        ..Options::to(first.url_at("consul.test"))
    };
    let adapter = backend.build(options).unwrap();
    assert_eq!(send(&adapter, get("/v1/kv/a")).unwrap().body(), b"first");
    is_moved.store(true, Ordering::SeqCst);
    assert_eq!(send(&adapter, get("/v1/kv/a")).unwrap().body(), b"second");
}

/// The options of a client that trusts the authority `agents`, and shows a certificate from
/// `clients`.
fn encrypted(server: &Server, agents: &Authority, clients: &Authority) -> Options {
    let client = clients.certify(Names::dns("client"));
    Options {
        ca_cert: Some(agents.pem()),
        client_cert: Some((client.pem(), client.key_pem())),
        connect_timeout: Some(3 * SHORT),
        lookup: Some(Lookup::new(|| vec![FIRST, SECOND])),
        ..Options::to(server.url_at("consul.test"))
    }
}

/// A server of HTTPS with a certificate from `agents`, which demands one from `clients`.
fn start_tls(address: &str, agents: &Authority, clients: &Authority) -> Server {
    let agent = agents.certify(Names::dns("consul.test"));
    let config = agent.server_config(Some(clients));
    let config = move || Arc::clone(&config);
    Server::start_tls_at(address, config, one_by_one("tls"))
}

pub fn a_server_with_a_certificate_that_is_not_trusted_is_passed_by(backend: &impl Backend) {
    let (ours, strangers, clients) = (Authority::new(), Authority::new(), Authority::new());
    let first = start_tls("127.0.0.1:0", &strangers, &clients);
    let _second = start_tls(&beside(&first, SECOND).to_string(), &ours, &clients);
    let adapter = backend.build(encrypted(&first, &ours, &clients)).unwrap();
    for _ in 0..3 {
        assert_eq!(send(&adapter, put("/v1/kv/a", "")).unwrap().body(), b"tls");
    }
    assert_eq!(first.connections(), 1);
}

pub fn a_server_that_refuses_the_clients_certificate_is_passed_by(backend: &impl Backend) {
    let (ours, clients, strangers) = (Authority::new(), Authority::new(), Authority::new());
    let first = start_tls("127.0.0.1:0", &ours, &strangers);
    let _second = start_tls(&beside(&first, SECOND).to_string(), &ours, &clients);
    let adapter = backend.build(encrypted(&first, &ours, &clients)).unwrap();
    // If the refusal arrives before the request is under way, the connection only counts as gone.
    for _ in 0..3 {
        assert_eq!(served(&adapter, &put("/v1/kv/a", "")).body(), b"tls");
    }
    assert_eq!(first.connections(), 1);
}

pub fn a_server_that_never_ends_its_handshake_is_passed_by(backend: &impl Backend) {
    let (ours, clients) = (Authority::new(), Authority::new());
    let first = Server::start(frozen);
    let _second = start_tls(&beside(&first, SECOND).to_string(), &ours, &clients);
    let options = Options {
        url: first.url_at("consul.test").replace("http:", "https:"),
        ..encrypted(&first, &ours, &clients)
    };
    let adapter = backend.build(options).unwrap();
    for _ in 0..3 {
        assert_eq!(served(&adapter, &put("/v1/kv/a", "")).body(), b"tls");
    }
    assert_eq!(first.connections(), 1);
}
