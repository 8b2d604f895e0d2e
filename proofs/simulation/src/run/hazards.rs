//! The faults of a host's requests, from its plan and the state of its agent.

use std::time::Duration;

use semaphore_core::adapter::{Priority, Request, Runtime as _};
use transport_mock::{Fault, MockClient, RequestKind};

use super::book::Book;
use super::wire::{Line, sort};
use crate::history::Happening;
use crate::plan::{FASTEST_CLOCK, Trouble};

/// Clones belong to the same host.
#[derive(Clone)]
pub(super) struct Hazards {
    pub(super) host: usize,
    /// The host with the true clock.
    pub(super) truth: MockClient,
    pub(super) line: Line,
    pub(super) book: Book,
    /// The longest that a message travels.
    pub(super) latency: Duration,
    /// How long the requests take that are due at once, if they share connections. If one of them
    /// is delayed, that may delay a renewal behind it.
    pub(super) queueing: Option<Duration>,
}

impl Hazards {
    /// The fault of the next request.
    pub(super) fn next_fault(&self, request: &Request) -> Option<Fault> {
        let commits = self.book.lock().commits;
        let mut line = self.line.lock();
        let trouble = line.next_trouble(sort(request));
        if line.is_agent_down {
            return Some(Fault::Refuse);
        }
        if let Some(gateway) = line.gateway {
            drop(line);
            self.book.lock().count_fault("answered by a gateway");
            return Some(Fault::Answer(gateway.answer()));
        }
        if trouble.is_none()
            && let Some(fault) = commits.and_then(|it| it.fault(request))
        {
            line.faults += 1;
            drop(line);
            let is_renewal = RequestKind::of(request) == RequestKind::SessionRenew;
            self.book.lock().count_fault(if is_renewal {
                "renewal answered slowly"
            } else {
                "write committed slowly"
            });
            self.note(&fault, request);
            return Some(fault);
        }
        match trouble? {
            Trouble::Fault(fault) => {
                if matches!(fault, Fault::Index(_)) {
                    line.fool();
                }
                line.faults += 1;
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
        let lasts = match fault {
            Fault::Duplicate(_) => return,
            // The watch may have to ask again whether its index went backwards.
            Fault::Index(_) => request.timeout().mul_f64(FASTEST_CLOCK + 0.01),
            Fault::LoseRequest | Fault::LoseAnswer | Fault::Delay(_) | Fault::DelayAnswer(_) => {
                request.timeout().mul_f64(FASTEST_CLOCK + 0.01)
            }
            _ => self.latency * 2,
        };
        let until = self.truth.now() + lasts + self.queueing.unwrap_or_default();
        let host = self.host;
        book.happenings.push(Happening::Hindered { host, until });
        // A renewal, or the proof that goes with it: each of them ends a belief that lacks it.
        let is_of_hold = request.priority() == Priority::Renewal;
        let is_felt = is_of_hold || self.queueing.is_some();
        if is_felt && !matches!(fault, Fault::Index(_)) {
            let host = Some(host);
            book.happenings.push(Happening::Trouble { host, until });
        }
    }
}

/// The name of a fault for figures.
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
            404 => "transaction refused",
            _ => "answered on the way",
        },
        Fault::AnswerAfter(_) => "504",
        Fault::BadAnswer => "answer cut short",
        Fault::Index(_) => "index of an answer replaced",
        _ => "other",
    }
}
