//! Decides what is sent next, in the order of the parts that have something to send, and passes
//! answers to their senders.
//!
//! Any part may get an answer, and any part may act on it. So this belongs to the participant
//! itself.

use crate::error::{Error, RequestError};
use crate::http::{Request, Response};
use crate::id::RequestId;
use crate::machine::contract::Transmit;
use crate::machine::process::moment::Moment;
use crate::machine::process::outage::RequestEnd;
use crate::machine::process::requests::Received;
use crate::machine::process::tenancy::confirmations::{Confirmed, QuestionNo};
use crate::machine::process::tenancy::loan::{Heard, LoanNews};
use crate::machine::semaphore::Participant;
use crate::machine::semaphore::admission::ContenderNo;
use crate::machine::semaphore::contender::{Contender, Part};
use crate::machine::semaphore::focus::Focus;
use crate::machine::semaphore::key::Arrival;
use crate::machine::semaphore::roster::Group;
use crate::machine::semaphore::sender::From;
use crate::machine::semaphore::vanished::Finding;
use crate::subject::Subject;
use crate::time::Instant;
use crate::transport::TransportError;

/// The most short requests of a participant under way, and the same in a crowd. An agent gives one
/// address 200 connections, and a transport that gets no further one replaces its polls by reads
/// (`connections::places`). Twenty busy processes of one host stay below that with four, though
/// each sends up to eight at the beginning: 199 at most were counted. With six they reached it.
const MAX_IN_FLIGHT: usize = 8;
const MAX_IN_FLIGHT_IN_CROWD: usize = 4;

/// The most renewals of what is held besides these. They must not queue behind others, and each is two requests, one after
/// the other.
const MAX_RENEWALS_IN_FLIGHT: usize = 24;

impl Participant {
    /// The next request to send at `now`, if there is one.
    pub(super) fn transmit(&mut self, now: Instant) -> Option<Transmit> {
        if self.rests_until().is_some_and(|until| now < until) {
            return None;
        }
        let (from, request) = self
            .transmit_renewal(now)
            .or_else(|| self.transmit_short(now))
            .or_else(|| self.transmit_poll(now))?;
        let service = from.service(self.watch.is_looking_ahead());
        if let From::Contender(no, Part::Session(_)) = from {
            self.roster.asks(no);
        }
        Some(self.requests.send(now, from, service, request))
    }

    fn transmit_renewal(&mut self, now: Instant) -> Option<(From, Request)> {
        if let Some((no, request)) = self.roster.confirm(now, &self.settings) {
            return Some((From::Confirmation(no), request));
        }
        if self.roster.asked_for_holds() >= MAX_RENEWALS_IN_FLIGHT {
            return None;
        }
        // If not all can be sent in time, no lease may end because it is last in the list.
        let no = self.roster.most_urgent(now)?;
        self.transmit_from(now, no)
    }

    /// The watch's poll does not count, since it is held open. Renewals of what is held don't
    /// either: some may wait for a slow answer while everything else continues.
    fn transmit_short(&mut self, now: Instant) -> Option<(From, Request)> {
        let most = if self.outlook().is_in_crowd() {
            MAX_IN_FLIGHT_IN_CROWD
        } else {
            MAX_IN_FLIGHT
        };
        if self.requests.short() - self.roster.asked_for_holds() >= most {
            return None;
        }
        if let Some(request) = self.write(now) {
            return Some((From::Ledger, request));
        }
        if let Some(request) = self.question(now) {
            return Some((From::Vanished, request));
        }
        if let Some(request) = self.watch.transmit_refresh(now, &self.settings) {
            return Some((From::Refresh, request));
        }
        if let Some(request) = self.watch.transmit_record(now, &self.settings) {
            return Some((From::Record, request));
        }
        self.transmit_contender(now)
    }

    /// The question about holders without a key, if it is due.
    fn question(&mut self, now: Instant) -> Option<Request> {
        self.vanished.asks_at().filter(|at| *at <= now)?;
        let is_there = |it: &&Contender| it.key_index().is_some();
        let own = self.roster.all().find(is_there);
        let own = own.and_then(Contender::session_id);
        self.vanished.transmit(now, own, &self.settings)
    }

    /// The poll comes last: it delays a driver that sends one request after the other.
    fn transmit_poll(&mut self, now: Instant) -> Option<(From, Request)> {
        if self.watch.is_polling() {
            return None;
        }
        // Something may have been sent since that tells as much.
        let from = self.outlook().watch_from(now);
        self.watch.want_from(from);
        let request = self.watch.transmit(now, &self.settings)?;
        let priority = if request.is_long_poll() {
            self.outlook().priority_of_poll(now)
        } else {
            request.priority()
        };
        Some((From::Watch, request.with_priority(priority)))
    }

    fn transmit_contender(&mut self, now: Instant) -> Option<(From, Request)> {
        let first_view = self.outlook().first_view_until();
        let waits_for_view = first_view.is_some_and(|until| now < until);
        let mut no = self.next_ready(now, waits_for_view)?;
        let enters_next = |it: &Contender| it.enters_next(now);
        if self.roster.get(no).is_some_and(enters_next) && self.outlook().joins_next_write(now) {
            no = self.next_ready(now, true)?;
        }
        if self.roster.get(no).is_some_and(Contender::wants_creation) {
            let ttl = self.settings.session.ttl();
            self.requests.orphans_mut().asked(now, ttl);
        }
        self.transmit_from(now, no)
    }

    /// The sender of the next request, with or without those who have still to enter.
    fn next_ready(&mut self, now: Instant, holds_back: bool) -> Option<ContenderNo> {
        let may_create = self.requests.orphans().may_create(now);
        let may_send = |contender: &Contender| {
            !(holds_back && contender.enters_next(now))
                && (may_create || !contender.wants_creation())
        };
        self.roster.next_ready(now, may_send)
    }

    fn transmit_from(&mut self, now: Instant, no: ContenderNo) -> Option<(From, Request)> {
        let along = self.outlook().along(now);
        let (part, request) = self.roster.transmit(now, no, along, &self.settings)?;
        Some((From::Contender(no, part), request))
    }

    /// Takes the outcome of a request: its answer, or its error. An unknown, superseded or already
    /// answered request changes nothing. Returns how it ended.
    pub(super) fn take_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: &Result<Response, TransportError>,
    ) -> Option<RequestEnd> {
        let (received, end) = self.requests.receive(now, id, result)?;
        let Received {
            from,
            sent_at,
            answer,
            ..
        } = received;
        if let From::Contender(no, Part::Session(_)) = from {
            self.roster.was_answered(no);
        }
        if from != From::Watch {
            self.watch.took(now.saturating_since(sent_at));
        }
        if self.watch.judge(now, from == From::Watch, result.is_ok()) {
            self.requests.abort(|from| from == From::Watch);
        }
        let sent = Moment::of(id);
        match from {
            From::Watch if *self.watch.polled() != Focus::Prefix => self.handle_key(now, answer),
            From::Watch | From::Refresh => self.handle_view(now, from, (sent, sent_at), answer),
            From::Record => self.handle_record_read(now, answer),
            From::Ledger => self.handle_write(now, (sent, sent_at), answer),
            From::Vanished => self.handle_finding(now, answer),
            From::Confirmation(no) => self.handle_confirmation(now, no, sent_at, answer),
            From::Contender(no, part) => {
                if self.roster.get(no).is_some_and(|it| it.is_creation(part)) {
                    let ttl = self.settings.session.ttl();
                    let orphans = self.requests.orphans_mut();
                    orphans.answered(now, sent_at, answer.as_ref().copied(), ttl);
                }
                self.handle_contender(now, no, part, (sent, sent_at), answer);
            }
        }
        self.settle(now);
        end
    }

    fn handle_contender(
        &mut self,
        now: Instant,
        no: ContenderNo,
        part: Part,
        sent: (Moment, Instant),
        answer: Result<&Response, RequestError>,
    ) {
        if part == Part::Key {
            self.watch.credit();
        }
        // A late renewal must not bring back a belief that has ended.
        self.let_time_pass(now, no);
        let held = self.held_until(no);
        let moment = self.moment();
        let event = self.roster.get_mut(no).and_then(|mut contender| {
            let (settings, rng) = (&self.settings, &mut self.rng);
            contender.handle(now, moment, part, answer, settings, rng)
        });
        self.note_renewal(now, no, held);
        let contender = self.roster.get_mut(no);
        let arrival = contender.and_then(|mut it| it.take_arrival());
        match arrival {
            Some(Arrival::Seen(view)) => {
                self.knowledge.confirm(now);
                self.accept(now, *view, sent, true);
            }
            Some(Arrival::Unseen(own)) => self.enter_unseen(now, own),
            None => {}
        }
        let contender = self.roster.get(no);
        let failure = contender.and_then(|it| it.failure().cloned());
        self.note(now, failure);
        self.handle_contender_event(now, no, event);
    }

    /// Takes the answer to a question about many sessions.
    fn handle_confirmation(
        &mut self,
        now: Instant,
        no: QuestionNo,
        sent_at: Instant,
        answer: Result<&Response, RequestError>,
    ) {
        let confirmations = self.roster.confirmations();
        let confirmed = confirmations.hear(now, no, answer, &mut self.rng);
        self.take_confirmed(now, sent_at, confirmed);
    }

    /// Passes on what a question about many sessions has shown.
    pub(super) fn take_confirmed(
        &mut self,
        now: Instant,
        sent_at: Instant,
        confirmed: Confirmed<ContenderNo>,
    ) {
        match confirmed {
            Confirmed::All(numbers) => {
                for no in numbers {
                    // A late answer must not bring back a belief that has ended.
                    self.let_time_pass(now, no);
                    let held = self.held_until(no);
                    if let Some(mut contender) = self.roster.get_mut(no) {
                        contender.lived(sent_at);
                    }
                    self.note_renewal(now, no, held);
                }
            }
            Confirmed::Without(numbers) => {
                for no in numbers {
                    if let Some(mut contender) = self.roster.get_mut(no) {
                        contender.doubt_session(now);
                    }
                }
            }
            Confirmed::Nothing => {}
        }
    }

    /// Takes news of a shared session.
    pub(super) fn take_loan(&mut self, now: Instant, news: &LoanNews) {
        let no = ContenderNo(news.loan.0);
        if let Some(heard) = news.heard {
            let (Heard::Answer(took) | Heard::Silence(took)) = heard;
            self.watch.took(took);
            let is_answered = matches!(heard, Heard::Answer(_));
            if self.watch.judge(now, false, is_answered) {
                self.requests.abort(|from| from == From::Watch);
            }
        }
        self.let_time_pass(now, no);
        let held = self.held_until(no);
        let moment = self.moment();
        let event = self
            .roster
            .get_mut(no)
            .and_then(|mut it| it.learn(moment, &news.shown));
        self.note_renewal(now, no, held);
        if news.shown.failure.is_some() {
            self.note(now, news.shown.failure.clone());
        }
        self.handle_contender_event(now, no, event);
        self.settle(now);
    }

    fn handle_finding(&mut self, now: Instant, answer: Result<&Response, RequestError>) {
        let ahead = self.outlook().ahead(now, self.knowledge.current());
        match self.vanished.handle(now, answer, ahead, &mut self.rng) {
            Finding::Settled => self.note(now, None),
            Finding::Hidden => {
                let prefix = self.settings.prefix.to_string();
                self.fail_waiting(now, |_| Error::IncompleteView {
                    prefix: prefix.clone(),
                    on: Subject::default(),
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

    /// Gives the poll under way up for another one, unless it has just begun.
    pub(super) fn restart_watch(&mut self, now: Instant) {
        if self.watch.restart(now) {
            self.requests.abort(|from| from == From::Watch);
        }
    }

    /// A request of the participant as a whole failed permanently: nobody can be admitted or
    /// removed properly. A holder continues as long as its lease.
    pub(super) fn refuse(&mut self, now: Instant, error: &RequestError) {
        self.fail_waiting(now, |_| Error::Request(error.clone()));
        self.cannot_withdraw(now, error);
    }

    /// Those that leave the record can't for now, or never.
    pub(super) fn cannot_withdraw(&mut self, now: Instant, error: &RequestError) {
        let moment = self.moment();
        for no in self.roster.numbers_of(Group::Withdrawing) {
            if let Some(mut contender) = self.roster.get_mut(no) {
                contender.leaving_failed(now, moment, error, &self.settings);
            }
        }
    }

    /// Remembers the last failure, for those whose time runs out. An instant try does not wait for
    /// the next attempt.
    pub(super) fn note(&mut self, now: Instant, failure: Option<RequestError>) {
        if let Some(error) = &failure {
            self.fail_tries(now, error.at_face_value());
            if self.has_only_left_behind() {
                self.roster.rest_after_failure(now, &self.settings);
            }
        }
        self.callers.note(failure);
    }
}
