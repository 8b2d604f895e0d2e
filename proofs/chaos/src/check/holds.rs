//! Derives from the logs who believed what, and when.

use std::collections::BTreeMap;

use super::{ClientLog, Logs};
use crate::diary::Line;
use crate::moment::Moment;
use crate::record::{Belief, Hold, Reason};

/// Everything that is known about holders.
pub(super) struct Holds {
    pub(super) ours: Vec<Ours>,
    pub(super) theirs: Vec<Span>,
}

/// A time in which somebody believed that it holds slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) who: String,
    pub(super) prefix: String,
    pub(super) permits: u32,
    pub(super) from: Moment,
    pub(super) until: Moment,
}

/// One of our grants.
pub(super) struct Ours {
    /// `None` if the hold was over when its holder first asked.
    pub(super) span: Option<Span>,
    pub(super) client: usize,
    pub(super) token: u64,
    /// The sessions that hold.
    pub(super) sessions: Vec<String>,
    pub(super) wanted_at: Moment,
    /// The end of the lease, as the holder last learned it.
    pub(super) deadline: Option<Moment>,
    pub(super) lost: Option<(Moment, Reason, String)>,
    /// Whether its process was killed before it learned of an end.
    pub(super) was_killed: bool,
}

pub(super) fn of(logs: &Logs) -> Holds {
    let ours = logs.clients.iter().flat_map(|log| ours(logs, log));
    Holds {
        ours: ours.collect(),
        theirs: theirs(logs),
    }
}

/// What the log says about one acquisition.
#[derive(Default)]
struct Told {
    wanted_at: Moment,
    prefix: String,
    permits: u32,
    token: Option<u64>,
    sessions: Vec<String>,
    first_held: Option<Moment>,
    last_held: Option<Moment>,
    deadline: Option<Moment>,
    /// The first moment at which the hold was known to be over.
    over: Option<Moment>,
    lost: Option<(Moment, Reason, String)>,
}

impl Told {
    fn held(&mut self, at: Moment) {
        self.first_held.get_or_insert(at);
        self.last_held = Some(at);
    }

    fn over(&mut self, at: Moment) {
        self.over.get_or_insert(at);
    }
}

fn ours(logs: &Logs, log: &ClientLog) -> Vec<Ours> {
    let mut all = BTreeMap::<u64, Told>::new();
    for line in &log.lines {
        hear(&mut all, line);
    }
    let killed_at = logs.killed_at(log);
    let mut ours = Vec::new();
    for (acquire, told) in all {
        let Some(token) = told.token else { continue };
        let who = format!("{} (token {token})", log.acquire(acquire));
        let span = told.first_held.zip(told.last_held);
        ours.push(Ours {
            span: span.map(|(from, last_held)| {
                // A killed holder believed until it was killed.
                let over = told.over.or(killed_at);
                let until = over.into_iter().chain(told.deadline).min();
                Span {
                    who,
                    prefix: told.prefix,
                    permits: told.permits,
                    from,
                    until: until.unwrap_or(last_held).max(last_held),
                }
            }),
            client: log.client,
            token,
            sessions: told.sessions,
            wanted_at: told.wanted_at,
            deadline: told.deadline,
            was_killed: told.over.is_none() && killed_at.is_some(),
            lost: told.lost,
        });
    }
    ours
}

fn hear(all: &mut BTreeMap<u64, Told>, line: &Line<Belief>) {
    let at = line.at;
    match &line.event {
        Belief::Wanted {
            acquire,
            prefix,
            permits,
            ..
        } => {
            let told = all.entry(*acquire).or_default();
            told.wanted_at = at;
            told.prefix.clone_from(prefix);
            told.permits = *permits;
        }
        Belief::Granted {
            acquire,
            token,
            sessions,
            until,
        } => {
            let told = all.entry(*acquire).or_default();
            told.token = Some(*token);
            told.sessions.clone_from(sessions);
            told.deadline = *until;
            match until {
                Some(_) => told.held(at),
                None => told.over(at),
            }
        }
        Belief::Held { acquire, until } => {
            let told = all.entry(*acquire).or_default();
            told.deadline = Some(*until);
            told.held(at);
        }
        Belief::NotHeld { acquire } => all.entry(*acquire).or_default().over(at),
        Belief::Lost {
            acquire,
            reason,
            words,
        } => {
            let told = all.entry(*acquire).or_default();
            told.lost = Some((at, *reason, words.clone()));
            told.over(at);
        }
        Belief::Ending { acquire, held } => {
            let told = all.entry(*acquire).or_default();
            if *held {
                told.held(at);
            }
            told.over(at);
        }
        Belief::Ended { .. }
        | Belief::NotGranted { .. }
        | Belief::Said { .. }
        | Belief::Saw { .. }
        | Belief::Left
        | Belief::Stopped => {}
    }
}

/// A `consul lock` knows no lease. If Consul invalidates its session because its server's node
/// seems dead, the child runs on until its parent has noticed. Its hold counts while its session
/// was seen. It counts to the child's end, unless the session was seen to be missing.
fn theirs(logs: &Logs) -> Vec<Span> {
    let mut children = BTreeMap::<&str, Child<'_>>::new();
    for Line { at, event } in &logs.locks {
        let (Hold::Began { name, .. } | Hold::Goes { name } | Hold::Ended { name }) = event;
        let child = children.entry(name).or_insert(Child {
            prefix: "",
            from: *at,
            last: *at,
            has_ended: false,
        });
        child.last = *at;
        match event {
            Hold::Began { prefix, .. } => child.prefix = prefix,
            Hold::Goes { .. } => {}
            Hold::Ended { .. } => child.has_ended = true,
        }
    }
    let span = |(name, child): (&str, Child<'_>)| {
        let mut seen = child.from;
        let mut missed = false;
        for line in &logs.sightings {
            let Some(names) = &line.event.locks else {
                continue;
            };
            if line.at < child.from || line.event.end > child.last {
                continue;
            }
            if names.iter().any(|seen| seen == name) {
                seen = seen.max(line.at);
            } else {
                missed = true;
            }
        }
        Span {
            who: name.to_owned(),
            prefix: child.prefix.to_owned(),
            permits: 1,
            from: child.from,
            until: if child.has_ended && !missed {
                child.last
            } else {
                seen
            },
        }
    };
    children.into_iter().map(span).collect()
}

/// What the child of a `consul lock` has written.
struct Child<'l> {
    prefix: &'l str,
    from: Moment,
    last: Moment,
    has_ended: bool,
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;
    use crate::record::{Kind, Phase, Target};

    fn overlaps(story: &Story) -> u64 {
        story.check().figures.overlaps
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
        // It asked and was told that it holds, whatever its lease was.
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
            // Consul says that its session had ended by then.
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
}
