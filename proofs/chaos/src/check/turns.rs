//! Queue: waiters for a semaphore are served in the order in which their contender keys were
//! created.
//!
//! A grant's token says which write of the record admitted it. The ushers saw states of the prefix
//! before and after that write. A waiter that stood ahead of the new holder in both was passed. The
//! exceptions of PROMISES are excused, and so is everything that was not seen: it counts only if
//! - no slot had been free for half a second, as far back as who was passed may be passed again,
//! - no dead holder was in the record in that time,
//! - there was no slot for the waiter, too,
//! - nobody behind the waiter was served in that time,
//! - nothing kept the new holder from hearing of the waiter,
//! - a caller waited there, and none for several slots,
//! - the slot had not been in the new holder's process just before, or had been for too long.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use judge::queue::{LEFT_UNUSED, POLL, Pace, Queue};

use super::holds::{Holds, Ours};
use super::reach::spells;
use super::{Invariant, Logs, Report};
use crate::diary::Line;
use crate::moment::Moment;
use crate::record::{Belief, Kind, Place, Standing, Target};

/// The clocks are one, and the machine is loaded.
const PACE: Pace = Pace {
    travel: Duration::from_millis(500),
    ..Pace::EXACT
};

/// One write of the record admits fewer contenders than this.
const GRANTS_OF_A_WRITE: u64 = 1_024;

pub(super) fn check(logs: &Logs, holds: &Holds, report: &mut Report) {
    for place in logs.run.places.iter().filter(|place| !place.is_election()) {
        let line = Waiting::new(logs, holds, place);
        let mut queue = Queue::default();
        for ours in &line.grants {
            let Some(passed) = line.passed(ours) else {
                continue;
            };
            report.figures.turns.0 += 1;
            if !line.is_certain(&passed) {
                continue;
            }
            let key = format!("{} {}", passed.session, passed.came);
            let stays = line.was_there(&passed);
            let at = passed.after().event.end;
            if stays && queue.may_stay(PACE, at.into(), &key) {
                continue;
            }
            report.figures.turns.1 += 1;
            if !passed.is_behind {
                continue;
            }
            report.figures.out_of_turn += 1;
            let story = format!(
                "client {} with token {}, which asked at {}, takes a slot by {at} before the waiter {} of client {}, which was seen from {} on",
                ours.client,
                ours.token,
                ours.wanted_at,
                passed.session,
                passed.owner,
                line.states[passed.first].at,
            );
            report.violation(Invariant::Queue, &place.prefix, story);
        }
    }
}

/// What is known of one semaphore.
struct Waiting<'l> {
    logs: &'l Logs,
    place: &'l Place,
    states: Vec<&'l Line<Standing>>,
    /// In the order of their tokens.
    grants: Vec<&'l Ours>,
    owners: BTreeMap<&'l str, usize>,
    acquires: Vec<Acquire>,
}

/// A caller of a client, from its question to its end.
struct Acquire {
    client: usize,
    permits: u32,
    from: Moment,
    until: Moment,
}

/// A waiter beside whom somebody was admitted.
struct Passed<'l> {
    ours: &'l Ours,
    session: &'l str,
    came: u64,
    owner: usize,
    /// Whether the new holder came later than the waiter.
    is_behind: bool,
    /// The first state with the waiter, and the last one before the new holder was admitted.
    first: usize,
    before: usize,
    state_after: &'l Line<Standing>,
}

impl<'l> Passed<'l> {
    fn after(&self) -> &'l Line<Standing> {
        self.state_after
    }
}

impl<'l> Waiting<'l> {
    fn new(logs: &'l Logs, holds: &'l Holds, place: &'l Place) -> Self {
        let states = logs.queues.iter();
        let mut states: Vec<_> = states
            .filter(|line| line.event.prefix == place.prefix)
            .collect();
        states.sort_by_key(|line| line.at);
        let is_here = |ours: &&Ours| {
            let span = ours.span.as_ref();
            span.is_some_and(|span| span.prefix == place.prefix)
        };
        let mut grants: Vec<_> = holds.ours.iter().filter(is_here).collect();
        grants.sort_by_key(|ours| ours.token);
        let owned = holds.ours.iter().flat_map(|ours| {
            let sessions = ours.sessions.iter();
            sessions.map(|session| (session.as_str(), ours.client))
        });
        Self {
            logs,
            place,
            states,
            grants,
            owners: owned.collect(),
            acquires: acquires(logs, place),
        }
    }

    /// The waiter of another client that came first, beside whom this one was admitted. `None` if nobody was
    /// seen to wait before and after.
    fn passed(&self, ours: &'l Ours) -> Option<Passed<'l>> {
        let written = ours.token / GRANTS_OF_A_WRITE;
        let is_before = |line: &&Line<Standing>| line.event.written < written;
        let after = self.states.partition_point(is_before);
        let before = after.checked_sub(1)?;
        let (state, state_after) = (self.states[before], *self.states.get(after)?);
        let place_of = |session: &String| {
            let mut waiting = state.event.waiting.iter();
            waiting.find(|(waiter, _)| waiter == session)
        };
        let held = |session: &String| state.event.holders.contains(session);
        if ours.sessions.iter().any(held) {
            return None;
        }
        let waiting = state.event.waiting.iter();
        let waiting = waiting.filter(|waiter| {
            let owner = self.owners.get(waiter.0.as_str());
            let is_others = owner.is_some_and(|owner| *owner != ours.client);
            is_others
                && state_after.event.waiting.contains(waiter)
                && !self.was_admitted(&waiter.0, (state, state_after))
        });
        let (session, came) = waiting.min_by_key(|(_, came)| *came)?;
        let is_behind = ours.sessions.iter().all(|it| match place_of(it) {
            Some((_, place)) => place > came,
            // Its key is newer than the state that it read when it asked.
            None => state.event.end.plus(SOON) < ours.wanted_at,
        });
        let with = |line: &&Line<Standing>| line.event.waiting.iter().any(|it| it.1 == *came);
        let since = self.states[..=before]
            .iter()
            .rev()
            .take_while(|it| with(it));
        Some(Passed {
            ours,
            session,
            came: *came,
            owner: *self.owners.get(session.as_str())?,
            is_behind,
            first: before + 1 - since.count(),
            before,
            state_after,
        })
    }

    fn was_admitted(&self, session: &str, between: (&Line<Standing>, &Line<Standing>)) -> bool {
        let (before, after) = (between.0.event.written, between.1.event.written);
        self.grants.iter().any(|ours| {
            let written = ours.token / GRANTS_OF_A_WRITE;
            let is_between = before < written && written <= after;
            is_between && ours.sessions.iter().any(|it| it == session)
        })
    }

    /// Whether nothing excuses it, and everything was seen that could.
    fn is_certain(&self, passed: &Passed<'_>) -> bool {
        let ours = passed.ours;
        let span = (
            ours.wanted_at.min(self.states[passed.before].at),
            passed.after().event.end,
        );
        self.was_full(passed)
            && !self.counts_as_served(passed)
            && self.had_no_room(passed)
            && self.waits_for_one(passed.owner, span)
            && !self.was_hurt(ours.client, span)
    }

    /// Whether no slot was free for half a second, and none a dead holder's, since the waiter came, or
    /// for as long as who was passed may be passed again.
    fn was_full(&self, passed: &Passed<'_>) -> bool {
        let end = passed.after().event.end;
        let begin = end.minus(POLL * 2 + PACE.travel);
        let states = &self.states[passed.first.saturating_sub(1)..=passed.before];
        let late = states.partition_point(|line| line.at < begin);
        let states = &states[late.saturating_sub(1)..];
        let full = states.iter().filter(|line| {
            let state = &line.event;
            state.holders.len() >= state.limit as usize
        });
        let mut last = states.first().map(|line| line.at);
        for line in full {
            if last.is_some_and(|last| line.event.end.since(last) >= LEFT_UNUSED) {
                return false;
            }
            last = Some(line.at);
        }
        let is_first_full = states.first().is_some_and(|line| {
            let state = &line.event;
            state.holders.len() >= state.limit as usize
        });
        let mut all = states.iter().chain([&passed.state_after]);
        is_first_full
            && last.is_some_and(|last| end.since(last) < LEFT_UNUSED)
            && all.all(|line| line.event.dead == 0)
    }

    /// Whether one behind the waiter was served before: then the waiter counts as served until the next
    /// list (docs/PROTOCOL.md, rules 5 and 6).
    fn counts_as_served(&self, passed: &Passed<'_>) -> bool {
        let begin = passed.after().event.end.minus(POLL * 2 + PACE.travel);
        let mut behind = BTreeSet::new();
        let states = self.states[..=passed.before].iter();
        states.filter(|line| line.at >= begin).any(|line| {
            let waiting = line.event.waiting.iter();
            let is_behind = |(_, came): &&(String, u64)| *came > passed.came;
            behind.extend(waiting.filter(is_behind).map(|(session, _)| session));
            line.event.holders.iter().any(|it| behind.contains(it))
        })
    }

    /// Whether there was no slot for the waiter, too.
    fn had_no_room(&self, passed: &Passed<'_>) -> bool {
        let state = &self.states[passed.before].event;
        if state.limit == 1 {
            return true;
        }
        let own = passed.ours.client;
        let ahead = state.waiting.iter().filter(|(session, came)| {
            let owner = self.owners.get(session.as_str());
            *came <= passed.came && owner.is_none_or(|owner| *owner != own)
        });
        let after = &passed.after().event;
        let is_exact = after.written == passed.ours.token / GRANTS_OF_A_WRITE;
        is_exact && after.holders.len() + ahead.count() > state.limit as usize
    }

    /// Whether a caller of this client waits all the time, and none for several slots.
    fn waits_for_one(&self, client: usize, (_, until): (Moment, Moment)) -> bool {
        let from = until.minus(LEFT_UNUSED + PACE.travel);
        let acquires = self.acquires.iter();
        let open =
            acquires.filter(|it| it.client == client && it.from <= until && from <= it.until);
        let mut waits = false;
        for it in open {
            if it.permits > 1 {
                return false;
            }
            waits |= it.from <= from && until <= it.until;
        }
        waits
    }

    fn was_hurt(&self, client: usize, span: (Moment, Moment)) -> bool {
        let server = self.logs.run.clients.get(client).map(|it| it.server);
        let servers = server.into_iter().flat_map(|server| {
            let agent = server.checked_sub(real_agent::SERVERS);
            [Target::Leader(server), Target::Follower(server)]
                .into_iter()
                .chain(agent.map(Target::Agent))
        });
        let mut targets = servers.chain([Target::Client(client)]);
        targets.any(|target| {
            let spells = spells(self.logs, target, |kind| kind != Kind::Elect);
            spells.iter().any(|spell| spell.overlaps(span))
        })
    }

    /// Whether the new holder's process may have had the slot just before.
    fn was_there(&self, passed: &Passed<'_>) -> bool {
        let ours = passed.ours;
        let end = passed.after().event.end;
        let begin = self.states[passed.before].at.minus(LEFT_UNUSED);
        let mut spans = self.grants.iter().filter_map(|it| {
            let is_other = it.client == ours.client && it.token != ours.token;
            it.span.as_ref().filter(|_| is_other)
        });
        spans.any(|span| {
            debug_assert_eq!(span.prefix, self.place.prefix);
            begin <= span.until && span.from <= end
        })
    }
}

/// How much later than an answer a key was certainly made after it.
const SOON: Duration = Duration::from_millis(50);

fn acquires(logs: &Logs, place: &Place) -> Vec<Acquire> {
    let mut all = Vec::new();
    for log in &logs.clients {
        let mut open = BTreeMap::new();
        for line in &log.lines {
            match &line.event {
                Belief::Wanted {
                    acquire,
                    prefix,
                    permits,
                    ..
                } if *prefix == place.prefix => {
                    open.insert(*acquire, (line.at, *permits));
                }
                Belief::Granted { acquire, .. } | Belief::NotGranted { acquire, .. } => {
                    all.extend(open.remove(acquire).map(|(from, permits)| Acquire {
                        client: log.client,
                        permits,
                        from,
                        until: line.at,
                    }));
                }
                _ => {}
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::story::{Story, millis};
    use super::*;
    use crate::record::{Outcome, Phase, Way};

    /// One slot. Client 0 holds it until 1 s. Client 1 waits for it with the key 5, and client 2 came
    /// later, with the key 6. Then this client is admitted.
    fn admitted(client: usize) -> Story {
        let mut story = Story::new(1);
        story.held_by(0, "a", 10 * GRANTS_OF_A_WRITE, (0, 1_000));
        for at in (0..1_000).step_by(100) {
            story.standing(at, 10, &["a"], &[("b", 5), ("c", 6)]);
        }
        let (session, others) = [("b", ("c", 6)), ("c", ("b", 5))][client - 1];
        story.asked_and_held_by(client, session, 12 * GRANTS_OF_A_WRITE, (0, 1_050, 1_500));
        story.standing(1_060, 12, &[session], &[others]);
        let other = 3 - client;
        story.asked_and_held_by(other, others.0, 14 * GRANTS_OF_A_WRITE, (0, 1_600, 1_700));
        story
    }

    fn figures(story: &Story) -> ((u64, u64), u64, usize) {
        let report = story.check();
        let figures = &report.figures;
        (figures.turns, figures.out_of_turn, report.violations.len())
    }

    #[test]
    fn who_came_first_is_served_first() {
        assert_eq!(figures(&admitted(1)), ((1, 1), 0, 0));
    }

    #[test]
    fn a_slot_that_is_taken_before_a_waiter_who_stood_ahead_is_found() {
        let story = admitted(2);
        assert_eq!(figures(&story), ((1, 1), 1, 1));
        let found = &story.check().violations[0];
        assert_eq!(found.invariant, Invariant::Queue);
        assert!(found.story.contains("client 2"), "{}", found.story);
    }

    #[test]
    fn a_slot_that_was_left_unused_or_a_dead_holders_may_be_taken_by_others() {
        let mut left = admitted(2);
        for line in &mut left.logs().queues[2..10] {
            line.event.holders.clear();
        }
        assert_eq!(figures(&left), ((1, 0), 0, 0));
        let mut dead = admitted(2);
        dead.logs().queues[4].event.dead = 1;
        assert_eq!(figures(&dead), ((1, 0), 0, 0));
    }

    #[test]
    fn who_was_cut_off_may_not_have_heard_of_the_waiter() {
        let mut story = admitted(2);
        story.deed(900, Kind::Cut, Target::Client(2), Phase::Begin);
        story.deed(900, Kind::Cut, Target::Client(2), Phase::End);
        assert_eq!(figures(&story), ((1, 0), 0, 0));
    }

    #[test]
    fn a_waiter_for_nobody_or_for_several_slots_may_be_passed() {
        let mut story = admitted(2);
        let wide = story.wanted(1, 100, 2, Way::Plain);
        story.not_granted(1, wide, 2_000, Outcome::Cancelled);
        assert_eq!(figures(&story), ((1, 0), 0, 0));
        let mut story = admitted(2);
        for line in &mut story.logs().clients[1].lines {
            if line.at == millis(0) {
                line.at = millis(1_000);
            }
        }
        assert_eq!(figures(&story), ((1, 0), 0, 0));
    }

    #[test]
    fn a_slot_stays_in_its_process_for_a_moment() {
        let mut story = admitted(2);
        story.asked_and_held_by(2, "d", 9 * GRANTS_OF_A_WRITE, (0, 1_010, 1_040));
        // The first grant was not seen from before, so it is excused as the second one is.
        assert_eq!(figures(&story).1, 0);
    }
}
