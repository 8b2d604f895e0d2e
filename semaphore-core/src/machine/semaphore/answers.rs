//! What comes back: each answer goes to the machine that asked.

use crate::error::{Error, RequestError};
use crate::http::Response;
use crate::id::RequestId;
use crate::machine::process::encoding::Encoding;
use crate::machine::process::moment::Moment;
use crate::machine::semaphore::contender::Part;
use crate::machine::semaphore::focus::Focus;
use crate::machine::semaphore::roster::Group;
use crate::machine::semaphore::vanished::Finding;
use crate::machine::semaphore::{From, InFlight, Participant};
use crate::time::Instant;
use crate::transport::TransportError;

impl Participant {
    /// Takes what came back for a request: its answer, or why there is none. An answer to a
    /// request that is unknown, superseded or answered already changes nothing.
    pub(super) fn take_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: &Result<Response, TransportError>,
    ) {
        let Some(InFlight {
            from,
            encoding,
            sent_at,
            service,
        }) = self.requests.ended(id)
        else {
            return;
        };
        if from != From::Watch {
            let time = now.saturating_since(sent_at);
            self.watch.took(time);
            let usual = self.settings.request_timeout();
            self.requests.took(time, result, usual);
        }
        let answer = match result {
            Ok(response) => {
                let patience = self.settings.session.lease_time();
                let services = self.requests.services();
                let is_transaction = encoding == Encoding::Transactions;
                services.judge(now, service, response, is_transaction, patience)
            }
            Err(error) => Err(RequestError::Transport(error.clone())),
        };
        if self.watch.judge(now, from == From::Watch, result.is_ok()) {
            self.requests.abort(|it| it.from == From::Watch);
        }
        if let (Encoding::Transactions, Ok(response)) = (encoding, &answer)
            && Encoding::is_refused(response)
        {
            self.do_without_transactions(now, from);
            self.settle(now);
            return;
        }
        match from {
            From::Watch if *self.watch.polled() != Focus::Prefix => self.handle_key(now, answer),
            From::Watch | From::Refresh => self.handle_view(now, from, Moment::of(id), answer),
            From::Ledger => self.handle_write(now, Moment::of(id), answer),
            From::Vanished => self.handle_finding(now, answer),
            From::Contender(no, part) => {
                if part == Part::Key {
                    self.watch.credit();
                }
                if self.roster.get(no).is_some_and(|it| it.is_creation(part)) {
                    let ttl = self.settings.session.ttl();
                    let orphans = self.requests.orphans_mut();
                    orphans.answered(now, sent_at, answer.as_ref().copied(), ttl);
                }
                // What comes after the lease brings no belief back that has ended.
                self.let_time_pass(now, no);
                let moment = self.moment();
                let event = self.roster.get_mut(no).and_then(|mut contender| {
                    let (settings, rng) = (&self.settings, &mut self.rng);
                    contender.handle(now, moment, part, answer, settings, rng)
                });
                let contender = self.roster.get_mut(no);
                let arrival = contender.and_then(|mut it| it.take_arrival());
                if let Some(view) = arrival {
                    self.knowledge.confirm(now);
                    self.accept(now, *view, Moment::of(id), true);
                }
                let failure = self
                    .roster
                    .get(no)
                    .and_then(|contender| contender.failure().cloned());
                self.note(now, failure);
                self.handle_contender_event(now, no, event);
            }
        }
        self.settle(now);
    }

    /// Gives the poll under way up for another one, unless it has only just begun.
    pub(super) fn restart_watch(&mut self, now: Instant) -> bool {
        let is_restarted = self.watch.restart(now);
        if is_restarted {
            self.requests.abort(|it| it.from == From::Watch);
        }
        is_restarted
    }

    fn handle_finding(&mut self, now: Instant, answer: Result<&Response, RequestError>) {
        let ahead = self
            .knowledge
            .current()
            .and_then(|it| self.next_ahead(now, it));
        let ahead = ahead.map_or(0, |(_, rank)| rank);
        match self.vanished.handle(now, answer, ahead, &mut self.rng) {
            Finding::Settled => self.note(now, None),
            Finding::Hidden => {
                let prefix = self.settings.prefix.to_string();
                self.fail_waiting(now, |_| Error::IncompleteView {
                    prefix: prefix.clone(),
                });
            }
            Finding::Failed(error) => {
                if error.is_permanent() {
                    self.fail_waiting(now, |_| Error::Request(error.clone()));
                }
                self.note(now, Some(error));
            }
        }
    }

    /// A request of the participant as a whole failed for good: nobody can be admitted or
    /// withdrawn in order. Whoever holds goes on for as long as the lease does.
    pub(super) fn refuse(&mut self, now: Instant, error: &RequestError) {
        self.fail_waiting(now, |_| Error::Request(error.clone()));
        let moment = self.moment();
        for no in self.roster.numbers_of(Group::Withdrawing) {
            if let Some(mut contender) = self.roster.get_mut(no) {
                contender.leaving_failed(moment, error.clone(), &self.settings);
            }
        }
    }

    /// Remembers the last failure, for those whose time runs out. An instant try does not wait for
    /// the next attempt.
    pub(super) fn note(&mut self, now: Instant, failure: Option<RequestError>) {
        if let Some(error) = &failure {
            self.fail_tries(now, error.at_face_value());
            self.rest_after_failure(now);
        }
        self.callers.note(failure);
    }
}
