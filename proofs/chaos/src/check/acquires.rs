//! L1 and L4: every acquisition ends, and none fails because of a transient failure.

use std::collections::BTreeMap;

use super::reach::spells;
use super::{ClientLog, Invariant, Logs, Report};
use crate::client;
use crate::moment::Moment;
use crate::record::{Belief, Change, Kind, Outcome, Target, Way};

pub(super) fn check(logs: &Logs, report: &mut Report) {
    for log in &logs.clients {
        let backend = logs
            .run
            .clients
            .get(log.client)
            .map(|client| client.backend);
        let mut open = BTreeMap::new();
        for line in &log.lines {
            match &line.event {
                Belief::Wanted { acquire, way, .. } => {
                    report.figures.wanted += 1;
                    open.insert(*acquire, (line.at, *way));
                }
                Belief::Granted { acquire, .. } => {
                    if let Some((at, _)) = open.remove(acquire) {
                        let wait = line.at.since(at);
                        report.figures.longest_wait = report.figures.longest_wait.max(wait);
                    }
                    if let (Some(backend), Some(what)) = (backend, logs.what(log.place(*acquire))) {
                        *report.figures.granted.entry((what, backend)).or_default() += 1;
                    }
                }
                Belief::NotGranted {
                    acquire,
                    outcome,
                    words,
                } => {
                    let (wanted_at, way) = open.remove(acquire).unzip();
                    *report.figures.not_granted.entry(*outcome).or_default() += 1;
                    // Only an instant try may fail because of a temporary failure, and this chaos
                    // has no other failures. Two exceptions: a client that has never had an answer
                    // takes a gateway's answer for Consul's, and what its token may not do fails.
                    let is_excused = way == Some(Way::Try)
                        || wanted_at
                            .is_some_and(|wanted| was_refused(logs, log, (wanted, line.at)));
                    if *outcome == Outcome::Failed && !is_excused {
                        let words = words.as_deref().unwrap_or_default();
                        let story = format!("{} failed: {words}", log.acquire(*acquire));
                        let place = log.place(*acquire);
                        report.violation(Invariant::TransientFailures, place, story);
                    }
                }
                Belief::Said {
                    acquire,
                    outcome,
                    words,
                    ..
                } => {
                    *report.figures.changes.entry(*outcome).or_default() += 1;
                    // A change is tried until the key shows it or the leadership is lost.
                    if *outcome == Change::Failed {
                        let words = words.as_deref().unwrap_or_default();
                        let who = log.acquire(*acquire);
                        let story = format!("{who} could not change its value: {words}");
                        let place = log.place(*acquire);
                        report.violation(Invariant::TransientFailures, place, story);
                    }
                }
                _ => {}
            }
        }
        let has_stopped = log.has_stopped();
        if has_stopped || logs.killed_at(log).is_none() {
            for (acquire, (at, way)) in open {
                report.figures.unended += 1;
                let story = format!("{} ({way:?}) of {at} never ended", log.acquire(acquire));
                report.violation(Invariant::Admission, log.place(acquire), story);
            }
        }
        if !has_stopped && logs.killed_at(log).is_none() {
            let name = client::name(log.client, log.incarnation);
            if !logs.end.hung.contains(&name) {
                let story = format!("{} ended on its own", log.name());
                report.violation(Invariant::NoCrash, "", story);
            }
        }
    }
    for hung in &logs.end.hung {
        let story = format!("{hung} did not end when it was told to");
        report.violation(Invariant::Admission, "", story);
    }
}

/// Whether a gateway stood between a client and its agent at some time in this span, or its token
/// lacked something.
fn was_refused(logs: &Logs, log: &ClientLog, span: (Moment, Moment)) -> bool {
    let client = Target::Client(log.client);
    let spells = spells(logs, client, |kind| {
        matches!(kind, Kind::Gateway | Kind::Restrict | Kind::Disown)
    });
    spells.iter().any(|spell| spell.overlaps(span))
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;
    use super::*;
    use crate::record::Phase;

    fn invariants(story: &Story) -> Vec<Invariant> {
        let violations = story.check().violations;
        violations.iter().map(|found| found.invariant).collect()
    }

    #[test]
    fn an_acquisition_that_never_ends_is_found() {
        for mut story in Story::of_one_slot() {
            story.wanted(0, 100, 1, Way::Plain);
            assert_eq!(invariants(&story), [Invariant::Admission]);
            assert_eq!(story.check().figures.unended, 1);
        }
    }

    #[test]
    fn it_need_not_end_when_its_process_was_killed() {
        let mut story = Story::new(1);
        story.wanted(0, 100, 1, Way::Plain);
        story.kill(0, 200);
        assert_eq!(invariants(&story), []);
    }

    #[test]
    fn one_that_waits_may_run_out_of_time_and_not_fail() {
        for (outcome, found) in [
            (Outcome::TimedOut, vec![]),
            (Outcome::Cancelled, vec![]),
            (Outcome::Failed, vec![Invariant::TransientFailures]),
        ] {
            let mut story = Story::new(1);
            let acquire = story.wanted(0, 100, 1, Way::Timeout);
            story.not_granted(0, acquire, 200, outcome);
            assert_eq!(invariants(&story), found);
        }
    }

    #[test]
    fn one_that_a_gateway_answers_or_whose_token_lacks_something_may_fail() {
        for kind in [Kind::Gateway, Kind::Restrict, Kind::Disown] {
            for (until, found) in [(150, vec![]), (50, vec![Invariant::TransientFailures])] {
                let mut story = Story::new(1);
                story.deed(10, kind, Target::Client(0), Phase::Begin);
                story.deed(until, kind, Target::Client(0), Phase::End);
                let acquire = story.wanted(0, 100, 1, Way::Timeout);
                story.not_granted(0, acquire, 200, Outcome::Failed);
                assert_eq!(invariants(&story), found, "{kind:?}");
            }
        }
    }

    #[test]
    fn a_leaders_value_may_be_lost_with_the_leadership_and_not_fail() {
        for (outcome, found) in [
            (Change::Done, vec![]),
            (Change::Lost, vec![]),
            (Change::Failed, vec![Invariant::TransientFailures]),
        ] {
            let mut story = Story::election();
            let acquire = story.granted(0, 10, 100, 9_000);
            story.said(0, acquire, 200, outcome);
            assert_eq!(invariants(&story), found);
        }
    }

    #[test]
    fn one_that_does_not_wait_may_fail() {
        let mut story = Story::new(1);
        let acquire = story.wanted(0, 100, 1, Way::Try);
        story.not_granted(0, acquire, 200, Outcome::Failed);
        assert_eq!(invariants(&story), []);
    }

    #[test]
    fn a_client_that_ends_by_itself_is_found() {
        let mut story = Story::new(1);
        story.crash(0);
        assert_eq!(invariants(&story), [Invariant::NoCrash]);
        story.deed(900, Kind::Kill, Target::Client(0), Phase::Begin);
        assert_eq!(invariants(&story), []);
    }

    #[test]
    fn a_client_that_does_not_end_is_found() {
        let mut story = Story::new(1);
        story.crash(0);
        story.logs().end.hung.push("chaos-client-0-1".to_owned());
        assert_eq!(invariants(&story), [Invariant::Admission]);
    }
}
