//! A program that ends in a hurry drops its permits. Afterwards nobody must have to wait for them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::reach::was_in_reach;
use super::{ClientLog, Invariant, Logs, Report};
use crate::moment::Moment;
use crate::record::{Belief, Kind};

/// How long its sessions may exist after its end.
const GRACE: Duration = Duration::from_secs(2);

pub(super) fn check(logs: &Logs, report: &mut Report) {
    for log in &logs.clients {
        let Some((told, left)) = left(logs, log) else {
            continue;
        };
        // A program that can't reach Consul can only wait as long as it may.
        if !was_in_reach(logs, log.client, (told, left.plus(GRACE))) {
            continue;
        }
        for session in held_at(log, told) {
            report.figures.farewells += 1;
            let seen = logs.sightings.iter().find(|line| {
                let ours = line.event.ours.as_ref();
                line.at >= left.plus(GRACE) && ours.is_some_and(|ours| ours.contains(session))
            });
            if let Some(line) = seen {
                report.figures.late_farewells += 1;
                let (name, after) = (log.name(), line.at.since(left).as_secs_f64());
                let story = format!("session {session} of {name} stood {after:.1} s after its end");
                report.violation(Invariant::NothingLeft, "", story);
            }
        }
    }
}

/// When a program was told to end in a hurry, and when it ended.
fn left(logs: &Logs, log: &ClientLog) -> Option<(Moment, Moment)> {
    let (told, kind) = logs.ended_at(log)?;
    let last = log.lines.last()?;
    (kind == Kind::Leave && last.event == Belief::Left).then_some((told, last.at))
}

/// The sessions of permits that were held then or later, when their holders ended.
fn held_at(log: &ClientLog, told: Moment) -> Vec<&String> {
    let mut sessions = BTreeMap::new();
    let mut held = Vec::new();
    for line in &log.lines {
        match &line.event {
            Belief::Granted {
                acquire,
                sessions: granted,
                ..
            } => {
                sessions.insert(acquire, granted);
            }
            Belief::Ending {
                acquire,
                held: true,
            } if line.at >= told => held.extend(sessions.remove(acquire).into_iter().flatten()),
            _ => {}
        }
    }
    held
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;
    use super::*;
    use crate::record::{Phase, Target};

    /// A program that holds, is told to end after a second, and ends at once. The witness looks
    /// every quarter of a second, and sees the session until `last_seen`.
    fn left_until(last_seen: u64) -> Story {
        let mut story = Story::new(1);
        story.held_by_session(0, "a", 10, 100, 1_050);
        story.leave(0, 1_000, 1_100);
        for at in (0..8_000).step_by(250) {
            story.sighting(at, 0, Some(&[]));
            let ours = (at <= last_seen).then(|| "a".to_owned());
            if let Some(line) = story.logs().sightings.last_mut() {
                line.event.ours = Some(ours.into_iter().collect());
            }
        }
        story
    }

    fn figures(story: &Story) -> (u64, u64, usize) {
        let report = story.check();
        let figures = &report.figures;
        let found = report.violations.len();
        (figures.farewells, figures.late_farewells, found)
    }

    #[test]
    fn a_session_that_goes_with_its_program_is_well() {
        assert_eq!(figures(&left_until(2_500)), (1, 0, 0));
    }

    #[test]
    fn one_that_is_left_behind_is_found() {
        assert_eq!(figures(&left_until(4_000)), (1, 1, 1));
    }

    #[test]
    fn nobody_says_farewell_to_whom_it_cannot_reach() {
        let mut story = left_until(4_000);
        story.deed(900, Kind::Silence, Target::Client(0), Phase::Begin);
        assert_eq!(figures(&story).1, 0);
    }
}
