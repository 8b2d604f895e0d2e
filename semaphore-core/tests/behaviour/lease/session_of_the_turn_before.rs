//! A turn that begins while the one before ends: it has that one's session, and makes no other.

use transport_mock::{Fault, MockConsul, Rule};

use crate::support::spy::Spy;
use crate::support::steps::{creates_session, deletes_key, destroys_session};
use crate::support::*;

/// As most callers do: they drop the permit and ask for the next one at once.
// Goes with the machine that needs it: later no turn waits for a session.
#[cfg(not(semaphore_next))]
#[test]
fn holds_of_seconds_that_follow_one_another_need_one_session() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 2);
    let mut permit = world.run(semaphore.acquire()).expect("a free slot");
    let mut spy = Spy::on(&world);
    for turns in 0..12 {
        if turns == 2 {
            // From now on a next turn is expected.
            spy = Spy::on(&world);
        }
        world.advance(secs(2));
        drop(permit);
        permit = world.run(semaphore.acquire()).expect("a free slot");
    }
    assert_eq!(spy.count(creates_session), 0, "{}", world.trace());
    assert_eq!(spy.count(destroys_session), 0, "{}", world.trace());
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}

// Goes with the machine that needs it: later no turn waits for a session.
#[cfg(not(semaphore_next))]
#[test]
fn a_release_that_is_held_up_is_waited_for_a_tenth_of_a_second() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 2);
    for _ in 0..2 {
        let permit = world.run(semaphore.acquire()).expect("a free slot");
        world.run(permit.release()).expect("released");
    }
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    let rule = Rule::new(Fault::DelayAnswer(secs(2))).matching(deletes_key);
    world.inject(rule.times(1));
    let spy = Spy::on(&world);
    drop(permit);
    let next = world.start({
        let semaphore = semaphore.clone();
        async move { semaphore.acquire().await }
    });
    world.advance(millis(99));
    assert_eq!(world.pending_rules(), 0, "{}", world.trace());
    assert_eq!(spy.count(creates_session), 0, "{}", world.trace());
    world.advance(millis(2));
    assert_eq!(spy.count(creates_session), 1, "{}", world.trace());
    let permit = world.run(next).expect("a free slot");
    world.run(permit.release()).expect("released");
    assert_nothing_left(&world);
}
