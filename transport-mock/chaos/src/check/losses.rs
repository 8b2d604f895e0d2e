//! L4: no slot is lost that the lease would have covered.

use std::time::Duration;

use super::holds::{Holds, Ours};
use super::reach::could_reach;
use super::{Invariant, Logs, Report};
use crate::moment::Moment;
use crate::record::Reason;

pub(super) fn check(logs: &Logs, holds: &Holds, report: &mut Report) {
    for ours in &holds.ours {
        let Some((at, reason, words)) = &ours.lost else {
            continue;
        };
        *report.figures.losses.entry(*reason).or_default() += 1;
        let (Some(span), Some(deadline)) = (&ours.span, ours.deadline) else {
            continue;
        };
        let why = if *at < deadline.minus(ROUNDING) {
            report.figures.covered_losses += 1;
            format!("the lease lasted until {deadline}")
        } else if *reason != Reason::RuntimeEnded && could_renew(logs, ours, deadline) {
            report.figures.reachable_losses += 1;
            format!("a quorum was within reach before the lease ended at {deadline}")
        } else {
            continue;
        };
        let story = format!("{} was lost at {at} ({words}), but {why}", span.who);
        report.violation(Invariant::TransientFailures, &span.prefix, story);
    }
}

/// Between the reading of two clocks.
const ROUNDING: Duration = Duration::from_millis(50);

/// Renewals begin with a third of the TTL; one is given up after a fifth of it, and tried again
/// after a tenth at most. So two fifths of the TTL within reach are enough for one to succeed.
fn could_renew(logs: &Logs, ours: &Ours, deadline: Moment) -> bool {
    let ttl = logs.run.ttl;
    let due = deadline.minus(ttl * 9 / 10).plus(ttl / 3);
    could_reach(logs, ours.client, (due, deadline), ttl * 2 / 5)
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;
    use crate::record::{Kind, Phase, Reason, Target};

    /// Lost at 9 s, when its lease ended; the witness sees all the time.
    fn expired() -> Story {
        let mut story = Story::new(1);
        let acquire = story.granted(0, 10, 100, 9_000);
        story.lost(0, acquire, 9_000, Reason::LeaseExpired);
        story
    }

    fn violations(story: &Story) -> (u64, u64, usize) {
        let report = story.check();
        let figures = &report.figures;
        assert_eq!(figures.losses.values().sum::<u64>(), 1);
        let counts = (figures.covered_losses, figures.reachable_losses);
        (counts.0, counts.1, report.violations.len())
    }

    #[test]
    fn a_loss_before_the_end_of_the_lease_is_found() {
        let reasons = [Reason::SessionGone, Reason::KeyReleased];
        for (mut story, reason) in Story::of_one_slot().into_iter().zip(reasons) {
            let acquire = story.granted(0, 10, 100, 9_000);
            story.lost(0, acquire, 5_000, reason);
            assert_eq!(violations(&story), (1, 0, 1));
        }
    }

    #[test]
    fn a_lease_that_expires_while_nothing_was_in_reach_is_nobodys_fault() {
        let mut story = expired();
        for at in (0..10_000).step_by(250) {
            story.sighting(at, 0, None);
        }
        assert_eq!(violations(&story), (0, 0, 0));
    }

    #[test]
    fn a_lease_that_expires_while_a_quorum_was_in_reach_is_found() {
        let mut story = expired();
        for at in (0..10_000).step_by(250) {
            story.sighting(at, 0, Some(&[]));
        }
        assert_eq!(violations(&story), (0, 1, 1));
    }

    #[test]
    fn whoever_was_cut_off_could_not_reach_it() {
        let mut story = expired();
        for at in (0..10_000).step_by(250) {
            story.sighting(at, 0, Some(&[]));
        }
        story.deed(5_000, Kind::Silence, Target::Client(0), Phase::Begin);
        story.deed(8_000, Kind::Silence, Target::Client(0), Phase::End);
        assert_eq!(violations(&story), (0, 0, 0));
    }

    #[test]
    fn a_deed_between_two_sightings_ends_the_stretch_too() {
        let mut story = expired();
        for at in (0..10_000).step_by(500) {
            story.sighting(at, 0, Some(&[]));
        }
        story.deed(6_200, Kind::Cut, Target::Client(0), Phase::Begin);
        story.deed(6_200, Kind::Cut, Target::Client(0), Phase::End);
        assert_eq!(violations(&story), (0, 0, 0));
    }

    #[test]
    fn what_another_server_could_reach_does_not_count() {
        let mut story = expired();
        for at in (0..10_000).step_by(250) {
            story.sighting(at, 1, Some(&[]));
        }
        assert_eq!(violations(&story), (0, 0, 0));
    }
}
