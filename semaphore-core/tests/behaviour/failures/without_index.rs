//! A gateway drops `X-Consul-Index`, without which nothing can be waited for. What the answers show
//! is still true, so it is read again in time, and the missing header is named.

use semaphore_core::{Discovery, LeaderEvent};
use tracing::Level;
use transport_mock::{Fault, MockConsul, Rule};

use crate::support::election::*;
use crate::support::*;
use crate::watched::log::logged;

/// The gateway between everybody and the agent begins to drop the header.
fn drop_index(world: &MockConsul) {
    world.inject(Rule::new(Fault::NoIndex).always());
}

#[test]
fn a_waiter_gets_a_free_slot_without_an_index() {
    let world = MockConsul::new(1);
    let [first, second, third] = ["a", "b", "c"].map(|host| {
        let builder = builder(1);
        connect(builder, &world.client(host))
    });
    let permit = world.run(first.acquire()).expect("a free slot");
    drop_index(&world);
    let waiting = [second, third].map(|semaphore| {
        let waiting = world.start(async move { semaphore.acquire_timeout(secs(120)).await });
        world.advance(secs(1));
        waiting
    });
    world.advance(secs(30));
    world.run(permit.release()).expect("released");
    for waiting in waiting {
        let since = world.now();
        let permit = world.run(waiting).expect("a free slot");
        let took = world.now().saturating_since(since);
        assert!(took < secs(3), "{took:?}\n{}", world.trace());
        world.run(permit.release()).expect("released");
    }
    world.clear_faults();
    assert_nothing_left(&world);
}

#[test]
fn a_candidate_leads_without_an_index() {
    let world = MockConsul::new(1);
    let (_election, leadership) = leader(&world);
    drop_index(&world);
    let next = election(&world, "b");
    let waiting = world.start(async move { next.campaign().await });
    world.advance(secs(30));
    world.run(leadership.resign()).expect("resigned");
    let since = world.now();
    let leadership = world.run(waiting).expect("elected");
    let took = world.now().saturating_since(since);
    assert!(took < secs(3), "{took:?}\n{}", world.trace());
    world.run(leadership.resign()).expect("resigned");
}

#[test]
fn a_follower_sees_each_leader_without_an_index() {
    let world = MockConsul::new(1);
    let (_election, leadership) = leader(&world);
    drop_index(&world);
    let discovery = Discovery::builder(KEY).connect(world.client("follower"));
    let mut follower = discovery.expect("a key").follow();
    let event = world.run(follower.next()).expect("an item");
    assert!(matches!(event, Ok(LeaderEvent::Elected(_))), "{event:?}");
    world.advance(secs(60));
    world.run(leadership.resign()).expect("resigned");
    let since = world.now();
    let event = world.run(follower.next()).expect("an item");
    assert!(
        matches!(event, Ok(LeaderEvent::Leaderless { .. })),
        "{event:?}"
    );
    let took = world.now().saturating_since(since);
    assert!(took < secs(3), "{took:?}\n{}", world.trace());
}

#[test]
fn who_waits_without_an_index_reads_once_a_second() {
    let world = MockConsul::new(1);
    let holder = semaphore(&world, "a", 1);
    let _permit = world.run(holder.acquire()).expect("a free slot");
    drop_index(&world);
    let waiter = semaphore(&world, "b", 1);
    let _waiting = world.start(async move { waiter.acquire().await });
    world.advance(secs(10));
    let before = world.stats_of("b").total_requests();
    world.advance(secs(60));
    let requests = world.stats_of("b").total_requests() - before;
    // With the renewals of its session, and the questions to the leader about it.
    assert!(requests <= 100, "{requests} in a minute");
}

#[test]
fn a_missing_index_is_a_warning_that_names_it_and_so_is_its_return() {
    let lines = logged(Level::WARN, || {
        let world = MockConsul::new(1);
        let holder = semaphore(&world, "a", 1);
        let _permit = world.run(holder.acquire()).expect("a free slot");
        let waiter = semaphore(&world, "b", 1);
        drop_index(&world);
        let _waiting = world.start({
            let waiter = waiter.clone();
            async move { waiter.acquire().await }
        });
        world.advance(secs(12));
        let trouble = waiter.status().trouble.expect("something is wrong");
        assert!(trouble.cause.to_string().contains("X-Consul-Index"));
        world.clear_faults();
        world.advance(secs(30));
        assert!(waiter.status().is_connected());
    });
    // The holder has no poll that ends in this time, or it is told, too.
    let told = 1;
    assert_eq!(lines.len(), 2 * told, "{lines:#?}");
    let named = lines.iter().filter(|it| it.contains("X-Consul-Index"));
    assert_eq!(named.count(), told, "{lines:#?}");
    let over = lines.iter().filter(|it| it.contains("again"));
    assert_eq!(over.count(), 2 * told, "{lines:#?}");
}
