//! A follower of an election sees its leaders in order, and in time.

use std::time::Duration;

use judge::{Event, Follower, Place, Promise, Sight};

use crate::support::*;

fn led(session: &str) -> Sight {
    Sight::Led {
        session: session.to_owned(),
        value: None,
    }
}

fn nobody() -> Sight {
    Sight::Leaderless { value: None }
}

const ONE: Follower = Follower(1);
const OTHER: Follower = Follower(2);

fn sees(follower: Follower, place: Place, sight: Sight) -> Event {
    Event::Sees {
        follower,
        place,
        sight,
        name: format!("follower {}", follower.0),
    }
}

fn shows(sight: Sight) -> Event {
    let place = HERE;
    Event::Shows { place, sight }
}

/// A follower that saw these, one after the other.
fn saw(sights: impl IntoIterator<Item = Sight>) -> History {
    (1..)
        .zip(sights)
        .fold(History::default(), |history, (at, sight)| {
            history.then(at, &sees(ONE, HERE, sight))
        })
}

fn caught_up(within: u64) -> Event {
    Event::CaughtUp {
        follower: ONE,
        within: Duration::from_secs(within),
    }
}

#[test]
fn leaders_are_seen_in_their_order() {
    assert_eq!(saw([led("a"), nobody(), led("b"), led("c")]).found, []);
    assert_eq!(saw([led("a"), nobody(), led("a")]).found, []);
    assert_eq!(saw([led("a"), Sight::Unknown, led("a")]).found, []);
    let back = saw([led("a"), led("b"), led("a")]);
    assert_eq!(back.found, [(3, Promise::Discovery)]);
    let later = saw([led("a"), led("b"), nobody(), led("c"), led("a")]);
    assert_eq!(later.found, [(5, Promise::Discovery)]);
}

/// The key had this content, one value after the other, and then a follower saw these.
fn showed(shown: &[&str], seen: &[&str]) -> Vec<(u64, Promise)> {
    let tell = |history: History, session: &&str| history.then(1, &shows(led(session)));
    let history = shown.iter().fold(History::default(), tell);
    let tell = |history: History, session: &&str| history.then(2, &sees(ONE, HERE, led(session)));
    seen.iter().fold(history, tell).found
}

#[test]
fn nobody_is_seen_to_come_more_often_than_they_did() {
    let found = [(2, Promise::Discovery)];
    assert_eq!(showed(&["a", "b", "a"], &["a", "b", "a"]), []);
    assert_eq!(showed(&["a", "b", "c"], &["a", "b", "a"]), found);
    assert_eq!(showed(&["a", "b", "a"], &["a", "b", "a", "b"]), found);
    // A changed value is not another term.
    assert_eq!(showed(&["a", "a", "b"], &["a", "b", "a"]), found);
}

#[test]
fn each_follower_has_an_order_of_its_own_and_may_begin_anew() {
    let both = || saw([led("a"), led("b")]);
    let other = both().then(3, &sees(OTHER, HERE, led("a")));
    assert_eq!(other.found, []);
    let elsewhere = both().then(3, &sees(OTHER, THERE, led("a")));
    assert_eq!(elsewhere.found, []);
    let left = both().then(3, &Event::Leaves { follower: ONE });
    assert_eq!(left.then(4, &sees(ONE, HERE, led("a"))).found, []);
}

#[test]
fn what_a_key_shows_is_known_in_time() {
    let shown = |sight| saw([sight]).then(10, &shows(led("a")));
    let found = [(13, Promise::Discovery)];
    for sight in [Sight::Unknown, nobody(), led("b")] {
        let late = shown(sight.clone()).then(12, &caught_up(2));
        assert_eq!(late.found, [], "it has two seconds");
        let late = shown(sight).then(13, &caught_up(2));
        assert_eq!(late.found, found);
    }
    assert_eq!(shown(led("a")).then(13, &caught_up(2)).found, []);
    let left = shown(nobody()).then(11, &Event::Leaves { follower: ONE });
    assert_eq!(left.then(13, &caught_up(2)).found, []);
}

#[test]
fn a_value_that_is_another_one_is_another_sight() {
    let says = |value: &str| Sight::Leaderless {
        value: Some(value.to_owned()),
    };
    let knows = |sight| {
        let history = saw([sight]).then(10, &shows(says("last")));
        history.then(11, &caught_up(0)).found
    };
    assert_eq!(knows(says("last")), []);
    assert_eq!(knows(says("first")), [(11, Promise::Discovery)]);
}

#[test]
fn a_key_that_never_showed_anything_has_no_leader() {
    assert_eq!(saw([nobody()]).then(13, &caught_up(2)).found, []);
    let led = saw([led("a")]).then(13, &caught_up(2));
    assert_eq!(led.found, [(13, Promise::Discovery)]);
}
