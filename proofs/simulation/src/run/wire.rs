//! A host's connection to Consul. It counts the requests, and applies the plan's troubles to them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use semaphore_core::Prefix;
use semaphore_core::adapter::{Runtime as _, Transport};
use semaphore_core::sans_io::{Instant, Method, Request, Response, TransportError};
use transport_mock::{MockClient, PooledClient, RequestKind};

use super::book::Book;
use super::hazards::Hazards;
use super::keys::{Keys, session_of};
use super::knowledge::{Answer, Knowledge};
use super::transaction::Transaction;
use crate::history::{Asked, Happening};
use crate::plan::{Gateway, Sort, Trouble};

/// The transport of one process.
pub(super) struct Wire {
    pub(super) client: MockClient,
    /// The shared connections that it uses, if any.
    pub(super) pool: Option<PooledClient>,
    /// The same host with the true clock.
    pub(super) truth: MockClient,
    pub(super) host: usize,
    /// The number of the prefix that its requests are for.
    pub(super) place: usize,
    /// The faults of requests that have a separate connection.
    pub(super) hazards: Hazards,
    pub(super) prefix: Prefix,
    /// The answers that show who holds.
    pub(super) looks: Looks,
    pub(super) line: Line,
    pub(super) book: Book,
    /// The longest that a message travels.
    pub(super) latency: Duration,
}

/// The answers that show a contender whether it still holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looks {
    /// Lists of a semaphore's prefix.
    Record,
    /// Reads of an election's key.
    Key,
    /// None, since nothing is held by this wire.
    Elsewhere,
}

/// The state that outlives a host's processes. Clones share it.
#[derive(Clone)]
pub(super) struct Line(Arc<Mutex<LineState>>);

pub(super) struct LineState {
    sent: BTreeMap<Sort, u64>,
    troubles: BTreeMap<(Sort, u64), Trouble>,
    pub(super) is_agent_down: bool,
    /// The gateway in the agent's place.
    pub(super) gateway: Option<Gateway>,
    /// Whether a former leader renews every session that it is asked to.
    pub(super) renews_from_memory: bool,
    /// Whether its agent is parted from most servers, with the former leader.
    pub(super) is_parted: bool,
    /// Since when the host's agent has lagged behind.
    pub(super) lags_since: Option<Instant>,
    /// What it is shown of each prefix at which it contends with others.
    sights: BTreeMap<usize, Sight>,
    /// How many deeds refuse it something, or hide something from it. Until there is none, no answer is
    /// whole.
    denials: u32,
    /// How many faults requests have met.
    pub(super) faults: u64,
}

/// What a host is shown of a prefix.
#[derive(Default)]
struct Sight {
    /// The knowledge of the present process.
    knowledge: Knowledge,
    /// The watch was shown a wrong index or an incomplete list. So it need not believe an answer,
    /// until it has relied on a whole one.
    is_fooled: bool,
    /// How many reads are under way that began while something was refused to it or hidden from it: an
    /// agent looks at the token when a poll begins.
    partial: u32,
    /// The writes under way. After indexes have started again, what was read before their ends is not
    /// relied on (PROTOCOL.md, "Older knowledge is ignored").
    writes: u32,
    /// Whether the checks have yet to hear that it knows everything again.
    is_clouded: bool,
    /// When indexes last started again. What was asked for by then is answered with the old state, or
    /// with the new one.
    renumbered_at: Option<Instant>,
    /// When it relied on a whole answer again. What was asked for by then may be asked for again.
    whole_since: Option<Instant>,
    highest_index: u64,
    /// How many reads of the prefix, or attempts to acquire an election's key, have been answered.
    answers: u64,
}

impl Line {
    /// The line of a host that contends with others at these prefixes.
    pub(super) fn new(
        troubles: BTreeMap<(Sort, u64), Trouble>,
        places: impl Iterator<Item = usize>,
    ) -> Self {
        Self(Arc::new(Mutex::new(LineState {
            sent: BTreeMap::new(),
            troubles,
            is_agent_down: false,
            gateway: None,
            renews_from_memory: false,
            is_parted: false,
            lags_since: None,
            sights: places.map(|it| (it, Sight::default())).collect(),
            denials: 0,
            faults: 0,
        })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, LineState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on, nothing goes wrong.
    pub(super) fn calm(&self) {
        let mut line = self.lock();
        line.troubles.clear();
        line.is_agent_down = false;
        line.gateway = None;
        line.renews_from_memory = false;
    }
}

impl LineState {
    /// From now on something is refused to it. `hides` says whether that is by what it is shown.
    pub(super) fn deny(&mut self, hides: bool) {
        self.denials += 1;
        for sight in self.sights.values_mut() {
            sight.is_clouded = true;
            sight.is_fooled |= hides;
        }
    }

    /// The last of these is over.
    pub(super) fn serve(&mut self) {
        self.denials = self.denials.saturating_sub(1);
    }

    /// Indexes start again.
    pub(super) fn renumber(&mut self, now: Instant) {
        for sight in self.sights.values_mut() {
            sight.renumbered_at = Some(now);
            sight.is_fooled = true;
            sight.is_clouded = true;
        }
    }

    /// One of its answers has a wrong index.
    pub(super) fn fool(&mut self) {
        for sight in self.sights.values_mut() {
            sight.is_fooled = true;
        }
    }

    /// A new process knows nothing.
    pub(super) fn forget(&mut self) {
        for sight in self.sights.values_mut() {
            sight.knowledge = Knowledge::default();
        }
    }

    fn sight(&mut self, place: usize) -> &mut Sight {
        self.sights.entry(place).or_default()
    }

    /// The trouble of the next request of this sort.
    pub(super) fn next_trouble(&mut self, sort: Sort) -> Option<Trouble> {
        if self.troubles.is_empty() {
            return None;
        }
        let mut trouble = None;
        for sort in [Sort::Any, sort] {
            let sent = self.sent.entry(sort).or_default();
            *sent += 1;
            trouble = self.troubles.remove(&(sort, *sent)).or(trouble);
        }
        trouble
    }
}

impl Wire {
    /// A former leader's answer to a renewal.
    fn renewed_from_memory(&self, request: &Request) -> Option<Response> {
        let renews = RequestKind::of(request) == RequestKind::SessionRenew;
        if !renews || !self.line.lock().renews_from_memory {
            return None;
        }
        let session = request.target().split('?').next()?.rsplit('/').next()?;
        Some(Response::new(200, format!(r#"[{{"ID":"{session}"}}]"#)))
    }

    /// Sends the request. Returns whether it met a fault, or may have. With shared connections it
    /// meets faults there.
    async fn send_on(&self, request: Request) -> (Result<Response, TransportError>, bool) {
        let Some(pool) = &self.pool else {
            let fault = self.hazards.next_fault(&request);
            let was_met = fault.is_some();
            return (self.client.send_into(request, fault).await, was_met);
        };
        let before = self.line.lock().faults;
        let answer = pool.send(request).await;
        (answer, self.line.lock().faults != before)
    }

    fn sent(&self, request: &Request) -> Sent {
        let is_consistent = request.target().contains("consistent");
        let mut line = self.line.lock();
        let lags_since = line.lags_since;
        Sent {
            at: self.truth.now(),
            answers_before: line.sight(self.place).answers,
            is_consistent,
            lags_since: lags_since.filter(|_| !is_consistent),
        }
    }

    /// Notes the state that the host relies on from now on. Returns whether it relies on this answer.
    fn learn(&self, answer: &Response, sent: &Sent) -> bool {
        let Some(index) = index(answer) else {
            return false;
        };
        let answer = Answer {
            index,
            is_consistent: sent.is_consistent,
            sent_at: sent.at,
            received_at: self.truth.now(),
            lags_since: sent.lags_since,
        };
        let mut line = self.line.lock();
        let learned = line.sight(self.place).knowledge.learn(&answer);
        drop(line);
        if let Some(of) = learned {
            let (host, prefix) = (self.host, self.place);
            self.book.happened(Happening::Informed { host, prefix, of });
        }
        learned.is_some()
    }

    /// An answer without a fault, on which the host relies, shows everything.
    fn is_shown_all(&self, answer: &Response, sent: &Sent) {
        let mut line = self.line.lock();
        let denials = line.denials;
        let sight = line.sight(self.place);
        let is_of_before = sight
            .renumbered_at
            .is_some_and(|at| sent.at <= at || sight.writes > 0);
        if denials > 0 || sight.partial > 0 || is_of_before {
            return;
        }
        if std::mem::take(&mut sight.is_fooled) {
            sight.whole_since = Some(self.truth.now());
            sight.highest_index = index(answer).unwrap_or_default();
        }
        if std::mem::take(&mut sight.is_clouded) {
            let (host, prefix) = (self.host, self.place);
            self.book.happened(Happening::Whole { host, prefix });
        }
    }

    /// Whether an answer to this request shows who holds.
    fn is_view(&self, request: &Request) -> bool {
        let is_list = request.target().contains("recurse");
        let looks = match self.looks {
            Looks::Record => is_list,
            Looks::Key => {
                let key = format!("/v1/kv/{}", self.prefix.record_key());
                !is_list && request.target().starts_with(&key)
            }
            Looks::Elsewhere => false,
        };
        looks && request.method() == Method::Get
    }

    /// Notes the holders that are gone, according to an answer of the watch.
    fn look_at(&self, answer: &Response, sent: &Sent) {
        // What was not confirmed only asks for what is.
        if !sent.is_consistent {
            return;
        }
        let Some(index) = index(answer) else {
            return;
        };
        {
            let mut line = self.line.lock();
            let sight = line.sight(self.place);
            if sight.is_fooled
                || sight.whole_since.is_some_and(|since| sent.at <= since)
                || index < sight.highest_index
            {
                return;
            }
            sight.highest_index = index;
        }
        let (host, prefix) = (self.host, self.place);
        let taken = self.book.lock().taken_from(host, prefix, index);
        if taken.is_empty() {
            return;
        }
        let gone = match self.looks {
            Looks::Record => self.gone_from_record(answer, taken),
            Looks::Key => self.gone_from_key(answer, sent, taken),
            Looks::Elsewhere => Vec::new(),
        };
        if !gone.is_empty() {
            self.book.happened(Happening::Shown { host, prefix, gone });
        }
    }

    fn gone_from_record(&self, answer: &Response, taken: Vec<String>) -> Vec<String> {
        let Some(keys) = Keys::of(answer).filter(|_| !Keys::is_filtered(answer)) else {
            return Vec::new();
        };
        let record = keys.get(&self.prefix.record_key());
        let record = record.and_then(|it| it.record());
        let tied = keys.tied();
        let is_gone = |session: &String| {
            let is_holder = record.as_ref().is_some_and(|it| it.holds(session));
            !is_holder || !tied.contains(session.as_str())
        };
        taken.into_iter().filter(is_gone).collect()
    }

    /// The key shows everything that was taken from a leader: somebody else or nobody holds it, or
    /// it no longer shows the term. A missing key may not have been created yet when it was read,
    /// if an attempt or a read has been answered since. Then another read is needed.
    fn gone_from_key(&self, answer: &Response, sent: &Sent, taken: Vec<String>) -> Vec<String> {
        let answers = self.line.lock().sight(self.place).answers;
        let shows = match Keys::of(answer) {
            Some(keys) if keys.is_empty() => sent.answers_before == answers,
            Some(_) => true,
            None => false,
        };
        if shows { taken } else { Vec::new() }
    }
}

/// A read under way that may not show everything, whenever it is answered.
struct Partial(Line, usize);

impl Partial {
    /// `None` if it shows everything of this prefix.
    fn begin(line: &Line, place: usize) -> Option<Self> {
        let mut state = line.lock();
        if state.denials == 0 {
            return None;
        }
        state.sight(place).partial += 1;
        Some(Self(line.clone(), place))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        self.0.lock().sight(self.1).partial -= 1;
    }
}

/// A write under way.
struct Writing(Line, usize, MockClient);

impl Writing {
    fn begin(wire: &Wire) -> Self {
        wire.line.lock().sight(wire.place).writes += 1;
        Self(wire.line.clone(), wire.place, wire.truth.clone())
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let now = self.2.now();
        let mut line = self.0.lock();
        let sight = line.sight(self.1);
        sight.writes -= 1;
        if sight.is_fooled {
            sight.renumbered_at = sight.renumbered_at.map(|_| now);
        }
    }
}

/// How a request was sent.
struct Sent {
    at: Instant,
    /// How many others had been answered by then.
    answers_before: u64,
    is_consistent: bool,
    /// Since when the agent that will answer has lagged behind.
    lags_since: Option<Instant>,
}

#[async_trait]
impl Transport for Wire {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        if let Some(answer) = self.renewed_from_memory(&request) {
            self.client.sleep(self.latency).await;
            return Ok(answer);
        }
        let is_view = self.is_view(&request);
        let (host, prefix) = (self.host, self.place);
        let sent = self.sent(&request);
        let what = asked(&request, self.looks);
        let is_attempt = matches!(what, Asked::Attempt(_));
        let partial = is_view
            .then(|| Partial::begin(&self.line, self.place))
            .flatten();
        let creates = RequestKind::of(&request) == RequestKind::SessionCreate;
        let is_write = RequestKind::of(&request) == RequestKind::Txn && !sent.is_consistent;
        self.book.happened(Happening::Sent { host, prefix, what });
        let writing = is_write.then(|| Writing::begin(self));
        let (answer, was_met) = self.send_on(request).await;
        drop(writing);
        if answer.as_ref().is_ok_and(is_over_limit) {
            self.book.lock().count_fault("request over a limit");
        }
        if self.line.lock().is_parted && answer.as_ref().is_ok_and(|it| it.status() == 200) {
            self.book.lock().count_fault("answered by a former leader");
        }
        if let Ok(answer) = &answer
            && is_view
            && matches!(answer.status(), 200 | 404)
        {
            let is_relied_on = self.learn(answer, &sent);
            if !was_met {
                self.look_at(answer, &sent);
                if is_relied_on && partial.is_none() {
                    self.is_shown_all(answer, &sent);
                }
            }
        }
        if let (true, Ok(answer)) = (is_write, &answer) {
            // What was read before an applied write of ours is older than what we know.
            let written = written_at(answer);
            let mut line = self.line.lock();
            let sight = line.sight(self.place);
            sight.highest_index = sight.highest_index.max(written);
        }
        if let (true, Ok(answer)) = (creates, &answer)
            && let Some(session) = session_of(answer)
        {
            let host = self.host;
            self.book.happened(Happening::Known { host, session });
        }
        if is_attempt || is_view {
            self.line.lock().sight(self.place).answers += 1;
        }
        answer
    }
}

/// Whether a server refuses it because it serves no more requests at the moment.
pub(super) fn is_over_limit(answer: &Response) -> bool {
    matches!(answer.status(), 429 | 503) && answer.body().starts_with(b"rate limit exceeded")
}

fn index(answer: &Response) -> Option<u64> {
    answer.header("X-Consul-Index")?.parse().ok()
}

/// The highest index in the answer to a transaction.
fn written_at(answer: &Response) -> u64 {
    let body: serde_json::Value = serde_json::from_slice(answer.body()).unwrap_or_default();
    let results = body["Results"].as_array().into_iter().flatten();
    let indexes = results.filter_map(|it| it["KV"]["ModifyIndex"].as_u64());
    indexes.max().unwrap_or_default()
}

/// The purpose of one of our requests. A transaction that acquires an election's key acquires
/// nothing else.
fn asked(request: &Request, looks: Looks) -> Asked {
    let target = request.target();
    match RequestKind::of(request) {
        _ if looks != Looks::Key && request.method() != Method::Get => Asked::Write,
        _ if request.method() == Method::Get => Asked::Read,
        RequestKind::KvAcquire => {
            let session = target
                .split(['?', '&'])
                .find_map(|it| it.strip_prefix("acquire="));
            Asked::Attempt(session.unwrap_or_default().to_owned())
        }
        RequestKind::Txn => {
            let transaction = Transaction::of(request);
            let session = transaction.as_ref().and_then(Transaction::only_tied);
            session.map_or(Asked::Write, |it| Asked::Attempt(it.to_owned()))
        }
        _ => Asked::Write,
    }
}

/// The sort of one of our requests. For a transaction, the most important change decides.
pub(super) fn sort(request: &Request) -> Sort {
    match RequestKind::of(request) {
        RequestKind::SessionRenew => Sort::Renewal,
        RequestKind::SessionCreate | RequestKind::SessionDestroy => Sort::Session,
        RequestKind::KvCas | RequestKind::Txn => Sort::Record,
        kind if kind.is_write() => Sort::Key,
        _ => Sort::Read,
    }
}
