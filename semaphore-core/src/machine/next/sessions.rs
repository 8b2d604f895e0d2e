//! News of the sessions, wishes for them, and what the process checks for its holders together.

use super::contender::{Contender, ContenderNo, Stand};
use super::reads::{Due, Target};
use super::{From, Participant};
use crate::error::{Error, Lost};
use crate::id::CommandId;
use crate::machine::contract::Machine as _;
use crate::machine::process::reader::check::{Check, CheckNews, Reads as Readers, Stance};
use crate::machine::process::tenancy::loan::LoanNews;
use crate::subject::Subject;
use crate::time::Instant;

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
        let failure = contender.loan.failure().cloned();
        self.tell_renewal(now, no, before);
        if let Some(error) = failure {
            if error.is_permanent() && self.is_wanting(no) {
                self.fail_waiting(now, |_| Error::Request(error.clone()));
            }
            self.note(now, Some(error));
        }
        if is_gone {
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
        let Some(mut lone) = self.lone.take() else {
            return false;
        };
        while let Some(wish) = self.ours.poll_wish() {
            lone.handle_wish(now, &wish);
        }
        let mut has_news = false;
        while let Some(news) = lone.poll_news() {
            has_news = true;
            self.take_loan(now, &news);
        }
        self.lone = Some(lone);
        has_news
    }

    /// Whether the process has too many holders for a poll of each.
    pub(super) fn lacks_polls(&self) -> bool {
        self.readers == Readers::Shared
    }

    /// What is checked for it together with others, while it only holds.
    pub(super) fn shared_check(&self) -> Option<Check> {
        let only_holds = self.callers.queue().is_empty()
            && self.ours.count(Stand::Holding) == self.ours.len()
            && !self.is_idle();
        if self.lone.is_some() || !only_holds || self.ours.len() > Check::MOST_KEYS {
            return None;
        }
        let keys = self.ours.those(Stand::Holding).filter_map(|(_, it)| {
            let session = it.session()?;
            let key = self.settings.prefix.contender_key(session);
            Some((key, session.clone()))
        });
        Some(Check {
            stance: Stance::Holds,
            record: self.settings.prefix.record_key(),
            index: self.known.record.index(),
            keys: keys.collect(),
            seen_at: self.known.record.seen_at(),
        })
    }

    /// Takes the result of such a check.
    pub(super) fn take_check(&mut self, news: CheckNews) {
        match news {
            CheckNews::Reads(readers) => {
                self.readers = readers;
                if self.lacks_polls() && matches!(self.reads.polled(), Some(Target::Own(_))) {
                    self.reads.drop_poll();
                    self.requests.abort(|from| matches!(from, From::Poll));
                }
            }
            CheckNews::WaitingReads(_) | CheckNews::AsBefore { .. } => {}
            CheckNews::Changed(index) => {
                if self.known.record.index() == index {
                    self.reads.require(Due::List);
                }
            }
        }
    }
}
