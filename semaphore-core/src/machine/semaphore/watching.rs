//! From when on the prefix has to be watched, and when what is known is enough.
//!
//! A transaction shows what it left, so that nothing else needs to be asked while one is under
//! way, and nothing for a moment after it. A hold in its first moments is not watched: that is
//! a quarter of a second after the last transaction that showed it, and with one round of requests the bound
//! within which an eviction is noticed.

use core::time::Duration;

use crate::machine::process::encoding::Encoding;
use crate::machine::semaphore::contender::{Contender, Part};
use crate::machine::semaphore::knowledge::RecordLook;
use crate::machine::semaphore::roster::Group;
use crate::machine::semaphore::{From, Participant};
use crate::record::Record;
use crate::time::Instant;
use crate::view::View;

/// For how long an answer that tells as much as a poll keeps the poll waiting, and how long a newcomer
/// waits for the first read: an agent nearby needs a fraction of it. Where the last answer was slow, longer.
const PROMPT: Duration = Duration::from_millis(50);

impl Participant {
    /// From when on the next poll is wanted. It waits a little for an answer that tells as much.
    pub(super) fn watch_from(&self, now: Instant) -> Option<Instant> {
        if self.settings.encoding == Encoding::Requests {
            return Some(now);
        }
        if self.knowledge.record_look() != RecordLook::Not && self.is_in_crowd() {
            return Some(now);
        }
        let Some(observed) = self.knowledge.current() else {
            return Some(
                self.awaited(|part| part == Part::Key)
                    .map_or(now, |sent| sent + self.prompt()),
            );
        };
        let later = self.knowledge.confirmed_until(now);
        let holds = self.roster.has_any(Group::Held);
        let waits = !self.callers.queue().is_empty()
            || self.roster.has_any(Group::Wanting)
            || self.roster.has_any(Group::Withdrawing);
        let for_others = (waits && !self.is_about_to_enter()).then(|| {
            let is_for_own = later > now
                && self.ledger.claim().is_none()
                && self.has_only_own_holders(&observed.view);
            let from = if is_for_own { later } else { now };
            self.answer_awaited(now)
                .map_or(from, |sent| from.max(sent + self.prompt()))
        });
        for_others.into_iter().chain(holds.then_some(later)).min()
    }

    fn prompt(&self) -> Duration {
        PROMPT.max(self.watch.round_trip() * 4)
    }

    /// When a request was sent, or is about to be, whose answer tells as much as a poll.
    fn answer_awaited(&self, now: Instant) -> Option<Instant> {
        let is_planned =
            self.ledger.planned().is_some() || self.watch.is_refresh_wanted() && self.is_in_crowd();
        let in_flight = self.requests.under_way().filter(|it| match it.from {
            From::Ledger => true,
            From::Refresh => self.is_in_crowd(),
            _ => false,
        });
        is_planned
            .then_some(now)
            .into_iter()
            .chain(in_flight.map(|it| it.sent_at))
            .chain(self.awaited(|part| part == Part::Key))
            .max()
    }

    /// Whether nothing can be done yet about what a poll would show: the first of ours is about to have
    /// its session, or, in a crowd, its key. To enter shows as much, and whoever polled a crowd meanwhile
    /// would read all of it again for each who enters before: many who come at once would make an agent
    /// so slow by it that nobody gets in.
    fn is_about_to_enter(&self) -> bool {
        let is_in_line =
            |it: &Contender| it.key_index().is_some() || it.must_withdraw() || it.is_queued();
        let enters = self.awaited(|part| part == Part::Key).is_some();
        let is_about_to = if enters {
            self.is_in_crowd()
        } else {
            self.awaited(|part| matches!(part, Part::Session(_)))
                .is_some()
        };
        is_about_to && !self.roster.all().any(is_in_line)
    }

    /// Until when a newcomer waits for the first read, which tells whether it may enter and claim in
    /// one step.
    pub(super) fn first_view_until(&self) -> Option<Instant> {
        let since = self.watch.reads_since()?;
        let is_first =
            self.settings.encoding == Encoding::Transactions && self.knowledge.current().is_none();
        is_first.then_some(since + self.prompt())
    }

    /// An instant try is not told from memory that there is no slot.
    pub(super) fn look_again(&mut self) {
        if let Some(observed) = self.knowledge.newest_mut()
            && self.watch.start_over()
        {
            observed.outdate();
        }
    }

    /// Since when a contender is about to learn how the prefix looks, or to make its session.
    fn awaited(&self, is_meant: fn(Part) -> bool) -> Option<Instant> {
        let awaited = self.requests.under_way().filter(|it| match it.from {
            From::Contender(no, part) => {
                is_meant(part) && self.roster.get(no).is_some_and(Contender::is_wanting)
            }
            _ => false,
        });
        awaited.map(|it| it.sent_at).max()
    }

    /// Whether it is our own releases that are waited for: nobody else holds or waits.
    fn has_only_own_holders(&self, view: &View) -> bool {
        let mut holders = view.record().into_iter().flat_map(Record::holders);
        !self.roster.sees_strangers_wait(view) && holders.all(|holder| self.roster.is_ours(holder))
    }
}
