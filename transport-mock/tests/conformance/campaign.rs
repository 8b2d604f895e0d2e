//! Many random scripts, on several real agents at once, and what they came to.
//!
//! An agent runs one script at a time and is cleaned up in between, so that all indexes can be
//! compared, those of whole tables included.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use real_agent::Agent;

use crate::agent;
use crate::compare;
use crate::memory::Memory;
use crate::random;
use crate::real::Real;
use crate::run::{self, Comparison, Observed, Record};
use crate::script::{Script, Step, Wire};
use crate::shrink::shrink;

/// So many differences are enough to look at.
const ENOUGH: usize = 8;

const REQUESTS_OF_AN_AGENT: u64 = 3000;
const MOST_AGENTS: u64 = 6;

/// Scripts that let time pass start so long after one another, to spread what they ask.
const STAGGER: Duration = Duration::from_millis(150);

const MOST_ATTEMPTS: u64 = 4;

/// What the scripts asked, what the real agent answered, and what differed.
#[derive(Default)]
pub(crate) struct Tally {
    scripts: u64,
    requests: u64,
    kinds: BTreeMap<String, u64>,
    statuses: BTreeMap<u16, u64>,
    pub(crate) differences: Vec<String>,
}

/// Runs scripts from the seeds `first_seed`, `first_seed + 1`, … until `requests` are compared.
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

/// Runs `count` scripts that let time pass, side by side.
pub(crate) fn run_timed(first_seed: u64, count: u64, agent: &Agent) -> Tally {
    let tally = Mutex::new(Tally::default());
    thread::scope(|scope| {
        for number in 0..count {
            let tally = &tally;
            scope.spawn(move || {
                let script = random::timed_script_of(first_seed + number);
                thread::sleep(STAGGER * u32::try_from(number).unwrap_or(u32::MAX));
                let comparison = compare_in_time(&script, &name_of(number), agent);
                let differences = comparison.differences;
                let story = (!differences.is_empty()).then(|| differences.join("\n"));
                tally.lock().unwrap().add(&script, &comparison.real, story);
            });
        }
    });
    tally.into_inner().unwrap()
}

/// Compares a script on an agent that others use, too, until the agent was fast enough.
fn compare_in_time(script: &Script, prefix: &str, agent: &Agent) -> Comparison {
    for attempt in 0..MOST_ATTEMPTS {
        let prefix = format!("{prefix}-{}", name_of(attempt));
        let mut real = Real::new(agent);
        let comparison = run::compare(script, &prefix, &mut Memory::new(), &mut real);
        let in_time = real.longest_phase() <= random::LONGEST_PHASE;
        let differs = !comparison.differences.is_empty();
        if in_time && (!differs || attempt > 0) {
            return comparison;
        }
    }
    panic!("the machine is too slow for {}", script.name);
}

/// Compares a script on an agent that nothing else uses, and that an earlier one may have killed.
fn compare_alone(script: &Script, prefix: &str, agent: &mut Agent) -> Comparison {
    if !Real::new(agent).is_alive() {
        agent.restart().expect("the agent starts again");
    }
    let mut real = Real::new(agent);
    real.clean_up();
    run::compare(script, prefix, &mut Memory::new(), &mut real)
}

/// The shortest script that shows a difference, with its answers, if it shows one again.
fn shortest(script: &Script, prefix: &str, agent: &mut Agent) -> Option<String> {
    let mut attempts = 0;
    let mut was_killed = false;
    let mut attempt = |script: &Script| {
        attempts += 1;
        // What kills it may be a request long before the one that it dies of.
        if !Real::new(agent).is_alive() {
            was_killed = true;
        }
        if was_killed {
            agent.restart().expect("the agent starts again");
        }
        let prefix = format!("{prefix}-{}", name_of(attempts));
        let mut real = Real::new(agent).impatient();
        real.clean_up();
        run::compare(script, &prefix, &mut Memory::new(), &mut real).differences
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

/// A number as letters, since digits could be taken for an index.
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

    /// Adds a script that was run on both, as the real agent answered it.
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
        for (kind, count) in &self.kinds {
            writeln!(f, "  {count:>8} {kind}")?;
        }
        for (status, count) in &self.statuses {
            writeln!(f, "  {count:>8} answered {status}")?;
        }
        self.differences
            .iter()
            .try_for_each(|difference| writeln!(f, "\n{difference}"))
    }
}
