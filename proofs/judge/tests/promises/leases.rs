//! S2: a belief ends in time.

use std::time::Duration;

use judge::{Event, Promise};

use crate::support::*;

fn believed(at: u64, until: u64, longest: Option<u64>) -> Vec<(u64, Promise)> {
    let believed = Event::Believed {
        place: HERE,
        until: secs(until),
        longest: longest.map(Duration::from_secs),
        name: "a holder".to_owned(),
    };
    limit(1).then(at, &believed).found
}

#[test]
fn nobody_believes_at_the_moment_at_which_it_is_over_or_later() {
    assert_eq!(believed(9, 10, None), []);
    assert_eq!(believed(10, 10, None), [(10, Promise::Lease)]);
    assert_eq!(believed(11, 10, None), [(11, Promise::Lease)]);
}

#[test]
fn no_lease_is_longer_than_it_may_be() {
    assert_eq!(believed(1, 10, Some(9)), []);
    assert_eq!(believed(1, 11, Some(9)), [(1, Promise::Lease)]);
}
