//! The proxy: it forwards, becomes silent, cuts and counts.

// Helpers are part of the tests.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use real_agent::{Agent, Client, Cluster, Gateway, GivenUp, Proxy, SERVERS};

/// Nothing coming for this long counts as silence.
const SILENCE: Duration = Duration::from_millis(200);

#[test]
fn a_proxy_forwards_to_an_agent() {
    let agent = Agent::start().unwrap();
    let proxy = Proxy::start(agent.addr()).unwrap();
    let client = Client::new(proxy.url());
    assert!(client.put("/v1/kv/key", b"value").unwrap().is_true());
    assert_eq!(client.get("/v1/kv/key?raw").unwrap().text(), "value");
    let traffic = proxy.traffic();
    assert_eq!(traffic.connections, 2);
    assert!(traffic.bytes_up > 0 && traffic.bytes_down > 0);
}

#[test]
fn a_silent_proxy_keeps_connections_open_and_delivers_when_resumed() {
    let (proxy, mut client) = echoing();
    assert_eq!(echo(&mut client, b"before"), b"before");

    proxy.silence();
    client.write_all(b"during").unwrap();
    assert_silent(&mut client);
    // The system accepts the connection, but the proxy does not forward.
    let mut late = TcpStream::connect(proxy.addr()).unwrap();
    late.write_all(b"late").unwrap();
    assert_silent(&mut late);
    assert_eq!(proxy.traffic().bytes_up, 6);

    proxy.resume();
    assert_eq!(read(&mut client, 6), b"during");
    assert_eq!(read(&mut late, 4), b"late");
}

#[test]
fn a_stalled_connection_delivers_when_resumed_and_others_are_served() {
    let (proxy, mut client) = echoing();
    assert_eq!(echo(&mut client, b"before"), b"before");
    proxy.stall();
    client.write_all(b"during").unwrap();
    assert_silent(&mut client);
    let mut late = TcpStream::connect(proxy.addr()).unwrap();
    assert_eq!(echo(&mut late, b"late"), b"late");
    proxy.resume();
    assert_eq!(read(&mut client, 6), b"during");
}

#[test]
fn a_silent_proxy_hides_that_the_other_side_has_gone() {
    let (proxy, mut client) = echoing();
    assert_eq!(echo(&mut client, b"before"), b"before");
    proxy.silence();
    client.shutdown(Shutdown::Write).unwrap();
    assert_silent(&mut client);
    proxy.resume();
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn silenced_answers_are_those_of_requests_that_were_applied() {
    let agent = Agent::start().unwrap();
    let proxy = Proxy::start(agent.addr()).unwrap();
    proxy.silence_answers();
    let before = agent.client().get("/v1/kv/key").unwrap().index.unwrap();
    let client = Client::new(proxy.url()).with_timeout(Duration::from_secs(1));
    assert!(client.put("/v1/kv/key", b"value").is_err());
    let path = format!("/v1/kv/key?raw&wait=20s&index={before}");
    let applied = agent.client().get(&path).unwrap();
    assert_eq!(applied.text(), "value");
}

/// Two of three servers are frozen, so there is no leader to apply it until they wake.
#[test]
fn a_write_that_is_given_up_without_a_leader_is_applied_later() {
    let mut cluster = Cluster::start().unwrap();
    let leader = cluster.wait_for_leader().unwrap();
    let others = [1, 2].map(|it| (leader + it) % SERVERS);
    let proxy = Proxy::start(cluster.server(leader).addr()).unwrap();
    let client = Client::new(proxy.url()).with_timeout(Duration::from_secs(1));
    client.put("/v1/kv/before", b"").unwrap();
    assert_eq!(proxy.given_up(), GivenUp::default());
    for other in others {
        cluster.stop(other).unwrap();
    }
    while client.get("/v1/status/leader").unwrap().text() != r#""""# {
        thread::sleep(Duration::from_millis(50));
    }
    assert!(client.put("/v1/kv/key?cas=0", b"value").is_err());
    thread::sleep(Duration::from_secs(1));
    for other in others {
        cluster.cont(other).unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    while proxy.given_up().applied.is_empty() {
        assert!(Instant::now() < deadline, "{:?}", proxy.given_up());
        thread::sleep(Duration::from_millis(20));
    }
    let given_up = proxy.given_up();
    assert_eq!((given_up.writes, given_up.applied.len()), (1, 1));
    assert!(given_up.applied[0] >= Duration::from_millis(900));
}

#[test]
fn a_slow_proxy_delivers_everything_later() {
    let (proxy, mut client) = echoing();
    let delay = Duration::from_millis(300);
    proxy.set_delay(delay);
    let asked = Instant::now();
    assert_eq!(echo(&mut client, b"late"), b"late");
    assert!(asked.elapsed() >= 2 * delay, "there and back");
    proxy.set_delay(Duration::ZERO);
    assert_eq!(echo(&mut client, b"again"), b"again");
}

#[test]
fn a_gateway_answers_in_an_agents_place_until_the_agent_is_back() {
    let agent = Agent::start().unwrap();
    let proxy = Proxy::start(agent.addr()).unwrap();
    let gateway = Gateway::start(404).unwrap();
    proxy.set_target(gateway.addr());
    let client = Client::new(proxy.url());
    let answer = client.put("/v1/kv/key", b"value").unwrap();
    assert_eq!((answer.status, gateway.asked()), (404, 1));
    assert!(answer.text().contains("<html>"), "{}", answer.text());
    proxy.set_target(agent.addr());
    assert_eq!(client.get("/v1/kv/key").unwrap().body, b"");
    assert_eq!(gateway.asked(), 1);
}

#[test]
fn cut_connections_end_and_new_ones_are_served() {
    let (proxy, mut client) = echoing();
    assert_eq!(echo(&mut client, b"before"), b"before");
    proxy.cut();
    assert_ended(&mut client);
    let mut client = TcpStream::connect(proxy.addr()).unwrap();
    assert_eq!(echo(&mut client, b"after"), b"after");
}

#[test]
fn silent_connections_can_be_cut() {
    let (proxy, mut client) = echoing();
    assert_eq!(echo(&mut client, b"before"), b"before");
    proxy.silence();
    client.write_all(b"lost").unwrap();
    proxy.cut();
    assert_ended(&mut client);
    assert_eq!(proxy.traffic().open, 0);
}

#[test]
fn connections_are_counted_and_so_is_their_peak() {
    let (proxy, mut first) = echoing();
    let mut second = TcpStream::connect(proxy.addr()).unwrap();
    echo(&mut first, b"one");
    echo(&mut second, b"two");
    assert_eq!((proxy.traffic().open, proxy.traffic().peak), (2, 2));
    proxy.cut();
    let mut third = TcpStream::connect(proxy.addr()).unwrap();
    echo(&mut third, b"three");
    let traffic = proxy.traffic();
    assert_eq!((traffic.connections, traffic.open, traffic.peak), (3, 1, 2));
    assert_eq!((traffic.bytes_up, traffic.bytes_down), (11, 11));
}

#[test]
fn a_dropped_proxy_closes_everything() {
    // Another test may get the port at once, so it is enough that one of three attempts is refused.
    let is_refused = (0..3).any(|_| {
        let (proxy, mut client) = echoing();
        assert_eq!(echo(&mut client, b"before"), b"before");
        let addr = proxy.addr();
        drop(proxy);
        assert_ended(&mut client);
        TcpStream::connect(addr).is_err()
    });
    assert!(is_refused);
}

#[test]
fn new_connections_go_to_the_new_target() {
    let (agent, other) = (Agent::start().unwrap(), Agent::start().unwrap());
    other.client().put("/v1/kv/key", b"other").unwrap();
    let proxy = Proxy::start(agent.addr()).unwrap();
    let client = Client::new(proxy.url());
    assert_eq!(client.get("/v1/kv/key?raw").unwrap().status, 404);
    proxy.set_target(other.addr());
    assert_eq!(client.get("/v1/kv/key?raw").unwrap().text(), "other");
}

/// A proxy in front of a server that sends everything back, and a connection through it.
fn echoing() -> (Proxy, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::start(listener.local_addr().unwrap()).unwrap();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut from = connection.unwrap();
            let mut to = from.try_clone().unwrap();
            thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Both);
            });
        }
    });
    let client = TcpStream::connect(proxy.addr()).unwrap();
    (proxy, client)
}

fn echo(client: &mut TcpStream, bytes: &[u8]) -> Vec<u8> {
    client.write_all(bytes).unwrap();
    read(client, bytes.len())
}

fn read(client: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    client.read_exact(&mut bytes).unwrap();
    bytes
}

fn assert_silent(client: &mut TcpStream) {
    client.set_read_timeout(Some(SILENCE)).unwrap();
    let read = client.read(&mut [0; 1]).expect_err("it is silent");
    assert!(matches!(
        read.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut
    ));
    client.set_read_timeout(None).unwrap();
}

fn assert_ended(client: &mut TcpStream) {
    assert!(matches!(client.read(&mut [0; 1]), Ok(0) | Err(_)));
}
