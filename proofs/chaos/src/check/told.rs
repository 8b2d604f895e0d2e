//! Translates the logs for the judge that simulation and chaos share, and reports its verdicts.

use judge::{Admission, Event, Follower, Hold, Judge, Lease, Place, Promise};

use super::holds::{Holds, Ours, Span};
use super::sessions::Sessions;
use super::{Invariant, Logs, Report, delays, followers, lease, losses};
use crate::moment::Moment;

pub(super) fn check(logs: &Logs, holds: &Holds, sessions: &Sessions<'_>, report: &mut Report) {
    let mut events = events(logs, holds, sessions);
    events.sort_by_key(|told| (told.at, told.order));
    for (_, reason, _) in holds.ours.iter().filter_map(|ours| ours.lost.as_ref()) {
        *report.figures.losses.entry(*reason).or_default() += 1;
    }
    let mut judge = Judge::new();
    for told in &events {
        let is_delay = matches!(told.event, Event::Delayed { .. });
        report.figures.killed_leaders += u64::from(is_delay);
        let Err(found) = judge.hear(told.at.into(), &told.event) else {
            continue;
        };
        let figures = &mut report.figures;
        let (invariant, count) = match found.promise {
            Promise::Limit => (Invariant::Limit, &mut figures.overlaps),
            Promise::Lease => (Invariant::Lease, &mut figures.lease_violations),
            Promise::Fencing => (Invariant::Fencing, &mut figures.token_violations),
            Promise::Discovery => (Invariant::Discovery, &mut figures.wrong_sights),
            Promise::LockDelay => (Invariant::LockDelay, &mut figures.hasty_leaders),
            Promise::TransientFailures => {
                let had_a_lease = matches!(
                    told.event,
                    Event::Lost {
                        lease: Lease::Lasts,
                        ..
                    }
                );
                let count = if had_a_lease {
                    &mut figures.covered_losses
                } else {
                    &mut figures.reachable_losses
                };
                (Invariant::TransientFailures, count)
            }
        };
        *count += 1;
        let place = logs.run.places.get(found.place.0);
        let place = place.map_or("", |place| place.prefix.as_str());
        report.violation(invariant, place, found.to_string());
    }
    for (number, place) in logs.run.places.iter().enumerate() {
        let most = judge.most_at_once(Place(number));
        let most = (place.prefix.clone(), most, place.limit);
        report.figures.most_at_once.push(most);
    }
}

/// An event of the merged logs.
struct Told {
    at: Moment,
    /// The order among events of the same moment.
    order: Order,
    event: Event,
}

/// A belief does not include its last moment, and no holder waits for the lock delay after its own
/// end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    Limit,
    End,
    Begin,
    Delay,
}

fn events(logs: &Logs, holds: &Holds, sessions: &Sessions<'_>) -> Vec<Told> {
    let with = |order| move |(at, event)| Told { at, order, event };
    let mut events: Vec<_> = (lease::told(logs).into_iter())
        .map(with(Order::Begin))
        .collect();
    let mut ids = (0..).map(Follower);
    for (number, place) in logs.run.places.iter().enumerate() {
        let (is_election, prefix) = (place.is_election(), place.prefix.as_str());
        let (place, permits) = (Place(number), place.limit);
        let allowed = (Moment::default(), Event::Allowed { place, permits });
        events.push(with(Order::Limit)(allowed));
        let ours = holds.ours.iter().filter_map(|ours| ours.span.as_ref());
        let spans = (0..).map(Hold).zip(ours.chain(&holds.theirs));
        for (hold, span) in spans.filter(|(_, span)| span.prefix == prefix) {
            events.extend(believed(hold, place, span));
            if is_election {
                let name = span.who.clone();
                let acquired = (span.from, Event::Acquired { place, name });
                events.push(with(Order::Begin)(acquired));
            }
        }
        let granted = |ours| granted(place, prefix, ours);
        let granted = holds.ours.iter().filter_map(granted);
        events.extend(granted.map(with(Order::Begin)));
        let lost = losses::told(logs, holds, (place, prefix));
        events.extend(lost.into_iter().map(with(Order::Begin)));
        if is_election {
            let delays = delays::after_killed(logs, holds, sessions, (place, prefix));
            events.extend(delays.into_iter().map(with(Order::Delay)));
            let followed = followers::told(logs, (place, prefix), &mut ids);
            events.extend(followed.into_iter().map(with(Order::Begin)));
        }
    }
    events
}

/// Nothing, if it certainly believed at no moment.
fn believed(hold: Hold, place: Place, span: &Span) -> Vec<Told> {
    if span.from >= span.until {
        return Vec::new();
    }
    let begins = Told {
        at: span.from,
        order: Order::Begin,
        event: Event::Begins {
            hold,
            place,
            permits: span.permits,
            name: format!("{} {}-{}", span.who, span.from, span.until),
        },
    };
    let ends = Told {
        at: span.until,
        order: Order::End,
        event: Event::Ends { hold },
    };
    vec![begins, ends]
}

/// A grant that was believed. It was known when its holder first asked whether it holds.
fn granted(place: Place, prefix: &str, ours: &Ours) -> Option<(Moment, Event)> {
    let span = ours.span.as_ref().filter(|span| span.prefix == prefix)?;
    let (asked, known) = (ours.wanted_at.into(), span.from.into());
    let event = Event::Granted {
        place,
        permits: span.permits,
        token: ours.token,
        admitted: vec![Admission::Between { asked, known }],
        name: format!(
            "{}, which asked at {} and held from {}",
            span.who, ours.wanted_at, span.from
        ),
    };
    Some((span.from, event))
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;
    use super::*;

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
    fn several_slots_of_one_permit_count_as_many() {
        let mut story = Story::new(2);
        story.held_many(0, 10, 2, 100, 500);
        story.held(1, 11, 200, 600);
        assert_eq!(overlaps(&story), 1);
    }

    #[test]
    fn the_most_at_once_is_told() {
        let mut story = Story::new(2);
        story.held(0, 10, 100, 500);
        story.held(1, 11, 500, 600);
        let report = story.check();
        assert_eq!(report.figures.most_at_once[0].1, 1);
    }

    fn out_of_order(story: &Story) -> u64 {
        story.check().figures.token_violations
    }

    #[test]
    fn tokens_that_rise_are_fine() {
        let mut story = Story::new(1);
        story.held(0, 10, 100, 200);
        story.held(1, 11, 200, 300);
        story.held(0, 15, 400, 500);
        assert_eq!(out_of_order(&story), 0);
    }

    #[test]
    fn one_token_twice_is_found() {
        let mut story = Story::new(3);
        story.held(0, 10, 100, 200);
        story.held(1, 10, 100, 200);
        assert_eq!(out_of_order(&story), 1);
    }

    #[test]
    fn of_one_slot_a_later_grant_with_a_lower_token_is_found() {
        for mut story in Story::of_one_slot() {
            story.held(0, 11, 100, 200);
            story.asked_and_held(1, 10, 50, 200, 300);
            assert_eq!(out_of_order(&story), 1);
        }
    }

    #[test]
    fn of_several_slots_grants_may_be_heard_of_in_another_order_than_they_came() {
        let mut story = Story::new(2);
        story.held(0, 11, 100, 200);
        story.asked_and_held(1, 10, 50, 110, 300);
        assert_eq!(out_of_order(&story), 0);
    }

    #[test]
    fn whoever_asks_when_a_grant_is_known_needs_a_higher_token() {
        let mut story = Story::new(2);
        story.held(0, 11, 100, 200);
        story.asked_and_held(1, 10, 101, 110, 300);
        assert_eq!(out_of_order(&story), 1);
    }

    #[test]
    fn whoever_takes_all_slots_comes_before_or_after_everybody() {
        let mut story = Story::new(2);
        story.held(0, 11, 100, 200);
        story.asked_and_held_many(1, 10, 2, 50, 210, 300);
        assert_eq!(out_of_order(&story), 1);
    }
}
