//! A host's way to Consul: counts its requests, and lets each meet the trouble that its plan has.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use semaphore_core::api::ListKeys;
use semaphore_core::{
    Method, Prefix, Request, Response, Runtime as _, Transport, TransportError, View,
};
use transport_mock::{Fault, MockClient, RequestKind};

use super::book::Book;
use crate::history::Happening;
use crate::plan::{FASTEST_CLOCK, Sort, Trouble};

/// The transport of one process.
pub(super) struct Wire {
    pub(super) client: MockClient,
    /// The same host by the true clock.
    pub(super) truth: MockClient,
    pub(super) host: usize,
    pub(super) prefix: Prefix,
    pub(super) line: Line,
    pub(super) book: Book,
    /// The longest that a message travels.
    pub(super) latency: Duration,
}

/// What outlives a host's processes. Clones are the same.
#[derive(Clone)]
pub(super) struct Line(Arc<Mutex<LineState>>);

pub(super) struct LineState {
    sent: BTreeMap<Sort, u64>,
    troubles: BTreeMap<(Sort, u64), Trouble>,
    pub(super) is_agent_down: bool,
    /// What the watch is shown may be wrong in its index, or incomplete: the next answer need not
    /// be believed.
    pub(super) is_fooled: bool,
    highest_index: u64,
}

impl Line {
    pub(super) fn new(troubles: BTreeMap<(Sort, u64), Trouble>) -> Self {
        Self(Arc::new(Mutex::new(LineState {
            sent: BTreeMap::new(),
            troubles,
            is_agent_down: false,
            is_fooled: false,
            highest_index: 0,
        })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, LineState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing goes wrong any more.
    pub(super) fn calm(&self) {
        let mut line = self.lock();
        line.troubles.clear();
        line.is_agent_down = false;
    }
}

impl LineState {
    /// What the next request of this sort meets.
    fn next_trouble(&mut self, sort: Sort) -> Option<Trouble> {
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
    /// What the next request meets.
    fn next_fault(&self, request: &Request) -> Option<Fault> {
        let mut line = self.line.lock();
        let trouble = line.next_trouble(sort(request));
        if line.is_agent_down {
            return Some(Fault::Refuse);
        }
        match trouble? {
            Trouble::Fault(fault) => {
                line.is_fooled |= matches!(fault, Fault::Index(_));
                drop(line);
                self.note(&fault, request);
                Some(fault)
            }
            Trouble::Deed(after, deed) => {
                self.book.lock().causes.push((after, deed));
                None
            }
        }
    }

    fn note(&self, fault: &Fault, request: &Request) {
        let mut book = self.book.lock();
        book.count_fault(name(fault));
        if RequestKind::of(request) != RequestKind::SessionRenew {
            return;
        }
        let lasts = match fault {
            Fault::Duplicate(_) | Fault::Index(_) => return,
            Fault::LoseRequest | Fault::LoseAnswer | Fault::Delay(_) | Fault::DelayAnswer(_) => {
                request.timeout().mul_f64(FASTEST_CLOCK + 0.01)
            }
            _ => self.latency * 2,
        };
        book.happenings.push(Happening::Trouble {
            host: Some(self.host),
            until: self.truth.now() + lasts,
        });
    }

    /// Notes which holders an answer of the watch shows to be gone.
    fn look_at(&self, answer: &Response) {
        let index = answer.header("X-Consul-Index");
        let Some(index) = index.and_then(|it| it.parse::<u64>().ok()) else {
            return;
        };
        {
            let mut line = self.line.lock();
            if line.is_fooled || index < line.highest_index {
                return;
            }
            line.highest_index = index;
        }
        let taken = self.book.lock().taken_from(self.host, index);
        if taken.is_empty() {
            return;
        }
        let Ok(list) = ListKeys::parse(answer) else {
            return;
        };
        let view = View::new(&self.prefix, &list);
        let is_gone = |session: &String| {
            let is_holder = view.record().is_some_and(|record| record.holds(session));
            !is_holder || !view.is_alive(session)
        };
        let gone: Vec<_> = taken.into_iter().filter(is_gone).collect();
        if !gone.is_empty() && !view.is_filtered() {
            let host = self.host;
            self.book.happened(Happening::Shown { host, gone });
        }
    }
}

#[async_trait]
impl Transport for Wire {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        let fault = self.next_fault(&request);
        let is_read = request.method() == Method::Get;
        let is_list = is_read && request.target().contains("recurse");
        let host = self.host;
        self.book.happened(Happening::Sent { host, is_read });
        let was_met = fault.is_some();
        let answer = self.client.send_into(request, fault).await;
        if let Ok(answer) = &answer
            && is_list
            && !was_met
            && matches!(answer.status(), 200 | 404)
        {
            self.look_at(answer);
        }
        answer
    }
}

/// The sort of a request of ours. A transaction is of the sort of the most that it changes.
fn sort(request: &Request) -> Sort {
    match RequestKind::of(request) {
        RequestKind::SessionRenew => Sort::Renewal,
        RequestKind::SessionCreate | RequestKind::SessionDestroy => Sort::Session,
        RequestKind::KvCas | RequestKind::Txn => Sort::Record,
        kind if kind.is_write() => Sort::Key,
        _ => Sort::Read,
    }
}

/// The name of a fault, for figures.
fn name(fault: &Fault) -> &'static str {
    match fault {
        Fault::Refuse => "connection refused",
        Fault::LoseRequest => "request lost",
        Fault::LoseAnswer => "answer lost",
        Fault::ResetBefore => "reset before delivery",
        Fault::ResetAfter => "reset after delivery",
        Fault::Delay(_) => "request delayed",
        Fault::DelayAnswer(_) => "answer delayed",
        Fault::Duplicate(_) => "request delivered twice",
        Fault::Answer(answer) => match answer.status() {
            429 => "429",
            500 => "500",
            503 => "503",
            _ => "answered on the way",
        },
        Fault::AnswerAfter(_) => "504",
        Fault::BadAnswer => "answer cut short",
        Fault::Index(_) => "index of an answer replaced",
        _ => "other",
    }
}
