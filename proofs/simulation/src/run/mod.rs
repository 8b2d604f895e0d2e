//! Runs a plan, and has every step judged.
//!
//! ```text
//!  agenda: deeds and their ends        users, strangers: tasks on hosts
//!      │ due                              │ requests, through the wire of their host
//!      ▼                                  ▼
//!   the world ─── one step ───▶ seen: what changed in Consul ─┐
//!                               book: what the tasks wrote ───┴▶ judge
//! ```

mod book;
mod boot;
mod clients;
mod contest;
mod deeds;
mod follower;
mod guests;
mod hazards;
mod judging;
mod keys;
mod knowledge;
mod manage;
mod onlooker;
mod operator;
mod past;
mod quiet;
mod seen;
mod sharing;
mod spells;
mod state;
mod stranger;
mod tokens;
mod transaction;
mod turns;
mod user;
mod wire;

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use semaphore_core::sans_io::Instant;
use semaphore_core::{Prefix, Scope, Token};
use transport_mock::consul::{Edition, Snapshot};
use transport_mock::{MockConsul, MockProcess, PooledClient, Task};

use self::book::Book;
use self::contest::Contest;
use self::deeds::{Act, Undo};
use self::past::Past;
use self::quiet::{first_round, second_round};
use self::seen::Seen;
use self::wire::Line;
use crate::branches;
use crate::check::{Bounds, Invariant, Judge, Violation};
use crate::figures::Figures;
use crate::plan::{Deed, Holding, HostPlan, Plan, Turn, UserPlan};

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The counts.
    pub figures: Figures,
    /// The first broken invariant.
    pub violation: Option<Violation>,
    /// The messages and events, if they were kept.
    pub story: String,
}

/// Runs a plan to its end or to the first violation.
pub fn run(plan: &Plan, keeps_story: bool) -> Outcome {
    let world = MockConsul::with_profile(plan.seed, plan.profile);
    world.set_tracing(keeps_story);
    let seen = std::sync::Mutex::new(Figures::default());
    let (end, mut taken) = branches::count(|| {
        catch_unwind(AssertUnwindSafe(|| {
            let mut run = match Run::new(plan, &world, keeps_story) {
                Ok(run) => run,
                Err(what) => return Some(soundness(&world, what)),
            };
            let violation = run.execute().err();
            if let Ok(mut seen) = seen.lock() {
                *seen = run.figures();
            }
            violation
        }))
    });
    let violation = match end {
        Ok(violation) => violation,
        Err(panic) => Some(soundness(&world, text_of(&*panic))),
    };
    let mut figures = seen.into_inner().unwrap_or_default();
    taken.append(&mut figures.branches);
    figures.branches = taken;
    figures.schedules = 1;
    figures.consuls.insert(plan.profile.name(), 1);
    figures.virtual_time = world.now().since_origin();
    figures.requests = world.stats().total_requests();
    figures.violations = u64::from(violation.is_some());
    let story = if keeps_story {
        world.trace()
    } else {
        String::new()
    };
    Outcome {
        figures,
        violation,
        story,
    }
}

fn soundness(world: &MockConsul, what: String) -> Violation {
    Violation {
        invariant: Invariant::Soundness,
        at: world.now(),
        what,
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("it panicked: {}", text.unwrap_or("without a text"))
}

/// A running plan.
struct Run<'a> {
    plan: &'a Plan,
    world: MockConsul,
    keeps_story: bool,
    prefixes: Vec<Prefix>,
    book: Book,
    judge: Judge,
    seen: Seen,
    hosts: BTreeMap<usize, Running<'a>>,
    strangers: Vec<Task<()>>,
    /// The operations with this library that are under way.
    operations: Vec<Task<()>>,
    /// The leaders that are asked to step down.
    asked: Vec<Task<Option<()>>>,
    agenda: BTreeMap<(Instant, usize), Act>,
    agenda_length: usize,
    snapshot: Option<Snapshot>,
    /// The earlier states, if a leader may come that lacks the last changes.
    past: Option<Past>,
    was_reset: bool,
    /// The sessions of lost holds, with the prefix of the first loss.
    lost: BTreeMap<String, usize>,
    rounds: [Instant; 2],
    figures: Figures,
}

/// The turns of a user, and the next one, with which the next process continues.
type Turns = (Arc<Vec<Turn>>, Arc<AtomicUsize>);

/// A host with its process.
struct Running<'a> {
    plan: &'a HostPlan,
    /// Whether no process starts on it any more.
    is_retired: bool,
    line: Line,
    /// The users at each prefix for which it contends with others.
    users: Vec<(usize, Vec<Turns>)>,
    /// What its process contends with, by the number of the prefix.
    contests: Vec<(usize, Contest)>,
    /// The turns of its own semaphores.
    own: Vec<Turns>,
    /// The transports of its process, if it shares connections.
    pools: Vec<PooledClient>,
    process: Option<MockProcess>,
    tasks: Vec<Task<Option<()>>>,
    follower: Option<Task<Option<()>>>,
}

type Judged = Result<(), Violation>;

impl<'a> Run<'a> {
    fn new(plan: &'a Plan, world: &MockConsul, keeps_story: bool) -> Result<Self, String> {
        let prefixes = (0..plan.prefixes.len())
            .map(|number| Prefix::new(Plan::prefix(number)))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| error.to_string())?;
        let storm_end = Instant::ORIGIN + plan.storm;
        let rounds = [
            storm_end,
            storm_end + first_round(plan, plan.longest_session()),
        ];
        let hosts = plan.hosts.iter().map(|host| {
            let turns =
                |user: &UserPlan| (Arc::new(user.turns.clone()), Arc::<AtomicUsize>::default());
            let further = host.also.iter().map(|it| (it.prefix, &it.users));
            let parts = [(host.prefix, &host.users)].into_iter().chain(further);
            let running = Running {
                plan: host,
                is_retired: false,
                line: Line::new(host.troubles.clone(), host.places()),
                users: parts
                    .map(|(prefix, users)| (prefix, users.iter().map(turns).collect()))
                    .collect(),
                own: host
                    .own
                    .iter()
                    .chain(&host.own_elections)
                    .map(turns)
                    .collect(),
                contests: Vec::new(),
                pools: Vec::new(),
                process: None,
                tasks: Vec::new(),
                follower: None,
            };
            (host.number, running)
        });
        let mut this = Self {
            plan,
            world: world.clone(),
            keeps_story,
            book: Book::default(),
            judge: Judge::new(Bounds::of(plan)),
            seen: Seen::new(&prefixes, plan),
            prefixes,
            hosts: hosts.collect(),
            strangers: Vec::new(),
            operations: Vec::new(),
            asked: Vec::new(),
            agenda: BTreeMap::new(),
            agenda_length: 0,
            snapshot: None,
            past: plan
                .has(|deed| matches!(deed, Deed::SlowLeader { .. }))
                .then(Past::default),
            was_reset: false,
            lost: BTreeMap::new(),
            rounds,
            figures: Figures::default(),
        };
        for (at, deed) in &plan.deeds {
            this.plan_act(Instant::ORIGIN + *at, Act::Do(deed.clone()));
        }
        Ok(this)
    }

    fn execute(&mut self) -> Judged {
        self.prepare();
        self.leave_records()?;
        self.put_others();
        for host in &self.plan.hosts {
            if host.starts_at.is_zero() {
                self.boot(host.number);
            } else {
                let at = Instant::ORIGIN + host.starts_at;
                self.plan_act(at, Act::Undo(Undo::Boot(host.number)));
            }
        }
        self.start_strangers();
        let [storm_end, second] = self.rounds;
        self.run_until(storm_end)?;
        self.calm()?;
        self.round(first_round(self.plan, self.longest_session()))?;
        self.run_until(second)?;
        self.round(second_round(self.plan))?;
        let end = second + second_round(self.plan);
        while self.is_somebody_in() && self.world.now() < end {
            self.step(end)?;
        }
        self.end()
    }

    /// Prepares what is true from the beginning.
    fn prepare(&mut self) {
        let plan = self.plan;
        self.world.set_write_log(true);
        self.world.set_patience(Duration::from_hours(24));
        let least = plan.latency.min(Duration::from_millis(1));
        self.world.set_latency(least..=plan.latency);
        if let Some(Holding { wait, late }) = plan.holding {
            self.world.hold_without_leader(wait.0..=wait.1, late);
        }
        self.world.consul(|consul, _| {
            consul.set_session_lifetime(plan.lifetime);
            consul.set_lock_delay_length(plan.lock_delay_length);
            consul.advance_index(BUSY_CLUSTER);
        });
        for host in &plan.hosts {
            if let Some(shared) = &host.shared {
                let name = format!("node-{}", host.number);
                self.world.set_max_connections_of(name, shared.allowed);
            }
            if let Some(server) = host.server {
                let agent = Plan::node(server);
                self.world.set_agent(format!("node-{}", host.number), agent);
            }
        }
        self.forbid_nothing();
    }

    /// Runs until `end`, with all deeds.
    fn run_until(&mut self, end: Instant) -> Judged {
        loop {
            let next = self.agenda.first_key_value().map(|(key, _)| *key);
            let due = next.filter(|(at, _)| *at <= end);
            let until = due.map_or(end, |(at, _)| at);
            while self.step(until)? {
                let sooner = self.agenda.first_key_value();
                if sooner.is_some_and(|((at, _), _)| *at < until) {
                    break;
                }
            }
            if self.world.now() < until {
                continue;
            }
            match due.and_then(|key| self.agenda.remove(&key)) {
                Some(act) => self.act(act)?,
                None => return Ok(()),
            }
        }
    }

    /// Runs one step of the world, and judges it.
    fn step(&mut self, until: Instant) -> Result<bool, Violation> {
        let moved = self.world.step(until);
        self.figures.steps += 1;
        self.judge_step()?;
        Ok(moved)
    }

    fn figures(&self) -> Figures {
        let mut figures = self.figures.clone();
        let mut book = self.book.lock();
        for (name, count) in std::mem::take(&mut book.faults) {
            *figures.faults.entry(name).or_default() += count;
        }
        let (held, late) = self.world.held_without_leader();
        for (name, count) in [
            ("request held without a leader", held),
            ("write applied when it was given up", late),
        ] {
            *figures.faults.entry(name).or_default() += count;
        }
        figures.unserved = std::mem::take(&mut book.unserved);
        figures.branches = std::mem::take(&mut book.branches);
        figures.checks = self.judge.counts();
        figures
    }

    fn scope(&self, token: &str) -> Scope {
        match Token::new(token) {
            Ok(token) if self.plan.access_control.is_some() => Scope::new().with_token(token),
            _ => Scope::new(),
        }
    }

    /// The scope of our hosts' requests. In Enterprise they name the namespace that strangers use
    /// by default.
    fn scope_of_ours(&self, token: &str) -> Scope {
        let scope = self.scope(token);
        match self.plan.profile.edition {
            Edition::Community => scope,
            Edition::Enterprise => scope.clone().with_namespace("default").unwrap_or(scope),
        }
    }

    fn plan_act(&mut self, at: Instant, act: Act) {
        self.agenda_length += 1;
        self.agenda.insert((at, self.agenda_length), act);
    }
}

/// Indexes start here, so those after a reset are all lower.
const BUSY_CLUSTER: u64 = 1_000_000;
