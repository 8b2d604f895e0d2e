//! What reads of the prefix show: which view is the newest, and what it means for those who wait and
//! those who hold.

use crate::api::ListKeys;
use crate::defect::{Defect, is_on};
use crate::error::RequestError;
use crate::http::Response;
use crate::machine::process::moment::Moment;
use crate::machine::semaphore::contender::ContenderEvent;
use crate::machine::semaphore::roster::Group;
use crate::machine::semaphore::{From, Participant};
use crate::record::Record;
use crate::time::Instant;
use crate::view::{Source, View};

impl Participant {
    pub(super) fn handle_view(
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
                            self.vanished.forget();
                        }
                    }
                    _ => self.watch.refreshed(),
                }
                self.note(now, None);
                self.accept(now, view, sent, consistent);
            }
            Err(error) => {
                match from {
                    From::Watch => {
                        self.watch.failed(now, &mut self.rng);
                        self.vanished.forget();
                    }
                    _ => self.watch.refresh_failed(now, &mut self.rng),
                }
                if error.is_permanent() {
                    self.refuse(now, &error);
                }
                self.end_unreadable(now, &error);
                self.note(now, Some(error));
            }
        }
    }

    /// An agent that takes no such key, as one from 1.22 may after an upgrade, never will: who holds would go on renewing,
    /// and never learn of an eviction.
    pub(super) fn end_unreadable(&mut self, now: Instant, error: &RequestError) {
        if !matches!(error, RequestError::InvalidKey { .. }) {
            return;
        }
        for no in self.roster.numbers_of(Group::Held) {
            let contender = self.roster.get(no);
            let event = contender.and_then(|it| it.unreadable(error));
            self.handle_contender_event(now, no, event);
        }
    }

    /// Takes a view unless a newer one is known. An index that went backwards although it was asked
    /// for later is a stale server or a restored snapshot: the leader is asked which. Where they did go
    /// backwards, a stale server's may be higher, so that only the leader's word counts from then on.
    pub(super) fn accept(&mut self, now: Instant, view: View, sent: Moment, consistent: bool) {
        if let Some(known) = self.knowledge.newest()
            && !is_on(Defect::OlderViewAccepted)
        {
            let is_older = view.version() < known.view.version();
            // A transaction that changed nothing does not tell its index, so that it proves nothing.
            let is_outdated = view.source() == Source::List;
            if is_older && (sent <= known.received || !is_outdated) {
                // A write of ours that came since tells of the record, and not of all our keys.
                if !self.watch.asks_leader() {
                    self.observe_older(now, &view, sent);
                }
                return;
            }
            if !consistent && (is_older || self.watch.asks_leader()) {
                self.knowledge.doubt(self.requests.moment());
                return;
            }
            if is_older {
                self.watch.ask_leader();
            }
        }
        if consistent {
            self.knowledge.settle_doubt(sent);
        }
        if let Some(record) = view.record() {
            self.learn_who_is_passed(now, record);
        }
        let before = self.knowledge.view();
        self.vanished.observe(now, before, &view);
        let confirmed = consistent && self.ledger.ended_before(sent);
        self.observe(now, &view, sent, consistent, confirmed);
        self.knowledge
            .learn(now, self.requests.moment(), view, sent);
    }

    /// Whom another one has passed after it had been patient, as we are, need not be waited for by us either:
    /// otherwise a stuck stranger would cost each who waits behind it its own patience.
    pub(super) fn learn_who_is_passed(&mut self, now: Instant, record: &Record) {
        if !self.ledger.is_being_patient(now) {
            return;
        }
        let Some(known) = self.knowledge.newest() else {
            return;
        };
        let passed = known.view.passed_by(record, &self.ledger.overtaken(now));
        if !passed.is_empty() {
            tracing::debug!(name: "others-passed", ?passed, "somebody else did not wait for them either");
        }
        self.ledger.overtake(now, passed);
    }

    /// What a record alone tells our contenders.
    pub(super) fn observe_record(&mut self, now: Instant, view: &View) {
        let moment = self.moment();
        let numbers = self.roster.numbers();
        for no in numbers {
            let event = self
                .roster
                .get_mut(no)
                .and_then(|mut it| it.observe_record(moment, view, false, &self.settings));
            self.handle_contender_event(now, no, event);
        }
        self.settle_claim(now, view);
        self.dismiss_unclaimed(now);
    }

    /// What a view tells of our keys that is older than what is known of the record.
    fn observe_older(&mut self, now: Instant, view: &View, sent: Moment) {
        let numbers = self.roster.numbers();
        for no in numbers {
            let event = self
                .roster
                .get_mut(no)
                .and_then(|mut it| it.observe_older(view, sent, &self.settings));
            self.handle_contender_event(now, no, event);
        }
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
        let numbers = self.roster.numbers();
        let mut is_counted = false;
        for no in numbers {
            let event = self.roster.get_mut(no).and_then(|mut contender| {
                contender.observe(now, moment, view, sent, confirmed, &self.settings)
            });
            if matches!(event, Some(ContenderEvent::Unseen)) && !consistent {
                // An agent that lags behind does not show it yet.
                self.knowledge.doubt(moment);
                continue;
            }
            // However many vanished at once, they may have done so for one reason.
            if matches!(event, Some(ContenderEvent::Unseen)) && !is_counted {
                self.roster.not_seen();
                is_counted = true;
            }
            self.handle_contender_event(now, no, event);
        }
        self.roster.seen();
        self.settle_claim(now, view);
        self.dismiss_unclaimed(now);
    }
}
