//! Disturbs the cluster and the clients in rounds, with calm in between. A majority of the servers
//! always keeps its data.

use std::cmp::min;
use std::collections::BTreeSet;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use real_agent::{Agent, Client as Admin, Cluster, SERVERS};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::diary::Diary;
use crate::failure::{Failure, Try as _};
use crate::fleet::Fleet;
use crate::moment::Moment;
use crate::record::{Deed, Kind, Phase, Target};
use crate::tokens;

/// What it disturbs, and where it logs that.
pub(crate) struct Nemesis<'n> {
    /// The servers.
    pub(crate) cluster: &'n mut Cluster,
    /// The client agents.
    pub(crate) agents: &'n mut [Agent],
    /// The clients.
    pub(crate) fleet: &'n mut Fleet,
    /// The log of its deeds.
    pub(crate) diary: &'n Diary<Deed>,
    /// The source of its choices.
    pub(crate) rng: Rng,
    /// Whether servers are away for so long that Consul removes them from its catalog.
    pub(crate) reaped: bool,
    /// Whether agents ask for tokens.
    pub(crate) acls: bool,
    /// Those through whom tokens are changed.
    pub(crate) admins: &'n [Admin],
    /// The clients whose tokens could not be given back yet.
    pub(crate) owed: BTreeSet<(usize, Kind)>,
    /// Until when a server may still take a right away that it was asked to take.
    pub(crate) takes_until: Instant,
}

/// The beginning or the end of a deed, and its time in the round.
#[derive(Clone, Copy, Debug)]
struct Act {
    after: Duration,
    kind: Kind,
    target: Target,
    phase: Phase,
    later: Option<Duration>,
}

impl Nemesis<'_> {
    /// Does round after round until `end`. Everything works again when it returns.
    ///
    /// # Errors
    /// If something could not be disturbed or repaired.
    pub(crate) fn storm(&mut self, end: Instant) -> Result<(), Failure> {
        let mut leader = None;
        loop {
            let calm = Duration::from_millis(self.rng.u64(500..4_000));
            let left = end.saturating_duration_since(Instant::now());
            thread::sleep(min(calm, left));
            if self.reaped {
                let voted = self.cluster.wait_for_votes();
                voted.doing("waiting until every server has a vote")?;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left < SHORTEST {
                return Ok(());
            }
            let found = self.cluster.wait_for_leader();
            let found = found.doing("waiting for a leader")?;
            if leader.replace(found).is_some_and(|former| former != found) {
                self.write_elected(found)?;
            }
            let acts = self.plan(found, left);
            self.act(&acts)?;
            self.cluster
                .wait_for_leader()
                .doing("waiting for the cluster to heal")?;
            self.pay()?;
        }
    }

    /// The acts of the next round, within `left`.
    fn plan(&mut self, leader: usize, left: Duration) -> Vec<Act> {
        let mut acts = Vec::new();
        let one = self.server(leader);
        match self.rng.u32(..10) {
            kind @ 0..7 if self.reaped && left > LONG.1 => {
                let kind = if kind < 4 { Kind::Kill } else { Kind::Stop };
                let length = self.rng.u64(millis(LONG.0)..millis(LONG.1));
                let length = Duration::from_millis(length);
                let acts_before = acts.len();
                self.add_for(&mut acts, kind, one, length, left);
                // The server wakes for a moment, long enough to answer with its old knowledge, and
                // is frozen again.
                if kind == Kind::Stop && self.rng.bool() {
                    let wakes = acts.get(acts_before + 1).map(|end| end.after);
                    let blink = Duration::from_millis(self.rng.u64(5..100));
                    let from = wakes.unwrap_or_default() + blink;
                    add_from(&mut acts, kind, one, (from, from + length / 2));
                }
            }
            0..3 => self.add(&mut acts, Kind::Kill, one, 6_000, left),
            3..6 => self.add(&mut acts, Kind::Stop, one, 12_000, left),
            6 => self.add(&mut acts, Kind::Restart, one, 3_000, left),
            // There is no majority for a while. Requests wait at their agents meanwhile, even if
            // their clients don't. They are applied when there is a leader again.
            7..9 => {
                let length = Duration::from_millis(self.rng.u64(WITHOUT_MAJORITY));
                let other = self.other_server(one, leader);
                for server in [one, other] {
                    self.add_for(&mut acts, Kind::Stop, server, length, left);
                }
            }
            _ => {}
        }
        if !self.agents.is_empty() && self.rng.bool() {
            let agent = Target::Agent(self.rng.usize(..self.agents.len()));
            let kind = match self.rng.u32(..4) {
                0 => Kind::Kill,
                1 => Kind::Stop,
                _ => Kind::Restart,
            };
            self.add(&mut acts, kind, agent, 8_000, left);
        }
        let mut clients: Vec<_> = (0..self.fleet.len()).collect();
        self.rng.shuffle(&mut clients);
        for client in clients.into_iter().take(self.rng.usize(..=3)) {
            let number = client;
            let client = Target::Client(client);
            let is_known = self.acls && self.fleet.contends(number);
            let may_lose = is_known && self.fleet.is_on_a_server(number, self.agents);
            let kinds = if may_lose { 18 } else { 14 };
            match self.rng.u32(..kinds) {
                14..16 => self.add(&mut acts, Kind::Restrict, client, 25_000, left),
                16..18 => self.add(&mut acts, Kind::Disown, client, 25_000, left),
                0 => self.add(&mut acts, Kind::Kill, client, 3_000, left),
                1..3 => self.add(&mut acts, Kind::Stop, client, 25_000, left),
                3..5 => {
                    // With `reaped`, some sessions last just as long.
                    let longest = if self.reaped { 60_000 } else { 14_000 };
                    self.add(&mut acts, Kind::Silence, client, longest, left);
                }
                5 => self.add(&mut acts, Kind::SilenceAnswers, client, 14_000, left),
                6..8 => {
                    let begin = acts.len();
                    self.add(&mut acts, Kind::Slow, client, 25_000, left);
                    // An answer takes up to a third of the TTL.
                    let longest = self.fleet.ttl(number) / 3;
                    acts[begin].later = Some(longest.mul_f64(self.rng.f64()));
                }
                8..10 => self.add(&mut acts, Kind::Gateway, client, 14_000, left),
                10..=12 if self.fleet.contends(number) => {
                    self.add(&mut acts, Kind::Leave, client, 3_000, left);
                }
                _ => self.add(&mut acts, Kind::Cut, client, 0, left),
            }
        }
        acts.sort_by_key(|act| act.after);
        acts
    }

    fn server(&mut self, leader: usize) -> Target {
        if self.rng.bool() {
            Target::Leader(leader)
        } else {
            Target::Follower((leader + self.rng.usize(1..SERVERS)) % SERVERS)
        }
    }

    fn other_server(&mut self, one: Target, leader: usize) -> Target {
        loop {
            let other = self.server(leader);
            if other != one {
                return other;
            }
        }
    }

    /// Adds a deed of at most `longest` milliseconds.
    fn add(
        &mut self,
        acts: &mut Vec<Act>,
        kind: Kind,
        target: Target,
        longest: u64,
        left: Duration,
    ) {
        // Most deeds are short, and some outlast the lease.
        let longest = if self.rng.bool() {
            longest / 4
        } else {
            longest
        };
        let length = Duration::from_millis(self.rng.u64(..=longest));
        self.add_for(acts, kind, target, length, left);
    }

    fn add_for(
        &mut self,
        acts: &mut Vec<Act>,
        kind: Kind,
        target: Target,
        length: Duration,
        left: Duration,
    ) {
        let after = Duration::from_millis(self.rng.u64(..2_000));
        let end = min(after + length, left.max(SHORTEST));
        add_from(acts, kind, target, (after, end.max(after)));
    }

    fn act(&mut self, acts: &[Act]) -> Result<(), Failure> {
        let start = Instant::now();
        for act in acts {
            thread::sleep(act.after.saturating_sub(start.elapsed()));
            let mut deed = Deed {
                deed: act.kind,
                target: act.target,
                phase: act.phase,
                later: act.later,
                asked: None,
            };
            let begin = Moment::now();
            match act.phase {
                Phase::Begin => {
                    self.write(begin, deed)?;
                    self.begin(act)?;
                }
                Phase::End if self.is_owed(act.kind, act.target) => {}
                Phase::End => {
                    deed.asked = self.end(act.kind, act.target)?;
                    self.write(Moment::now(), deed)?;
                }
            }
        }
        Ok(())
    }

    fn write(&self, at: Moment, deed: Deed) -> Result<(), Failure> {
        self.diary.write(at, deed).doing("writing a deed down")
    }

    /// Whether a token could not be given back, or may be taken once more. Then that is done when the cluster has
    /// healed.
    fn is_owed(&mut self, kind: Kind, target: Target) -> bool {
        let (Kind::Restrict | Kind::Disown, Target::Client(client)) = (kind, target) else {
            return false;
        };
        let may_be_taken = Instant::now() < self.takes_until;
        let owes = may_be_taken || !self.changed_token(|admin| tokens::give(admin, client));
        if owes {
            self.owed.insert((client, kind));
        }
        owes
    }

    /// Gives back all tokens that could not be given back before.
    fn pay(&mut self) -> Result<(), Failure> {
        for (client, kind) in core::mem::take(&mut self.owed) {
            thread::sleep(self.takes_until.saturating_duration_since(Instant::now()));
            let deadline = Instant::now() + PATIENCE;
            while !self.changed_token(|admin| tokens::give(admin, client)) {
                if Instant::now() > deadline {
                    let late = "no server gave it back in time";
                    return Err(Failure::step("giving a token back", late));
                }
                thread::sleep(Duration::from_millis(100));
            }
            let given = Deed {
                deed: kind,
                target: Target::Client(client),
                phase: Phase::End,
                later: None,
                asked: None,
            };
            self.write(Moment::now(), given)?;
        }
        Ok(())
    }

    /// Whether one of the servers did it.
    fn changed_token(&self, change: impl Fn(&Admin) -> io::Result<()>) -> bool {
        let admins = self.admins.iter();
        let mut admins = admins.map(|it| it.clone().with_timeout(TOKEN_TIMEOUT));
        admins.any(|admin| change(&admin).is_ok())
    }

    /// Takes rights away. A server without a leader holds the request, and may do it late.
    fn take(&mut self, change: impl Fn(&Admin) -> io::Result<()>) {
        let asked = Instant::now();
        if !self.changed_token(change) || asked.elapsed() >= TOKEN_TIMEOUT {
            self.takes_until = Instant::now() + HELD;
        }
    }

    fn write_elected(&self, leader: usize) -> Result<(), Failure> {
        let elected = Deed {
            deed: Kind::Elect,
            target: Target::Leader(leader),
            phase: Phase::Begin,
            later: None,
            asked: None,
        };
        self.write(Moment::now(), elected)
    }

    fn begin(&mut self, act: &Act) -> Result<(), Failure> {
        match (act.kind, act.target) {
            (Kind::Kill, Target::Client(client)) => self.fleet.kill(client),
            (Kind::Kill, Target::Leader(server) | Target::Follower(server)) => {
                self.cluster.kill(server)
            }
            (Kind::Stop, Target::Client(client)) => self.fleet.stop(client),
            (Kind::Stop, Target::Leader(server) | Target::Follower(server)) => {
                self.cluster.stop(server)
            }
            (Kind::Restart, Target::Leader(server) | Target::Follower(server)) => {
                return self.end_in_order(server);
            }
            (Kind::Kill, Target::Agent(agent)) => self.agents[agent].kill(),
            (Kind::Stop, Target::Agent(agent)) => self.agents[agent].stop(),
            (Kind::Restart, Target::Agent(agent)) => self.agents[agent].terminate(),
            (Kind::Leave, Target::Client(client)) => self.fleet.leave(client),
            (Kind::Slow, Target::Client(client)) => {
                // Half on the way there, and half on the way back.
                let delay = act.later.unwrap_or_default() / 2;
                self.fleet.proxy(client).set_delay(delay);
                Ok(())
            }
            // While no server can do it, the client keeps its token.
            (Kind::Restrict, Target::Client(client)) => {
                self.take(|admin| tokens::restrict(admin, client));
                Ok(())
            }
            (Kind::Disown, Target::Client(client)) => {
                self.take(|admin| tokens::delete(admin, client));
                Ok(())
            }
            (Kind::Gateway, Target::Client(client)) => {
                let status = *self.rng.choice(&REFUSALS).unwrap_or(&REFUSALS[0]);
                self.fleet.go_away(client, status)
            }
            (Kind::Cut, Target::Client(client)) => {
                self.fleet.proxy(client).cut();
                Ok(())
            }
            (Kind::Silence, Target::Client(client)) => {
                self.fleet.proxy(client).silence();
                Ok(())
            }
            (Kind::SilenceAnswers, Target::Client(client)) => {
                self.fleet.proxy(client).silence_answers();
                Ok(())
            }
            _ => Ok(()),
        }
        .doing("hurting somebody")
    }

    /// Returns how many requests a gateway has answered.
    fn end(&mut self, kind: Kind, target: Target) -> Result<Option<u64>, Failure> {
        match (kind, target) {
            (Kind::Kill | Kind::Leave, Target::Client(client)) => {
                self.fleet.begin(client).doing("starting a client again")
            }
            (Kind::Stop, Target::Client(client)) => {
                self.fleet.cont(client).doing("continuing a client")
            }
            (Kind::Stop, Target::Leader(server) | Target::Follower(server)) => {
                self.cluster.cont(server).doing("continuing a server")
            }
            (Kind::Kill | Kind::Restart, Target::Leader(server) | Target::Follower(server)) => self
                .cluster
                .relaunch(server)
                .doing("starting a server again"),
            (Kind::Kill | Kind::Restart, Target::Agent(agent)) => self.agents[agent]
                .relaunch()
                .doing("starting a client agent again"),
            (Kind::Stop, Target::Agent(agent)) => {
                self.agents[agent].cont().doing("continuing a client agent")
            }
            (Kind::Silence | Kind::SilenceAnswers, Target::Client(client)) => {
                self.fleet.proxy(client).resume();
                Ok(())
            }
            (Kind::Slow, Target::Client(client)) => {
                self.fleet.proxy(client).set_delay(Duration::ZERO);
                Ok(())
            }
            (Kind::Gateway, Target::Client(client)) => return Ok(self.fleet.come_back(client)),
            _ => Ok(()),
        }?;
        Ok(None)
    }

    /// Tells a server to end, and waits for it. If it does not end, it is killed when it is
    /// launched again.
    fn end_in_order(&self, server: usize) -> Result<(), Failure> {
        let pid = i32::try_from(self.cluster.server(server).pid()).doing("naming a server")?;
        let Some(pid) = Pid::from_raw(pid) else {
            return Ok(());
        };
        kill_process(pid, Signal::TERM).doing("telling a server to end")?;
        let deadline = Instant::now() + Duration::from_secs(10);
        while test_kill_process(pid).is_ok() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

/// The statuses of a gateway: it knows nothing, forbids everything, finds everything too long, or
/// has lost its backend.
const REFUSALS: [u16; 6] = [403, 404, 413, 500, 502, 503];

/// In milliseconds: longer than clients wait for an answer, and at most as long as agents hold
/// requests without a leader.
const WITHOUT_MAJORITY: std::ops::RangeInclusive<u64> = 4_000..=18_000;

/// Consul removes a dead server after some ten seconds, and later if it was the leader.
const LONG: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(35));

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn add_from(acts: &mut Vec<Act>, kind: Kind, target: Target, (from, until): (Duration, Duration)) {
    let act = |after, phase| Act {
        after,
        kind,
        target,
        phase,
        later: None,
    };
    acts.extend([act(from, Phase::Begin), act(until, Phase::End)]);
}

/// How long one server may take to change a token.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a server without a leader may hold a request, and how long it takes to apply it then (docs/CONSUL.md,
/// "Limits and timeouts").
const HELD: Duration = Duration::from_secs(25);

/// How long a healed cluster may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// The shortest round.
const SHORTEST: Duration = Duration::from_secs(3);
