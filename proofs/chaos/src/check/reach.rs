//! For how long a client could have reached a quorum, by what the witnesses saw and the nemesis did.

use std::time::Duration;

use super::Logs;
use crate::moment::Moment;
use crate::record::{Kind, Phase, Target};

/// A witness that waits longer than this, for an answer or for its turn, has not seen anything of
/// the time between.
pub(super) const BLINK: Duration = Duration::from_secs(1);

/// For how long at a stretch `client` could reach a quorum between `from` and `until`, at the longest.
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

/// From when to when something was done to a server, or to a client or its connections.
pub(super) fn hurts(logs: &Logs, target: Target) -> Vec<(Moment, Moment)> {
    let mut hurts = Vec::new();
    let mut since = None;
    for line in &logs.deeds {
        if line.event.target != target || line.event.deed == Kind::Elect {
            continue;
        }
        match line.event.phase {
            Phase::Begin => since = Some(line.at),
            Phase::End => hurts.extend(since.take().map(|since| (since, line.at))),
        }
    }
    hurts.extend(since.map(|since| (since, Moment(u64::MAX))));
    hurts
}
