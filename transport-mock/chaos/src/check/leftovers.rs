//! L2: nothing of ours is left.

use super::{Invariant, Logs, Report};

pub(super) fn check(logs: &Logs, report: &mut Report) {
    let end = &logs.end;
    report.figures.hung_locks = end.hung_locks;
    let kinds = [
        ("the session", &end.sessions),
        ("the key", &end.keys),
        ("at last", &end.at_last),
    ];
    for (what, left) in kinds {
        for one in left {
            report.figures.leftovers += 1;
            let story = format!("{what} {one} was left when all had ended");
            report.violation(Invariant::NothingLeft, story);
        }
    }
    if let Some(failure) = &end.last_failure {
        let story = format!("all slots could not be had when all had ended: {failure}");
        report.violation(Invariant::Admission, story);
    }
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;
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
    fn slots_that_can_not_be_had_at_last_are_found() {
        let mut story = Story::new(1);
        story.logs().end.last_failure = Some("timeout".to_owned());
        let report = story.check();
        assert_eq!(report.violations[0].invariant, Invariant::Admission);
    }
}
