//! S5: tokens rise strictly over all grants of a prefix.
//!
//! The order of grants is seen where it can be told from outside: one who asks when another's
//! grant is known comes after it, and so does, of two who can't hold together, who holds later.

use std::collections::BTreeMap;

use super::holds::{Holds, Ours, Span};
use super::{Invariant, Logs, Report};
use crate::moment::Moment;
use crate::record::Place;

pub(super) fn check(logs: &Logs, holds: &Holds, report: &mut Report) {
    for place in &logs.run.places {
        let of_prefix = |ours| held(ours).filter(|grant| grant.span.prefix == place.prefix);
        let mut grants: Vec<_> = holds.ours.iter().filter_map(of_prefix).collect();
        grants.sort_by_key(|grant| grant.span.from);
        for story in twice(&grants)
            .into_iter()
            .chain(asked_after(&grants))
            .chain(held_after(&grants, place))
        {
            report.figures.token_violations += 1;
            report.violation(Invariant::Fencing, &place.prefix, story);
        }
    }
}

/// A grant that was believed.
struct Grant<'h> {
    span: &'h Span,
    token: u64,
    wanted_at: Moment,
}

fn held(ours: &Ours) -> Option<Grant<'_>> {
    ours.span.as_ref().map(|span| Grant {
        span,
        token: ours.token,
        wanted_at: ours.wanted_at,
    })
}

fn twice(grants: &[Grant<'_>]) -> Vec<String> {
    let mut seen = BTreeMap::new();
    let again = |grant: &Grant<'_>| {
        let before = seen.insert(grant.token, grant.span.who.clone())?;
        Some(format!("the same token: {before}, {}", grant.span.who))
    };
    grants.iter().filter_map(again).collect()
}

/// Whoever asked when a grant was known has a higher token than that one.
fn asked_after(grants: &[Grant<'_>]) -> Vec<String> {
    let mut by_asking: Vec<_> = grants.iter().collect();
    by_asking.sort_by_key(|grant| grant.wanted_at);
    let mut known = grants.iter().peekable();
    let mut highest: Option<&Grant<'_>> = None;
    let mut found = Vec::new();
    for grant in by_asking {
        while let Some(before) = known.next_if(|before| before.span.from < grant.wanted_at) {
            if highest.is_none_or(|highest| highest.token < before.token) {
                highest = Some(before);
            }
        }
        if let Some(before) = highest.filter(|before| before.token > grant.token) {
            found.push(story(before, grant, "asked when the former was granted"));
        }
    }
    found
}

/// Of two who can't hold together, the one who held later has the higher token.
fn held_after(grants: &[Grant<'_>], place: &Place) -> Vec<String> {
    // The highest before, by how many slots it took.
    let mut highest = BTreeMap::<u32, &Grant<'_>>::new();
    let mut found = Vec::new();
    for grant in grants {
        let excludes = place.limit.saturating_sub(grant.span.permits) + 1;
        let before = highest
            .range(excludes..)
            .map(|(_, before)| before)
            .max_by_key(|before| before.token);
        if let Some(before) = before.filter(|before| before.token > grant.token) {
            found.push(story(before, grant, "held later, and both can't at once"));
        }
        let of_size = highest.entry(grant.span.permits).or_insert(grant);
        if of_size.token < grant.token {
            *of_size = grant;
        }
    }
    found
}

fn story(before: &Grant<'_>, after: &Grant<'_>, why: &str) -> String {
    format!(
        "{} from {}, then {}, which asked at {} and held from {}: the latter {why}",
        before.span.who, before.span.from, after.span.who, after.wanted_at, after.span.from
    )
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;

    fn violations(story: &Story) -> u64 {
        story.check().figures.token_violations
    }

    #[test]
    fn tokens_that_rise_are_fine() {
        let mut story = Story::new(1);
        story.held(0, 10, 100, 200);
        story.held(1, 11, 200, 300);
        story.held(0, 15, 400, 500);
        assert_eq!(violations(&story), 0);
    }

    #[test]
    fn one_token_twice_is_found() {
        let mut story = Story::new(3);
        story.held(0, 10, 100, 200);
        story.held(1, 10, 100, 200);
        assert_eq!(violations(&story), 1);
    }

    #[test]
    fn of_one_slot_a_later_grant_with_a_lower_token_is_found() {
        for mut story in Story::of_one_slot() {
            story.held(0, 11, 100, 200);
            story.asked_and_held(1, 10, 50, 200, 300);
            assert_eq!(violations(&story), 1);
        }
    }

    #[test]
    fn of_several_slots_grants_may_be_heard_of_in_another_order_than_they_came() {
        let mut story = Story::new(2);
        story.held(0, 11, 100, 200);
        story.asked_and_held(1, 10, 50, 110, 300);
        assert_eq!(violations(&story), 0);
    }

    #[test]
    fn whoever_asks_when_a_grant_is_known_needs_a_higher_token() {
        let mut story = Story::new(2);
        story.held(0, 11, 100, 200);
        story.asked_and_held(1, 10, 101, 110, 300);
        assert_eq!(violations(&story), 1);
    }

    #[test]
    fn whoever_takes_all_slots_comes_before_or_after_everybody() {
        let mut story = Story::new(2);
        story.held(0, 11, 100, 200);
        story.asked_and_held_many(1, 10, 2, 50, 210, 300);
        assert_eq!(violations(&story), 1);
    }
}
