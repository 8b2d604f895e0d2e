//! Belief ends by the clock, no matter who looks at it first. A release after that reports the
//! loss, even if the timer has not fired yet.

use semaphore_core::sans_io::{CommandId, Event, Machine, TransportErrorKind};
use semaphore_core::{Error, Lost};

use crate::support::bench::Bench;
use crate::support::*;
use crate::support::{election_bench, secs};

/// The result of a command.
fn done<G>(events: &[Event<G>], command: CommandId) -> Option<&Result<(), Error>> {
    events.iter().rev().find_map(|event| match event {
        Event::Done {
            command: done,
            result,
        } if *done == command => Some(result),
        _ => None,
    })
}

#[test]
fn a_slot_is_released_after_its_lease() {
    let mut bench = Bench::new(1, 1);
    let acquire = bench.acquire();
    bench.run_for(secs(1));
    bench.keep(|_| true);
    let deadline = bench.participant.deadline(acquire).expect("a lease");
    bench.now = deadline + millis(1);
    assert!(!bench.participant.is_held(bench.now, acquire));
    bench.participant.release(bench.now, acquire);
    bench.keep(|_| false);
    bench.run_for(secs(60));
    bench.fail_kept(TransportErrorKind::Unknown);
    let result = done(&bench.events, acquire);
    let is_told = matches!(result, Some(Err(Error::Lost(Lost::LeaseExpired { .. }))));
    assert!(is_told, "{result:?}");
    bench.assert_nothing_left();
}

#[test]
fn a_leader_resigns_after_its_lease() {
    let (mut bench, campaign) = election_bench::Bench::leading();
    let deadline = bench.candidate.deadline(campaign).expect("a lease");
    bench.now = deadline + millis(1);
    assert!(!bench.candidate.is_held(bench.now, campaign));
    bench.candidate.release(bench.now, campaign);
    bench.run_for(60_000);
    let result = done(&bench.events, campaign);
    let is_told = matches!(result, Some(Err(Error::Lost(Lost::LeaseExpired { .. }))));
    assert!(is_told, "{result:?}");
}
