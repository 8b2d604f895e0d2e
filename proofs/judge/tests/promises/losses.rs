//! L4: a transient failure causes no loss.

use std::time::Duration;

use judge::{Event, Lease, Promise};

use crate::support::*;

fn lost(was_taken: bool, lease: Lease) -> Vec<(u64, Promise)> {
    let lost = Event::Lost {
        place: HERE,
        was_taken,
        lease,
        name: "a hold".to_owned(),
    };
    limit(1).then(9, &lost).found
}

const FOUND: [(u64, Promise); 1] = [(9, Promise::TransientFailures)];

fn over(in_reach: u64) -> Lease {
    Lease::Over {
        in_reach: Duration::from_secs(in_reach),
        needed: Duration::from_secs(4),
    }
}

#[test]
fn nothing_is_lost_that_the_lease_would_have_covered() {
    assert_eq!(lost(false, Lease::Lasts), FOUND);
    assert_eq!(lost(true, Lease::Lasts), []);
}

#[test]
fn no_lease_runs_out_that_could_have_been_renewed() {
    assert_eq!(lost(false, over(3)), []);
    assert_eq!(lost(false, over(4)), FOUND);
    assert_eq!(lost(true, over(4)), []);
}
