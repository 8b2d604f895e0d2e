//! A name that resolves to several servers, as without client agents.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use real_agent::{Agent, Cluster, Proxy, SERVERS};

use crate::contest::{Contended, both_with};
use crate::scene::{SHORT_TTL, wait_until};
use crate::{Backend, Lookup, Options};

const ADDRESSES: [IpAddr; SERVERS] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)),
    IpAddr::V4(Ipv4Addr::new(127, 0, 0, 3)),
];

/// Options that connect to the name of all servers.
fn options(port: u16) -> Options {
    Options {
        lookup: Some(Lookup(Arc::new(|| ADDRESSES.to_vec()))),
        ..Options::to(format!("http://consul.test:{port}"))
    }
}

/// One of three addresses is silent, one refuses, and one serves. Then they change roles.
pub fn holds_outlive_the_servers_that_they_are_renewed_through(backend: &impl Backend) {
    let agent = Agent::start().unwrap();
    let [first, second, third] = ADDRESSES;
    let serving = Proxy::start_at(SocketAddr::new(third, 0), agent.addr()).unwrap();
    let port = serving.addr().port();
    let silent = Proxy::start_at(SocketAddr::new(first, port), agent.addr()).unwrap();
    silent.silence();
    let options = options(port);
    let url = options.url.clone();
    let contended =
        both_with(backend, &agent, &options).map(|it| it.contend([&url, &url], SHORT_TTL));
    let live_on = || {
        for Contended { contest, held, .. } in &contended {
            contest.wait_for_renewals(held);
        }
    };
    live_on();
    let (serving, silent) = (silent, serving);
    silent.silence();
    serving.resume();
    live_on();
    drop(serving);
    let _serving = Proxy::start_at(SocketAddr::new(second, port), agent.addr()).unwrap();
    live_on();
    // A client gives up a silent connection only after a while.
    drop(silent);
    contended.into_iter().for_each(Contended::hand_over);
    assert!(agent.client().sessions().unwrap().is_empty());
}

/// The server that holder and waiter are connected to ends, whether it is the leader or not.
pub fn holds_outlive_the_end_of_a_server_of_a_cluster(backend: &impl Backend) {
    let mut cluster = Cluster::start().unwrap();
    let start = |i: usize, port| {
        let address = SocketAddr::new(ADDRESSES[i], port);
        Proxy::start_at(address, cluster.server(i).addr()).unwrap()
    };
    let first = start(0, 0);
    let port = first.addr().port();
    let others = [start(1, port), start(2, port)];
    let options = options(port);
    let url = options.url.clone();
    // The test itself asks a server that stays.
    let judge = cluster.server(1);
    let contended =
        both_with(backend, judge, &options).map(|it| it.contend([&url, &url], SHORT_TTL * 3 / 2));
    assert!(others.iter().all(|it| it.traffic().connections == 0));
    drop(first);
    cluster.kill(0).unwrap();
    wait_until("they are connected elsewhere", || {
        others.iter().any(|it| it.traffic().connections > 0)
    });
    cluster.wait_for_leader().unwrap();
    for Contended { contest, held, .. } in &contended {
        contest.wait_for_renewals(held);
    }
    contended.into_iter().for_each(Contended::hand_over);
}
