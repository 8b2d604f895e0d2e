//! Once belief has ended, no late answer brings it back.

use semaphore_core::Lost;
use semaphore_core::adapter::{Runtime as _, Transport as _};
use semaphore_core::sans_io::Machine as _;
use semaphore_core::sans_io::{Event, Participant, Response};
use transport_mock::MockConsul;

use crate::support::*;

#[test]
fn an_answer_after_the_lease_brings_no_belief_back() {
    let world = MockConsul::new(1);
    let client = world.client("a");
    let settings = settings(PREFIX, 1);
    let mut machine = Participant::new(settings, 1);
    let acquire = machine.acquire(client.now(), 1, None).expect("valid");
    let granted = loop {
        machine.handle_timeout(client.now());
        if let Some(Event::Granted { .. }) = machine.poll_event() {
            break client.now();
        }
        if let Some(transmit) = machine.poll_transmit(client.now()) {
            let answer = world.run(client.send(transmit.request));
            machine.handle_response(client.now(), transmit.id, answer);
        }
    };

    // The renewal is sent in time, but its answer comes after the end of the lease.
    let due = granted + secs(6);
    machine.handle_timeout(due);
    let mut renewal = None;
    while let Some(transmit) = machine.poll_transmit(due) {
        if transmit.request.target().contains("/renew/") {
            renewal = Some(transmit);
        }
    }
    let renewal = renewal.expect("due from a third of the TTL on");
    let late = granted + secs(14);
    assert!(!machine.is_held(late, acquire));
    let answer = Response::new(200, r#"[{"TTL":"15s"}]"#);
    machine.handle_response(late, renewal.id, Ok(answer));
    assert!(!machine.is_held(late, acquire));
    assert!(matches!(
        machine.poll_event(),
        Some(Event::Lost {
            reason: Lost::LeaseExpired { .. },
            ..
        })
    ));
}
