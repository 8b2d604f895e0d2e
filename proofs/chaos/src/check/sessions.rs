//! What the witnesses saw of sessions and nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::holds::{Holds, Span};
use super::losses::was_out;
use super::{Logs, Report};
use crate::moment::Moment;

/// When each of our sessions was seen.
pub(super) struct Sessions<'l> {
    last_seen: BTreeMap<&'l str, Moment>,
    /// The beginning and end of each read of all sessions, in the order of their beginnings.
    reads: Vec<(Moment, Moment)>,
}

/// The end of a session as the witnesses saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gone {
    /// The session still existed then.
    pub(super) after: Moment,
    /// The session was gone by then.
    pub(super) by: Moment,
}

impl<'l> Sessions<'l> {
    pub(super) fn of(logs: &'l Logs) -> Self {
        let mut last_seen = BTreeMap::new();
        let mut reads = Vec::new();
        for line in &logs.sightings {
            let Some(ours) = &line.event.ours else {
                continue;
            };
            reads.push((line.at, line.event.end));
            for session in ours {
                let last = last_seen.entry(session.as_str()).or_insert(line.at);
                *last = line.at.max(*last);
            }
        }
        reads.sort_unstable();
        Self { last_seen, reads }
    }

    /// When a session that existed at `from` was gone, if it was ever missing.
    pub(super) fn gone(&self, session: &str, from: Moment) -> Option<Gone> {
        let seen = self.last_seen.get(session).copied();
        let after = seen.map_or(from, |seen| seen.max(from));
        let next = self.reads.partition_point(|(begin, _)| *begin <= after);
        let (_, by) = *self.reads.get(next)?;
        Some(Gone { after, by })
    }

    /// The session that was gone first.
    pub(super) fn first_gone(&self, sessions: &[String], from: Moment) -> Option<Gone> {
        let gone = sessions.iter().filter_map(|id| self.gone(id, from));
        gone.min_by_key(|gone| gone.by)
    }
}

/// Counts the sessions that ended early. This is nobody's fault; whether anybody else held
/// meanwhile is judged elsewhere. But a run without early ends shows nothing about them.
pub(super) fn count(logs: &Logs, holds: &Holds, sessions: &Sessions<'_>, report: &mut Report) {
    let figures = &mut report.figures;
    for ours in &holds.ours {
        let Some(span) = &ours.span else { continue };
        let client = logs.run.clients.get(ours.client);
        let is_own = client.filter(|client| client.own_node);
        let outlives = is_own.is_some_and(|it| was_out(logs, it.server, (span.from, span.until)));
        figures.outlived += u64::from(outlives);
        let gone = sessions.first_gone(&ours.sessions, span.from);
        let Some(gone) = gone.filter(|gone| gone.by < span.until) else {
            continue;
        };
        figures.early_ends += 1;
        figures.longest_beyond = figures.longest_beyond.max(span.until.since(gone.by));
    }
    figures.reaped = reaped(logs);
    count_shared(logs, holds, report);
}

/// Counts the grants on sessions of a `Client` that held at another place at the same time.
fn count_shared(logs: &Logs, holds: &Holds, report: &mut Report) {
    let shares = |client: usize| logs.run.clients.get(client).is_some_and(|it| it.shares);
    let mut by_session = BTreeMap::<&str, Vec<&Span>>::new();
    for ours in holds.ours.iter().filter(|ours| shares(ours.client)) {
        for session in &ours.sessions {
            let spans = by_session.entry(session).or_default();
            spans.extend(&ours.span);
        }
    }
    for spans in by_session.values() {
        for span in spans {
            let there = spans
                .iter()
                .filter(|it| it.from <= span.from && span.from < it.until);
            let places: BTreeSet<_> = there.map(|it| it.prefix.as_str()).collect();
            report.figures.on_one_session += u64::from(places.len() > 1);
            report.figures.most_places = report.figures.most_places.max(places.len());
        }
    }
}

/// How often a node disappeared.
fn reaped(logs: &Logs) -> u64 {
    let seen = logs.sightings.iter();
    let mut seen: Vec<_> = seen
        .filter_map(|line| Some((line.at, line.event.nodes.as_ref()?)))
        .collect();
    seen.sort_unstable_by_key(|(at, _)| *at);
    let mut there = BTreeSet::new();
    // Reads of several witnesses overlap. A node that comes back or disappears is counted once.
    let mut since = BTreeMap::<&str, Moment>::new();
    let mut reaped = 0;
    for (at, nodes) in seen {
        let now: BTreeSet<_> = nodes.iter().map(String::as_str).collect();
        for gone in there.difference(&now) {
            let last = since.insert(gone, at);
            if last.is_none_or(|last| at.since(last) > SETTLED) {
                reaped += 1;
            }
        }
        there = now;
    }
    reaped
}

/// Within this time, the same server is not removed twice.
const SETTLED: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::super::story::{Story, millis};
    use crate::record::{Belief, Sighting};

    fn sighting(story: &mut Story, at: u64, ours: &[&str], nodes: &[&str]) {
        story.sighting(at, 0, Some(&[]));
        let words = |all: &[&str]| Some(all.iter().map(|one| (*one).to_owned()).collect());
        if let Some(line) = story.logs().sightings.last_mut() {
            line.event = Sighting {
                ours: words(ours),
                nodes: words(nodes),
                ..line.event.clone()
            };
        }
    }

    #[test]
    fn a_session_that_ends_while_its_holder_believes_is_counted() {
        let mut story = Story::new(1);
        story.held_by_session(0, "a", 10, 100, 9_000);
        sighting(&mut story, 50, &["a"], &["x", "y"]);
        sighting(&mut story, 1_000, &["a"], &["x", "y"]);
        assert_eq!(story.check().figures.early_ends, 0);
        sighting(&mut story, 2_000, &[], &["x"]);
        sighting(&mut story, 3_000, &[], &["x", "y"]);
        let figures = story.check().figures;
        assert_eq!((figures.early_ends, figures.reaped), (1, 1));
        let beyond = figures.longest_beyond;
        assert_eq!(beyond, millis(9_000).since(millis(2_005)));
    }

    #[test]
    fn a_session_of_a_client_that_holds_at_two_places_at_once_is_counted() {
        for (shares, prefix, counted) in [
            (true, "chaos/elsewhere", (1, 2)),
            (true, "chaos/shared", (0, 1)),
            (false, "chaos/elsewhere", (0, 0)),
        ] {
            let mut story = Story::new(2);
            story.logs().run.clients[0].shares = shares;
            story.held_by(0, "a", 64, (100, 900));
            story.held_by(0, "a", 128, (500, 700));
            for line in &mut story.logs().clients[0].lines {
                if let Belief::Wanted {
                    acquire: 1,
                    prefix: at,
                    ..
                } = &mut line.event
                {
                    prefix.clone_into(at);
                }
            }
            let figures = story.check().figures;
            assert_eq!((figures.on_one_session, figures.most_places), counted);
        }
    }

    #[test]
    fn a_session_that_ends_after_the_belief_did_not_end_early() {
        let mut story = Story::new(1);
        story.held_by_session(0, "a", 10, 100, 1_900);
        sighting(&mut story, 1_000, &["a"], &["x", "y"]);
        sighting(&mut story, 2_000, &[], &["x", "y"]);
        let figures = story.check().figures;
        assert_eq!((figures.early_ends, figures.reaped), (0, 0));
    }
}
