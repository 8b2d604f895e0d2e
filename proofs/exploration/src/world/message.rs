//! Messages between a participant and Consul.

use std::fmt::Write as _;
use std::sync::Arc;

use semaphore_core::sans_io::{Instant, Method, Request, RequestId, Response, TransportErrorKind};
use transport_mock::consul::Exchange;

use super::LOCK;
use super::client::NEIGHBOURS;
use super::transaction::Transaction;
use super::turns::Waiter;
use crate::canon::{Token, timer, tokens};

/// A request, or an answer to one.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    /// The participant.
    pub(crate) node: usize,
    /// `None` if nobody waits for an answer any more.
    pub(crate) id: Option<RequestId>,
    pub(crate) content: Arc<Content>,
    /// When its sender stops waiting.
    pub(crate) deadline: Instant,
    /// If nobody waits for it any more: when it is lost, unless it arrives before. `None` if it may
    /// arrive at any time.
    pub(crate) lost_at: Option<Instant>,
    /// Whether time passes while it is under way.
    pub(crate) is_slow: bool,
    /// What the recipient compares the answer's index with.
    index: ComparedWith,
    /// The waiters that it must not pass, if it is a claim.
    known_ahead: Vec<String>,
    tokens: Arc<[Token]>,
    due: [Token; 1],
}

/// What the index of an answer is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ComparedWith {
    Nothing,
    /// The indexes of a semaphore's record.
    Record,
    All,
}

#[derive(Debug)]
pub(crate) enum Content {
    Request(Request),
    Answer(Result<Response, TransportErrorKind>),
}

/// A blocking query that waits at Consul.
#[derive(Clone, Debug)]
pub(crate) struct Parked {
    pub(crate) node: usize,
    pub(crate) id: RequestId,
    pub(crate) exchange: Exchange,
    pub(crate) deadline: Instant,
    /// What the sender compares the answer's index with.
    pub(crate) index: ComparedWith,
    /// Whether its end is not explored.
    pub(crate) is_endless: bool,
    tokens: Arc<[Token]>,
}

impl Message {
    pub(crate) fn request(now: Instant, node: usize, id: RequestId, request: Request) -> Self {
        let deadline = now + request.timeout();
        Self::new(node, Some(id), Content::Request(request), deadline)
    }

    pub(crate) fn answer(
        node: usize,
        id: RequestId,
        answer: Result<Response, TransportErrorKind>,
        deadline: Instant,
        index: ComparedWith,
    ) -> Self {
        let message = Self::new(node, Some(id), Content::Answer(answer), deadline);
        Self { index, ..message }.refreshed()
    }

    /// The same message, but nobody waits for its answer. A read without a recipient becomes
    /// `None`.
    pub(crate) fn into_ghost(self, lost_at: Option<Instant>) -> Option<Self> {
        let request = self.as_request()?;
        let only_reads = Transaction::of(request).is_some_and(|it| it.only_reads());
        let is_write = request.method() != Method::Get && !only_reads;
        is_write
            .then_some(Self {
                id: None,
                lost_at,
                is_slow: true,
                ..self
            })
            .map(Self::refreshed)
    }

    pub(crate) fn slowed(self) -> Self {
        Self {
            is_slow: true,
            ..self
        }
        .refreshed()
    }

    /// The same claim, which must not pass these waiters.
    pub(super) fn behind(self, known_ahead: Vec<String>) -> Self {
        if known_ahead.is_empty() {
            return self;
        }
        Self {
            known_ahead,
            ..self
        }
        .refreshed()
    }

    /// The waiters that it must not pass.
    pub(super) fn known_ahead(&self) -> &[String] {
        &self.known_ahead
    }

    /// Forgets who does not wait any more.
    pub(super) fn forget(&mut self, waits: &[Waiter]) {
        let is_there = |session: &String| waits.iter().any(|(waiter, _)| waiter == session);
        if !self.known_ahead.iter().all(is_there) {
            self.known_ahead.retain(is_there);
            *self = self.clone().refreshed();
        }
    }

    pub(crate) fn as_request(&self) -> Option<&Request> {
        match &*self.content {
            Content::Request(request) => Some(request),
            Content::Answer(_) => None,
        }
    }

    /// The request, if it is a write and somebody waits for its answer.
    pub(crate) fn as_awaited_write(&self) -> Option<&Request> {
        self.id?;
        self.as_request().filter(|it| it.method() != Method::Get)
    }

    pub(crate) fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// When its sender stops waiting, if somebody waits. Otherwise, when it is lost.
    pub(crate) fn due(&self) -> &[Token] {
        let has_end = self.id.is_some() || self.lost_at.is_some();
        if has_end { &self.due } else { &[] }
    }

    fn new(node: usize, id: Option<RequestId>, content: Content, deadline: Instant) -> Self {
        Self {
            node,
            id,
            content: Arc::new(content),
            deadline,
            lost_at: None,
            is_slow: false,
            index: ComparedWith::Nothing,
            known_ahead: Vec::new(),
            tokens: Arc::new([]),
            due: [timer(deadline)],
        }
        .refreshed()
    }

    fn refreshed(mut self) -> Self {
        let mut text = String::new();
        let _ = write!(text, "{} {} ", self.id.is_some(), self.is_slow);
        match &*self.content {
            Content::Request(request) => {
                let body = String::from_utf8_lossy(request.body());
                let _ = write!(text, "{} {} {body}", request.method(), request.target());
                for session in &self.known_ahead {
                    let _ = write!(text, " behind {session}");
                }
            }
            Content::Answer(Ok(response)) => {
                let index = response.header("X-Consul-Index").unwrap_or("0");
                let index = match self.index {
                    ComparedWith::Nothing => String::new(),
                    ComparedWith::Record => format!("as_of={index}"),
                    ComparedWith::All => format!("index={index}"),
                };
                let body = String::from_utf8_lossy(response.body());
                let body = in_order(&without_neighbours(&body));
                let _ = write!(text, "{} {index} {body}", response.status());
            }
            Content::Answer(Err(kind)) => {
                let _ = write!(text, "{kind:?}");
            }
        }
        self.tokens = tokens(&text).into();
        self.due = [timer(self.lost_at.unwrap_or(self.deadline))];
        self
    }
}

impl Parked {
    pub(crate) fn new(
        node: usize,
        id: RequestId,
        exchange: Exchange,
        request: &Request,
        index: ComparedWith,
        ends_at: Instant,
        deadline: Instant,
    ) -> Self {
        let is_endless = request.target().contains("wait=60s");
        let text = if is_endless {
            format!("parked {}", request.target())
        } else {
            format!("parked {} until: {ends_at:?}", request.target())
        };
        Self {
            node,
            id,
            exchange,
            deadline,
            index,
            is_endless,
            tokens: tokens(&text).into(),
        }
    }

    pub(crate) fn tokens(&self) -> &[Token] {
        &self.tokens
    }
}

/// A proof shows keys and records of neighbours, too. It only matters that a key is there, and whose
/// session has it.
fn without_neighbours(body: &str) -> String {
    let mut parts = body.split("{\"KV\":");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, entry| {
        let is_neighbours = entry.contains(&format!("\"Key\":\"{NEIGHBOURS}"));
        let session = entry.split("\"Session\":").nth(1).filter(|_| is_neighbours);
        match session.and_then(|it| it.split(',').next()) {
            Some(session) => all + "neighbour " + session,
            None if is_neighbours => all + "neighbour",
            None => all + entry,
        }
    })
}

/// First the record, then the keys in the order of their creation. The order of their names has no
/// meaning.
fn in_order(body: &str) -> String {
    // A transaction's results have one bracket more.
    let within = |start, end| body.strip_prefix(start).and_then(|it| it.strip_suffix(end));
    let list = within("[", "]").map(|it| (it, "},{"));
    let results = || within("{\"Results\":[", "],\"Errors\":null}").map(|it| (it, "}},{"));
    let Some((list, between)) = list.or_else(results) else {
        return body.to_owned();
    };
    let mut entries: Vec<_> = list.trim_matches(['{', '}']).split(between).collect();
    let record = format!("\"Key\":\"{LOCK}\"");
    let created = |entry: &str| {
        let created = entry.split("\"CreateIndex\":").nth(1)?;
        created.split(',').next()?.parse::<u64>().ok()
    };
    entries.sort_by_key(|entry| (!entry.contains(&record), created(entry)));
    entries.join(between)
}
