//! The figures of a run, and its violations.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use real_agent::SERVERS;

use super::{Invariant, Logs, Violation};
use crate::diary::Line;
use crate::record::{Backend, Change, Deed, Hold, Kind, Outcome, Phase, Reason, Target, What};

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// What happened, in numbers.
    pub figures: Figures,
    /// The broken promises.
    pub violations: Vec<Violation>,
}

/// The numbers of a run.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// How long things went wrong.
    pub chaos: Duration,
    /// The nemesis's deeds: to whom, of which kind, and how often.
    pub deeds: BTreeMap<(&'static str, Kind), u64>,
    /// Acquisitions that were asked for.
    pub wanted: u64,
    /// Those that were granted.
    pub granted: BTreeMap<(What, Backend), u64>,
    /// The longest wait of a granted acquisition.
    pub longest_wait: Duration,
    /// Those that were not granted.
    pub not_granted: BTreeMap<Outcome, u64>,
    /// The results of the changes that leaders wanted.
    pub changes: BTreeMap<Change, u64>,
    /// Leaders that were killed while they led.
    pub killed_leaders: u64,
    /// Leaders that led too soon after a killed leader.
    pub hasty_leaders: u64,
    /// How often followers saw a leader.
    pub seen: u64,
    /// What followers saw wrong.
    pub wrong_sights: u64,
    /// Slots and leaderships that `consul lock` had.
    pub locks: BTreeMap<String, u64>,
    /// `consul lock` processes that had to be killed.
    pub hung_locks: u64,
    /// Slots and leaderships lost.
    pub losses: BTreeMap<Reason, u64>,
    /// Those lost while their lease lasted.
    pub covered_losses: u64,
    /// Those lost although their lease could have been renewed.
    pub reachable_losses: u64,
    /// The most slots held at once, and the limit, by prefix.
    pub most_at_once: Vec<(String, u32, u32)>,
    /// How often there was one holder too many.
    pub overlaps: u64,
    /// Beliefs beyond their lease.
    pub lease_violations: u64,
    /// How often Consul removed a dead server from its catalog.
    pub reaped: u64,
    /// Sessions that ended while their holders believed.
    pub early_ends: u64,
    /// Holds on a separate node that survived a server's absence long enough to end other sessions.
    pub outlived: u64,
    /// The longest time that a holder believed after such an end.
    pub longest_beyond: Duration,
    /// Requests that a gateway answered.
    pub refusals: u64,
    /// How often no majority of the servers ran, for longer than a client waits for an answer.
    pub without_majority: u64,
    /// Writes that their clients gave up, those of them that were applied late, and the longest
    /// delay.
    pub given_up: (u64, u64, Duration),
    /// Sessions that held when their program ended in a hurry.
    pub farewells: u64,
    /// Those of them that existed for longer than they may.
    pub late_farewells: u64,
    /// Grants beside which somebody else was seen to wait, and those of them that were judged.
    pub turns: (u64, u64),
    /// Grants that came before a waiter who stood ahead.
    pub out_of_turn: u64,
    /// Grants on a session of a `Client` that held elsewhere, too.
    pub on_one_session: u64,
    /// The most places at which one session held at once.
    pub most_places: usize,
    /// Grants whose token was out of order.
    pub token_violations: u64,
    /// Acquisitions that never ended.
    pub unended: u64,
    /// What was left.
    pub leftovers: u64,
    /// Sessions left to their TTL, since the machine was too slow to answer their creation.
    pub orphans: u64,
}

/// At most this many stories are told of each invariant at each place.
const STORIES: usize = 5;

impl Report {
    pub(super) fn new(logs: &Logs) -> Self {
        let end = &logs.end;
        let mut figures = Figures {
            chaos: logs.run.chaos,
            given_up: (end.given_up, end.applied_late, end.latest),
            without_majority: without_majority(&logs.deeds),
            ..Figures::default()
        };
        for line in &logs.deeds {
            figures.refusals += line.event.asked.unwrap_or_default();
            if line.event.phase == Phase::Begin {
                let whom = match line.event.target {
                    Target::Leader(_) => "leader",
                    Target::Follower(_) => "follower",
                    Target::Agent(_) => "client agent",
                    Target::Client(_) => "client",
                };
                *figures.deeds.entry((whom, line.event.deed)).or_default() += 1;
            }
        }
        for line in &logs.locks {
            if let Hold::Began { prefix, .. } = &line.event {
                *figures.locks.entry(prefix.clone()).or_default() += 1;
            }
        }
        Self {
            figures,
            violations: Vec::new(),
        }
    }

    /// `place` is empty if the violation has no place.
    pub(super) fn violation(&mut self, invariant: Invariant, place: &str, story: String) {
        let place = place.to_owned();
        self.violations.push(Violation {
            invariant,
            place,
            story,
        });
    }
}

/// How often two servers were frozen at the same time for longer than a client waits for an answer.
fn without_majority(deeds: &[Line<Deed>]) -> u64 {
    let mut stopped = BTreeSet::new();
    let mut since = None;
    let mut times = 0;
    for line in deeds {
        let (Target::Leader(server) | Target::Follower(server)) = line.event.target else {
            continue;
        };
        match (line.event.deed, line.event.phase) {
            (Kind::Stop, Phase::Begin) => _ = stopped.insert(server),
            (Kind::Stop, Phase::End) => _ = stopped.remove(&server),
            _ => continue,
        }
        if stopped.len() > SERVERS / 2 {
            since.get_or_insert(line.at);
        } else if let Some(since) = since.take() {
            times += u64::from(line.at.since(since) > ANSWERS);
        }
    }
    times
}

/// How long a client waits for an answer.
const ANSWERS: Duration = Duration::from_secs(3);

impl Figures {
    fn fmt_turns(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seen, judged) = self.turns;
        writeln!(
            f,
            "grants beside which others waited: {seen}, of which were judged: {judged}"
        )?;
        let (grants, most) = (self.on_one_session, self.most_places);
        writeln!(
            f,
            "grants on a session of a `Client` that held elsewhere, too: {grants}, at up to {most} places at once"
        )
    }

    fn fmt_given_up(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let without = self.without_majority;
        writeln!(f, "times without a majority of servers: {without}")?;
        let (given_up, late, latest) = self.given_up;
        let latest = latest.as_secs_f64();
        writeln!(
            f,
            "writes that were given up: {given_up}, of which were applied late: {late}, by up to {latest:.1} s"
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures = &self.figures;
        writeln!(
            f,
            "chaos: {:.1} minutes",
            figures.chaos.as_secs_f64() / 60.0
        )?;
        writeln!(f, "deeds:")?;
        for ((whom, kind), count) in &figures.deeds {
            writeln!(f, "  {whom} {}: {count}", kind.name())?;
        }
        writeln!(f, "acquisitions: {}", figures.wanted)?;
        for ((what, backend), count) in &figures.granted {
            let (what, backend) = (what.granted(), backend.name());
            writeln!(f, "  {what} granted on {backend}: {count}")?;
        }
        let longest = figures.longest_wait.as_secs_f64();
        writeln!(f, "  longest wait of those: {longest:.1} s")?;
        for (outcome, count) in &figures.not_granted {
            writeln!(f, "  {}: {count}", outcome.name())?;
        }
        for (outcome, count) in &figures.changes {
            writeln!(f, "values of leaders {}: {count}", outcome.name())?;
        }
        let killed = figures.killed_leaders;
        writeln!(f, "leaders killed while they led: {killed}")?;
        writeln!(f, "leaders seen by those who follow: {}", figures.seen)?;
        for (prefix, count) in &figures.locks {
            writeln!(f, "consul lock on {prefix}: {count}")?;
        }
        if figures.hung_locks > 0 {
            writeln!(f, "  that had to be killed: {}", figures.hung_locks)?;
        }
        for (prefix, most, limit) in &figures.most_at_once {
            writeln!(f, "most at once on {prefix}: {most} of {limit}")?;
        }
        writeln!(f, "servers taken out of the catalog: {}", figures.reaped)?;
        let (early, beyond) = (figures.early_ends, figures.longest_beyond.as_secs_f64());
        write!(
            f,
            "sessions that ended while their holders believed: {early}"
        )?;
        writeln!(f, ", by up to {beyond:.1} s")?;
        let outlived = figures.outlived;
        writeln!(f, "holds on a separate node whose server went: {outlived}")?;
        writeln!(f, "requests that a gateway answered: {}", figures.refusals)?;
        figures.fmt_given_up(f)?;
        let farewells = figures.farewells;
        writeln!(
            f,
            "sessions that held when their program ended in a hurry: {farewells}"
        )?;
        figures.fmt_turns(f)?;
        let losses: u64 = figures.losses.values().sum();
        writeln!(f, "losses: {losses}")?;
        for (reason, count) in &figures.losses {
            writeln!(f, "  {}: {count}", reason.name())?;
        }
        let judged = [
            ("lost while the lease lasted", figures.covered_losses),
            ("lost with a quorum within reach", figures.reachable_losses),
            ("overlaps", figures.overlaps),
            ("beliefs beyond their lease", figures.lease_violations),
            ("grants out of turn", figures.out_of_turn),
            ("tokens out of order", figures.token_violations),
            (
                "leaders before a lock delay was over",
                figures.hasty_leaders,
            ),
            ("sights that were wrong", figures.wrong_sights),
            ("acquisitions that never ended", figures.unended),
            ("left behind", figures.leftovers),
            ("left behind in a hurry", figures.late_farewells),
        ];
        for (what, count) in judged {
            writeln!(f, "{what}: {count}")?;
        }
        if figures.orphans > 0 {
            let orphans = figures.orphans;
            writeln!(
                f,
                "sessions whose creation was not answered in time: {orphans}"
            )?;
        }
        writeln!(f, "violations: {}", self.violations.len())?;
        let mut by_place = BTreeMap::<(Invariant, &str), Vec<&str>>::new();
        for violation in &self.violations {
            let key = (violation.invariant, violation.place.as_str());
            by_place.entry(key).or_default().push(&violation.story);
        }
        for ((invariant, place), stories) in by_place {
            let at = if place.is_empty() { "" } else { " on " };
            let (name, times) = (invariant.name(), stories.len());
            writeln!(f, "VIOLATED{at}{place}: {name}: {times} times")?;
            for story in stories.iter().take(STORIES) {
                writeln!(f, "  {story}")?;
            }
        }
        Ok(())
    }
}
