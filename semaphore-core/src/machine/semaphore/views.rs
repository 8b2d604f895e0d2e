//! What reads of the prefix, or in a crowd of one key, show: which view is the newest, and what it
//! means for waiters and holders.

use core::time::Duration;

use crate::api::{ListKeys, ReadKey};
use crate::defect::{Defect, is_on};
use crate::error::{Error, RequestError};
use crate::http::Response;
use crate::id::Index;
use crate::machine::process::moment::Moment;
use crate::machine::process::reader::check::CheckNews;
use crate::machine::semaphore::Participant;
use crate::machine::semaphore::contender::ContenderEvent;
use crate::machine::semaphore::focus::Focus;
use crate::machine::semaphore::knowledge::{Observed, RecordLook};
use crate::machine::semaphore::roster::Group;
use crate::machine::semaphore::sender::From;
use crate::record::Record;
use crate::time::Instant;
use crate::view::{Contender as Shown, Key, Lock, Source, View};

impl Participant {
    pub(super) fn handle_view(
        &mut self,
        now: Instant,
        from: From,
        sent: (Moment, Instant),
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
                        self.watch.failed_by(now, &error, &mut self.rng);
                        self.vanished.forget();
                    }
                    _ => self.watch.refresh_failed(now, &mut self.rng),
                }
                self.read_failed(now, error);
            }
        }
    }

    /// Takes the answer to a read of the record before a write.
    pub(super) fn handle_record_read(
        &mut self,
        now: Instant,
        answer: Result<&Response, RequestError>,
    ) {
        match answer.and_then(ReadKey::parse_at) {
            Ok((_, entry)) => {
                self.watch.record_read();
                self.note(now, None);
                self.knowledge.set_record_look(RecordLook::Not);
                let lock = entry.map(|entry| Lock::new(&entry));
                self.handle_record(now, Index::ZERO, lock);
                self.read_in_time(now);
            }
            Err(error) => {
                self.watch.record_failed(now, &mut self.rng);
                self.read_failed(now, error);
            }
        }
    }

    /// Reads the content of the prefix again, confirmed by the leader.
    pub(super) fn look(&mut self, now: Instant) {
        self.watch.refresh(now);
    }

    /// One of ours has entered, and does not know yet who is ahead. A read under way may be older:
    /// it need not be repeated, since [`Self::accept`] adds those who entered meanwhile.
    pub(super) fn enter_unseen(&mut self, now: Instant, own: Shown) {
        if let Some(observed) = self.knowledge.newest_mut() {
            observed.view.enter(own);
        }
        // Otherwise its place is read when it matters: `Situation::place`.
        if self.knowledge.current().is_none() {
            self.look(now);
        }
    }

    /// A read of the prefix or of the record failed.
    fn read_failed(&mut self, now: Instant, error: RequestError) {
        if error.is_permanent() {
            self.refuse(now, &error);
        }
        self.end_unreadable(now, &error);
        self.note(now, Some(error));
    }

    /// If an agent does not accept such a key, for example after an upgrade to 1.22
    /// (docs/CONSUL.md, "Keys"), it never will. Holders would keep renewing, and never learn of an
    /// eviction.
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

    /// Takes a view unless a newer one is known. If a later request has a lower index, the server
    /// is stale or a snapshot was restored: the leader is asked which. After a restore, a stale
    /// server's index may be higher, so only the leader's answers count from then on.
    ///
    /// Sources: Consul's documentation of blocking queries (an index may go backwards after a
    /// restore) and of consistency modes; docs/CONSUL.md, "Limits and timeouts": it also does so
    /// without a restore, 15 minutes after a deletion. Without this rule an old view could free a
    /// slot that is held.
    pub(super) fn accept(
        &mut self,
        now: Instant,
        mut view: View,
        (sent, sent_at): (Moment, Instant),
        consistent: bool,
    ) {
        let entered = self.roster.entered_after(&view, sent);
        if let Some(known) = self.knowledge.newest()
            && !is_on(Defect::OlderViewAccepted)
        {
            // A view that is completed below need not be newer than those entries.
            let newest = if entered.is_empty() {
                known.view.version()
            } else {
                known.view.version_before_entries()
            };
            let is_older = view.version() < newest;
            // A transaction that changed nothing does not have its index, so it proves nothing.
            let is_outdated = view.source() != Source::Transaction;
            if is_older && (sent <= known.received || !is_outdated) {
                // A later write of ours shows the record, but not all our keys.
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
            self.learn_who_lives(&view, sent_at);
        }
        if let Some(record) = view.record() {
            self.learn_who_is_passed(now, record);
        }
        for own in entered {
            view.enter(own);
        }
        let before = self.knowledge.view();
        self.vanished.observe(now, before, &view);
        // A record that its holder created looks after its deletion as it did before its creation.
        // The index of the list tells which. If the record was seen, its creation has come, even
        // though its answer may not have.
        let is_later = |before: &&View| view.index() > before.record_index();
        let deleted = before.filter(is_later).filter(|_| view.lock().is_none());
        let was_seen = deleted.is_some_and(|before| before.lock().is_some());
        let confirmed =
            was_seen || (consistent || deleted.is_some()) && self.ledger.ended_before(sent);
        self.observe(now, &view, sent, consistent, confirmed);
        self.knowledge
            .learn(now, self.requests.moment(), view, sent);
    }

    /// The leader has confirmed this view since `sent_at`, and it shows their keys tied to their
    /// sessions.
    fn learn_who_lives(&mut self, view: &View, sent_at: Instant) {
        for no in self.roster.numbers() {
            if let Some(mut contender) = self.roster.get_mut(no)
                && let Some(session) = contender.session_id()
                && matches!(view.key(session), Key::Tied(_))
            {
                contender.lived(sent_at);
            }
        }
    }

    /// If another one has passed somebody after being patient, as we are, we need not wait for them
    /// either. Otherwise a stuck stranger would cost each waiter behind it its own patience.
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

    /// Tells our contenders about a record alone.
    pub(super) fn observe_record(&mut self, now: Instant, view: &View) {
        let moment = self.moment();
        let numbers = self.roster.numbers();
        for no in numbers {
            let event = self
                .roster
                .get_mut(no)
                .and_then(|mut it| it.observe_record(moment, view, false));
            self.handle_contender_event(now, no, event);
        }
        self.settle_claims(now, view);
        self.dismiss_unclaimed(now);
    }

    /// Tells our contenders about their keys in a view that is older than the known record.
    fn observe_older(&mut self, now: Instant, view: &View, sent: Moment) {
        let numbers = self.roster.numbers();
        for no in numbers {
            let event = self
                .roster
                .get_mut(no)
                .and_then(|mut it| it.observe_older(view, sent));
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
            let event = self
                .roster
                .get_mut(no)
                .and_then(|mut contender| contender.observe(now, moment, view, sent, confirmed));
            if matches!(event, Some(ContenderEvent::Unseen)) && !consistent {
                // A lagging agent does not show it yet: by default a server answers by its lease
                // (Consul's documentation of consistency modes).
                self.knowledge.doubt(moment);
                continue;
            }
            // If several are missing at once, that counts once: they may have one cause.
            if matches!(event, Some(ContenderEvent::Unseen)) && !is_counted {
                self.roster.not_seen();
                is_counted = true;
            }
            self.handle_contender_event(now, no, event);
        }
        self.roster.seen();
        self.settle_claims(now, view);
        self.dismiss_unclaimed(now);
    }

    /// Takes the answer to a poll of one key.
    pub(super) fn handle_key(&mut self, now: Instant, answer: Result<&Response, RequestError>) {
        let is_early = self.watch.is_early(now);
        match answer.and_then(ReadKey::parse_at) {
            Ok((_, entry)) => {
                self.note(now, None);
                let is_news = match self.watch.polled().clone() {
                    Focus::Ahead { session, index, .. } => {
                        tracing::debug!(name: "crowd", %session, "looked at the next ahead alone");
                        let shown = entry
                            .filter(|entry| entry.session() == Some(session.as_str()))
                            .map(|entry| Shown::new(session.clone(), &entry));
                        if let Some(shown) = shown {
                            self.knowledge.learn_ahead(&session, index, shown)
                        } else {
                            // It has gone, and only the prefix shows who is next ahead now.
                            self.look(now);
                            true
                        }
                    }
                    Focus::Record { index } => {
                        self.knowledge.set_record_look(RecordLook::Not);
                        let lock = entry.map(|entry| Lock::new(&entry));
                        let is_news = self.handle_record(now, index, lock);
                        self.read_in_time(now);
                        is_news
                    }
                    Focus::Prefix => true,
                };
                if is_news || !is_early {
                    self.watch.key_answered(now);
                } else {
                    // An agent ends all polls when a snapshot is restored, with the old index
                    // (`reader::cursor`).
                    self.look(now);
                    self.watch.failed(now, &mut self.rng);
                }
            }
            Err(error) => {
                self.key_failed(now, &error);
                match self.watch.polled() {
                    _ if !error.is_permanent() => {}
                    // A contender that leaves needs only the record.
                    Focus::Ahead { .. } => {
                        self.fail_waiting(now, |_| Error::Request(error.clone()));
                    }
                    Focus::Record { .. } | Focus::Prefix => self.refuse(now, &error),
                }
                self.end_unreadable(now, &error);
                self.note(now, Some(error));
            }
        }
    }

    /// A poll of one key failed. The key may be gone, and its index from before an agent lost its
    /// state: the prefix shows what there is now.
    fn key_failed(&mut self, now: Instant, error: &RequestError) {
        self.watch.failed_by(now, error, &mut self.rng);
        self.look(now);
    }

    /// Takes the result of a check with the records of others.
    pub(super) fn take_check(&mut self, now: Instant, news: CheckNews) {
        let is_about = |it: &&mut Observed, index| it.view.record_index() == index;
        match news {
            CheckNews::Reads(reads) => self.watch.share_reads(reads),
            CheckNews::WaitingReads(reads) => self.watch.share_waiting_reads(reads),
            CheckNews::AsBefore { index, .. } => {
                self.note(now, None);
                let observed = self.knowledge.newest_mut();
                if let Some(observed) = observed.filter(|it| is_about(it, index)) {
                    observed.seen_again(now);
                }
            }
            CheckNews::Changed(index) => {
                let observed = self.knowledge.newest_mut();
                if observed.is_none_or(|it| is_about(&it, index)) {
                    self.look(now);
                }
            }
        }
        self.settle(now);
    }

    /// A holder's death does not change the record. So waiters read the prefix now and then, less
    /// often if more are ahead.
    fn read_in_time(&mut self, now: Instant) {
        let Some(observed) = self.knowledge.newest() else {
            return;
        };
        let rank = self.outlook().ahead(now, Some(observed));
        let due = observed.read_at + READ_PER_RANK * (rank + 1);
        if due <= now && !self.callers.queue().is_empty() {
            self.look(now);
        }
    }

    /// A poll of only the record has this result. Returns whether it differs from the one at this
    /// index.
    fn handle_record(&mut self, now: Instant, polled: Index, lock: Option<Lock>) -> bool {
        let moment = self.moment();
        let Some(known) = self.knowledge.view().map(View::record_index) else {
            return true;
        };
        if let Some(lock) = &lock
            && let Ok(record) = &lock.record
            && lock.modify_index > known
        {
            self.learn_who_is_passed(now, record);
        }
        let Some(observed) = self.knowledge.newest_mut() else {
            return true;
        };
        match lock {
            Some(lock) if lock.modify_index > known => {
                observed.view.set_lock(lock);
                observed.update(now, moment);
                let view = observed.view.clone();
                self.observe_record(now, &view);
                true
            }
            Some(lock) if lock.modify_index == known => {
                observed.is_current_again(now);
                // A write of ours may have changed it since the poll began.
                known > polled
            }
            // The server lags behind, or a snapshot was restored.
            _ => {
                self.look(now);
                true
            }
        }
    }
}

/// How old the knowledge of the contenders may be for the first waiter, and how much older for each
/// further one ahead.
const READ_PER_RANK: Duration = Duration::from_secs(5);
