//! Whether losses were justified.

use std::time::Duration;

use judge::{Event, Lease, Place};
use real_agent::SERVERS;

use super::Logs;
use super::holds::{Holds, Ours};
use super::reach::{hurts, latest, longest_reach};
use crate::moment::Moment;
use crate::record::{Reason, Target};

/// The losses at this place.
pub(super) fn told(
    logs: &Logs,
    holds: &Holds,
    (place, prefix): (Place, &str),
) -> Vec<(Moment, Event)> {
    let lost = |ours: &Ours| {
        let (at, reason, words) = ours.lost.as_ref()?;
        let span = ours.span.as_ref().filter(|span| span.prefix == prefix)?;
        let deadline = ours.deadline?;
        let lost = Event::Lost {
            place,
            // Consul has ended its session early.
            was_taken: was_taken_out(logs, ours.client, (span.from, *at)),
            lease: if *at < deadline.minus(ROUNDING) {
                Lease::Lasts
            } else {
                over(logs, ours, *reason, deadline)
            },
            name: format!("{}, with a lease until {deadline} ({words}),", span.who),
        };
        Some((*at, lost))
    };
    holds.ours.iter().filter_map(lost).collect()
}

/// The clocks of two readings may differ this much.
const ROUNDING: Duration = Duration::from_millis(50);

/// Whether Consul may have removed a client's server from the catalog, and ended the client's
/// session, while it held.
fn was_taken_out(logs: &Logs, client: usize, span: (Moment, Moment)) -> bool {
    let client = logs.run.clients.get(client);
    let client = client.filter(|client| logs.run.reaped && !client.own_node);
    client.is_some_and(|client| was_out(logs, client.server, span))
}

/// Whether a server was out of order for long enough in this span. A client agent only needs to be
/// out of order at all, since its node leaves as soon as it ends.
pub(super) fn was_out(logs: &Logs, server: usize, (from, until): (Moment, Moment)) -> bool {
    if let Some(agent) = server.checked_sub(SERVERS) {
        let hurts = hurts(logs, Target::Agent(agent));
        return hurts.iter().any(|hurt| hurt.0 < until && from < hurt.1);
    }
    let long = |hurt: &(Moment, Moment)| {
        hurt.0 < until && from < hurt.1 && hurt.1.since(hurt.0) > REAPED_AFTER
    };
    let targets = [Target::Leader, Target::Follower].map(|target| target(server));
    let mut hurts = targets.iter().flat_map(|target| hurts(logs, *target));
    hurts.any(|hurt| long(&hurt))
}

/// Consul waits some ten seconds. Half of that is certainly too short.
const REAPED_AFTER: Duration = Duration::from_secs(5);

/// Renewals follow one another after a fifteenth of the TTL, whatever happens to them, and sooner at the end of a
/// lease. So a tenth of the TTL within reach is enough. A loaded
/// machine gets three tenths.
fn over(logs: &Logs, ours: &Ours, reason: Reason, deadline: Moment) -> Lease {
    let ttl = logs.run.ttl_of(ours.client);
    let due = deadline.minus(ttl * 9 / 10).plus(ttl / 12);
    let in_reach = match reason {
        // Without a driver, a client renews nothing.
        Reason::RuntimeEnded => Duration::ZERO,
        _ => longest_reach(logs, ours.client, (due, deadline)),
    };
    // The answers are this much later. The first one may be given up, since the client does not
    // know yet how slow they are.
    let later = latest(logs, ours.client, (due, deadline));
    let needed = ttl * 3 / 10 + 2 * later;
    Lease::Over { in_reach, needed }
}

#[cfg(test)]
mod tests {
    use real_agent::SERVERS;

    use super::super::story::Story;
    use crate::record::{Kind, Phase, Reason, Target};

    /// A loss at 9 s, when the lease ended. The witness saw Consul all the time.
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
    fn a_session_that_ends_with_its_server_is_nobodys_fault() {
        for (reaped, end, found) in [(true, 16_000, 0), (true, 3_000, 1), (false, 16_000, 1)] {
            let mut story = Story::new(1);
            story.logs().run.reaped = reaped;
            let acquire = story.granted(0, 10, 100, 17_000);
            story.deed(1_000, Kind::Kill, Target::Follower(0), Phase::Begin);
            story.deed(end, Kind::Kill, Target::Follower(0), Phase::End);
            story.lost(0, acquire, 16_500, Reason::SessionGone);
            assert_eq!(violations(&story).0, found, "{end}");
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
        story.deed(3_500, Kind::Silence, Target::Client(0), Phase::Begin);
        story.deed(8_000, Kind::Silence, Target::Client(0), Phase::End);
        assert_eq!(violations(&story), (0, 0, 0));
    }

    #[test]
    fn a_deed_between_two_sightings_ends_the_stretch_too() {
        let mut story = expired();
        for at in (0..10_000).step_by(500) {
            story.sighting(at, 0, Some(&[]));
        }
        for at in [3_200, 6_100] {
            story.deed(at, Kind::Cut, Target::Client(0), Phase::Begin);
            story.deed(at, Kind::Cut, Target::Client(0), Phase::End);
        }
        assert_eq!(violations(&story), (0, 0, 0));
    }

    #[test]
    fn whoever_is_slowed_gets_as_much_longer() {
        for (later, found) in [(1_000, 1), (3_000, 0)] {
            let mut story = expired();
            for at in (0..7_000).step_by(250) {
                story.sighting(at, 0, Some(&[]));
            }
            story.slow(0, (500, 9_500), later);
            assert_eq!(violations(&story), (0, found, usize::from(found > 0)));
        }
    }

    #[test]
    fn a_session_that_ends_with_its_client_agent_is_nobodys_fault() {
        for (own_node, found) in [(false, 0), (true, 1)] {
            let mut story = Story::new(1);
            let run = &mut story.logs().run;
            (run.reaped, run.agents) = (true, 1);
            (run.clients[0].server, run.clients[0].own_node) = (SERVERS, own_node);
            let acquire = story.granted(0, 10, 100, 9_000);
            story.deed(2_000, Kind::Restart, Target::Agent(0), Phase::Begin);
            story.deed(2_500, Kind::Restart, Target::Agent(0), Phase::End);
            story.lost(0, acquire, 3_000, Reason::SessionGone);
            assert_eq!(violations(&story).0, found, "{own_node}");
        }
    }

    #[test]
    fn what_another_server_could_reach_does_not_count() {
        let mut story = expired();
        for at in (0..10_000).step_by(250) {
            story.sighting(at, 1, Some(&[]));
        }
        assert_eq!(violations(&story), (0, 0, 0));
    }

    #[test]
    fn a_server_that_goes_excuses_no_loss_of_who_stands_on_a_node_of_its_own() {
        for own_node in [false, true] {
            let mut story = Story::new(1);
            let acquire = story.granted(0, 10, 100, 9_000);
            story.lost(0, acquire, 7_500, Reason::SessionGone);
            story.deed(500, Kind::Stop, Target::Follower(0), Phase::Begin);
            story.deed(7_000, Kind::Stop, Target::Follower(0), Phase::End);
            let run = &mut story.logs().run;
            run.reaped = true;
            run.clients[0].own_node = own_node;
            let found = (u64::from(own_node), 0, usize::from(own_node));
            assert_eq!(violations(&story), found, "{own_node}");
            assert_eq!(story.check().figures.outlived, u64::from(own_node));
        }
    }
}
