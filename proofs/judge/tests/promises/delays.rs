//! S1, of elections: nobody acquires a key during a lock delay.

use judge::{Event, Place, Promise};

use crate::support::*;

fn delayed(place: Place, until: u64) -> Event {
    Event::Delayed {
        place,
        until: secs(until),
        after: "the first".to_owned(),
    }
}

fn acquired() -> Event {
    let (place, name) = (HERE, "the next".to_owned());
    Event::Acquired { place, name }
}

/// A session that ends after 10 s, with a lock delay of 15 s.
fn ended() -> History {
    limit(1).then(1, &acquired()).then(10, &delayed(HERE, 25))
}

#[test]
fn nobody_acquires_before_the_delay_is_over() {
    assert_eq!(ended().then(25, &acquired()).found, []);
    let early = ended().then(24, &acquired());
    assert_eq!(early.found, [(24, Promise::LockDelay)]);
    let at_once = ended().then(10, &acquired());
    assert_eq!(at_once.found, [(10, Promise::LockDelay)]);
}

#[test]
fn whoever_acquired_before_is_no_matter() {
    let of_one_moment = limit(1).then(10, &acquired()).then(10, &delayed(HERE, 25));
    assert_eq!(of_one_moment.found, []);
}

#[test]
fn a_shorter_delay_does_not_end_a_longer_one() {
    let both = ended().then(11, &delayed(HERE, 12));
    let early = both.then(24, &acquired());
    assert_eq!(early.found, [(24, Promise::LockDelay)]);
}

#[test]
fn a_delay_is_of_one_key() {
    let elsewhere = limit(1).then(10, &delayed(THERE, 25));
    assert_eq!(elsewhere.then(11, &acquired()).found, []);
}

#[test]
fn delays_that_consul_has_forgotten_bind_nobody() {
    let forgotten = ended().then(11, &Event::Undelayed);
    assert_eq!(forgotten.then(12, &acquired()).found, []);
}
