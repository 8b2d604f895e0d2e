//! L2: nothing of ours is left.
//!
//! If a session's creation got no answer in time, nobody owns the session, and its TTL ends it.
//! That happens when the cluster or the machine is slow. So if the witnesses did not get all answers
//! in time during the calm, the sessions count that are left when another expiry is over.

use super::reach::BLINK;
use super::{Invariant, Logs, Report};
use crate::diary::Line;
use crate::record::Sighting;

pub(super) fn check(logs: &Logs, report: &mut Report) {
    let end = &logs.end;
    report.figures.hung_locks = end.hung_locks;
    let mut kinds = vec![("the key", &end.keys), ("at last", &end.at_last)];
    let sessions = if was_slow(logs) {
        report.figures.orphans =
            (end.sessions.len().saturating_sub(end.sessions_later.len())) as u64;
        &end.sessions_later
    } else {
        &end.sessions
    };
    kinds.push(("the session", sessions));
    for (what, left) in kinds {
        for one in left {
            report.figures.leftovers += 1;
            let story = format!("{what} {one} was left when all had ended");
            report.violation(Invariant::NothingLeft, "", story);
        }
    }
    if let Some(failure) = &end.last_failure {
        let story = format!("not everything could be had when all had ended: {failure}");
        report.violation(Invariant::Admission, "", story);
    }
}

fn was_slow(logs: &Logs) -> bool {
    let calm = |line: &&Line<Sighting>| line.at >= logs.end.quiet_from;
    logs.sightings.iter().filter(calm).any(|line| {
        let sighting = &line.event;
        sighting.locks.is_none() || sighting.end.since(line.at) > BLINK
    })
}

#[cfg(test)]
mod tests {
    use super::super::story::{Story, millis};
    use super::*;

    #[test]
    fn whatever_is_left_is_found() {
        let mut story = Story::new(1);
        assert_eq!(story.check().figures.leftovers, 0);
        let end = &mut story.logs().end;
        end.sessions.push("chaos-client-0-1".to_owned());
        end.keys.push("chaos/shared/x".to_owned());
        end.at_last.push("y".to_owned());
        let report = story.check();
        assert_eq!(report.figures.leftovers, 3);
        assert_eq!(report.violations.len(), 3);
        assert_eq!(report.violations[0].invariant, Invariant::NothingLeft);
    }

    #[test]
    fn a_session_alone_is_excused_when_the_calm_was_not_calm() {
        let mut story = Story::new(1);
        story
            .logs()
            .end
            .sessions
            .push("chaos-client-0-1".to_owned());
        story.logs().end.quiet_from = millis(1_000);
        story.sighting(500, 0, None);
        assert_eq!(story.check().figures.leftovers, 1);
        story.sighting(1_500, 0, None);
        let report = story.check();
        assert_eq!((report.figures.leftovers, report.figures.orphans), (0, 1));
        let later = "chaos-client-0-1".to_owned();
        story.logs().end.sessions_later.push(later);
        let report = story.check();
        assert_eq!((report.figures.leftovers, report.figures.orphans), (1, 0));
    }

    #[test]
    fn slots_that_can_not_be_had_at_last_are_found() {
        let mut story = Story::new(1);
        story.logs().end.last_failure = Some("timeout".to_owned());
        let report = story.check();
        assert_eq!(report.violations[0].invariant, Invariant::Admission);
    }
}
