//! The end of a follower: with what runs it, and not sooner.

use futures_util::StreamExt as _;
use semaphore_core::error::ClosedBy;
use semaphore_core::{Client, Discovery, Error, Follower, LeaderEvent, blocking};
use transport_mock::MockConsul;

use crate::support::election::*;
use crate::support::*;

fn follower(client: &Client) -> Follower {
    let discovery = Discovery::builder(KEY).connect(client.clone());
    discovery.expect("valid settings").follow()
}

fn is_the_end(item: &Result<LeaderEvent, Error>) -> bool {
    let by = ClosedBy::RuntimeEnded;
    matches!(item, Err(Error::Closed { by: ended, .. }) if *ended == by)
}

#[test]
fn a_follower_tells_its_end_once_and_then_nothing() {
    let world = MockConsul::new(1);
    let builder = Client::builder();
    let client = builder.connect(world.client("a")).expect("valid options");
    let (mut idle, mut polled) = (follower(&client), follower(&client));
    assert!(world.run(idle.next()).is_some_and(|it| it.is_ok()));
    let waiting = world.start(async move {
        let mut items = Vec::new();
        while let Some(item) = polled.next().await {
            items.push(item);
        }
        (items, polled)
    });
    world.advance(secs(1));
    world.kill("a");
    let (items, polled) = world.run(waiting);
    assert_eq!(items.len(), 2, "{items:?}");
    assert!(is_the_end(&items[1]), "{items:?}");
    let mut clone = polled.clone();
    assert!(world.run(clone.next()).is_none());
    assert!(matches!(clone.current(), Some(known) if known.leader().is_none()));
    // As a stream it is the same. One that did not wait at the end is told of it, too.
    let rest: Vec<_> = world.run(idle.collect());
    assert!(matches!(&rest[..], [end] if is_the_end(end)), "{rest:?}");
}

#[test]
fn a_follower_on_a_thread_tells_its_end_once_and_then_nothing() {
    let world = MockConsul::new(1);
    let builder = blocking::Client::builder();
    let client = builder.connect(world.client("a")).expect("valid options");
    let election = client.election(KEY).expect("valid settings");
    let mut follower = election.leaders();
    assert!(follower.next().is_some_and(|it| it.is_ok()));
    assert!(!follower.has_ended());
    world.kill("a");
    let rest: Vec<_> = follower.by_ref().collect();
    assert!(matches!(&rest[..], [end] if is_the_end(end)), "{rest:?}");
    assert!(follower.has_ended());
    assert!(follower.next_timeout(secs(1)).is_none());
}
