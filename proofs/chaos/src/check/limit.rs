//! S1: never more than the limit at once.

use super::holds::{Holds, Span};
use super::{Invariant, Logs, Report};
use crate::moment::Moment;

pub(super) fn check(logs: &Logs, holds: &Holds, report: &mut Report) {
    for place in &logs.run.places {
        let ours = holds.ours.iter().filter_map(|ours| ours.span.as_ref());
        let spans: Vec<_> = ours
            .chain(&holds.theirs)
            .filter(|span| span.prefix == place.prefix && span.from < span.until)
            .collect();
        report
            .figures
            .most_at_once
            .push((place.prefix.clone(), most_at_once(&spans), place.limit));
        for (at, held, holders) in overlaps(&spans, place.limit) {
            report.figures.overlaps += 1;
            let story = format!(
                "{held} of {} slots of {} at {at}: {}",
                place.limit,
                place.prefix,
                holders.join(", ")
            );
            report.violation(Invariant::Limit, &place.prefix, story);
        }
    }
}

/// Of one moment, the ends come first: a belief does not include its last.
fn sweep(spans: &[&Span], mut see: impl FnMut(Moment, u32)) {
    let begins = spans.iter().map(|span| (span.from, true, span.permits));
    let ends = spans.iter().map(|span| (span.until, false, span.permits));
    let mut moments: Vec<_> = begins.chain(ends).collect();
    moments.sort_unstable();
    let mut held = 0_u32;
    for (at, is_begin, permits) in moments {
        if is_begin {
            held += permits;
            see(at, held);
        } else {
            held = held.saturating_sub(permits);
        }
    }
}

fn most_at_once(spans: &[&Span]) -> u32 {
    let mut most = 0;
    sweep(spans, |_, held| most = most.max(held));
    most
}

/// Each moment at which somebody came who was one too many.
fn overlaps(spans: &[&Span], limit: u32) -> Vec<(Moment, u32, Vec<String>)> {
    let mut found = Vec::new();
    sweep(spans, |at, held| {
        if held > limit {
            let holds = |span: &&&Span| span.from <= at && at < span.until;
            let who = |span: &&Span| format!("{} {}-{}", span.who, span.from, span.until);
            found.push((at, held, spans.iter().filter(holds).map(who).collect()));
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;
    use super::*;
    use crate::record::{Kind, Phase, Target};

    fn overlaps(story: &Story) -> u64 {
        let report = story.check();
        let violations = report.violations.iter();
        let of_limit = violations.filter(|found| found.invariant == Invariant::Limit);
        assert_eq!(of_limit.count() as u64, report.figures.overlaps);
        report.figures.overlaps
    }

    #[test]
    fn as_many_as_the_limit_are_fine() {
        let mut story = Story::new(2);
        story.held(0, 10, 100, 500);
        story.held(1, 11, 200, 600);
        story.held(2, 12, 600, 700);
        assert_eq!(overlaps(&story), 0);
    }

    #[test]
    fn two_leaders_at_once_are_found() {
        let mut story = Story::election();
        story.held(0, 10, 100, 500);
        story.held(1, 11, 500, 700);
        assert_eq!(overlaps(&story), 0);
        story.held(2, 12, 699, 800);
        assert_eq!(overlaps(&story), 1);
        assert_eq!(story.check().violations[0].place, "chaos/elected");
    }

    #[test]
    fn one_more_than_the_limit_is_found() {
        let mut story = Story::new(2);
        story.held(0, 10, 100, 500);
        story.held(1, 11, 200, 600);
        story.held(2, 12, 300, 700);
        assert_eq!(overlaps(&story), 1);
    }

    #[test]
    fn several_slots_of_one_permit_count_as_many() {
        let mut story = Story::new(2);
        story.held_many(0, 10, 2, 100, 500);
        story.held(1, 11, 200, 600);
        assert_eq!(overlaps(&story), 1);
    }

    #[test]
    fn whoever_was_killed_believed_until_then() {
        for (came, found) in [(900, 1), (1_001, 0)] {
            for mut story in Story::of_one_slot() {
                story.granted(0, 10, 100, 9_000);
                story.deed(1_000, Kind::Kill, Target::Client(0), Phase::Begin);
                story.held(1, 11, came, 1_200);
                assert_eq!(overlaps(&story), found, "{came}");
            }
        }
    }

    #[test]
    fn whoever_was_paused_believed_until_the_end_of_the_lease_unless_told_otherwise() {
        for (came, found) in [(8_999, 1), (9_000, 0)] {
            for mut story in Story::of_one_slot() {
                let paused = story.granted(0, 10, 100, 9_000);
                story.not_held(0, paused, 20_000);
                story.held(1, 11, came, 30_000);
                assert_eq!(overlaps(&story), found, "{came}");
            }
        }
        let mut story = Story::new(1);
        let paused = story.granted(0, 10, 100, 9_000);
        // It asked and was told that it holds, whatever the lease was.
        story.beat(0, paused, 20_000, 20_000);
        story.held(1, 11, 9_500, 9_700);
        assert_eq!(overlaps(&story), 1);
    }

    #[test]
    fn a_holder_of_consul_lock_counts_until_its_session_is_missed() {
        for mut story in Story::of_one_slot() {
            story.lock("chaos-lock-0-0", 100, 5_000);
            story.held(0, 10, 3_000, 3_500);
            assert_eq!(overlaps(&story), 1);
            // Consul says that its session was gone by then.
            story.sighting(2_000, 0, Some(&["chaos-lock-0-0"]));
            story.sighting(2_500, 0, Some(&[]));
            assert_eq!(overlaps(&story), 0);
            story.sighting(3_100, 0, Some(&["chaos-lock-0-0"]));
            assert_eq!(overlaps(&story), 1);
        }
    }

    #[test]
    fn a_belief_that_ended_as_it_began_counts_for_nothing() {
        let mut story = Story::new(1);
        story.lock("chaos-lock-0-0", 100, 5_000);
        story.sighting(200, 0, Some(&[]));
        story.held(0, 10, 6_000, 6_500);
        assert_eq!(overlaps(&story), 0);
    }

    #[test]
    fn the_most_at_once_is_told() {
        let mut story = Story::new(2);
        story.held(0, 10, 100, 500);
        story.held(1, 11, 500, 600);
        let report = story.check();
        assert_eq!(report.figures.most_at_once[0].1, 1);
    }
}
