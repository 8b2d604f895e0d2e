//! S5: fencing tokens grow.

use judge::{Admission, Event, Place, Promise, Write};

use crate::support::*;

fn granted(place: Place, token: u64, permits: u32, admitted: Vec<Admission>) -> Event {
    Event::Granted {
        place,
        permits,
        token,
        admitted,
        name: format!("a grant of token {token}"),
    }
}

fn by(epoch: u64, number: u64) -> Admission {
    Admission::By(Write { epoch, number })
}

fn between(asked: u64, known: u64) -> Admission {
    Admission::Between {
        asked: secs(asked),
        known: secs(known),
    }
}

/// The violations of grants of one permit at one place, in this order.
fn verdicts(limited: u32, grants: impl IntoIterator<Item = (u64, Admission)>) -> usize {
    let tell = |history: History, (token, admission): (u64, Admission)| {
        history.then(1, &granted(HERE, token, 1, vec![admission]))
    };
    let told = grants.into_iter().fold(limit(limited), tell);
    assert!(told.found.iter().all(|it| *it == (1, Promise::Fencing)));
    told.found.len()
}

#[test]
fn tokens_rise_in_the_order_of_writes() {
    assert_eq!(verdicts(1, [(10, by(0, 1)), (11, by(0, 2))]), 0);
    assert_eq!(verdicts(1, [(10, by(0, 1)), (10, by(0, 2))]), 1);
    assert_eq!(verdicts(1, [(10, by(0, 1)), (9, by(0, 2))]), 1);
}

#[test]
fn the_order_in_which_grants_are_told_is_no_matter() {
    assert_eq!(verdicts(1, [(11, by(0, 2)), (10, by(0, 1))]), 0);
    assert_eq!(verdicts(1, [(11, by(0, 2)), (12, by(0, 1))]), 1);
    let between_two = [(10, by(0, 1)), (14, by(0, 5)), (12, by(0, 3))];
    assert_eq!(verdicts(1, between_two), 0);
    let beyond_one = [(10, by(0, 1)), (14, by(0, 5)), (15, by(0, 3))];
    assert_eq!(verdicts(1, beyond_one), 1);
}

#[test]
fn what_one_write_admits_has_tokens_of_its_own() {
    assert_eq!(verdicts(2, [(10, by(0, 1)), (11, by(0, 1))]), 0);
    assert_eq!(verdicts(2, [(11, by(0, 1)), (10, by(0, 1))]), 0);
    assert_eq!(verdicts(2, [(10, by(0, 1)), (10, by(0, 1))]), 1);
}

#[test]
fn tokens_of_indexes_that_were_counted_anew_begin_anew() {
    assert_eq!(verdicts(1, [(10, by(0, 1)), (3, by(1, 2))]), 0);
    let in_it = [(10, by(0, 1)), (3, by(1, 2)), (2, by(1, 3))];
    assert_eq!(verdicts(1, in_it), 1);
    let before_it = [(10, by(0, 1)), (3, by(1, 3)), (9, by(0, 2))];
    assert_eq!(verdicts(1, before_it), 1, "it was admitted before");
}

#[test]
fn of_several_writes_that_may_have_admitted_one_is_enough() {
    let first = || limit(2).then(1, &granted(HERE, 10, 1, vec![by(0, 1)]));
    let second = |token, admitted| first().then(2, &granted(HERE, token, 1, admitted));
    let found = [(2, Promise::Fencing)];
    assert_eq!(second(11, vec![by(0, 1), by(0, 2)]).found, []);
    assert_eq!(second(9, vec![by(0, 2), by(0, 3)]).found, found);
    assert_eq!(
        second(9, vec![by(0, 1), by(0, 2)]).found,
        [],
        "by the first"
    );
    assert_eq!(second(11, vec![]).found, found);
    let third = |token| {
        let second = second(11, vec![by(0, 1), by(0, 2)]);
        second.then(3, &granted(HERE, token, 1, vec![by(0, 1), by(0, 2)]))
    };
    assert_eq!(third(12).found, []);
    assert_eq!(third(11).found, [(3, Promise::Fencing)]);
}

#[test]
fn whoever_asked_when_a_grant_was_known_has_the_higher_token() {
    let first = (11, between(100, 110));
    assert_eq!(verdicts(2, [first, (12, between(111, 120))]), 0);
    assert_eq!(verdicts(2, [first, (10, between(111, 120))]), 1);
    assert_eq!(verdicts(2, [(10, between(111, 120)), first]), 1);
    let both_had_asked = [first, (10, between(110, 120))];
    assert_eq!(verdicts(2, both_had_asked), 0);
}

#[test]
fn of_two_who_can_not_hold_together_the_later_one_has_the_higher_token() {
    let grants = |token| [(11, between(100, 110)), (token, between(50, 200))];
    assert_eq!(verdicts(1, grants(12)), 0);
    assert_eq!(verdicts(1, grants(10)), 1);
    assert_eq!(verdicts(2, grants(10)), 0, "they can");
    let [(first, one), (second, two)] = grants(10);
    let wide = limit(2)
        .then(1, &granted(HERE, first, 1, vec![one]))
        .then(2, &granted(HERE, second, 2, vec![two]));
    assert_eq!(wide.found, [(2, Promise::Fencing)]);
}

#[test]
fn no_token_is_granted_twice() {
    let same = [(10, between(100, 200)), (10, between(100, 200))];
    assert_eq!(verdicts(3, same), 1);
}

#[test]
fn whoever_was_out_of_order_is_compared_with_those_who_follow() {
    let high = [
        (10, by(0, 1)),
        (30, by(0, 2)),
        (20, by(0, 3)),
        (25, by(0, 4)),
    ];
    assert_eq!(verdicts(1, high), 2);
}

#[test]
fn tokens_of_two_places_do_not_compare() {
    let one = limit(1).then(1, &granted(HERE, 10, 1, vec![by(0, 1)]));
    let other = one.then(2, &granted(THERE, 10, 1, vec![by(0, 2)]));
    assert_eq!(other.found, []);
}
