//! Handles answers, and what follows: who leads, from the election to its end, and what the key
//! shows meanwhile.

use crate::defect::{Defect, is_on};
use crate::error::{Conflict, Error, Lost, RequestError};
use crate::http::Response;
use crate::id::{CommandId, Index, RequestId};
use crate::machine::callers::{Caller, Patience};
use crate::machine::election::between::Acquaintance;
use crate::machine::election::candidacy::{
    Answer, Asked, Candidacy, CandidacyEvent, Part, Term, View, Way,
};
use crate::machine::election::{Candidate, From, Leading};
use crate::machine::process::failed::Failed;
use crate::machine::process::moment::Moment;
use crate::machine::process::reader::check::CheckNews;
use crate::machine::process::reader::poller::Poller;
use crate::machine::process::requests::Received;
use crate::machine::process::tenancy::loan::LoanNews;
use crate::subject::Subject;
use crate::time::Instant;

impl Candidate {
    /// A follower of this election was refused: observers are told what a campaign would fail with.
    pub(crate) fn take_refusal(&mut self, error: &Error) {
        self.callers.notices_mut().failed_all(error);
    }

    /// Takes the answer to a request, for the watch or the candidacy.
    pub(super) fn handle_answer(
        &mut self,
        now: Instant,
        id: RequestId,
        received: Received<'_, From>,
    ) -> Option<CandidacyEvent> {
        let Received {
            from,
            sent_at,
            answer,
            ..
        } = received;
        match from {
            From::Watch => self.handle_poll(now, id, sent_at, answer),
            From::Candidacy(part) => self.handle_part(now, id, part, sent_at, answer),
        }
    }

    fn handle_poll(
        &mut self,
        now: Instant,
        id: RequestId,
        sent_at: Instant,
        answer: Result<&Response, RequestError>,
    ) -> Option<CandidacyEvent> {
        match answer.and_then(View::parse) {
            Ok(view) => {
                self.watch.poller.answered(now, view.as_of);
                let session = view.key.as_ref().and_then(|it| it.session.as_ref());
                let own = self.candidacy.as_ref().and_then(Candidacy::session_id);
                self.callers.notices_mut().leads(session, own);
                let asked = self.asked(id, sent_at);
                let candidacy = self.candidacy.as_mut()?;
                let (settings, rng) = (&self.settings, &mut self.rng);
                let event = candidacy.watched(now, view, asked, settings, rng);
                candidacy.pace_watch(now, &mut self.watch.poller, rng);
                event
            }
            Err(error) => {
                self.watch.poller.failed(now, &mut self.rng);
                // A plain read tells at once where Consul is now, even if indexes went backwards.
                self.watch.poller.restart();
                self.candidacy.as_mut()?.fail(Failed { sent_at, error })
            }
        }
    }

    fn asked(&self, id: RequestId, sent_at: Instant) -> Asked {
        Asked {
            moment: self.requests.moment(),
            sent: Moment::of(id),
            sent_at,
        }
    }

    fn handle_part(
        &mut self,
        now: Instant,
        id: RequestId,
        part: Part,
        sent_at: Instant,
        answer: Result<&Response, RequestError>,
    ) -> Option<CandidacyEvent> {
        let asked = self.asked(id, sent_at);
        let answer = match part {
            Part::Write => Answer::Written(answer),
            Part::Read => {
                let read = answer.and_then(View::parse);
                if let Ok(view) = &read {
                    self.leave_poll_ahead(now, id, view.as_of);
                }
                Answer::Read(read)
            }
        };
        let (settings, rng) = (&self.settings, &mut self.rng);
        let candidacy = self.candidacy.as_mut()?;
        candidacy.handle(now, asked, answer, settings, rng)
    }

    /// A confirmed read that was sent after the poll shows a lower index than the poll names: a
    /// snapshot was restored. That poll would last its whole wait, and miss what changes until then.
    fn leave_poll_ahead(&mut self, now: Instant, read: RequestId, shown: Index) {
        let is_later = self.requests.is_polling_since_before(read);
        if is_later && self.watch.poller.is_ahead_of(shown) {
            self.requests.abort(|from| from == From::Watch);
            self.watch.poller.ended(now);
            self.watch.poller.restart();
        }
    }

    /// Takes news of a session.
    pub(super) fn take_loan(&mut self, now: Instant, news: &LoanNews) {
        let held = self.held_until();
        if news.loan == self.between.loan()
            && let Some(candidacy) = &mut self.candidacy
        {
            let moment = self.requests.moment();
            if news.seen.as_ref().is_some_and(|it| it.key.is_none()) {
                candidacy.is_missed(now);
            }
            let event = candidacy.learn(moment, &news.shown);
            self.note(now);
            self.handle_event(now, event);
            self.note_renewal(now, held);
        }
    }

    /// Takes the result of a check of the key with those of others.
    pub(super) fn take_check(&mut self, now: Instant, news: CheckNews) {
        match news {
            CheckNews::Reads(reads) => self.watch.for_leader(reads),
            CheckNews::WaitingReads(reads) => self.watch.for_candidate(reads),
            CheckNews::AsBefore { index, .. } => {
                if let Some(candidacy) = &mut self.candidacy {
                    candidacy.seen_again(now, index);
                }
                self.note(now);
            }
            CheckNews::Changed(index) => {
                if is_on(Defect::OlderCheckBelieved) {
                    self.believe_a_change(now);
                }
                let is_news = |it: &mut Candidacy| it.has_changed(now, index);
                let poller = &mut self.watch.poller;
                if self.candidacy.as_mut().is_some_and(is_news) && !poller.is_polling() {
                    // A snapshot may have been restored, with a lower index.
                    poller.restart();
                }
            }
        }
        self.settle(now);
    }

    /// Remembers the last failure, for those whose time runs out. An instant try does not wait for
    /// the next attempt.
    pub(super) fn note(&mut self, now: Instant) {
        let Some(candidacy) = &self.candidacy else {
            return;
        };
        if candidacy.has_seen_election(&self.settings.key) {
            self.between.key = Acquaintance::Election;
        }
        self.callers.note(candidacy.failure().cloned());
        if let Some(error) = candidacy.failure() {
            for ticket in self.callers.take_tries() {
                let error = Error::Request(error.at_face_value().clone());
                self.callers.failed(now, &ticket, error);
            }
        }
    }

    pub(super) fn handle_event(&mut self, now: Instant, event: Option<CandidacyEvent>) {
        match event {
            None => {}
            Some(CandidacyEvent::Elected(term)) => self.elect(now, term),
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
            Some(CandidacyEvent::HandedOn) => {
                self.end_losses();
                self.end_leading(None);
            }
            Some(CandidacyEvent::SessionGone) => {
                self.between.respawn.begin(now, &mut self.rng);
                self.leave(now);
            }
            Some(CandidacyEvent::Conflict(conflict)) => self.meet_conflict(now, conflict),
            Some(CandidacyEvent::Refused(Failed { sent_at, error })) => {
                self.fail_waiting(now, sent_at, &Error::Request(error));
                if self.callers.queue().is_empty() {
                    self.leave(now);
                }
            }
            Some(CandidacyEvent::ValueRefused(error)) => {
                if let Some(candidacy) = &mut self.candidacy {
                    self.settings.value = candidacy.keep_value();
                }
                self.end_change(Err(Error::Request(error)));
            }
        }
    }

    /// The key is something else's. If it was never seen as an election's, nobody will lead with
    /// it. Otherwise a waiting candidate waits until it is one again: somebody may have written it
    /// by mistake.
    fn meet_conflict(&mut self, now: Instant, conflict: Conflict) {
        let error = self.not_an_election(conflict);
        match self.between.key {
            Acquaintance::Unknown => {
                self.fail_waiting(now, now, &error);
                self.leave(now);
                return;
            }
            Acquaintance::Election => {
                self.between.key = Acquaintance::Overwritten;
                let error: &dyn core::error::Error = &error;
                tracing::warn!(name: "key-overwritten", error, "an election waits until its key is one again");
            }
            Acquaintance::Overwritten => {}
        }
        for ticket in self.callers.take_tries() {
            self.callers.failed(now, &ticket, error.clone());
        }
    }

    /// The error about the key, if it is not an election's.
    pub(super) fn conflict(&self) -> Option<Error> {
        let candidacy = self.candidacy.as_ref()?;
        let conflict = candidacy.conflict(&self.settings.key)?;
        Some(self.not_an_election(conflict))
    }

    fn not_an_election(&self, conflict: Conflict) -> Error {
        let key = self.settings.key.to_string();
        Error::NotAnElection {
            key,
            conflict,
            on: Subject::default(),
        }
    }

    /// The first in the queue leads. If nobody waits any more, the candidacy is left at once.
    pub(super) fn elect(&mut self, now: Instant, term: Term) {
        self.between.respawn.reset();
        let Some(ticket) = self.callers.queue().head().copied() else {
            return;
        };
        self.callers.take(ticket.id);
        self.leader = Some(ticket.id);
        let grant = (term.token, term);
        self.callers
            .granted(now, &ticket, grant, Leading::Something);
    }

    pub(super) fn lose(&mut self, now: Instant, campaign: CommandId, reason: Lost) {
        if let Some(hold) = self.callers.hold_mut(campaign) {
            hold.lost = Some(reason.clone());
        }
        self.step_down(now, campaign, Some(&reason));
        self.between.respawn.begin(now, &mut self.rng);
        self.callers.lost(now, campaign, reason);
    }

    /// The campaign no longer leads, if it did.
    pub(super) fn step_down(&mut self, now: Instant, campaign: CommandId, lost: Option<&Lost>) {
        if self.leader != Some(campaign) {
            return;
        }
        let is_kept = lost.is_none() && !self.callers.queue().is_empty();
        if let Some(candidacy) = &mut self.candidacy {
            let way = if is_kept { Way::HandOn } else { Way::End };
            candidacy.leave(now, way, &self.settings);
        }
        for change in core::mem::take(&mut self.changes) {
            // Nobody has refused it: the next term begins with it.
            self.settings.value = change.value;
            let result = Err(lost.cloned().map_or(Error::closed(), Error::Lost));
            let change = change.id;
            self.callers.done(change, result);
        }
        // A resignation waits for the candidacy's end. A loss ends at once for the next one.
        if lost.is_some() {
            self.leader = None;
        }
    }

    pub(super) fn leave(&mut self, now: Instant) {
        if let Some(candidacy) = &mut self.candidacy {
            candidacy.leave(now, Way::End, &self.settings);
        }
    }

    /// Fails those who have waited since then: what was sent before a caller came says nothing about it.
    pub(super) fn fail_waiting(&mut self, now: Instant, since: Instant, error: &Error) {
        let waiting = self.callers.take_until(since);
        if !waiting.is_empty() {
            self.callers.notices_mut().failed_all(error);
        }
        for ticket in waiting {
            self.callers.failed(now, &ticket, error.clone());
        }
    }

    /// A change of the key is taken for the end of the term: the slip of a defect.
    fn believe_a_change(&mut self, now: Instant) {
        if let Some(session) = self.candidacy.as_ref().and_then(Candidacy::led_with) {
            let (session, on) = (session.clone(), Subject::default());
            let lost = CandidacyEvent::Lost(Lost::KeyReleased { session, on });
            self.handle_event(now, Some(lost));
        }
    }

    /// Does what needs no request. Every command, answer and timeout ends here.
    pub(super) fn settle(&mut self, now: Instant) {
        loop {
            self.settle_candidacy(now);
            if !self.exchange(now) {
                break;
            }
        }
    }

    fn settle_candidacy(&mut self, now: Instant) {
        let wanted = !self.callers.queue().is_empty();
        let watches = |it: &Candidacy| it.is_campaigning() || it.is_leading() || it.is_settling();
        if let Some(candidacy) = &mut self.candidacy
            && candidacy.is_left_behind()
        {
            if wanted && candidacy.keeps_others_out() || is_on(Defect::ReleaseGivenUp) {
                candidacy.abandon();
            }
            self.tell_left_behind();
        }
        if !wanted && self.leader.is_none() {
            self.leave(now);
        } else if wanted
            && let Some(candidacy) = &mut self.candidacy
            && candidacy.is_settling()
            && self.between.respawn.is_over(now)
        {
            let moment = self.requests.moment();
            candidacy.take_up(
                &self.settings.value,
                watch_anew(&mut self.watch.poller, moment),
            );
        }
        if self.candidacy.as_ref().is_some_and(Candidacy::is_gone) {
            self.remove_gone();
        }
        if self.candidacy.is_none() && wanted && self.between.respawn.is_over(now) {
            let moment = self.requests.moment();
            let unseen_since = watch_anew(&mut self.watch.poller, moment);
            self.between.begin_loan();
            self.candidacy = Some(Candidacy::new(&self.settings, unseen_since));
        }
        if !wanted && self.candidacy.is_none() {
            self.between.respawn.end();
            self.requests.forget_services();
        }
        self.hurry(now);
        if self.candidacy.as_ref().is_some_and(watches) {
            self.watch.poller.start();
        } else {
            self.watch.poller.pause();
        }
        self.tell_resigned();
        self.end_shown_changes();
    }

    /// A campaign with a short timeout lets others go first only within its time.
    fn hurry(&mut self, now: Instant) {
        let (Some(head), Some(candidacy)) = (self.callers.queue().head(), &mut self.candidacy)
        else {
            return;
        };
        let until = candidacy.yields_until();
        let has_time = match head.patience {
            Patience::Unlimited => true,
            Patience::Until(end) => until < end,
            Patience::None => false,
        };
        if now < until && !has_time {
            candidacy.hurry();
        }
    }

    /// The one that resigned is told that it takes longer.
    fn tell_left_behind(&mut self) {
        let candidacy = self.candidacy.as_ref();
        let failure = candidacy.and_then(Candidacy::leave_failure).cloned();
        self.end_leading(failure);
        self.end_losses();
    }

    /// Nothing of the candidacy is left.
    pub(super) fn remove_gone(&mut self) {
        self.collect_wishes();
        let failure = self
            .candidacy
            .take()
            .and_then(|it| it.leave_failure().cloned());
        self.requests.abort(|from| from != From::Watch);
        self.end_losses();
        self.end_leading(failure);
    }

    /// One at a time leads: everything that was lost belonged to the ended candidacy, or to an
    /// earlier one.
    fn end_losses(&mut self) {
        for hold in self.callers.holds_mut() {
            if hold.lost.is_some() {
                hold.of = Leading::Nothing;
            }
        }
    }

    /// Nobody waits any longer for the end of the leadership: the one that resigned is told.
    fn end_leading(&mut self, failure: Option<RequestError>) {
        if let Some(campaign) = self.leader.take()
            && let Some(hold) = self.callers.forget(campaign)
            && hold.caller == Caller::Released
        {
            let result = failure.map_or(Ok(()), |error| Err(Error::Request(error)));
            self.callers.done(campaign, result);
        }
    }

    /// A resignation after a loss is answered when nothing is left.
    pub(super) fn tell_resigned(&mut self) {
        let over = self.callers.take_given_back(|it| it.of == Leading::Nothing);
        for (campaign, hold) in over {
            let result = hold.lost.map_or(Ok(()), |reason| Err(Error::Lost(reason)));
            self.callers.done(campaign, result);
        }
    }

    pub(super) fn begin_change(&mut self) {
        if let (Some(change), Some(candidacy)) = (self.changes.front(), &mut self.candidacy) {
            self.settings.value = change.value.clone();
            candidacy.set_value(change.value.as_bytes().to_vec());
        }
    }

    pub(super) fn end_change(&mut self, result: Result<(), Error>) {
        if let Some(change) = self.changes.pop_front() {
            let change = change.id;
            self.callers.done(change, result);
            self.begin_change();
        }
    }

    pub(super) fn end_shown_changes(&mut self) {
        while !self.changes.is_empty()
            && let Some(candidacy) = &self.candidacy
            && candidacy.is_leading()
            && candidacy.is_value_set()
        {
            self.end_change(Ok(()));
        }
    }
}

/// Starts the watch of the key with a plain read. If a poll is under way, which may last, only
/// another read shows the present: returns since when.
fn watch_anew(watch: &mut Poller, moment: Moment) -> Option<Moment> {
    watch.start();
    if watch.is_polling() {
        return Some(moment);
    }
    watch.restart();
    None
}
