//! Runs many random scripts on several real agents at the same time, and counts the results.
//!
//! Each agent runs one script at a time and is cleaned up in between. So all indexes can be
//! compared, also those of whole tables.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use real_agent::Agent;

use crate::agent;
use crate::compare;
use crate::ends::Ends;
use crate::random;
use crate::real::Real;
use crate::run::{self, Comparison, Observed, Record};
use crate::script::{Script, Step, Wire};
use crate::shrink::shrink;
use crate::timing::{self, Verdict};

/// A campaign stops after this many differences.
const ENOUGH: usize = 8;

const REQUESTS_OF_AN_AGENT: u64 = 3000;
const MOST_AGENTS: u64 = 6;

/// The delay between the starts of two scripts that let time pass. It spreads their requests.
const STAGGER: Duration = Duration::from_millis(150);

/// So often a timed script is run if the agent is too slow each time.
const MOST_ATTEMPTS: usize = 4;

/// What the scripts asked, what the real agent answered, and what differed.
#[derive(Default)]
pub(crate) struct Tally {
    scripts: u64,
    requests: u64,
    kinds: BTreeMap<String, u64>,
    statuses: BTreeMap<u16, u64>,
    pub(crate) differences: Vec<String>,
    /// The runs of timed scripts in which the agent was too slow to tell.
    open: Vec<String>,
}

/// Runs scripts with the seeds `first_seed`, `first_seed + 1`, … until `requests` are compared.
pub(crate) fn run(first_seed: u64, requests: u64) -> Tally {
    let next = AtomicU64::new(first_seed);
    let tally = Mutex::new(Tally::default());
    let agents = requests
        .div_ceil(REQUESTS_OF_AN_AGENT)
        .clamp(1, MOST_AGENTS);
    thread::scope(|scope| {
        for _ in 0..agents {
            scope.spawn(|| {
                let mut agent = agent();
                while !tally.lock().unwrap().is_enough(requests) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let script = random::script_of(seed);
                    let comparison = compare_alone(&script, &name_of(seed), &mut agent);
                    let differences = comparison.differences.join("\n");
                    let story = (!differences.is_empty())
                        .then(|| shortest(&script, &name_of(seed), &mut agent))
                        .map(|short| short.unwrap_or_else(|| not_again(&differences)));
                    tally.lock().unwrap().add(&script, &comparison.real, story);
                }
            });
        }
    });
    tally.into_inner().unwrap()
}

/// Runs `count` timed scripts side by side.
pub(crate) fn run_timed(first_seed: u64, count: u64, agent: &Agent) -> Tally {
    let tally = Mutex::new(Tally::default());
    let ends = Ends::default();
    thread::scope(|scope| {
        scope.spawn(|| ends.watch(agent));
        thread::scope(|scope| {
            for number in 0..count {
                let (tally, ends) = (&tally, &ends);
                scope.spawn(move || {
                    let script = random::timed_script_of(first_seed + number);
                    thread::sleep(STAGGER * u32::try_from(number).unwrap_or(u32::MAX));
                    let timed = compare_in_time(&script, &name_of(number), agent, ends);
                    let mut tally = tally.lock().unwrap();
                    tally.add(&script, &timed.real, timed.difference);
                    tally.open.extend(timed.open);
                });
            }
        });
        ends.stop();
    });
    tally.into_inner().unwrap()
}

/// The result of a script's last run, and the earlier ones, which say nothing.
struct Timed {
    real: Record,
    difference: Option<String>,
    open: Vec<String>,
}

/// Compares a script on an agent that others use, too. Repeats it while the agent is too slow to tell.
/// A script that is never told differs.
fn compare_in_time(script: &Script, prefix: &str, agent: &Agent, ends: &Ends) -> Timed {
    let mut open = Vec::new();
    loop {
        let prefix = format!("{prefix}-{}", name_of(open.len() as u64));
        let mut real = Real::new(agent);
        let ideal = run::run(script, &prefix, &mut real.memory(), None);
        let record = run::run(script, &prefix, &mut real, Some(&ideal));
        let ended = |id: &str| Some(ends.of(id)?.saturating_duration_since(real.started()));
        let memory = real.memory();
        let redirects = real.redirects();
        let verdict = timing::judge(script, &prefix, memory, (&ideal, &record), ended, redirects);
        let difference = match verdict {
            Verdict::Agrees => None,
            Verdict::Differs(told) => Some(told),
            Verdict::Open(told) => {
                open.push(told);
                if open.len() < MOST_ATTEMPTS {
                    continue;
                }
                Some(format!(
                    "{}: the agent was too slow in every run",
                    script.name
                ))
            }
        };
        return Timed {
            real: record,
            difference,
            open,
        };
    }
}

/// Compares a script on an agent that nothing else uses. An earlier script may have killed the
/// agent.
fn compare_alone(script: &Script, prefix: &str, agent: &mut Agent) -> Comparison {
    if !Real::new(agent).is_alive() {
        agent.restart().expect("the agent starts again");
    }
    let mut real = Real::new(agent);
    real.clean_up();
    run::compare(script, prefix, &mut real)
}

/// The shortest script that shows the difference, with its answers. `None` if the difference does
/// not appear again.
fn shortest(script: &Script, prefix: &str, agent: &mut Agent) -> Option<String> {
    let mut attempts = 0;
    let mut was_killed = false;
    let mut attempt = |script: &Script| {
        attempts += 1;
        // The request that kills the agent may come long before the one that it dies of.
        if !Real::new(agent).is_alive() {
            was_killed = true;
        }
        if was_killed {
            agent.restart().expect("the agent starts again");
        }
        let prefix = format!("{prefix}-{}", name_of(attempts));
        let mut real = Real::new(agent).impatient();
        real.clean_up();
        run::compare(script, &prefix, &mut real).differences
    };
    let mut differences = Some(attempt(script)).filter(|found| !found.is_empty())?;
    let short = shrink(script.clone(), random::SCENE, |script| {
        let found = attempt(script);
        let differs = !found.is_empty();
        if differs {
            differences = found;
        }
        differs
    });
    let steps = short.steps.iter().map(compare::label);
    let steps = (1..)
        .zip(steps)
        .map(|(number, step)| format!("  {number}: {step}\n"));
    Some(format!(
        "{}, shortened to\n{}{}",
        short.name,
        steps.collect::<String>(),
        differences.join("\n")
    ))
}

fn not_again(differences: &str) -> String {
    format!("{differences}\n  which did not show itself a second time")
}

/// A number as letters: digits could be mistaken for an index.
pub(crate) fn name_of(number: u64) -> String {
    let digits = number.to_string().into_bytes().into_iter();
    digits
        .map(|digit| char::from(digit - b'0' + b'a'))
        .collect()
}

impl Tally {
    fn is_enough(&self, requests: u64) -> bool {
        self.requests >= requests || self.differences.len() >= ENOUGH
    }

    /// What is wrong, if anything.
    pub(crate) fn complaint(&self) -> Option<&'static str> {
        (!self.differences.is_empty()).then_some("what differs stands above")
    }

    /// Adds a script that ran on both backends, with the real agent's answers.
    pub(crate) fn add(&mut self, script: &Script, real: &Record, difference: Option<String>) {
        self.scripts += 1;
        self.differences.extend(difference);
        for (step, observed) in script.steps.iter().zip(&real.observed) {
            if let Step::Send(wire) | Step::Start(_, wire) = step {
                self.requests += 1;
                let blocking = matches!(step, Step::Start(..));
                *self.kinds.entry(kind_of(wire, blocking)).or_default() += 1;
            }
            if let Observed::Answer(response) = observed {
                *self.statuses.entry(response.status()).or_default() += 1;
            }
        }
    }
}

/// The method and the endpoint.
fn kind_of(wire: &Wire, blocking: bool) -> String {
    let path = wire.target.split('?').next().unwrap_or_default();
    let parts: Vec<_> = path.splitn(5, '/').collect();
    let endpoint = match parts.as_slice() {
        ["", "v1", "kv", ..] => "kv",
        ["", "v1", "txn"] => "txn",
        ["", "v1", "session", verb, ..] if !verb.is_empty() => &format!("session/{verb}"),
        _ => "another path",
    };
    let blocking = if blocking { ", blocking" } else { "" };
    format!("{} {endpoint}{blocking}", wire.method)
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} requests in {} scripts, {} scripts with differences",
            self.requests,
            self.scripts,
            self.differences.len()
        )?;
        if !self.open.is_empty() {
            let runs = self.open.len();
            writeln!(
                f,
                "  {runs:>8} runs in which the agent was too slow to tell"
            )?;
        }
        for (kind, count) in &self.kinds {
            writeln!(f, "  {count:>8} {kind}")?;
        }
        for (status, count) in &self.statuses {
            writeln!(f, "  {count:>8} answered {status}")?;
        }
        for open in &self.open {
            writeln!(f, "\ndiffered, and the agent was too slow to tell:\n{open}")?;
        }
        self.differences
            .iter()
            .try_for_each(|difference| writeln!(f, "\n{difference}"))
    }
}
