//! A new leader of Consul that has yet to apply its log says that there is no such session. Nobody gives up by that what
//! it has: the session's end would leave a lock delay on the key (invariant L2). The simulator found it.

use transport_mock::MockConsul;

use crate::support::election::*;
use crate::support::*;

/// Seed 7026936.
#[test]
fn a_leader_who_resigns_then_unties_the_key_before_its_session_ends() {
    let world = MockConsul::new(1);
    let before = world.consul(|consul, _| consul.snapshot());
    let (a, first) = leader(&world);
    let next = world.start(async move { a.campaign().await.map(|it| (a, it)) });
    world.advance(secs(5));
    world.elect_leader_behind(&before);
    world.advance(millis(1_500));
    let resigning = world.start(async move { first.set_value("another").await.map(|()| first) });
    world.advance(secs(1));
    resigning.abort();
    world.advance(secs(12));
    world.catch_up_leader();
    let caught_up = world.now();
    let (_a, _next) = world.run(next).expect("elected");
    let took = world.now().saturating_since(caught_up);
    assert!(took < secs(5), "{took:?}\n{}", world.trace());
}
