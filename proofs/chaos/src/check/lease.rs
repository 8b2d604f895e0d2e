//! S2: a belief ends with its lease, and a lease is never longer than the TTL less a tenth.

use super::{Invariant, Logs, Report};
use crate::record::Belief;

pub(super) fn check(logs: &Logs, report: &mut Report) {
    for log in &logs.clients {
        let longest = logs.run.ttl_of(log.client) * 9 / 10;
        for line in &log.lines {
            let (Belief::Granted {
                acquire,
                until: Some(until),
                ..
            }
            | Belief::Held { acquire, until }) = line.event
            else {
                continue;
            };
            let why = if until <= line.at {
                "though its lease was over"
            } else if until.since(line.at) > longest {
                "with a lease longer than the TTL less a tenth"
            } else {
                continue;
            };
            report.figures.lease_violations += 1;
            let (who, at) = (log.acquire(acquire), line.at);
            let story = format!("{who} believed at {at} {why}: {until}");
            report.violation(Invariant::Lease, log.place(acquire), story);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;

    fn violations(at: u64, until: u64) -> u64 {
        let found = Story::of_one_slot().map(|mut story| {
            let acquire = story.granted(0, 10, 100, 9_100);
            story.beat(0, acquire, at, until);
            story.check().figures.lease_violations
        });
        assert_eq!(found[0], found[1]);
        found[0]
    }

    #[test]
    fn a_belief_within_its_lease_is_fine() {
        assert_eq!(violations(200, 9_200), 0);
        assert_eq!(violations(9_199, 9_200), 0);
    }

    #[test]
    fn a_belief_after_the_end_of_its_lease_is_found() {
        assert_eq!(violations(9_200, 9_200), 1);
    }

    #[test]
    fn a_lease_without_its_margin_is_found() {
        assert_eq!(violations(200, 9_201), 1);
    }
}
