//! A candidate is elected when most of its lease is over, and its answers are slow, but never slower
//! than a third of the TTL.

use transport_mock::{Fault, MockConsul, RequestKind, Rule};

use crate::support::election::*;
use crate::support::*;

/// Seed 120511553881756087 of the simulator, at commit 96324bb8.
#[test]
fn whoever_is_elected_late_leads_on_while_answers_take_less_than_a_third_of_the_ttl() {
    let world = MockConsul::new(1);
    let (_election, leadership) = leader(&world);
    let next = elect_with(
        builder_for(KEY).value("b").ttl(secs(30)),
        &world.client("b"),
    );
    let waiting = world.start(async move { next.campaign().await });
    let takes = |kind, time| Rule::new(Fault::DelayAnswer(time)).kind(kind).host("b");
    // The first renewal is given up after six seconds, before its answer comes.
    world.inject(takes(RequestKind::SessionRenew, secs(8)).times(1));
    world.inject(takes(RequestKind::SessionRenew, millis(6_500)).times(1));
    world.inject(takes(RequestKind::SessionRenew, secs(3)).always());
    world.advance(millis(22_200));
    world.run(leadership.resign()).expect("resigned");
    let leadership = world.run(waiting).expect("elected");
    world.advance(secs(60));
    assert!(leadership.is_leader(), "{}", world.trace());
}
