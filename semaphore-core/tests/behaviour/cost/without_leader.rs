//! The number of connections for requests that an agent holds while there is no leader.
//!
//! The agent still holds requests that were abandoned, and allows an address 200 in all.

use transport_mock::MockConsul;

use crate::support::*;

#[test]
fn those_who_wait_need_few_and_a_holder_has_a_bound() {
    // The peak depends on when in the lease the leader fails.
    for moment in 0..10 {
        let peaks = peaks(moment);
        // A renewal and a proof in each sixteenth of the TTL while it believes, and more at the end of its lease.
        let most = 2 * 20;
        // Of a waiter, a poll that was given up, too.
        assert!(peaks.0 <= most && peaks.1 <= 8, "{moment}: {peaks:?}");
    }
}

/// The most connections of a holder and of a waiter, in twenty outages that end in time and one
/// that does not.
fn peaks(moment: u32) -> (usize, usize) {
    let world = MockConsul::new(moment.into());
    // As an agent of 1.23 does.
    world.hold_without_leader(millis(8_600)..=secs(18), millis(4_700));
    let holder = connect(builder(1), &world.client("holder"));
    let permit = world.run(holder.acquire()).expect("a slot");
    let waiter = connect(builder(1), &world.client("waiter"));
    let _waits = world.start(async move { waiter.acquire().await.map(drop) });
    for moment in 0..20 {
        world.advance(secs(30) + millis(53) * moment);
        assert!(permit.is_held());
        world.lose_leader();
        world.advance(secs(11));
        world.elect_leader();
    }
    world.advance(secs(30) + millis(171) * moment);
    assert!(permit.is_held(), "no outage lasted longer than the lease");
    world.lose_leader();
    world.advance(secs(60));
    let (held, _) = world.held_without_leader();
    assert!(held > 100, "{held}");
    let peak = |host| world.stats_of(host).peak_connections;
    (peak("holder"), peak("waiter"))
}
