//! A gateway between a participant and its agent answers in the agent's place.

use std::thread;
use std::time::{Duration, Instant};

use real_agent::{Agent, Gateway, Proxy};
use semaphore_core::Error;

use crate::Backend;
use crate::scene::{Scene, session, wait_until};

/// For how long only the gateway answers.
const AWAY: Duration = Duration::from_secs(4);

/// The releasing caller learns at once what happened. The slot is free soon after the agent is
/// back, long before the session would end.
pub fn a_release_that_a_gateway_refuses_goes_on_until_consul_has_confirmed_it(
    backend: &impl Backend,
) {
    let agent = Agent::start().unwrap();
    let scene = Scene::on(backend, &agent);
    let proxy = Proxy::start(agent.addr()).unwrap();
    let holder = scene.semaphore_to(&proxy.url(), 1);
    let waiter = scene.semaphore(1);
    let permit = scene.acquire(&holder);
    let first = session(&permit);
    let waiting = scene.start_acquire(&waiter);
    wait_until("the waiter queues", || scene.contenders().len() == 2);

    let gateway = Gateway::start(404).unwrap();
    proxy.set_target(gateway.addr());
    proxy.cut();
    let away_since = Instant::now();
    let error = scene.run(permit.release()).unwrap_err();
    assert!(matches!(error, Error::Request(_)), "{error:?}");
    thread::sleep(AWAY.saturating_sub(away_since.elapsed()));
    assert!(gateway.asked() > 0, "it was in between");
    assert_eq!(scene.holders(), [first], "it is blocked meanwhile");
    proxy.set_target(agent.addr());
    proxy.cut();
    let back_since = Instant::now();
    let permit = scene.finish(waiting).unwrap();
    println!(
        "the next one holds {:?} after the gateway is back",
        back_since.elapsed()
    );
    // The first session ends 15 s after its last renewal at the soonest. Its TTL ends it after 30
    // s.
    let sessions = scene.contenders();
    assert_eq!(sessions.len(), 1, "the first one has left on its own");
    scene.release(permit);
    drop(waiter);
    agent.assert_nothing_left(scene.prefix());
}
