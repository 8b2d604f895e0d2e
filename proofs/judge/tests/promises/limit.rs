//! S1: never more than the limit believe that they hold.

use judge::{Event, Judge, Moment, Place, Promise};

use crate::support::*;

fn allowed(permits: u32) -> Event {
    let place = HERE;
    Event::Allowed { place, permits }
}

#[test]
fn as_many_as_the_limit_may_believe() {
    let two = limit(2).begins(1, 1, 1).begins(2, 2, 1);
    assert_eq!(two.most(), 2);
    let next = two.ends(3, 1).begins(3, 3, 1);
    assert_eq!(next.found, []);
    assert_eq!(next.most(), 2);
}

#[test]
fn one_more_than_the_limit_is_found_when_it_comes() {
    let three = limit(2).begins(1, 1, 1).begins(2, 2, 1).begins(3, 3, 1);
    assert_eq!(three.found, [(3, Promise::Limit)]);
    let later = three.ends(4, 1).ends(5, 2).begins(6, 4, 1);
    assert_eq!(later.found.len(), 1);
    assert_eq!(later.most(), 3);
}

#[test]
fn two_leaders_are_one_too_many() {
    let two = limit(1).begins(1, 1, 1).begins(2, 2, 1);
    assert_eq!(two.found, [(2, Promise::Limit)]);
}

#[test]
fn several_permits_count_as_many() {
    let three = limit(2).begins(1, 1, 2).begins(2, 2, 1);
    assert_eq!(three.found, [(2, Promise::Limit)]);
    let two = limit(2).begins(1, 1, 2).ends(2, 1).begins(2, 2, 1);
    assert_eq!(two.found, []);
}

#[test]
fn a_hold_that_is_told_twice_counts_once_with_its_last_permits() {
    let once = limit(1).begins(1, 1, 1).begins(2, 1, 1);
    assert_eq!(once.found, []);
    let more = once.begins(3, 1, 2);
    assert_eq!(more.found, [(3, Promise::Limit)]);
}

#[test]
fn places_do_not_count_together() {
    let permits = 1;
    let elsewhere = Event::Allowed {
        place: THERE,
        permits,
    };
    let both = limit(1)
        .then(0, &elsewhere)
        .begins(1, 1, 1)
        .then(1, &begins(THERE, 2, 1));
    assert_eq!(both.found, []);
    let two = both.then(2, &begins(THERE, 3, 1));
    assert_eq!(two.found, [(2, Promise::Limit)]);
}

#[test]
fn a_limit_that_falls_below_what_is_held_is_found_and_one_that_rises_is_not() {
    let two = || limit(2).begins(1, 1, 1).begins(2, 2, 1);
    assert_eq!(two().then(3, &allowed(1)).found, [(3, Promise::Limit)]);
    assert_eq!(two().then(3, &allowed(3)).begins(4, 3, 1).found, []);
    assert_eq!(two().ends(3, 1).then(3, &allowed(1)).found, []);
}

#[test]
fn nobody_may_hold_where_nothing_was_said_of_a_limit() {
    let one = History::default().begins(1, 1, 1);
    assert_eq!(one.found, [(1, Promise::Limit)]);
}

#[test]
fn a_verdict_names_the_place_and_all_who_hold() {
    let mut judge = Judge::new();
    let at = Moment::default();
    let permits = 1;
    assert_eq!(judge.hear(at, &allowed(permits)), Ok(()));
    assert_eq!(judge.hear(at, &begins(HERE, 7, 1)), Ok(()));
    let violation = judge.hear(at, &begins(HERE, 8, 1)).unwrap_err();
    assert_eq!(violation.place, Place(0));
    assert_eq!(
        violation.to_string(),
        "at 0.000s: 2 are held at once of 1: hold 7, hold 8"
    );
}
