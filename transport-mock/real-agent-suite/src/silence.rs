//! A network that swallows everything.

use std::time::Instant;

use real_agent::{Agent, Proxy};
use semaphore_core::{Error, Lost};

use crate::Backend;
use crate::scene::{SHORT_TTL, Scene, wait_until};

/// Both moments are of one process's clock, so they can be compared.
pub fn a_silent_partition_is_noticed_before_another_is_admitted(backend: &impl Backend) {
    let agent = Agent::start().unwrap();
    let proxy = Proxy::start(agent.addr()).unwrap();
    let scene = Scene::on(backend, &agent);
    let cut_off = scene.semaphore_to(&proxy.url(), 1);
    let connected = scene.connect(scene.builder(1).ttl(SHORT_TTL));
    let permit = scene.acquire(&cut_off);
    let waiting = scene.start(async move {
        let permit = connected.acquire().await;
        (permit, Instant::now())
    });
    wait_until("both contend", || scene.contenders().len() == 2);

    proxy.silence();
    let lost = scene.run(permit.lost());
    let lost_at = Instant::now();
    assert!(matches!(lost, Lost::LeaseExpired { .. }), "{lost:?}");
    assert!(!permit.is_held());

    let (second, admitted_at) = scene.finish(waiting);
    let second = second.unwrap();
    assert!(lost_at < admitted_at, "two held the only slot");
    assert!(second.fencing_token() > permit.fencing_token());

    proxy.resume();
    let released = scene.run(permit.release());
    assert!(matches!(released, Err(Error::Lost(_))), "{released:?}");
    assert!(second.is_held());
    scene.release(second);
    scene.run(cut_off.shutdown());
    agent.assert_nothing_left(scene.prefix());
}

/// The network heals within the lease.
pub fn a_short_silence_costs_nothing(backend: &impl Backend) {
    let agent = Agent::start().unwrap();
    let proxy = Proxy::start(agent.addr()).unwrap();
    let scene = Scene::on(backend, &agent);
    let semaphore = scene.semaphore_to(&proxy.url(), 1);
    let permit = scene.acquire(&semaphore);
    let deadline = permit.deadline();
    proxy.silence();
    std::thread::sleep(SHORT_TTL / 2);
    assert!(permit.is_held());
    proxy.resume();
    wait_until("it is renewed", || permit.deadline() > deadline);
    assert!(permit.is_held());
    scene.release(permit);
    agent.assert_nothing_left(scene.prefix());
}
