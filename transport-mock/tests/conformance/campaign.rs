//! Many random scripts, on several real agents at once, and what they came to.
//!
//! An agent runs one script at a time and is cleaned up in between, so that all indexes can be
//! compared, those of whole tables included.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

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
const MOST_AGENTS: u64 = 4;

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
                let agent = agent();
                let mut real = Real::new(&agent);
                while !tally.lock().unwrap().is_enough(requests) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let script = random::script_of(seed);
                    let comparison = compare_alone(&script, &name_of(seed), &mut real);
                    let story = (!comparison.differences.is_empty())
                        .then(|| shortest(script.clone(), &name_of(seed), &mut real));
                    tally.lock().unwrap().add(&script, &comparison.real, story);
                }
            });
        }
    });
    tally.into_inner().unwrap()
}

/// Compares a script on an agent that nothing else uses.
fn compare_alone(script: &Script, prefix: &str, real: &mut Real) -> Comparison {
    real.clean_up();
    run::compare(script, prefix, &mut Memory::new(), real)
}

/// The shortest script that shows a difference, with its answers. One that does not show itself
/// again is told as it was.
fn shortest(script: Script, prefix: &str, real: &mut Real) -> String {
    let mut attempts = 0;
    let mut attempt = |script: &Script| {
        attempts += 1;
        let prefix = format!("{prefix}-{}", name_of(attempts));
        compare_alone(script, &prefix, real).differences
    };
    let short = shrink(script, random::SCENE, |script| !attempt(script).is_empty());
    let differences = attempt(&short);
    let mut story = format!("{}, shortened to\n", short.name);
    for (number, step) in (1..).zip(&short.steps) {
        story.push_str(&format!("  {number}: {}\n", compare::label(step)));
    }
    story + &differences.join("\n")
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
