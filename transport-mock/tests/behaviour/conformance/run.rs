//! Runs a script on a backend and records what it observes.

use std::collections::BTreeMap;
use std::time::Duration;

use semaphore_core::Token;
use semaphore_core::adapter::{Request, Response};
use serde_json::Value;

use crate::compare;
use crate::real::Real;
use crate::script::{Lever, Save, Script, Step, Wire, secret};
use crate::timing::Span;

/// A Consul: the one in memory, or the real one.
pub(crate) trait Backend {
    /// Sends a request and waits for its answer. It may be a blocking query.
    fn send(&mut self, request: &Request) -> Response;
    /// Sends a blocking query without waiting for its answer.
    fn start(&mut self, name: &'static str, request: &Request);
    /// The answer of a blocking query, if it comes before the query's wait is over.
    fn answered(&mut self, name: &'static str) -> Option<Response>;
    /// Whether a blocking query has no answer yet.
    fn still_waits(&mut self, name: &'static str) -> bool;
    /// The answer of a blocking query whose wait ends.
    fn wait_ends(&mut self, name: &'static str) -> Response;
    /// Lets time pass.
    fn pass(&mut self, time: Duration);
    /// Lets time pass until this long after the script's start.
    fn until(&mut self, moment: Duration);
    /// Lets something happen to the cluster.
    fn lever(&mut self, lever: &Lever, prefix: &str);
    /// The time since the script's start.
    fn elapsed(&self) -> Duration;
    /// Says which step comes next, counted from zero.
    fn reach(&mut self, _step: usize) {}
}

/// What was observed at one step.
pub(crate) enum Observed {
    Answer(Response),
    NoAnswer,
    Waits(bool),
    Nothing,
}

/// What was observed in a whole script.
pub(crate) struct Record {
    pub(crate) observed: Vec<Observed>,
    /// When each step was made.
    pub(crate) spans: Vec<Span>,
    /// The ids of the sessions that the script created, with the names it gave them.
    pub(crate) sessions: BTreeMap<String, String>,
}

/// The comparison of both backends' answers to a script.
pub(crate) struct Comparison {
    pub(crate) real: Record,
    /// A description of every step that differs.
    pub(crate) differences: Vec<String>,
}

/// Runs a script on the Consul in memory with the real agent's profile, then on the real agent.
/// Describes what differs.
pub(crate) fn compare(script: &Script, prefix: &str, real: &mut Real) -> Comparison {
    let redirects = real.redirects();
    let memory = run(script, prefix, &mut real.memory(), None);
    let real = run(script, prefix, real, Some(&memory));
    let differences = compare::differences(script, &memory, &real, redirects);
    let differences = differences.into_iter().map(|it| it.told).collect();
    Comparison { real, differences }
}

/// `expected` says which queries are worth a long wait.
pub(crate) fn run(
    script: &Script,
    prefix: &str,
    backend: &mut impl Backend,
    expected: Option<&Record>,
) -> Record {
    let mut runner = Runner {
        backend,
        expected,
        variables: BTreeMap::from([("p", prefix.to_owned())]),
        queries: BTreeMap::new(),
        record: Record {
            observed: Vec::new(),
            spans: Vec::new(),
            sessions: BTreeMap::new(),
        },
    };
    for (number, step) in script.steps.iter().enumerate() {
        runner.backend.reach(number);
        let from = runner.backend.elapsed();
        let observed = runner.step(step, prefix);
        runner.record.observed.push(observed);
        let to = runner.backend.elapsed();
        runner.record.spans.push(Span { from, to });
    }
    runner.record
}

struct Runner<'a, B> {
    backend: &'a mut B,
    expected: Option<&'a Record>,
    variables: BTreeMap<&'static str, String>,
    queries: BTreeMap<&'static str, Wire>,
    record: Record,
}

impl<B: Backend> Runner<'_, B> {
    fn step(&mut self, step: &Step, prefix: &str) -> Observed {
        match step {
            Step::Send(wire) => {
                let response = self.backend.send(&self.request(wire));
                self.save(wire, &response);
                Observed::Answer(response)
            }
            Step::Start(name, wire) => {
                self.backend.start(name, &self.request(wire));
                self.queries.insert(name, wire.clone());
                Observed::Nothing
            }
            Step::Wakes(name) => match self.backend.answered(name) {
                Some(response) => {
                    let wire = self.queries[name].clone();
                    self.save(&wire, &response);
                    Observed::Answer(response)
                }
                None => Observed::NoAnswer,
            },
            Step::StillWaits(name) => Observed::Waits(self.backend.still_waits(name)),
            Step::Peek(name) | Step::Glance(name) if !self.queries.contains_key(name) => {
                Observed::Nothing
            }
            Step::Peek(name) => {
                if self.expects_answer() != Some(true) && self.backend.still_waits(name) {
                    Observed::Waits(true)
                } else {
                    self.look(name)
                }
            }
            Step::Glance(name) => match self.expects_answer() {
                Some(false) => Observed::Waits(true),
                None if self.backend.still_waits(name) => Observed::Waits(true),
                _ => self.look(name),
            },
            Step::WaitEnds(name) => Observed::Answer(self.backend.wait_ends(name)),
            Step::Pass(time) => {
                self.backend.pass(*time);
                Observed::Nothing
            }
            Step::Until(moment) => {
                self.backend.until(*moment);
                Observed::Nothing
            }
            Step::Lever(lever) => {
                self.backend.lever(lever, prefix);
                if let Lever::AddToken(name, _) = lever {
                    self.variables.insert(name, secret(prefix, name));
                }
                Observed::Nothing
            }
        }
    }

    /// Whether the other backend answered at this step.
    fn expects_answer(&self) -> Option<bool> {
        let record = self.expected?;
        let observed = &record.observed[self.record.observed.len()];
        Some(matches!(observed, Observed::Answer(_)))
    }

    fn look(&mut self, name: &'static str) -> Observed {
        match self.backend.answered(name) {
            Some(response) => {
                if let Some(wire) = self.queries.remove(name) {
                    self.save(&wire, &response);
                }
                Observed::Answer(response)
            }
            None => Observed::NoAnswer,
        }
    }

    fn request(&self, wire: &Wire) -> Request {
        let body = match String::from_utf8(wire.body.clone()) {
            Ok(text) => self.fill(&text).into_bytes(),
            Err(bytes) => bytes.into_bytes(),
        };
        let token = wire
            .token
            .map(|token| Token::new(self.fill(token)).unwrap());
        Request::new(wire.method, self.fill(&wire.target))
            .with_body(body)
            .with_token(token)
    }

    fn fill(&self, text: &str) -> String {
        let mut filled = text.to_owned();
        for (name, value) in &self.variables {
            filled = filled.replace(&format!("{{{name}}}"), value);
        }
        filled
    }

    fn save(&mut self, wire: &Wire, response: &Response) {
        for (name, save) in &wire.saves {
            let json = || serde_json::from_slice::<Value>(response.body()).unwrap_or_default();
            let value = match save {
                Save::SessionId => json()["ID"].as_str().map(str::to_owned),
                Save::Index => response.header("X-Consul-Index").map(str::to_owned),
                Save::ModifyIndex => json()
                    .pointer("/0/ModifyIndex")
                    .or(json().pointer("/Results/0/KV/ModifyIndex"))
                    .map(Value::to_string),
            };
            let Some(value) = value else {
                self.variables
                    .entry(name)
                    .or_insert_with(|| "missing".to_owned());
                continue;
            };
            if matches!(save, Save::SessionId) {
                let sessions = &mut self.record.sessions;
                let number = sessions.len();
                sessions.insert(value.clone(), format!("{name}-{number}"));
            }
            self.variables.insert(name, value);
        }
    }
}
