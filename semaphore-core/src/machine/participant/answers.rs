//! What comes back: each answer goes to the machine that asked, and what it shows is compared with
//! what was known.

use super::{Claim, Event, From, Grant, Hold, Observed, Owner, Participant};
use crate::api::{CasKey, ListKeys};
use crate::defect::{Defect, is_on};
use crate::error::{Error, RequestError};
use crate::http::Response;
use crate::id::{AcquireId, FencingToken, RequestId};
use crate::machine::contender::{ContenderEvent, Part, Phase, Presence};
use crate::machine::inquest::Finding;
use crate::machine::order::Moment;
use crate::machine::plan::{ContenderNo, Write};
use crate::machine::settings::SessionSource;
use crate::time::Instant;
use crate::transport::TransportError;
use crate::view::View;

impl Participant {
    /// Takes what came back for a request: its answer, or why there is none. An answer to a
    /// request that is unknown, superseded or answered already changes nothing.
    #[expect(clippy::needless_pass_by_value, reason = "an answer is handed over")]
    pub fn handle_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: Result<Response, TransportError>,
    ) {
        let Some(from) = self.in_flight.remove(&id) else {
            return;
        };
        let answer = result
            .as_ref()
            .map_err(|e| RequestError::Transport(e.clone()));
        self.judge_poll(now, from, &result);
        match from {
            From::Watch | From::Refresh => self.handle_view(now, from, Moment::of(id), answer),
            From::Ledger => self.handle_write(now, answer),
            From::Inquest => self.handle_finding(now, answer),
            From::Contender(no, part) => {
                if part == Part::Key {
                    self.watch.credit();
                }
                // What comes after the lease brings no belief back that has ended.
                self.let_time_pass(now, no);
                let moment = self.moment();
                let event = self.contenders.get_mut(&no).and_then(|contender| {
                    let (settings, rng) = (&self.settings, &mut self.rng);
                    contender.handle(now, moment, part, answer, settings, rng)
                });
                let failure = self
                    .contenders
                    .get(&no)
                    .and_then(|contender| contender.failure().cloned());
                self.note(now, failure);
                self.handle_contender_event(now, no, event);
            }
        }
        self.settle(now);
    }

    /// When requests are answered again after some were not, the poll that was under way meanwhile
    /// may be dead, and would be missed only when its time is over.
    fn judge_poll(&mut self, now: Instant, from: From, result: &Result<Response, TransportError>) {
        match (from, result) {
            (From::Watch, _) => self.is_poll_suspect = false,
            (_, Err(_)) => self.is_poll_suspect = true,
            (_, Ok(_)) => {
                self.is_poll_suspect &= self.watch.is_polling();
                if self.is_poll_suspect && self.watch.restart(now) {
                    self.is_poll_suspect = false;
                    let polls = self
                        .in_flight
                        .extract_if(.., |_, from| *from == From::Watch);
                    self.aborts.extend(polls.map(|(id, _)| id));
                }
            }
        }
    }

    fn handle_view(
        &mut self,
        now: Instant,
        from: From,
        sent: Moment,
        answer: Result<&Response, RequestError>,
    ) {
        let view = answer
            .and_then(ListKeys::parse)
            .map(|list| View::new(&self.settings.prefix, &list));
        let consistent = from == From::Refresh || self.watch.is_polling_leader();
        match view {
            Ok(view) => {
                match from {
                    From::Watch => {
                        if !self.watch.answered(now, view.index()) {
                            self.inquest.forget();
                        }
                    }
                    _ => self.refresh.answered(),
                }
                self.note(now, None);
                self.accept(now, view, sent, consistent);
            }
            Err(error) => {
                match from {
                    From::Watch => {
                        self.watch.failed(now, &mut self.rng);
                        self.inquest.forget();
                    }
                    _ => self.refresh.failed(now, &mut self.rng),
                }
                if error.is_permanent() {
                    self.refuse(now, &error);
                }
                self.note(now, Some(error));
            }
        }
    }

    /// Takes a view unless a newer one is known. An index that went backwards although it was asked
    /// for later is a stale server or a restored snapshot: the leader is asked which. Where they did go
    /// backwards, a stale server's may be higher, so that only the leader's word counts from then on.
    fn accept(&mut self, now: Instant, view: View, sent: Moment, consistent: bool) {
        if let Some(known) = &self.view
            && !is_on(Defect::OlderViewAccepted)
        {
            let is_older = view.version() < known.view.version();
            if is_older && sent <= known.received {
                return;
            }
            if !consistent && (is_older || self.watch.asks_leader()) {
                self.doubt = Some(self.moment());
                return;
            }
            if is_older {
                self.watch.ask_leader();
            }
        }
        if consistent {
            self.doubt.take_if(|since| *since < sent);
        }
        let confirmed = consistent && self.ledger.ended_before(sent);
        self.observe(now, &view, sent, consistent, confirmed);
        // The same index is the same state, as fresh as the later of the two requests.
        let known = self.view.as_ref();
        let is_same = |known: &&Observed| {
            let known = &known.view;
            known.index() == view.index() && known.version() == view.version()
        };
        let sent = known
            .filter(is_same)
            .map_or(sent, |known| known.sent.max(sent));
        self.view = Some(Observed {
            view,
            sent,
            received: self.moment(),
        });
    }

    fn observe(
        &mut self,
        now: Instant,
        view: &View,
        sent: Moment,
        consistent: bool,
        confirmed: bool,
    ) {
        let moment = self.moment();
        let numbers: Vec<_> = self.contenders.keys().copied().collect();
        let mut is_counted = false;
        for no in numbers {
            let event = self.contenders.get_mut(&no).and_then(|contender| {
                contender.observe(now, moment, view, sent, confirmed, &self.settings)
            });
            if matches!(event, Some(ContenderEvent::Unseen)) && !consistent {
                // An agent that lags behind does not show it yet.
                self.doubt = Some(moment);
                continue;
            }
            // However many vanished at once, they may have done so for one reason.
            if matches!(event, Some(ContenderEvent::Unseen)) && !is_counted {
                self.unseen += 1;
                is_counted = true;
            }
            self.handle_contender_event(now, no, event);
        }
        if self
            .contenders
            .values()
            .any(|contender| contender.create_index().is_some())
        {
            self.unseen = 0;
            self.respawn.reset();
        }
        self.settle_claim(now, view);
        self.dismiss_strays(now);
    }

    /// A claim that was given up for another one may be the one that was applied. Whom it admitted
    /// has a slot that nobody waits for.
    fn dismiss_strays(&mut self, now: Instant) {
        let claimed = self.claim.as_ref().map(|claim| &claim.contenders);
        let strays: Vec<_> = self
            .contenders
            .iter()
            .filter(|(_, contender)| {
                contender.phase() == Phase::Claiming
                    && matches!(contender.presence(), Presence::Yes(_))
            })
            .map(|(no, _)| *no)
            .filter(|no| claimed.is_none_or(|claimed| !claimed.contains(no)))
            .collect();
        self.leave(now, &strays);
    }

    /// A claim whose answer was lost: every contender it admits is in the record, or none is.
    fn settle_claim(&mut self, now: Instant, view: &View) {
        let Some(claim) = &self.claim else {
            return;
        };
        if view.lock_index().0 == claim.token.0 {
            return;
        }
        let all_admitted = claim.contenders.iter().all(|no| {
            self.contenders
                .get(no)
                .is_some_and(|contender| matches!(contender.presence(), Presence::Yes(_)))
        });
        if let Some(claim) = self.claim.take()
            && all_admitted
        {
            self.grant(now, claim);
        }
    }

    fn handle_write(&mut self, now: Instant, answer: Result<&Response, RequestError>) {
        self.watch.credit();
        let moment = self.moment();
        match answer.and_then(CasKey::parse) {
            Ok(true) => {
                self.note(now, None);
                if let Some(write) = self.ledger.applied(moment) {
                    self.apply(now, &write);
                }
            }
            Ok(false) => {
                self.note(now, None);
                self.ledger.refused(now, moment, &mut self.rng);
            }
            Err(error) if is_on(Defect::UnknownTakenForApplied) && !error.was_not_applied() => {
                if let Some(write) = self.ledger.applied(moment) {
                    self.apply(now, &write);
                }
            }
            Err(error) => {
                let is_unknown = !error.was_not_applied();
                self.ledger.failed(now, moment, is_unknown, &mut self.rng);
                if is_unknown {
                    self.refresh.want(now);
                }
                if is_on(Defect::UnknownTakenForNotApplied)
                    && let Some(claim) = self.claim.take()
                {
                    for no in &claim.contenders {
                        if let Some(contender) = self.contenders.get_mut(no) {
                            contender.withdrawn(moment, &self.settings);
                        }
                    }
                }
                for contender in self.contenders.values_mut() {
                    if contender.must_withdraw() {
                        contender.withdrawal_failed(&error);
                    }
                }
                if error.is_permanent() {
                    self.refuse(now, &error);
                }
                self.note(now, Some(error));
            }
        }
    }

    fn handle_finding(&mut self, now: Instant, answer: Result<&Response, RequestError>) {
        match self.inquest.handle(now, answer, &mut self.rng) {
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

    fn apply(&mut self, now: Instant, write: &Write) {
        let moment = self.moment();
        for no in &write.withdraw {
            if let Some(contender) = self.contenders.get_mut(no) {
                contender.withdrawn(moment, &self.settings);
            }
        }
        for no in &write.admit {
            if let Some(contender) = self.contenders.get_mut(no) {
                contender.admitted(write.base);
            }
        }
        if !write.admit.is_empty()
            && let Some(claim) = self.claim.take()
        {
            self.grant(now, claim);
        }
    }

    /// The record names the claim's contenders. It is a grant if its caller still waits and every
    /// lease holds; otherwise they leave again.
    fn grant(&mut self, now: Instant, claim: Claim) {
        let is_wanted = claim.contenders.iter().all(|no| {
            self.contenders
                .get(no)
                .is_some_and(|contender| contender.is_admissible(now))
        });
        let to_nobody = is_on(Defect::CancelledClaimGranted);
        if !is_wanted || self.queue.remove(claim.acquire).is_none() && !to_nobody {
            self.leave(now, &claim.contenders);
            return;
        }
        let mut token = claim.token;
        let mut sequencers = Vec::new();
        for no in &claim.contenders {
            if let Some(contender) = self.contenders.get_mut(no) {
                if is_on(Defect::TokenOfQueue) {
                    token = FencingToken(contender.create_index().unwrap_or_default().0);
                }
                contender.hold(claim.acquire);
                sequencers.extend(contender.sequencer(&self.settings));
            }
        }
        self.holds.insert(
            claim.acquire,
            Hold {
                contenders: claim.contenders,
                lost: None,
                owner: Owner::Present,
                failure: None,
            },
        );
        self.events.push_back(Event::Granted {
            acquire: claim.acquire,
            grant: Grant { token, sequencers },
        });
    }

    pub(super) fn handle_contender_event(
        &mut self,
        now: Instant,
        no: ContenderNo,
        event: Option<ContenderEvent>,
    ) {
        let Some(event) = event else {
            return;
        };
        match event {
            ContenderEvent::Lost(acquire, reason) => {
                if let Some(hold) = self.holds.get_mut(&acquire)
                    && hold.lost.is_none()
                {
                    hold.lost = Some(reason.clone());
                    if hold.owner == Owner::Present {
                        self.events.push_back(Event::Lost { acquire, reason });
                    }
                }
                self.end_hold(now, acquire);
            }
            ContenderEvent::SessionGone => self.replace(now, no, |session| match session {
                SessionSource::Callers(session) => Some(Error::SessionGone {
                    session: session.clone(),
                }),
                SessionSource::Create(_) => None,
            }),
            ContenderEvent::KeyTaken => self.replace(now, no, |session| match session {
                SessionSource::Callers(session) => Some(Error::SessionInUse {
                    session: session.clone(),
                }),
                SessionSource::Create(_) => None,
            }),
            ContenderEvent::Unseen => {
                let prefix = self.settings.prefix.to_string();
                let is_hidden = self.unseen >= MAX_UNSEEN;
                self.replace(now, no, |_| {
                    is_hidden.then_some(Error::IncompleteView { prefix })
                });
            }
            ContenderEvent::Refused(error) => {
                self.fail_waiting(now, |_| Error::Request(error.clone()));
            }
        }
    }

    /// A contender that can't go on leaves. Another takes its place after a wait, unless that would
    /// fare no better.
    fn replace(
        &mut self,
        now: Instant,
        no: ContenderNo,
        error: impl FnOnce(&SessionSource) -> Option<Error>,
    ) {
        self.leave(now, &[no]);
        self.respawn_at = Some(now + self.respawn.next(&mut self.rng));
        if let Some(error) = error(&self.settings.session) {
            self.fail_waiting(now, |_| error.clone());
        }
    }

    /// A request of the participant as a whole failed for good: nobody can be admitted or
    /// withdrawn in order. Whoever holds goes on for as long as the lease does.
    fn refuse(&mut self, now: Instant, error: &RequestError) {
        self.fail_waiting(now, |_| Error::Request(error.clone()));
        let moment = self.moment();
        for contender in self.contenders.values_mut() {
            if contender.must_withdraw() {
                contender.skip(moment, error.clone(), &self.settings);
            }
        }
    }

    /// Remembers the last failure, for those whose time runs out. An instant try does not wait for
    /// the next attempt.
    fn note(&mut self, now: Instant, failure: Option<RequestError>) {
        if let Some(error) = &failure {
            self.fail_tries(now, error);
        }
        self.failure = failure;
    }

    pub(super) fn end_hold(&mut self, now: Instant, acquire: AcquireId) {
        let contenders = self
            .holds
            .get(&acquire)
            .map(|hold| hold.contenders.clone())
            .unwrap_or_default();
        self.leave(now, &contenders);
    }

    pub(super) fn leave(&mut self, now: Instant, numbers: &[ContenderNo]) {
        let moment = self.moment();
        for no in numbers {
            if let Some(contender) = self.contenders.get_mut(no) {
                contender.leave(now, moment, &self.settings);
            }
        }
    }

    /// Takes contenders out of which nothing is left, and tells the callers whose they were.
    pub(super) fn bury(&mut self) {
        let gone: Vec<_> = self
            .contenders
            .iter()
            .filter(|(_, contender)| contender.phase() == Phase::Gone)
            .map(|(no, contender)| (*no, contender.leave_failure().cloned()))
            .collect();
        for (no, failure) in gone {
            self.contenders.remove(&no);
            let stale = self.in_flight.extract_if(
                ..,
                |_, from| matches!(from, From::Contender(of, _) if *of == no),
            );
            self.aborts.extend(stale.map(|(id, _)| id));
            for hold in self.holds.values_mut() {
                if hold.contenders.contains(&no) {
                    hold.failure = hold.failure.take().or(failure.clone());
                }
            }
        }
        let done: Vec<_> = self
            .holds
            .extract_if(.., |_, hold| {
                let gone = |no| !self.contenders.contains_key(no);
                hold.owner != Owner::Present && hold.contenders.iter().all(gone)
            })
            .collect();
        for (acquire, hold) in done {
            if hold.owner == Owner::Released {
                let result = match (hold.lost, hold.failure) {
                    (Some(lost), _) => Err(Error::Lost(lost)),
                    (None, Some(failure)) => Err(Error::Request(failure)),
                    (None, None) => Ok(()),
                };
                self.events.push_back(Event::Released { acquire, result });
            }
        }
    }
}

/// In how many views in a row contenders may be missing before views are held to be incomplete.
const MAX_UNSEEN: u32 = 3;
