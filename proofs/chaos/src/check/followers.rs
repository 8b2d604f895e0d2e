//! Discovery: the leaders that followers saw, and the truth at the end.
//!
//! Each campaign has its own session, and so has each `consul lock`. So a session that starts to
//! lead has never led before. A follower may miss leaders and be late. Each leader has its own
//! value, since our values begin with the name of their process.

use std::collections::BTreeMap;
use std::time::Duration;

use judge::{Event, Follower, Place};

use super::{ClientLog, Invariant, Logs, Report};
use crate::client;
use crate::moment::Moment;
use crate::record::{Belief, Role, Sight};

/// Everything that this election's followers saw, and then the final truth.
pub(super) fn told(
    logs: &Logs,
    (place, prefix): (Place, &str),
    ids: &mut impl Iterator<Item = Follower>,
) -> Vec<(Moment, Event)> {
    let all: Vec<_> = ids.zip(followers(logs)).collect();
    let mut events = Vec::new();
    for (follower, log) in &all {
        let sees = |(at, sight)| {
            let (follower, name) = (*follower, log.name());
            let sees = Event::Sees {
                follower,
                place,
                sight,
                name,
            };
            (at, sees)
        };
        events.push(sees((Moment::default(), judge::Sight::Unknown)));
        events.extend(known(&seen(log, prefix)).into_iter().map(sees));
    }
    let last = events.iter().map(|(at, _)| *at).max().unwrap_or_default();
    let truths = logs.end.truths.iter();
    for truth in truths.filter(|truth| truth.prefix == prefix) {
        let sight = as_known(&truth.sight);
        events.push((last, Event::Shows { place, sight }));
        // A follower that was killed need not know the truth.
        for (follower, _) in all.iter().filter(|(_, log)| log.has_stopped()) {
            let (follower, within) = (*follower, Duration::ZERO);
            let after = last.plus(Duration::from_micros(1));
            events.push((after, Event::CaughtUp { follower, within }));
        }
    }
    events
}

/// Checks that need the values of this program's own leaders.
pub(super) fn check(logs: &Logs, report: &mut Report) {
    let owners = owners(logs);
    for log in followers(logs) {
        for place in logs.run.places.iter().filter(|place| place.is_election()) {
            let sights = seen(log, &place.prefix);
            let leaders = leaders(&sights);
            report.figures.seen += leaders.len() as u64;
            for story in strangers_words(&leaders, &owners) {
                report.figures.wrong_sights += 1;
                let story = format!("{} {story}", log.name());
                report.violation(Invariant::Discovery, &place.prefix, story);
            }
            for (at, sight) in &sights {
                if let Sight::Failed { words } = sight {
                    let story = format!("{} sees nothing from {at} on: {words}", log.name());
                    report.violation(Invariant::TransientFailures, &place.prefix, story);
                }
            }
        }
    }
}

fn followers(logs: &Logs) -> impl Iterator<Item = &ClientLog> {
    let follows = |log: &&ClientLog| {
        let client = logs.run.clients.get(log.client);
        client.is_some_and(|client| client.role == Role::Follower)
    };
    logs.clients.iter().filter(follows)
}

/// What one process saw of one election.
type Seen<'l> = Vec<(Moment, &'l Sight)>;

/// A moment at which a leader was seen, with its session and value.
type Led<'l> = (Moment, &'l str, &'l str);

fn seen<'l>(log: &'l ClientLog, of_prefix: &str) -> Seen<'l> {
    let sights = log.lines.iter().filter_map(|line| match &line.event {
        Belief::Saw { prefix, sight } if prefix == of_prefix => Some((line.at, sight)),
        _ => None,
    });
    sights.collect()
}

fn leaders<'l>(sights: &Seen<'l>) -> Vec<Led<'l>> {
    let led = |(at, sight): &(Moment, &'l Sight)| match sight {
        Sight::Led { session, value, .. } => Some((*at, session.as_str(), value.as_str())),
        _ => None,
    };
    sights.iter().filter_map(led).collect()
}

/// What the follower knew after each sight. When it is cut off, it knows nothing until it is told
/// that it is back.
fn known(sights: &Seen<'_>) -> Vec<(Moment, judge::Sight)> {
    let mut last = judge::Sight::Unknown;
    let mut is_interrupted = false;
    let mut known = Vec::new();
    for (at, sight) in sights {
        match sight {
            Sight::Interrupted => is_interrupted = true,
            Sight::Resumed => is_interrupted = false,
            Sight::Failed { .. } => continue,
            Sight::Led { .. } | Sight::Leaderless { .. } => last = as_known(sight),
        }
        known.push((*at, last.clone()));
        if is_interrupted {
            known.push((*at, judge::Sight::Unknown));
        }
    }
    known
}

fn as_known(sight: &Sight) -> judge::Sight {
    match sight {
        // A session may lead in several terms. Each one counts separately.
        Sight::Led {
            session,
            term,
            value,
        } => judge::Sight::Led {
            session: format!("{session} in term {term}"),
            value: Some(value.clone()),
        },
        Sight::Leaderless { value } => judge::Sight::Leaderless {
            value: value.clone(),
        },
        Sight::Interrupted | Sight::Resumed | Sight::Failed { .. } => judge::Sight::Unknown,
    }
}

fn strangers_words(leaders: &[Led<'_>], owners: &BTreeMap<&str, String>) -> Vec<String> {
    let is_wrong = |(_, session, value): &&Led<'_>| {
        let owner = owners.get(session);
        owner.is_some_and(|owner| {
            let words = value.strip_prefix(owner.as_str());
            !words.is_some_and(|words| words.is_empty() || words.starts_with(' '))
        })
    };
    let story = |(at, session, value): &Led<'_>| {
        format!("saw {session} lead with another one's words at {at}: {value:?}")
    };
    leaders.iter().filter(is_wrong).map(story).collect()
}

/// The process of each session that was ever granted something.
fn owners(logs: &Logs) -> BTreeMap<&str, String> {
    let of_log = |log: &'_ ClientLog| client::name(log.client, log.incarnation);
    let mut owners = BTreeMap::new();
    for log in &logs.clients {
        for line in &log.lines {
            if let Belief::Granted { sessions, .. } = &line.event {
                let named = sessions.iter().map(|it| (it.as_str(), of_log(log)));
                owners.extend(named);
            }
        }
    }
    owners
}

#[cfg(test)]
mod tests {
    use super::super::story::{ELECTION, Story};
    use super::*;
    use crate::record::Truth;

    fn led(session: &str, value: &str) -> Sight {
        Sight::Led {
            session: session.to_owned(),
            term: 1,
            value: value.to_owned(),
        }
    }

    fn leaderless(value: &str) -> Sight {
        let value = Some(value.to_owned());
        Sight::Leaderless { value }
    }

    fn story(sights: impl IntoIterator<Item = Sight>) -> Story {
        let mut story = Story::election();
        for (at, sight) in (1..).zip(sights) {
            story.saw(at * 100, sight);
        }
        story
    }

    fn ended_with(mut story: Story, sight: Sight) -> Story {
        let prefix = ELECTION.to_owned();
        story.logs().end.truths.push(Truth { prefix, sight });
        story
    }

    fn wrong(story: &Story) -> u64 {
        let report = story.check();
        let violations = report.violations.iter();
        let of_discovery = violations.filter(|it| it.invariant == Invariant::Discovery);
        assert_eq!(of_discovery.count() as u64, report.figures.wrong_sights);
        report.figures.wrong_sights
    }

    #[test]
    fn leaders_in_their_order_and_the_truth_at_last_are_fine() {
        let story = story([
            led("a", "1"),
            led("a", "2"),
            leaderless("2"),
            led("b", ""),
            Sight::Interrupted,
            Sight::Resumed,
            leaderless("last"),
        ]);
        assert_eq!(wrong(&ended_with(story, leaderless("last"))), 0);
    }

    #[test]
    fn a_leader_of_the_past_is_found() {
        assert_eq!(wrong(&story([led("a", ""), led("b", ""), led("a", "")])), 1);
        let same = [led("a", ""), leaderless(""), led("a", "")];
        assert_eq!(wrong(&story(same)), 0, "it was late, not wrong");
    }

    #[test]
    fn whoever_ends_with_something_else_than_the_truth_is_found() {
        let truth = || leaderless("last");
        let cases = [
            story([]),
            story([led("a", "last")]),
            story([leaderless("first")]),
            story([truth(), led("b", "")]),
            story([truth(), Sight::Interrupted]),
        ];
        for case in cases {
            assert_eq!(wrong(&ended_with(case, truth())), 1);
        }
    }

    #[test]
    fn whoever_was_killed_need_not_know_the_truth() {
        let mut story = ended_with(story([led("a", "")]), leaderless("last"));
        story.kill(Story::FOLLOWER, 9_000);
        assert_eq!(wrong(&story), 0);
    }

    #[test]
    fn a_leader_with_words_of_another_one_is_found() {
        for (value, found) in [
            ("chaos-client-1-1", 0),
            ("chaos-client-1-1 acquire 7 says 0", 0),
            ("chaos-client-1-12", 1),
            ("chaos-client-0-1", 1),
            ("", 1),
        ] {
            let mut story = story([led("a", value)]);
            story.held_by_session(1, "a", 10, 100, 200);
            assert_eq!(wrong(&story), found, "{value}");
        }
    }

    #[test]
    fn whoever_sees_nothing_any_more_is_found() {
        let words = "refused".to_owned();
        let report = story([leaderless(""), Sight::Failed { words }]).check();
        let found = report.violations.iter().map(|it| it.invariant);
        assert_eq!(found.collect::<Vec<_>>(), [Invariant::TransientFailures]);
    }
}
