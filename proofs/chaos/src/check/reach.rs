//! How long a client could have reached a quorum, from what the witnesses saw and the nemesis did.

use std::time::Duration;

use super::Logs;
use crate::diary::Line;
use crate::moment::Moment;
use crate::record::{Kind, Phase, Target};

/// If a witness waits longer than this for an answer or for its turn, it has seen nothing in
/// between.
pub(super) const BLINK: Duration = Duration::from_secs(1);

/// The longest time without a break in which `client` could reach a quorum between `from` and
/// `until`.
pub(super) fn longest_reach(
    logs: &Logs,
    client: usize,
    (from, until): (Moment, Moment),
) -> Duration {
    let mut longest = Duration::ZERO;
    let Some(server) = logs.run.clients.get(client).map(|client| client.server) else {
        return longest;
    };
    let hurts = hurts(logs, Target::Client(client));
    let mut stretch: Option<(Moment, Moment)> = None;
    for line in &logs.sightings {
        let sighting = &line.event;
        if sighting.server != server || sighting.end < from || line.at > until {
            continue;
        }
        let (begin, end) = (line.at.max(from), sighting.end.min(until));
        let is_good = sighting.locks.is_some()
            && sighting.end.since(line.at) < BLINK
            && !hurts.iter().any(|hurt| hurt.0 <= end && begin <= hurt.1);
        if !is_good {
            stretch = None;
            continue;
        }
        let is_hurt_between =
            |since: Moment| hurts.iter().any(|hurt| hurt.0 <= end && since <= hurt.1);
        let since = match stretch {
            Some((since, last)) if begin.since(last) < BLINK && !is_hurt_between(last) => since,
            _ => begin,
        };
        longest = longest.max(end.since(since));
        stretch = Some((since, end));
    }
    longest
}

/// Whether `client` could reach a quorum during the whole span.
pub(super) fn was_in_reach(logs: &Logs, client: usize, (from, until): (Moment, Moment)) -> bool {
    longest_reach(logs, client, (from, until)) + BLINK >= until.since(from)
        && !hurts(logs, Target::Client(client))
            .iter()
            .any(|hurt| hurt.0 <= until && from <= hurt.1)
}

/// The longest delay of answers to `client` in this span.
pub(super) fn latest(logs: &Logs, client: usize, span: (Moment, Moment)) -> Duration {
    let slow = spells(logs, Target::Client(client), |kind| kind == Kind::Slow);
    let slow = slow.iter().filter(|spell| spell.overlaps(span));
    slow.filter_map(|spell| spell.later)
        .max()
        .unwrap_or_default()
}

/// The times in which the nemesis kept a server, a client or its connections from the others. A
/// client that is only slowed, or that ends in a hurry, still reaches them.
pub(super) fn hurts(logs: &Logs, target: Target) -> Vec<(Moment, Moment)> {
    let is_hurt = |kind| !matches!(kind, Kind::Elect | Kind::Slow | Kind::Leave);
    let spells = spells(logs, target, is_hurt);
    spells
        .iter()
        .map(|spell| (spell.from, spell.until))
        .collect()
}

/// A deed from its beginning to its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spell {
    from: Moment,
    until: Moment,
    later: Option<Duration>,
}

impl Spell {
    pub(super) fn overlaps(&self, (from, until): (Moment, Moment)) -> bool {
        self.from <= until && from <= self.until
    }
}

/// The deeds of these kinds.
pub(super) fn spells(logs: &Logs, target: Target, is_meant: fn(Kind) -> bool) -> Vec<Spell> {
    let mut spells = Vec::new();
    let mut begun: Option<Spell> = None;
    for Line { at, event: deed } in &logs.deeds {
        if deed.target != target || !is_meant(deed.deed) {
            continue;
        }
        match deed.phase {
            Phase::Begin => {
                begun = Some(Spell {
                    from: *at,
                    until: Moment(u64::MAX),
                    later: deed.later,
                });
            }
            Phase::End => spells.extend(begun.take().map(|spell| Spell {
                until: *at,
                ..spell
            })),
        }
    }
    spells.extend(begun);
    spells
}
