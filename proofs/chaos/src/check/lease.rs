//! The leases that holders knew. A belief ends with its lease, and no lease is longer than nine
//! tenths of the TTL.

use std::collections::BTreeMap;

use judge::{Event, Place};

use super::Logs;
use crate::moment::Moment;
use crate::record::Belief;

/// What each belief says about its lease.
pub(super) fn told(logs: &Logs) -> Vec<(Moment, Event)> {
    let mut events = Vec::new();
    for log in &logs.clients {
        let longest = Some(logs.run.ttl_of(log.client) * 9 / 10);
        let mut places = BTreeMap::new();
        for line in &log.lines {
            let (acquire, until) = match &line.event {
                Belief::Wanted {
                    acquire, prefix, ..
                } => {
                    places.insert(*acquire, logs.number(prefix));
                    continue;
                }
                Belief::Granted {
                    acquire,
                    until: Some(until),
                    ..
                }
                | Belief::Held { acquire, until } => (*acquire, *until),
                _ => continue,
            };
            // If the log does not say where, there is no place.
            let nowhere = Place(logs.run.places.len());
            let believed = Event::Believed {
                place: places.get(&acquire).copied().flatten().unwrap_or(nowhere),
                until: until.into(),
                longest,
                name: log.acquire(acquire),
            };
            events.push((line.at, believed));
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;

    fn violations(at: u64, until: u64) -> u64 {
        let found = Story::of_one_slot().map(|mut story| {
            let acquire = story.granted(0, 10, 100, 9_100);
            story.beat(0, acquire, at, until);
            story.check().figures.lease_violations
        });
        assert_eq!(found[0], found[1]);
        found[0]
    }

    #[test]
    fn a_belief_within_its_lease_is_fine() {
        assert_eq!(violations(200, 9_200), 0);
        assert_eq!(violations(9_199, 9_200), 0);
    }

    #[test]
    fn a_belief_after_the_end_of_its_lease_is_found() {
        assert_eq!(violations(9_200, 9_200), 1);
    }

    #[test]
    fn a_lease_without_its_margin_is_found() {
        assert_eq!(violations(200, 9_201), 1);
    }
}
