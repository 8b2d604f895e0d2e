//! Which exchanges a fault applies to, and how often it has struck.

use std::fmt;
use std::panic::Location;

use semaphore_core::adapter::{Method, Request};

use super::Fault;
use crate::kind::RequestKind;

/// Which exchanges a fault applies to. A rule without conditions matches all.
///
/// A rule must strike as often as it says: by default once, and with [`Rule::always`] at least
/// once. Dropping a [`MockConsul`](crate::MockConsul) before that panics, so that no test passes
/// because the fault never came. [`Rule::optional`] makes a rule that need not strike.
///
/// ```
/// use transport_mock::{Fault, RequestKind, Rule};
///
/// // The answers to the second and third claim of node-1 are lost.
/// let rule = Rule::new(Fault::LoseAnswer)
///     .host("node-1")
///     .kind(RequestKind::KvCas)
///     .target("service/db/.lock")
///     .skip(1)
///     .times(2);
/// # let _ = rule;
/// ```
#[must_use = "a rule does nothing until it is given to `MockConsul::inject`"]
pub struct Rule {
    fault: Fault,
    host: Option<String>,
    method: Option<Method>,
    kind: Option<RequestKind>,
    target: Option<String>,
    matching: Option<Predicate>,
    skip: u64,
    times: Option<u64>,
    is_optional: bool,
    struck: u64,
}

type Predicate = Box<dyn Fn(&Request) -> bool + Send>;

impl Rule {
    /// This fault, once, on the next exchange.
    pub fn new(fault: Fault) -> Self {
        Self {
            fault,
            host: None,
            method: None,
            kind: None,
            target: None,
            matching: None,
            skip: 0,
            times: Some(1),
            is_optional: false,
            struck: 0,
        }
    }

    /// Only exchanges of this host.
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.host = Some(host.into());
        self
    }

    /// Only requests with this method.
    pub fn method(mut self, method: Method) -> Self {
        self.method = Some(method);
        self
    }

    /// Only requests of this kind.
    pub fn kind(mut self, kind: RequestKind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Only requests whose target contains this.
    pub fn target(mut self, part: impl Into<String>) -> Self {
        self.target = Some(part.into());
        self
    }

    /// Only requests for which this is true.
    pub fn matching(mut self, matches: impl Fn(&Request) -> bool + Send + 'static) -> Self {
        self.matching = Some(Box::new(matches));
        self
    }

    /// Lets the first `count` matching requests pass.
    pub fn skip(mut self, count: u64) -> Self {
        self.skip = count;
        self
    }

    /// Strikes `count` times.
    pub fn times(mut self, count: u64) -> Self {
        self.times = Some(count);
        self
    }

    /// Strikes at every match until [`MockConsul::clear_faults`](crate::MockConsul::clear_faults).
    /// It must strike at least once.
    pub fn always(mut self) -> Self {
        self.times = None;
        self
    }

    /// It need not strike, for example because the test checks whether it did.
    pub fn optional(mut self) -> Self {
        self.is_optional = true;
        self
    }

    fn matches(&self, host: &str, request: &Request) -> bool {
        self.host.as_deref().is_none_or(|wanted| wanted == host)
            && self.method.is_none_or(|wanted| wanted == request.method())
            && self
                .kind
                .is_none_or(|wanted| wanted == RequestKind::of(request))
            && self
                .target
                .as_deref()
                .is_none_or(|part| request.target().contains(part))
            && self
                .matching
                .as_ref()
                .is_none_or(|matches| matches(request))
    }

    fn is_used_up(&self) -> bool {
        self.times.is_some_and(|times| self.struck >= times)
    }

    /// Whether it has struck less often than it must.
    fn is_unmet(&self) -> bool {
        !self.is_optional && self.struck < self.times.unwrap_or(1)
    }
}

/// What it does, for which exchanges, and how often it has struck.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.fault)?;
        if let Some(host) = &self.host {
            write!(f, ", of host {host}")?;
        }
        if let Some(method) = self.method {
            write!(f, ", {method}")?;
        }
        if let Some(kind) = self.kind {
            write!(f, ", {kind}")?;
        }
        if let Some(target) = &self.target {
            write!(f, ", {target}")?;
        }
        if self.matching.is_some() {
            f.write_str(", matching a function")?;
        }
        match self.times {
            Some(times) => write!(f, ": struck {} of {times} times", self.struck)?,
            None => write!(f, ": struck {} times, for always", self.struck)?,
        }
        if self.skip > 0 {
            write!(f, ", and would let {} more pass before", self.skip)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("fault", &self.fault)
            .field("host", &self.host)
            .field("method", &self.method)
            .field("kind", &self.kind)
            .field("target", &self.target)
            .field("skip", &self.skip)
            .field("times", &self.times)
            .field("is_optional", &self.is_optional)
            .field("struck", &self.struck)
            .finish_non_exhaustive()
    }
}

/// The rules that can still strike, and those that no longer can.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    present: Vec<Placed>,
    /// The rules that were removed before they had struck as often as they must.
    missed: Vec<Placed>,
    may_be_unmet: bool,
}

/// A rule, and the place in the test that gave it.
#[derive(Debug)]
struct Placed {
    rule: Rule,
    at: &'static Location<'static>,
}

impl Rules {
    pub(crate) fn add(&mut self, rule: Rule, at: &'static Location<'static>) {
        self.present.push(Placed { rule, at });
    }

    pub(crate) fn clear(&mut self) {
        let cleared = std::mem::take(&mut self.present).into_iter();
        self.missed.extend(cleared.filter(|it| it.rule.is_unmet()));
    }

    /// From now on, rules that have not struck are no error.
    pub(crate) fn allow_unmet(&mut self) {
        self.may_be_unmet = true;
    }

    /// How many have not struck as often as they must.
    pub(crate) fn pending(&self) -> usize {
        self.unmet().count()
    }

    /// The message about rules that have not struck as often as they must, unless that is allowed.
    pub(crate) fn complaint(&self) -> Option<String> {
        if self.may_be_unmet {
            return None;
        }
        let lines = self.unmet().map(|it| format!("\n  {}: {}", it.at, it.rule));
        let lines: String = lines.collect();
        (!lines.is_empty())
            .then(|| format!("rules that did not strike as often as they were to:{lines}"))
    }

    fn unmet(&self) -> impl Iterator<Item = &Placed> {
        let all = self.missed.iter().chain(&self.present);
        all.filter(|it| it.rule.is_unmet())
    }

    /// The fault of the first rule that matches this exchange.
    pub(crate) fn strike(&mut self, host: &str, request: &Request) -> Option<Fault> {
        let mut struck = None;
        for Placed { rule, .. } in &mut self.present {
            if rule.is_used_up() || !rule.matches(host, request) {
                continue;
            }
            if rule.skip > 0 {
                rule.skip -= 1;
                continue;
            }
            rule.struck += 1;
            struck = Some(rule.fault.clone());
            break;
        }
        self.present.retain(|it| !it.rule.is_used_up());
        struck
    }
}
