//! Invented logs that show the checker what must never happen.

use std::time::Duration;

use super::{ClientLog, Logs, Report, check};
use crate::diary::Line;
use crate::moment::Moment;
use crate::record::{
    Backend, Belief, Change, Client, Deed, End, Hold, Kind, Outcome, Phase, Place, Reason, Role,
    Run, Sight, Sighting, Standing, Target, Way, What,
};

const CLIENTS: usize = 3;
const SEMAPHORE: &str = "chaos/shared";
pub(super) const ELECTION: &str = "chaos/elected";

/// Logs of three clients that contend for one place, each on its own server, and of one follower.
/// All times are milliseconds.
pub(super) struct Story {
    logs: Logs,
    prefix: &'static str,
    acquires: u64,
    crashed: Vec<usize>,
}

pub(super) fn millis(at: u64) -> Moment {
    Moment::default().plus(Duration::from_millis(at))
}

impl Story {
    /// The follower, if there is an election.
    pub(super) const FOLLOWER: usize = CLIENTS;

    /// A story about a semaphore.
    pub(super) fn new(limit: u32) -> Self {
        Self::of(What::Semaphore, SEMAPHORE, limit)
    }

    /// A story about an election.
    pub(super) fn election() -> Self {
        Self::of(What::Election, ELECTION, 1)
    }

    /// A semaphore with one slot, and an election: the same rules hold for both.
    pub(super) fn of_one_slot() -> [Self; 2] {
        [Self::new(1), Self::election()]
    }

    fn of(what: What, prefix: &'static str, limit: u32) -> Self {
        let client = |number| Client {
            backend: Backend::Tokio,
            server: number % CLIENTS,
            role: if number == Self::FOLLOWER {
                Role::Follower
            } else {
                Role::Contender
            },
            ttl: None,
            own_node: false,
            shares: false,
        };
        let log = |client| ClientLog {
            client,
            incarnation: 1,
            lines: Vec::new(),
        };
        let run = Run {
            seed: 1,
            release: None,
            acls: false,
            chaos: Duration::from_mins(1),
            ttl: Duration::from_secs(10),
            lock_delay: Some(Duration::from_secs(1)),
            reaped: false,
            agents: 0,
            places: vec![Place {
                what,
                prefix: prefix.to_owned(),
                limit,
                contenders: 1,
            }],
            clients: (0..=CLIENTS).map(client).collect(),
        };
        let logs = Logs {
            run,
            clients: (0..=CLIENTS).map(log).collect(),
            locks: Vec::new(),
            deeds: Vec::new(),
            sightings: Vec::new(),
            queues: Vec::new(),
            end: End::default(),
        };
        Self {
            logs,
            prefix,
            acquires: 0,
            crashed: Vec::new(),
        }
    }

    pub(super) fn logs(&mut self) -> &mut Logs {
        &mut self.logs
    }

    /// Judges the logs. All clients that did not crash have ended in order.
    pub(super) fn check(&self) -> Report {
        let mut logs = self.logs.clone();
        for log in &mut logs.clients {
            if !self.crashed.contains(&log.client) {
                log.lines.push(Line {
                    at: millis(100_000),
                    event: Belief::Stopped,
                });
            }
        }
        check(&logs)
    }

    pub(super) fn crash(&mut self, client: usize) {
        self.crashed.push(client);
    }

    pub(super) fn kill(&mut self, client: usize, at: u64) {
        self.deed(at, Kind::Kill, Target::Client(client), Phase::Begin);
        self.crash(client);
    }

    /// The client was told to end in a hurry, and ended.
    pub(super) fn leave(&mut self, client: usize, told: u64, left: u64) {
        self.deed(told, Kind::Leave, Target::Client(client), Phase::Begin);
        self.add(client, left, Belief::Left);
        self.crash(client);
    }

    /// One slot that was requested just before its grant.
    pub(super) fn held(&mut self, client: usize, token: u64, from: u64, until: u64) {
        self.held_many(client, token, 1, from, until);
    }

    pub(super) fn held_many(
        &mut self,
        client: usize,
        token: u64,
        permits: u32,
        from: u64,
        until: u64,
    ) {
        self.asked_and_held_many(client, token, permits, from, from, until);
    }

    pub(super) fn asked_and_held(
        &mut self,
        client: usize,
        token: u64,
        asked: u64,
        from: u64,
        until: u64,
    ) {
        self.asked_and_held_many(client, token, 1, asked, from, until);
    }

    pub(super) fn asked_and_held_many(
        &mut self,
        client: usize,
        token: u64,
        permits: u32,
        asked: u64,
        from: u64,
        until: u64,
    ) {
        let acquire = self.wanted(client, asked, permits, Way::Plain);
        self.told_granted(client, acquire, token, from, until + 5_000);
        let held = true;
        self.add(client, until, Belief::Ending { acquire, held });
    }

    /// As [`Self::held`], with this session.
    pub(super) fn held_by_session(
        &mut self,
        client: usize,
        session: &str,
        token: u64,
        from: u64,
        until: u64,
    ) {
        self.held(client, token, from, until);
        for line in &mut self.logs.clients[client].lines {
            if let Belief::Granted { sessions, .. } = &mut line.event {
                *sessions = vec![session.to_owned()];
            }
        }
    }

    /// One slot that this session holds.
    pub(super) fn held_by(
        &mut self,
        client: usize,
        session: &str,
        token: u64,
        (from, until): (u64, u64),
    ) {
        self.asked_and_held_by(client, session, token, (from, from, until));
    }

    /// One slot that this session holds: when it was requested, held, and given back.
    pub(super) fn asked_and_held_by(
        &mut self,
        client: usize,
        session: &str,
        token: u64,
        (asked, from, until): (u64, u64, u64),
    ) {
        self.asked_and_held(client, token, asked, from, until);
        for line in &mut self.logs.clients[client].lines {
            match &mut line.event {
                Belief::Granted {
                    token: granted,
                    sessions,
                    ..
                } if *granted == token => *sessions = vec![session.to_owned()],
                _ => {}
            }
        }
    }

    /// A state of the queue, with the index of the record.
    pub(super) fn standing(
        &mut self,
        at: u64,
        written: u64,
        holders: &[&str],
        waiting: &[(&str, u64)],
    ) {
        let event = Standing {
            prefix: self.prefix.to_owned(),
            end: millis(at + 5),
            index: at,
            written,
            limit: 1,
            holders: holders.iter().map(|it| (*it).to_owned()).collect(),
            dead: 0,
            waiting: waiting
                .iter()
                .map(|(it, at)| ((*it).to_owned(), *at))
                .collect(),
        };
        let at = millis(at);
        self.logs.queues.push(Line { at, event });
    }

    /// The follower sees this.
    pub(super) fn saw(&mut self, at: u64, sight: Sight) {
        let prefix = self.prefix.to_owned();
        self.add(Self::FOLLOWER, at, Belief::Saw { prefix, sight });
    }

    pub(super) fn said(&mut self, client: usize, acquire: u64, at: u64, outcome: Change) {
        let said = Belief::Said {
            acquire,
            value: "moved".to_owned(),
            outcome,
            words: None,
        };
        self.add(client, at, said);
    }

    /// A grant with a lease until `until`.
    pub(super) fn granted(&mut self, client: usize, token: u64, at: u64, until: u64) -> u64 {
        let acquire = self.wanted(client, at, 1, Way::Plain);
        self.told_granted(client, acquire, token, at, until);
        acquire
    }

    pub(super) fn wanted(&mut self, client: usize, at: u64, permits: u32, way: Way) -> u64 {
        let acquire = self.acquires;
        self.acquires += 1;
        let prefix = self.prefix.to_owned();
        let wanted = Belief::Wanted {
            acquire,
            prefix,
            permits,
            way,
        };
        self.add(client, at, wanted);
        acquire
    }

    pub(super) fn beat(&mut self, client: usize, acquire: u64, at: u64, until: u64) {
        let until = millis(until);
        self.add(client, at, Belief::Held { acquire, until });
    }

    pub(super) fn not_held(&mut self, client: usize, acquire: u64, at: u64) {
        self.add(client, at, Belief::NotHeld { acquire });
    }

    pub(super) fn lost(&mut self, client: usize, acquire: u64, at: u64, reason: Reason) {
        let words = "lost".to_owned();
        let lost = Belief::Lost {
            acquire,
            reason,
            words,
        };
        self.add(client, at, lost);
    }

    pub(super) fn not_granted(&mut self, client: usize, acquire: u64, at: u64, outcome: Outcome) {
        let words = None;
        let not_granted = Belief::NotGranted {
            acquire,
            outcome,
            words,
        };
        self.add(client, at, not_granted);
    }

    pub(super) fn lock(&mut self, name: &str, from: u64, until: u64) {
        let name = || name.to_owned();
        let prefix = self.prefix.to_owned();
        let began = Hold::Began {
            name: name(),
            prefix,
        };
        for (at, event) in [(from, began), (until, Hold::Ended { name: name() })] {
            let at = millis(at);
            self.logs.locks.push(Line { at, event });
        }
    }

    pub(super) fn deed(&mut self, at: u64, deed: Kind, target: Target, phase: Phase) {
        let event = Deed {
            deed,
            target,
            phase,
            later: None,
            asked: None,
        };
        let at = millis(at);
        self.logs.deeds.push(Line { at, event });
    }

    /// A client whose answers come this much later.
    pub(super) fn slow(&mut self, client: usize, (from, until): (u64, u64), later: u64) {
        for (at, phase) in [(from, Phase::Begin), (until, Phase::End)] {
            self.deed(at, Kind::Slow, Target::Client(client), phase);
            if let Some(line) = self.logs.deeds.last_mut() {
                line.event.later = Some(Duration::from_millis(later));
            }
        }
    }

    pub(super) fn sighting(&mut self, at: u64, server: usize, locks: Option<&[&str]>) {
        let locks = locks.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        let event = Sighting {
            server,
            end: millis(at + 5),
            locks,
            ours: None,
            nodes: None,
            holders: Vec::new(),
        };
        let at = millis(at);
        self.logs.sightings.push(Line { at, event });
    }

    fn told_granted(&mut self, client: usize, acquire: u64, token: u64, at: u64, until: u64) {
        let granted = Belief::Granted {
            acquire,
            token,
            sessions: Vec::new(),
            until: Some(millis(until)),
        };
        self.add(client, at, granted);
    }

    fn add(&mut self, client: usize, at: u64, event: Belief) {
        let at = millis(at);
        self.logs.clients[client].lines.push(Line { at, event });
    }
}
