//! What the core and the Consul in memory show and log.

#![allow(clippy::unwrap_used, reason = "a test")]

use semaphore_core::adapter::Transport;
use transport_conformance::logs::Logs;
use transport_conformance::secrecy::{Shown, guard};
use transport_conformance::secret::{SECRET, assert_hidden};
use transport_mock::{Fault, MockConsul, Rule};

#[test]
fn no_token_is_logged_or_shown_on_virtual_time() {
    let logs = Logs::collect();
    let mut shown = Shown::default();
    let world = MockConsul::new(1);
    world.consul(|consul, _| guard(consul));
    let client = world.client("node-1");
    shown.semaphores(&client);
    for fault in [Fault::LoseAnswer, Fault::LoseRequest, Fault::no_leader()] {
        world.inject(Rule::new(fault).times(3));
        shown.semaphores(&client);
    }
    // Consul still takes a token in the query.
    let target = format!("/v1/kv/a?token={SECRET}&raw=");
    let request =
        semaphore_core::adapter::Request::new(semaphore_core::adapter::Method::Get, target);
    world.run(client.send(request)).unwrap();
    shown.debug(&world);
    shown.0 += &world.trace();
    let lines = logs.take();
    assert!(
        lines.contains("TRACE semaphore_core::driver: sending"),
        "nothing was logged"
    );
    assert_hidden(&lines);
    assert_hidden(&shown.0);
}
