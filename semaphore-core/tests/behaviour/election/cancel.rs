//! A candidate that gives up, at any point, leaves nothing but the key.

use semaphore_core::Error;
use transport_mock::{Fault, MockConsul, RequestKind, Rule};

use crate::election::unknown::ACQUISITION;
use crate::support::election::*;
use crate::support::spy::Spy;
use crate::support::*;

#[test]
fn a_campaign_that_is_dropped_at_any_moment_leaves_nothing() {
    for moment in 0..30 {
        let world = MockConsul::new(1);
        world.set_latency(millis(2)..=millis(3));
        let a = election(&world, "a");
        let campaign = world.start({
            let a = a.clone();
            async move { a.campaign().await }
        });
        world.advance(millis(moment));
        campaign.abort();
        world.advance(secs(1));
        assert_only_key_left(&world);
        // The handle still works, and no lock delay is in the way.
        let before = world.now();
        let leadership = world.run(a.campaign()).expect("elected");
        assert!(world.now().saturating_since(before) <= millis(50));
        drop(leadership);
        world.advance(secs(1));
        assert_only_key_left(&world);
    }
}

#[test]
fn a_campaign_that_waits_is_dropped_without_touching_the_key() {
    let world = MockConsul::new(1);
    let (_a, first) = leader(&world);
    let b = election(&world, "b");
    let spy = Spy::on_host(&world, "b");
    let waiting = world.start(async move { b.campaign().await });
    world.advance(secs(7));
    let before = found(&world);
    waiting.abort();
    world.advance(secs(2));
    assert_eq!(found(&world), before);
    assert_eq!(spy.count(resigns), 0);
    assert_eq!(session_count(&world), 1);
    assert!(first.is_leader());
}

/// The earlier poll runs to its end, and shows nothing before the key changes.
#[test]
fn whoever_tries_again_while_its_former_poll_is_open_is_answered_at_once() {
    let world = MockConsul::new(1);
    let (_a, _first) = leader(&world);
    let b = election(&world, "b");
    assert!(world.run(b.campaign_timeout(secs(2))).is_err());
    world.advance(millis(10));
    assert_eq!(world.stats_of("b").open, 1);
    let before = world.now();
    assert!(world.run(b.try_campaign()).expect("tried").is_err());
    let took = world.now().saturating_since(before);
    assert!(took <= millis(20), "{took:?}");
}

#[test]
fn a_leadership_that_is_dropped_is_given_back_in_the_background() {
    let world = MockConsul::new(1);
    let (a, first) = leader(&world);
    let before = world.now();
    drop(first);
    drop(a);
    assert_eq!(world.now(), before, "it does not block");
    world.advance(millis(20));
    assert_only_key_left(&world);
    assert_eq!(found(&world).expect("a key").value, "a");
}

#[test]
fn a_read_that_hangs_is_given_up_once_nothing_is_left() {
    let world = MockConsul::new(1);
    let (_a, first) = leader(&world);
    world.inject(Rule::new(Fault::ResetAfter).kind(ACQUISITION));
    world.inject(Rule::new(Fault::LoseAnswer).kind(RequestKind::KvRead));
    world.run(async {
        let change = Box::pin(first.set_value("b"));
        futures_util::future::select(change, Box::pin(world.sleep(millis(50)))).await;
    });
    assert_eq!(world.pending_rules(), 0);
    assert_eq!(world.stats_of("a").open, 2, "it, and the poll");
    world.run(first.resign()).expect("resigned");
    world.advance(millis(5));
    assert_eq!(world.stats_of("a").open, 0, "{}", world.trace());
    assert_only_key_left(&world);
}

#[test]
fn closing_ends_campaigns_and_leaves_the_leader_alone() {
    let world = MockConsul::new(1);
    let (a, first) = leader(&world);
    let clone = a.clone();
    let waiting = world.start(async move { clone.campaign().await });
    world.advance(secs(1));
    a.close();
    assert!(matches!(world.run(waiting), Err(Error::Closed { .. })));
    assert!(matches!(world.run(a.campaign()), Err(Error::Closed { .. })));
    world.advance(secs(30));
    assert!(first.is_leader());
    let shutdown = world.start(async move { a.shutdown().await });
    world.run(first.resign()).expect("resigned");
    world.run(shutdown);
    assert_only_key_left(&world);
}

#[test]
fn nothing_is_sent_before_a_campaign_and_after_its_end() {
    let world = MockConsul::new(1);
    let a = election(&world, "a");
    world.advance(secs(60));
    assert_eq!(world.stats().total_requests(), 0);
    let first = world.run(a.campaign()).expect("elected");
    world.run(first.resign()).expect("resigned");
    world.advance(secs(20));
    let before = world.stats().total_requests();
    world.advance(secs(600));
    assert_eq!(world.stats().total_requests(), before);
}

#[test]
fn campaigns_given_up_in_a_row_do_not_pile_up_polls() {
    let world = MockConsul::new(1);
    let (_a, _first) = leader(&world);
    let b = election(&world, "b");
    for _ in 0..300 {
        assert!(world.run(b.campaign_timeout(millis(10))).is_err());
    }
    assert!(
        world.stats_of("b").peak_open <= 4,
        "{:?}",
        world.stats_of("b")
    );
}
