//! News of the sessions, wishes for them, and what the process checks for its holders together.

use core::iter;

use super::Participant;
use super::contender::{Contender, ContenderNo, Stand};
use super::reads::Due;
use crate::error::{Error, Lost};
use crate::id::{CommandId, SessionId};
use crate::machine::process::failed::Failed;
use crate::machine::process::reader::check::{Check, CheckNews, Reads as Readers, Stance};
use crate::machine::process::tenancy::loan::LoanNews;
use crate::record::Record;
use crate::subject::Subject;
use crate::time::Instant;

/// The most keys that are checked for one semaphore, a part in each round.
const MOST_CHECKED: usize = 80;

impl Participant {
    /// Tells observers that a belief lasts longer than before.
    pub(super) fn tell_renewal(
        &mut self,
        now: Instant,
        no: ContenderNo,
        before: Option<(CommandId, Instant)>,
    ) {
        if let (Some((_, before)), Some((acquire, until))) = (before, self.held_until(no))
            && before < until
        {
            let notices = self.callers.notices_mut();
            notices.renewed(now, acquire, before, until);
        }
    }

    /// Takes news of a session.
    pub(super) fn take_loan(&mut self, now: Instant, news: &LoanNews) {
        let no = ContenderNo(news.loan.0);
        let before = self.held_until(no);
        let is_new = self.ours.get(no).is_some_and(|it| it.session().is_none());
        self.ours.change(no, |it| {
            it.loan.learn(&news.shown);
            if it.loan.is_gone() {
                it.key = None;
            }
        });
        let Some(contender) = self.ours.get(no) else {
            return;
        };
        let (is_gone, session) = (contender.loan.is_gone(), contender.session().cloned());
        let failed = contender.loan.failed().cloned();
        self.tell_renewal(now, no, before);
        if is_new {
            // A restored snapshot may have named it while nobody used it.
            self.compare_with_record(now, no, false);
        }
        if let Some(seen) = &news.seen {
            self.take_seen(now, no, seen);
        }
        if let Some(Failed { sent_at, error }) = failed {
            if error.is_permanent() && self.is_wanting(no) {
                self.fail_waiting(now, sent_at, |_| Error::Request(error.clone()));
            }
            self.note(now, Some(error));
        }
        if is_gone {
            // A claim that was given up may have come before.
            if !self.ours.get(no).is_some_and(|it| it.is_named) {
                self.reads.require(Due::ConfirmedList);
            }
            if self.is_wanting(no) {
                self.writes.respawn.begin(now, &mut self.rng);
            }
            match session {
                Some(session) => {
                    let lost = Lost::SessionGone {
                        session,
                        key_alone: false,
                        on: Subject::default(),
                    };
                    self.lose(now, no, lost);
                }
                None => _ = self.ours.change(no, Contender::leave),
            }
        }
    }

    fn is_wanting(&self, no: ContenderNo) -> bool {
        let stand = self.ours.get(no).map(Contender::stand);
        matches!(stand, Some(Stand::Entering | Stand::Waiting))
    }

    /// When the belief of this contender ends, and for which acquisition it holds.
    pub(super) fn held_until(&self, no: ContenderNo) -> Option<(CommandId, Instant)> {
        let contender = self.ours.get(no)?;
        Some((contender.held_for()?, contender.believed_until()?))
    }

    /// Hands its wishes to its own pool, and takes the pool's news.
    pub(super) fn exchange(&mut self, now: Instant) -> bool {
        let Some(lone) = &mut self.lone else {
            return false;
        };
        let all = lone.exchange(now, iter::from_fn(|| self.ours.poll_wish()));
        for news in &all {
            self.take_loan(now, news);
        }
        !all.is_empty()
    }

    /// Whether the process looks after it together with others, instead of its own poll.
    pub(super) fn is_looked_after(&self) -> bool {
        self.lone.is_none() && self.reads.readers == Readers::Shared && self.only_waits()
    }

    fn only_waits(&self) -> bool {
        self.ours.count(Stand::Waiting) == self.ours.len() && !self.ours.is_empty()
    }

    /// What is checked for it together with others, while it only waits: whether the record has
    /// moved, and whether the keys are there of those that it names and of those ahead. If a name's key
    /// is missing, a list makes it a suspect. Suspects have their own time.
    pub(super) fn shared_check(&self) -> Option<Check> {
        if self.lone.is_some() || !self.only_waits() {
            return None;
        }
        let prefix = &self.settings.prefix;
        let holders = self.known.record.get().into_iter();
        let holders = holders.flat_map(Record::holders);
        let holders = holders.filter(|name| !self.known.missing.is_suspect(name));
        let own = self.ours.those(Stand::Waiting);
        let sessions = own
            .filter_map(|(_, it)| it.session().cloned())
            .chain(holders.filter_map(SessionId::read))
            .chain(self.known.line.nearest().cloned());
        let keys = sessions.take(MOST_CHECKED);
        let keys = keys.map(|it| (prefix.contender_key(&it), it));
        Some(Check {
            stance: Stance::Waits {
                ahead: self.ahead().unwrap_or(u32::MAX),
            },
            record: prefix.record_key(),
            index: self.known.record.index(),
            keys: keys.collect(),
            seen_at: self.known.record.seen_at(),
        })
    }

    /// Takes the result of such a check.
    pub(super) fn take_check(&mut self, news: CheckNews) {
        match news {
            CheckNews::WaitingReads(readers) => self.reads.readers = readers,
            CheckNews::Reads(_) | CheckNews::AsBefore { .. } => {}
            CheckNews::Changed(index) => {
                if self.known.record.index() == index {
                    self.reads.require(Due::List);
                }
            }
        }
    }
}
