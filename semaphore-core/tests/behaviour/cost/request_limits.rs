//! How many requests a participant has under way, and when it repeats a failed one.

use semaphore_core::sans_io::Machine as _;
use semaphore_core::sans_io::TransportErrorKind;

use crate::support::bench::{Bench, is_read};
use crate::support::steps::claims;
use crate::support::*;

#[test]
fn at_most_eight_short_requests_are_under_way_beside_the_poll() {
    let mut bench = Bench::new(1, 20);
    bench.keep(|_| true);
    let acquire = bench.participant.acquire(bench.now, 20, None);
    acquire.expect("accepted");
    bench.run_for(secs(60));
    let is_short = |request: &_| !is_read(request);
    let short = bench.kept.iter().filter(|(_, it)| is_short(it)).count();
    assert!((1..=8).contains(&short), "{:?}", bench.kept);
    assert!(
        bench.kept.len() <= short + 1,
        "one poll at most: {:?}",
        bench.kept
    );
}

#[test]
fn a_read_that_fails_is_repeated_with_growing_waits_until_there_is_nothing_to_do() {
    let mut bench = Bench::new(1, 1);
    // It is unknown whether the claim was applied, and no poll tells.
    bench.keep(claims);
    let acquire = bench.acquire();
    bench.run_for(secs(1));
    bench.asked.clear();
    bench.keep(|_| true);
    bench.fail_kept(TransportErrorKind::Unknown);
    let mut reads = 0;
    let end = bench.now + secs(10);
    while bench.now < end {
        bench.step(end);
        reads += bench.kept.iter().filter(|(_, it)| is_read(it)).count();
        bench.fail_kept(TransportErrorKind::Unknown);
    }
    assert!((4..40).contains(&reads), "{reads}");

    bench.participant.cancel(bench.now, acquire);
    let end = bench.now + secs(120);
    while !bench.participant.is_quiet() {
        assert!(bench.now < end, "{:#?}", bench.participant);
        bench.step(end);
        bench.fail_kept(TransportErrorKind::Unknown);
    }
    // In the background, the rate falls to one attempt in a fifth of the TTL, or a minute.
    let mut attempts = 0;
    let slow = [(10, 400), (60, 2_400)];
    for (minutes, most) in slow {
        attempts = 0;
        let end = bench.now + secs(60 * minutes);
        while bench.now < end {
            bench.step(end);
            attempts += bench.kept.len();
            bench.fail_kept(TransportErrorKind::Unknown);
        }
        assert!(attempts <= most, "{attempts} in {minutes} minutes");
    }
    assert!(attempts >= 50, "{attempts}");
    // Consul is back. After the next attempt, nothing is left.
    bench.keep(|_| false);
    bench.run_for(secs(61));
    bench.assert_nothing_left();
}
