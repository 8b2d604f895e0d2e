//! What can go wrong with one exchange, when, and how likely.
//!
//! ```text
//!           request                           Consul            answer
//!  client ───────────────────────────────────▶ applied ───────────────────────────▶ client
//!     │ Refuse      LoseRequest   Answer          │    LoseAnswer   AnswerAfter
//!     │ (not sent)  ResetBefore   (not applied)   │    ResetAfter   BadAnswer
//!     │             Delay  Duplicate              │    DelayAnswer  Index
//! ```
//!
//! A fault is aimed by a [`Rule`], or strikes at random by the rates of [`Faults`]. Rules come
//! first, in the order in which they were given; the first that matches decides.

use std::fmt;
use std::panic::Location;
use std::time::Duration;

use fastrand::Rng;
use semaphore_core::adapter::{Method, Request, Response};

use crate::kind::RequestKind;

/// What goes wrong with one exchange. The client sees it as the
/// [`TransportErrorKind`](semaphore_core::adapter::TransportErrorKind) in brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The connection is refused (`NotSent`). Consul sees nothing.
    Refuse,
    /// The request is lost on its way (`Timeout`). Consul sees nothing.
    LoseRequest,
    /// Consul applies the request, its answer is lost (`Timeout`).
    LoseAnswer,
    /// The connection breaks before the request arrives (`Unknown`). Consul sees nothing.
    ResetBefore,
    /// The connection breaks when Consul has applied the request (`Unknown`).
    ResetAfter,
    /// The request travels this much longer.
    Delay(Duration),
    /// The answer travels this much longer.
    DelayAnswer(Duration),
    /// The request arrives once more, this much later. The second answer reaches nobody.
    Duplicate(Duration),
    /// This comes back at once instead of an answer. Consul sees nothing. See
    /// [`Fault::too_many_requests`], [`Fault::no_leader`] and [`Fault::unavailable`].
    Answer(Response),
    /// Consul applies the request, and this comes back instead of its answer: a proxy's 504, or
    /// a page of HTML.
    AnswerAfter(Response),
    /// Consul applies the request, its answer arrives cut short (`BadAnswer`).
    BadAnswer,
    /// `X-Consul-Index` of the answer is replaced, as after a restored snapshot.
    Index(u64),
}

impl Fault {
    /// The answer of an agent whose rate limit is exceeded: 429.
    pub fn too_many_requests() -> Self {
        Self::Answer(Response::new(
            429,
            "rate limit exceeded, try again later or against a different server",
        ))
    }

    /// The answer of an agent that knows no leader: 500.
    pub fn no_leader() -> Self {
        Self::Answer(Response::new(500, "No cluster leader"))
    }

    /// The answer of a leader whose rate limit is exceeded: 503.
    pub fn unavailable() -> Self {
        Self::Answer(Response::new(
            503,
            "rate limit exceeded for operation that can only be performed by the leader, try again later",
        ))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refuse => f.write_str("connection refused"),
            Self::LoseRequest => f.write_str("request lost"),
            Self::LoseAnswer => f.write_str("answer lost"),
            Self::ResetBefore => f.write_str("reset before delivery"),
            Self::ResetAfter => f.write_str("reset after delivery"),
            Self::Delay(by) => write!(f, "request delayed by {by:?}"),
            Self::DelayAnswer(by) => write!(f, "answer delayed by {by:?}"),
            Self::Duplicate(after) => write!(f, "delivered again {after:?} later"),
            Self::Answer(response) => write!(f, "answered {} on the way", response.status()),
            Self::AnswerAfter(response) => {
                write!(f, "answer replaced by a {}", response.status())
            }
            Self::BadAnswer => f.write_str("answer cut short"),
            Self::Index(index) => write!(f, "index replaced by {index}"),
        }
    }
}

/// Which exchanges a fault is for. Everything that is not narrowed down matches.
///
/// A rule has to strike as often as it says, which is once unless it says otherwise, and at least once by
/// [`Rule::always`]: a [`MockConsul`](crate::MockConsul) that is dropped before panics, so that no test passes
/// since the fault never came. [`Rule::optional`] is for rules that need not.
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

    /// Only exchanges of the client of this name.
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

    /// Only requests for which this holds.
    pub fn matching(mut self, matches: impl Fn(&Request) -> bool + Send + 'static) -> Self {
        self.matching = Some(Box::new(matches));
        self
    }

    /// Lets the first `count` that match pass.
    pub fn skip(mut self, count: u64) -> Self {
        self.skip = count;
        self
    }

    /// Strikes `count` times.
    pub fn times(mut self, count: u64) -> Self {
        self.times = Some(count);
        self
    }

    /// Strikes until [`MockConsul::clear_faults`](crate::MockConsul::clear_faults): once at least, and as often as
    /// it can.
    pub fn always(mut self) -> Self {
        self.times = None;
        self
    }

    /// Need not strike at all, as where the test looks itself whether it did.
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

    /// Whether it has struck less often than it is to.
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

/// The rules that are still to strike, and those that never will.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    present: Vec<Placed>,
    /// Those that were taken away before they had struck as often as they were to.
    missed: Vec<Placed>,
    may_be_unmet: bool,
}

/// A rule, and where it was given.
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

    /// From now on nobody minds a rule that does not strike.
    pub(crate) fn allow_unmet(&mut self) {
        self.may_be_unmet = true;
    }

    /// How many have not struck as often as they are to.
    pub(crate) fn pending(&self) -> usize {
        self.unmet().count()
    }

    /// What to say of those that have not struck as often as they are to, if somebody minds.
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

    /// The fault of the first rule that is for this exchange.
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

/// How often things go wrong by themselves: probabilities per request, from 0 to 1. Which request
/// is hit follows from the world's seed alone.
///
/// ```
/// use transport_mock::{Faults, MockConsul};
///
/// let world = MockConsul::new(7);
/// world.set_faults(Faults { lose_answer: 0.05, ..Faults::none() });
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fault of the same name is documented")]
pub struct Faults {
    pub refuse: f64,
    pub lose_request: f64,
    pub lose_answer: f64,
    pub reset_before: f64,
    pub reset_after: f64,
    pub duplicate: f64,
    pub bad_answer: f64,
    pub too_many_requests: f64,
    pub unavailable: f64,
    /// The request is delayed by up to [`Faults::delay_up_to`], so that others overtake it.
    pub reorder: f64,
    /// The answer is delayed by up to [`Faults::delay_up_to`].
    pub reorder_answer: f64,
    /// How long delays and the time until a duplicate are at most.
    pub delay_up_to: Duration,
    /// The cluster loses its leader for up to [`Faults::outage_up_to`].
    pub leader_loss: f64,
    /// The host of the request is cut off in silence for up to [`Faults::outage_up_to`].
    pub partition: f64,
    /// How long outages are at most.
    pub outage_up_to: Duration,
    /// An operator destroys one of the sessions.
    pub session_loss: f64,
}

impl Faults {
    /// Nothing goes wrong by itself.
    pub const fn none() -> Self {
        Self {
            refuse: 0.0,
            lose_request: 0.0,
            lose_answer: 0.0,
            reset_before: 0.0,
            reset_after: 0.0,
            duplicate: 0.0,
            bad_answer: 0.0,
            too_many_requests: 0.0,
            unavailable: 0.0,
            reorder: 0.0,
            reorder_answer: 0.0,
            delay_up_to: Duration::from_millis(200),
            leader_loss: 0.0,
            partition: 0.0,
            outage_up_to: Duration::from_secs(5),
            session_loss: 0.0,
        }
    }

    /// Every fault of the network at `rate`, outages at a tenth of it. No session is destroyed:
    /// that takes slots away, which no client can prevent.
    pub const fn chaos(rate: f64) -> Self {
        Self {
            refuse: rate,
            lose_request: rate,
            lose_answer: rate,
            reset_before: rate,
            reset_after: rate,
            duplicate: rate,
            bad_answer: rate,
            too_many_requests: rate,
            unavailable: rate,
            reorder: rate,
            reorder_answer: rate,
            leader_loss: rate / 10.0,
            partition: rate / 10.0,
            ..Self::none()
        }
    }

    /// Draws the fault of one exchange.
    pub(crate) fn draw(&self, rng: &mut Rng) -> Option<Fault> {
        let delay = |rng: &mut Rng| up_to(rng, self.delay_up_to);
        let chances: [Chance<'_>; 11] = [
            (self.refuse, &|_| Fault::Refuse),
            (self.lose_request, &|_| Fault::LoseRequest),
            (self.lose_answer, &|_| Fault::LoseAnswer),
            (self.reset_before, &|_| Fault::ResetBefore),
            (self.reset_after, &|_| Fault::ResetAfter),
            (self.duplicate, &|rng| Fault::Duplicate(delay(rng))),
            (self.bad_answer, &|_| Fault::BadAnswer),
            (self.too_many_requests, &|_| Fault::too_many_requests()),
            (self.unavailable, &|_| Fault::unavailable()),
            (self.reorder, &|rng| Fault::Delay(delay(rng))),
            (self.reorder_answer, &|rng| Fault::DelayAnswer(delay(rng))),
        ];
        chances
            .into_iter()
            .find(|(rate, _)| happens(rng, *rate))
            .map(|(_, fault)| fault(rng))
    }

    /// Draws what happens to the world when a request is sent.
    pub(crate) fn draw_outages(&self, rng: &mut Rng) -> Vec<Outage> {
        let mut outages = Vec::new();
        if happens(rng, self.leader_loss) {
            outages.push(Outage::Leader(up_to(rng, self.outage_up_to)));
        }
        if happens(rng, self.partition) {
            outages.push(Outage::Partition(up_to(rng, self.outage_up_to)));
        }
        if happens(rng, self.session_loss) {
            outages.push(Outage::Session);
        }
        outages
    }
}

impl Default for Faults {
    fn default() -> Self {
        Self::none()
    }
}

/// A probability and the fault that strikes then.
type Chance<'a> = (f64, &'a dyn Fn(&mut Rng) -> Fault);

/// What can happen to more than one exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outage {
    Leader(Duration),
    Partition(Duration),
    Session,
}

/// A rate of zero draws nothing, so that turning one fault on leaves the others where they were.
fn happens(rng: &mut Rng, rate: f64) -> bool {
    rate > 0.0 && rng.f64() < rate
}

fn up_to(rng: &mut Rng, longest: Duration) -> Duration {
    longest.mul_f64(rng.f64())
}
