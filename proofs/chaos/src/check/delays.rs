//! The lock delay: a killed leader's session ends at the earliest one TTL after the last renewal,
//! and then the lock delay begins.
//!
//! The leader's lease ended a tenth of the TTL before that. A leader that loses its lease and lives
//! may release the key at once. Then there is no lock delay.

use judge::{Event, Place};

use super::Logs;
use super::holds::{Holds, Ours, Span};
use super::sessions::Sessions;
use crate::moment::Moment;

/// For each killed leader of this place: its lock delay, and from when on it led.
pub(super) fn after_killed(
    logs: &Logs,
    holds: &Holds,
    sessions: &Sessions<'_>,
    (place, prefix): (Place, &str),
) -> Vec<(Moment, Event)> {
    let killed = holds.ours.iter().filter_map(|ours| {
        let (killed, deadline) = killed(ours).filter(|(killed, _)| killed.prefix == prefix)?;
        let mut ends = deadline.plus(logs.run.ttl_of(ours.client) / 10);
        // Consul may have removed its server and ended its session early.
        if let Some(gone) = sessions.first_gone(&ours.sessions, killed.from) {
            ends = ends.min(gone.after);
        }
        let delayed = Event::Delayed {
            place,
            until: ends.plus(logs.run.lock_delay_of(ours.client)).into(),
            after: format!(
                "{}, which was killed with a lease until {deadline},",
                killed.who
            ),
        };
        Some((killed.from, delayed))
    });
    killed.collect()
}

/// The span of a holder that was killed while it held, and the end of its lease.
fn killed(ours: &Ours) -> Option<(&Span, Moment)> {
    let span = ours.span.as_ref().filter(|_| ours.was_killed)?;
    Some((span, ours.deadline?))
}

#[cfg(test)]
mod tests {
    use super::super::story::{Story, millis};
    use crate::record::Belief;

    fn hasty(story: &Story) -> (u64, u64) {
        let figures = story.check().figures;
        (figures.killed_leaders, figures.hasty_leaders)
    }

    /// A leader with a lease until 9 s that was killed after one second. Consul ends its session at
    /// 10 s at the earliest, and the lock delay is one second.
    fn killed() -> Story {
        let mut story = Story::election();
        story.granted(0, 10, 100, 9_000);
        story.kill(0, 1_000);
        story
    }

    #[test]
    fn whoever_leads_before_the_lock_delay_is_over_is_found() {
        for (from, found) in [(10_999, 1), (11_000, 0)] {
            let mut story = killed();
            story.held(1, 11, from, 12_000);
            assert_eq!(hasty(&story), (1, found), "{from}");
            let mut story = killed();
            story.lock("chaos-lock-0-0", from, 12_000);
            assert_eq!(hasty(&story), (1, found), "{from}");
        }
    }

    #[test]
    fn a_session_that_ended_before_its_time_is_followed_after_the_lock_delay() {
        for (from, found) in [(4_999, 1), (5_000, 0)] {
            let mut story = Story::election();
            story.held_by_session(0, "a", 10, 100, 20_000);
            for line in &mut story.logs().clients[0].lines {
                if let Belief::Granted { until, .. } = &mut line.event {
                    *until = Some(millis(9_000));
                }
            }
            story.logs().clients[0].lines.truncate(2);
            story.kill(0, 1_000);
            for (at, ours) in [(4_000, vec!["a".to_owned()]), (4_200, vec![])] {
                story.sighting(at, 0, Some(&[]));
                if let Some(line) = story.logs().sightings.last_mut() {
                    line.event.ours = Some(ours);
                }
            }
            story.held(1, 11, from, 12_000);
            assert_eq!(hasty(&story), (1, found), "{from}");
        }
    }

    #[test]
    fn whoever_gave_it_back_before_it_was_killed_is_followed_at_once() {
        let mut story = Story::election();
        story.held(0, 10, 100, 900);
        story.kill(0, 1_000);
        story.held(1, 11, 901, 1_200);
        assert_eq!(hasty(&story), (0, 0));
    }

    #[test]
    fn whoever_lost_its_lease_and_lives_is_followed_at_once() {
        let mut story = Story::election();
        let paused = story.granted(0, 10, 100, 9_000);
        story.not_held(0, paused, 9_500);
        story.held(1, 11, 9_501, 9_600);
        assert_eq!(hasty(&story), (0, 0));
    }

    #[test]
    fn a_slot_has_no_lock_delay() {
        let mut story = Story::new(1);
        story.granted(0, 10, 100, 9_000);
        story.kill(0, 1_000);
        story.held(1, 11, 10_001, 12_000);
        assert_eq!(hasty(&story), (0, 0));
    }
}
