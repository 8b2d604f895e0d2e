//! A machine that is suspended: its timers stand still, and its clock runs on or jumps ahead.

use std::time::Duration;

use crate::support::SECOND;
use transport_mock::adapter::Runtime as _;
use transport_mock::{MockConsul, MockProcess};

/// When a sleep of ten seconds ends, of which three pass before five in which the process is
/// suspended, by the world's clock.
fn end_of_a_sleep(rate: f64, jump: Duration) -> Duration {
    let world = MockConsul::new(1);
    let process = MockProcess::new(&world.client("a").with_clock_rate(rate));
    let sleeper = process.clone();
    let sleeps = process.living(async move { sleeper.sleep(10 * SECOND).await });
    let task = world.start(sleeps);
    world.advance(3 * SECOND);
    process.suspend();
    world.advance(5 * SECOND);
    process.client().jump_ahead(jump);
    process.wake_up();
    assert_eq!(world.run(task), Some(()));
    world.now().since_origin()
}

#[test]
fn what_is_left_of_a_sleep_is_slept_after_it() {
    assert_eq!(end_of_a_sleep(1.0, Duration::ZERO), 15 * SECOND);
    // Ten seconds of a fast clock are eight.
    let end = end_of_a_sleep(1.25, Duration::ZERO).as_secs_f64();
    assert!((end - 13.0).abs() < 0.001, "{end}");
}

#[test]
fn a_jump_of_the_clock_does_not_shorten_a_sleep() {
    assert_eq!(end_of_a_sleep(1.0, 60 * SECOND), 15 * SECOND);
}

#[test]
fn a_jump_is_seen_by_the_process_and_not_by_others_on_its_host() {
    let world = MockConsul::new(1);
    let host = world.client("a");
    let process = MockProcess::new(&host.clone().with_clock_rate(1.0));
    process.client().jump_ahead(60 * SECOND);
    assert_eq!(process.now().since_origin(), 60 * SECOND);
    assert_eq!(host.now().since_origin(), Duration::ZERO);
}

#[test]
fn a_sleep_that_a_suspension_does_not_touch_is_as_long_as_ever() {
    let world = MockConsul::new(1);
    let process = MockProcess::new(&world.client("a"));
    process.suspend();
    world.advance(5 * SECOND);
    process.wake_up();
    let sleeper = process.clone();
    let task = world.start(process.living(async move { sleeper.sleep(2 * SECOND).await }));
    assert_eq!(world.run(task), Some(()));
    assert_eq!(world.now().since_origin(), 7 * SECOND);
}
