//! The Consul in memory, on virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use semaphore_core::adapter::{Instant, Request, Response};
use transport_mock::consul::{Consul, Exchange, Policy, Profile};

use crate::run::{Backend, Record};
use crate::script::{Lever, Rule, secret};
use crate::timing::{Span, Timers, since_start};

const MAX_PACE_MILLIS: u64 = 50;

/// This is longer than the shortest lock delays. A real agent has forgotten those by the next
/// request.
const LEAST_PACE: Duration = Duration::from_micros(10);

pub(crate) struct Memory {
    consul: Consul,
    now: Instant,
    queries: BTreeMap<&'static str, Exchange>,
    answers: BTreeMap<Exchange, Response>,
    /// How long each request takes. `paces` draws it again at each moment that the script waits
    /// for.
    pace: Duration,
    paces: Option<fastrand::Rng>,
    /// When each step is to be made, if that was measured on another backend.
    spans: Vec<Span>,
    /// When what is under way was over there.
    until: Duration,
    timers: Timers,
}

impl Memory {
    /// A Consul with this profile.
    pub(crate) fn of(profile: Profile) -> Self {
        Self {
            consul: Consul::with_profile(0, profile),
            now: Instant::ORIGIN,
            queries: BTreeMap::new(),
            answers: BTreeMap::new(),
            pace: LEAST_PACE,
            paces: None,
            spans: Vec::new(),
            until: Duration::ZERO,
            timers: Timers::default(),
        }
    }

    /// A Consul whose requests take time, as a real agent's do.
    pub(crate) fn with_paces(self, seed: u64) -> Self {
        Self {
            paces: Some(fastrand::Rng::with_seed(seed)),
            ..self
        }
    }

    /// Makes each step at the moment at which it was made elsewhere.
    pub(crate) fn at_the_moments_of(self, record: &Record) -> Self {
        Self {
            spans: record.spans.clone(),
            ..self
        }
    }

    /// The timers of everything that ended by itself, or might have.
    pub(crate) fn into_timers(self) -> Timers {
        self.timers
    }

    /// Lets sessions live for this many of their TTLs.
    pub(crate) fn with_lifetime(mut self, ttls: f64) -> Self {
        self.consul.set_session_lifetime(ttls);
        self
    }

    /// Lets lock delays last for this multiple of what was asked for.
    pub(crate) fn with_lock_delays(mut self, multiple: f64) -> Self {
        self.consul.set_lock_delay_length(multiple);
        self
    }

    /// When the sessions ended that nobody destroyed.
    pub(crate) fn ends(&self) -> BTreeMap<String, Duration> {
        self.timers.ends()
    }

    /// Lets time pass until `moment`, from timer to timer.
    fn advance(&mut self, moment: Instant) {
        while let Some(at) = self.consul.poll_timeout().filter(|at| *at <= moment) {
            self.consul.handle_timeout(at);
            self.timers.look(&self.consul, at, since_start(at));
        }
        self.now = self.now.max(moment);
        self.consul.handle_timeout(self.now);
    }

    fn note(&mut self) {
        let until = self.until.max(self.elapsed());
        self.timers.look(&self.consul, self.now, until);
    }

    /// Turns access control on.
    pub(crate) fn with_acl(mut self) -> Self {
        self.consul.set_acl_default_deny();
        self
    }

    fn collect(&mut self) {
        while let Some((exchange, response)) = self.consul.poll_answer() {
            self.answers.insert(exchange, response);
        }
    }

    fn run_until_answered(&mut self, exchange: Exchange) -> Response {
        loop {
            self.collect();
            if let Some(response) = self.answers.remove(&exchange) {
                return response;
            }
            let next = self.consul.poll_timeout();
            self.advance(next.expect("a query that waits has an end"));
        }
    }
}

impl Backend for Memory {
    fn send(&mut self, request: &Request) -> Response {
        if self.spans.is_empty() {
            self.advance(self.now + self.pace);
        }
        let exchange = self.consul.submit(self.now, request);
        self.note();
        self.run_until_answered(exchange)
    }

    fn start(&mut self, name: &'static str, request: &Request) {
        let exchange = self.consul.submit(self.now, request);
        self.note();
        self.queries.insert(name, exchange);
    }

    fn answered(&mut self, name: &'static str) -> Option<Response> {
        self.collect();
        self.answers.remove(&self.queries[name])
    }

    fn still_waits(&mut self, name: &'static str) -> bool {
        self.collect();
        !self.answers.contains_key(&self.queries[name])
    }

    fn wait_ends(&mut self, name: &'static str) -> Response {
        self.run_until_answered(self.queries[name])
    }

    fn pass(&mut self, time: Duration) {
        if self.spans.is_empty() {
            self.advance(self.now + time);
        }
    }

    fn until(&mut self, moment: Duration) {
        if self.spans.is_empty() {
            self.advance(Instant::ORIGIN + moment);
        }
        self.pace = match &mut self.paces {
            Some(paces) => Duration::from_millis(paces.u64(..MAX_PACE_MILLIS)),
            None => LEAST_PACE,
        };
    }

    fn elapsed(&self) -> Duration {
        since_start(self.now)
    }

    fn reach(&mut self, step: usize) {
        if let Some(span) = self.spans.get(step) {
            self.until = span.to;
            self.advance(Instant::ORIGIN + span.from);
        }
    }

    fn lever(&mut self, lever: &Lever, prefix: &str) {
        let (consul, now) = (&mut self.consul, self.now);
        let name = |node| format!("{prefix}-{node}");
        match lever {
            Lever::RegisterNode(node) => consul.register_node(now, &name(node)),
            Lever::RegisterStranger(node) => {
                consul.register_node(now, &name(node));
                consul.remove_check(now, &name(node), "serfHealth");
            }
            Lever::DeregisterNode(node) => consul.deregister_node(now, &name(node)),
            Lever::PassCheck(node, check) => consul.pass_check(now, &name(node), check),
            Lever::FailCheck(node, check) => consul.fail_check(now, &name(node), check),
            Lever::RemoveCheck(node, check) => consul.remove_check(now, &name(node), check),
            Lever::AddToken(name, rules) => {
                consul.add_token(&secret(prefix, name), policy(prefix, rules));
            }
        }
    }
}

fn policy(prefix: &str, rules: &[Rule]) -> Policy {
    rules.iter().fold(Policy::new(), |policy, rule| match rule {
        Rule::Key(key, access) => policy.with_key(&format!("{prefix}{key}"), *access),
        Rule::KeyPrefix(key, access) => policy.with_key_prefix(&format!("{prefix}{key}"), *access),
        Rule::Sessions(access) => policy.with_session_prefix("", *access),
        Rule::Nodes(access) => policy.with_node_prefix("", *access),
    })
}
