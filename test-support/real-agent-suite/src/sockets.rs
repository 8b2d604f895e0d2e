//! An agent that listens on a Unix socket.

use std::time::Duration;

use real_agent::Agent;
use semaphore_core::Lost;

use crate::scene::{Scene, session, wait_until};
use crate::{Backend, Options};

fn scene<'b, B: Backend>(backend: &'b B, agent: &Agent) -> Scene<'b, B> {
    Scene::with(backend, agent.client(), Options::to(agent.socket_url()))
}

pub fn slots_are_held_waited_for_and_lost_through_a_socket(backend: &impl Backend) {
    let agent = Agent::builder().socket().start().unwrap();
    let scene = scene(backend, &agent);
    let (first, second) = (scene.semaphore(1), scene.semaphore(1));
    let permit = scene.acquire(&first);
    assert!(scene.run(second.try_acquire()).unwrap().is_err());
    let waiter = scene.start_acquire(&second);
    wait_until("somebody waits", || scene.contenders().len() == 2);
    scene.release(permit);
    let permit = scene.finish(waiter).unwrap();

    agent.client().destroy_session(&session(&permit)).unwrap();
    let lost = scene.run(permit.lost());
    assert!(matches!(lost, Lost::SessionGone { .. }), "{lost:?}");
    drop(permit);
    for semaphore in [&first, &second] {
        scene.run(semaphore.shutdown());
    }
    agent.assert_nothing_left(scene.prefix());
}

pub fn a_hold_outlives_an_agent_that_makes_its_socket_anew(backend: &impl Backend) {
    let builder = Agent::builder().socket().durable();
    let mut agent = builder.start().unwrap();
    let scene = scene(backend, &agent);
    // The TTL is long, so the agent is back before the lease ends even on a slow machine.
    let builder = scene.builder(1).ttl(Duration::from_secs(60));
    let semaphore = scene.connect(builder);
    let permit = scene.acquire(&semaphore);
    agent.restart().unwrap();
    // The new agent confirms the release.
    let released = scene.run(permit.release());
    assert!(released.is_ok(), "{released:?}");
    let permit = scene.acquire(&semaphore);
    assert!(permit.is_held());
    scene.release(permit);
    scene.run(semaphore.shutdown());
    agent.assert_nothing_left(scene.prefix());
}
