//! What comes back: each answer goes to the watch or to the candidacy, and what follows from it to
//! whom it concerns.

use crate::api::ReadKey;
use crate::election_key::ElectionKey;
use crate::error::{Error, RequestError};
use crate::http::Response;
use crate::id::RequestId;
use crate::machine::election::candidacy::{CandidacyEvent, Part};
use crate::machine::election::{Candidate, Sent};
use crate::machine::process::encoding::Encoding;
use crate::machine::process::moment::Moment;
use crate::machine::process::service::Service;
use crate::time::Instant;
use crate::transport::TransportError;

impl Candidate {
    /// Takes what came back for a request: its answer, or why there is none. An answer to a
    /// request that is unknown, superseded or answered already changes nothing.
    pub(super) fn take_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: &Result<Response, TransportError>,
    ) {
        let Some(sent) = self.requests.ended(id) else {
            return;
        };
        // What comes after the lease brings no belief back that has ended.
        self.let_time_pass(now);
        let (service, is_transaction) = match sent {
            Sent::Poll => (Service::Reads, false),
            Sent::Candidacy {
                encoding,
                service,
                asked_at,
                ..
            } => {
                let time = now.saturating_since(asked_at);
                let usual = self.settings.session.request_timeout();
                self.requests.took(time, result, usual);
                (service, encoding == Encoding::Transactions)
            }
        };
        let answer = match result {
            Ok(response) => {
                let patience = self.settings.session.lease_time();
                let services = self.requests.services();
                services.judge(now, service, response, is_transaction, patience)
            }
            Err(error) => Err(RequestError::Transport(error.clone())),
        };
        let event = match sent {
            Sent::Poll => self.handle_poll(now, id, answer),
            Sent::Candidacy {
                part,
                encoding,
                asked_at,
                ..
            } => {
                let is_refused = |response: &Response| Encoding::is_refused(response);
                if encoding == Encoding::Transactions && answer.clone().is_ok_and(is_refused) {
                    self.do_without_transactions();
                    None
                } else {
                    self.handle_part(now, id, part, asked_at, answer)
                }
            }
        };
        self.note();
        self.handle_event(now, event);
        self.settle(now);
    }

    fn handle_poll(
        &mut self,
        now: Instant,
        id: RequestId,
        answer: Result<&Response, RequestError>,
    ) -> Option<CandidacyEvent> {
        let shown = answer.and_then(|response| {
            let (index, found) = ReadKey::parse_at(response)?;
            Ok((index, found.as_ref().map(ElectionKey::new).transpose()?))
        });
        match shown {
            Ok((index, shown)) => {
                self.watch.answered(now, index);
                let moments = (self.requests.moment(), Moment::of(id));
                let candidacy = self.candidacy.as_mut()?;
                candidacy.watched(now, shown, moments, &self.settings)
            }
            Err(error) => {
                self.watch.failed(now, &mut self.rng);
                // A plain read tells at once where Consul is now, also when indexes went backwards meanwhile.
                self.watch.restart();
                self.candidacy.as_mut()?.fail(error)
            }
        }
    }

    fn handle_part(
        &mut self,
        now: Instant,
        id: RequestId,
        part: Part,
        asked_at: Instant,
        answer: Result<&Response, RequestError>,
    ) -> Option<CandidacyEvent> {
        let moments = (self.requests.moment(), Moment::of(id));
        let (settings, rng) = (&self.settings, &mut self.rng);
        let candidacy = self.candidacy.as_mut()?;
        if candidacy.is_creation(part) {
            let orphans = self.requests.orphans_mut();
            let ttl = settings.session.ttl();
            orphans.answered(now, asked_at, answer.as_ref().copied(), ttl);
        }
        candidacy.handle(now, moments, part, answer, settings, rng)
    }

    /// The agent refuses transactions: the guide's requests do the same.
    fn do_without_transactions(&mut self) {
        self.settings.encoding = Encoding::Requests;
        if let Some(candidacy) = &mut self.candidacy {
            candidacy.take_back();
        }
    }

    /// Remembers the last failure, for those whose time runs out. An instant try does not wait for
    /// the next attempt.
    fn note(&mut self) {
        let Some(candidacy) = &self.candidacy else {
            return;
        };
        self.callers.note(candidacy.failure().cloned());
        if let Some(error) = candidacy.failure() {
            for ticket in self.callers.take_tries() {
                self.callers
                    .failed(ticket.id, Error::Request(error.at_face_value().clone()));
            }
        }
    }

    pub(super) fn handle_event(&mut self, now: Instant, event: Option<CandidacyEvent>) {
        match event {
            None => {}
            Some(CandidacyEvent::Elected(term)) => self.elect(term),
            Some(CandidacyEvent::NotAvailable(refusal)) => {
                for ticket in self.callers.take_tries() {
                    self.callers.not_available(ticket.id, refusal.clone());
                }
            }
            Some(CandidacyEvent::Lost(reason)) => {
                if let Some(campaign) = self.leader {
                    self.lose(now, campaign, reason);
                }
            }
            Some(CandidacyEvent::SessionGone) => {
                self.respawn.begin(now, &mut self.rng);
                self.leave(now);
            }
            Some(CandidacyEvent::Refused(error)) => {
                self.fail_waiting(&error);
                self.leave(now);
            }
            Some(CandidacyEvent::ValueRefused(error)) => {
                if let Some(candidacy) = &mut self.candidacy {
                    candidacy.keep_value();
                }
                self.end_change(Err(Error::Request(error)));
            }
        }
    }
}
