//! Agents and leaders that stop, die and come back.

use std::thread;
use std::time::Duration;

use real_agent::{Agent, Cluster};
use semaphore_core::{Error, Lost, Permit};

use crate::Backend;
use crate::scene::{SHORT_TTL, Scene, session, wait_until};

/// Two renewals: the first may have been on its way when the outage ended.
fn wait_for_renewals(permit: &Permit) {
    for _ in 0..2 {
        let deadline = permit.deadline();
        wait_until("it is renewed", || permit.deadline() > deadline);
    }
    assert!(permit.is_held());
}

pub fn an_agent_that_stops_for_less_than_the_lease_costs_nothing(backend: &impl Backend) {
    let mut agent = Agent::start().unwrap();
    let scene = Scene::on(backend, &agent);
    let (one, other) = (
        scene.semaphore_to(&agent.url(), 1),
        scene.semaphore_to(&agent.url(), 1),
    );
    let permit = scene.acquire(&one);
    let waiting = scene.start_acquire(&other);
    wait_until("both contend", || scene.contenders().len() == 2);
    agent.stop().unwrap();
    thread::sleep(SHORT_TTL / 2);
    assert!(permit.is_held());
    agent.cont().unwrap();
    wait_for_renewals(&permit);
    assert_eq!(scene.holders(), [session(&permit)]);
    scene.release(permit);
    let permit = scene.finish(waiting).unwrap();
    scene.release(permit);
    scene.assert_nothing_left();
}

pub fn an_agent_that_stops_for_longer_than_the_lease_is_a_loss(backend: &impl Backend) {
    let mut agent = Agent::start().unwrap();
    let scene = Scene::on(backend, &agent);
    let semaphore = scene.semaphore_to(&agent.url(), 1);
    let permit = scene.acquire(&semaphore);
    agent.stop().unwrap();
    let lost = scene.run(permit.lost());
    assert!(matches!(lost, Lost::LeaseExpired { .. }), "{lost:?}");
    assert!(!permit.is_held());
    agent.cont().unwrap();
    let released = scene.run(permit.release());
    assert!(matches!(released, Err(Error::Lost(_))), "{released:?}");
    scene.assert_nothing_left_soon();
    let permit = scene.acquire(&semaphore);
    scene.release(permit);
    agent.assert_nothing_left(scene.prefix());
}

pub fn an_agent_that_restarts_with_its_state_costs_nothing(backend: &impl Backend) {
    let mut agent = Agent::builder().durable().start().unwrap();
    let scene = Scene::on(backend, &agent);
    let semaphore = scene.connect(scene.builder(1).ttl(Duration::from_secs(30)));
    let permit = scene.acquire(&semaphore);
    agent.restart().unwrap();
    wait_for_renewals(&permit);
    assert_eq!(scene.holders(), [session(&permit)]);
    scene.release(permit);
    agent.assert_nothing_left(scene.prefix());
}

pub fn an_agent_that_restarts_without_its_state_is_a_loss(backend: &impl Backend) {
    let mut agent = Agent::start().unwrap();
    let scene = Scene::on(backend, &agent);
    let semaphore = scene.connect(scene.builder(1).ttl(Duration::from_secs(30)));
    let permit = scene.acquire(&semaphore);
    agent.restart().unwrap();
    let lost = scene.run(permit.lost());
    assert!(
        matches!(
            lost,
            Lost::SessionGone { .. } | Lost::RemovedFromHolders { .. }
        ),
        "{lost:?}"
    );
    let released = scene.run(permit.release());
    assert!(matches!(released, Err(Error::Lost(_))), "{released:?}");
    let permit = scene.acquire(&semaphore);
    scene.release(permit);
    agent.assert_nothing_left(scene.prefix());
}

pub fn a_waiter_outlives_its_agents_restart(backend: &impl Backend) {
    let mut agent = Agent::builder().durable().start().unwrap();
    let scene = Scene::on(backend, &agent);
    let (one, other) = (
        scene.connect(scene.builder(1).ttl(Duration::from_secs(30))),
        scene.connect(scene.builder(1).ttl(Duration::from_secs(30))),
    );
    let permit = scene.acquire(&one);
    let waiting = scene.start_acquire(&other);
    wait_until("both contend", || scene.contenders().len() == 2);
    agent.restart().unwrap();
    assert!(permit.is_held());
    scene.release(permit);
    let permit = scene.finish(waiting).unwrap();
    scene.release(permit);
    agent.assert_nothing_left(scene.prefix());
}

pub fn a_holder_keeps_its_slot_when_the_leader_is_killed(backend: &impl Backend) {
    let mut cluster = Cluster::start().unwrap();
    let leader = cluster.leader().unwrap();
    let survivor = (leader + 1) % real_agent::SERVERS;
    let scene = Scene::on(backend, cluster.server(survivor));
    let ttl = Duration::from_secs(15);
    let (one, other) = (
        scene.connect(scene.builder(1).ttl(ttl)),
        scene.connect(scene.builder(1).ttl(ttl)),
    );
    let permit = scene.acquire(&one);
    let waiting = scene.start_acquire(&other);
    wait_until("both contend", || scene.contenders().len() == 2);
    cluster.kill(leader).unwrap();
    cluster.wait_for_leader().unwrap();
    wait_for_renewals(&permit);
    assert_eq!(scene.holders(), [session(&permit)]);
    scene.release(permit);
    let permit = scene.finish(waiting).unwrap();
    scene.release(permit);
    scene.assert_nothing_left_soon();
}
