//! What is known of the prefix: the newest view, how good it is, and what in it is doubted.
//!
//! The answer of a transaction comes from the leader after it was applied (Consul's documentation of transactions: all
//! operations or none, in the order of its log). So it is as good as a read that the leader confirms, and saves it.

use core::time::Duration;

use super::settings::Settings;
use crate::id::{Index, SessionId};
use crate::machine::process::encoding::Encoding;
use crate::machine::process::moment::Moment;
use crate::record::Record;
use crate::time::Instant;
use crate::view::{Claimed, Contender as Shown, ContenderFlags, Lock, View};

/// How long what a transaction has shown is taken for the present.
const FIRST_MOMENTS: Duration = Duration::from_millis(250);

#[derive(Clone, Debug)]
pub(super) struct Knowledge {
    newest: Option<Observed>,
    /// When a transaction of ours last showed what is known.
    confirmed_at: Option<Instant>,
    /// Since when the leader must be asked what to think of an answer.
    doubt: Option<Moment>,
    /// Whether the record is looked at next, whatever else is watched.
    record_look: RecordLook,
    /// Whether the next ahead has not moved for its time: then the record is watched, too.
    is_next_stuck: bool,
    /// The limit that the record may show until it shows ours.
    former_limit: Option<u32>,
}

/// A view, and when it was asked for and received.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    pub(super) view: View,
    pub(super) sent: Moment,
    pub(super) received: Moment,
    /// When Consul last said that the record is as this view has it.
    pub(super) seen_at: Instant,
    /// When the whole prefix was read, and how many contended then.
    pub(super) read_at: Instant,
    width: usize,
    /// Whether it is known to be, or may well be, a thing of the past: nothing is decided from it.
    is_outdated: bool,
}

/// Whether the record is looked at on its own, whatever else would be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordLook {
    Not,
    Now,
    /// As soon as it has changed beyond this index.
    After(Index),
}

impl Knowledge {
    pub(super) fn new() -> Self {
        Self {
            newest: None,
            confirmed_at: None,
            doubt: None,
            record_look: RecordLook::Not,
            is_next_stuck: false,
            former_limit: None,
        }
    }

    /// Nothing is asked for any more, and what is known will be outdated when something is.
    pub(super) fn forget(&mut self) {
        self.newest = None;
        self.record_look = RecordLook::Not;
        self.is_next_stuck = false;
        self.doubt = None;
    }

    /// What is known is read again.
    pub(super) fn drop_view(&mut self) {
        self.newest = None;
    }

    /// The newest view, be it dated: that serves to tell older ones only.
    pub(super) fn newest(&self) -> Option<&Observed> {
        self.newest.as_ref()
    }

    pub(super) fn view(&self) -> Option<&View> {
        self.newest.as_ref().map(|it| &it.view)
    }

    pub(super) fn record(&self) -> Option<&Record> {
        self.view()?.record()
    }

    /// The view from which decisions are made.
    pub(super) fn current(&self) -> Option<&Observed> {
        self.newest.as_ref().filter(|it| !it.is_outdated)
    }

    pub(super) fn newest_mut(&mut self) -> Option<&mut Observed> {
        self.newest.as_mut()
    }

    /// A list of the whole prefix came, newer than all that was known.
    pub(super) fn learn(&mut self, now: Instant, received: Moment, view: View, sent: Moment) {
        // The same index is the same state, as fresh as the later of the two requests.
        let is_same = |known: &&Observed| {
            let known = &known.view;
            known.index() == view.index() && known.version() == view.version()
        };
        let known = self.newest.as_ref().filter(is_same);
        let sent = known.map_or(sent, |known| known.sent.max(sent));
        let is_seen = match self.record_look {
            RecordLook::Not | RecordLook::Now => true,
            RecordLook::After(index) => view.record_index() >= index,
        };
        if is_seen {
            self.record_look = RecordLook::Not;
        }
        let width = view.contenders().len();
        self.newest = Some(Observed {
            view,
            width,
            sent,
            received,
            seen_at: now,
            read_at: now,
            is_outdated: false,
        });
    }

    /// What became of the next ahead, as a poll of its key alone shows it. Says whether that has changed since this index.
    pub(super) fn learn_ahead(&mut self, session: &SessionId, polled: Index, shown: Shown) -> bool {
        let is_changed = shown.modify_index > polled;
        self.is_next_stuck = !is_changed;
        let Some(observed) = &mut self.newest else {
            return true;
        };
        let claim = ContenderFlags::decode(shown.flags)
            .filter(|_| is_changed)
            .map_or(Claimed::None, |flags| flags.claim);
        self.record_look = match claim {
            // The claim has changed the record at the same index, and left nothing to claim.
            Claimed::Last => RecordLook::After(shown.modify_index),
            Claimed::One | Claimed::None => RecordLook::Now,
        };
        if claim != Claimed::None {
            observed.view.pass(session);
            observed.outdate();
        } else if is_changed {
            observed.view.lock_key(shown);
        }
        is_changed
    }

    /// A transaction of ours shows what is known.
    pub(super) fn confirm(&mut self, now: Instant) {
        self.confirmed_at = Some(now);
    }

    /// From when on what a transaction has shown is no longer taken for the present.
    pub(super) fn confirmed_until(&self, now: Instant) -> Instant {
        let until = |confirmed| confirmed + FIRST_MOMENTS;
        self.confirmed_at.map_or(now, until)
    }

    /// The leader has to be asked.
    pub(super) fn doubt(&mut self, since: Moment) {
        self.doubt = Some(since);
    }

    pub(super) fn is_doubted(&self) -> bool {
        self.doubt.is_some()
    }

    /// The leader has answered what was asked at this moment.
    pub(super) fn settle_doubt(&mut self, sent: Moment) {
        self.doubt.take_if(|since| *since < sent);
    }

    pub(super) fn record_look(&self) -> RecordLook {
        self.record_look
    }

    /// The record is looked at, or need not be.
    pub(super) fn set_record_look(&mut self, record_look: RecordLook) {
        self.record_look = record_look;
    }

    /// Whether the next ahead has not moved for its time.
    pub(super) fn is_next_stuck(&self) -> bool {
        self.is_next_stuck
    }

    pub(super) fn set_next_stuck(&mut self, is_next_stuck: bool) {
        self.is_next_stuck = is_next_stuck;
    }

    /// The record may show this limit until it shows ours.
    pub(super) fn tolerate_limit(&mut self, former: u32) {
        self.former_limit = Some(former);
    }

    /// Whether a record of this limit, which is not ours, is no conflict.
    pub(super) fn tolerates(&self, limit: u32) -> bool {
        self.former_limit == Some(limit)
    }

    /// The record shows our limit.
    pub(super) fn limit_shown(&mut self) {
        self.former_limit = None;
    }

    /// Whether more than so many contend, and what they do can be watched key by key.
    pub(super) fn is_crowd(&self, crowd: usize, settings: &Settings) -> bool {
        settings.encoding == Encoding::Transactions
            && self.newest.as_ref().is_some_and(|observed| {
                let is_understood = |lock: &Lock| lock.record.is_ok();
                // Of those who were ahead fewer are left since, but as many may have come.
                observed.width > crowd && observed.view.lock().is_none_or(is_understood)
            })
    }

    /// Whether a view from before the watch was paused is good for an attempt without a read.
    pub(super) fn is_useful_recollection(&self, settings: &Settings) -> bool {
        let is_settled = |record: &Record| record.limit() == settings.limit;
        settings.encoding == Encoding::Transactions
            && self
                .view()
                .is_some_and(|view| !view.is_filtered() && view.record().is_some_and(is_settled))
    }
}

impl Observed {
    /// Nothing is decided from it any more.
    pub(super) fn outdate(&mut self) {
        self.is_outdated = true;
    }

    /// It is the present again, as of this moment.
    pub(super) fn update(&mut self, now: Instant, received: Moment) {
        self.received = received;
        self.is_current_again(now);
    }

    /// The record is as it was.
    pub(super) fn seen_again(&mut self, now: Instant) {
        self.seen_at = now;
    }

    pub(super) fn is_current_again(&mut self, now: Instant) {
        self.seen_at = now;
        self.is_outdated = false;
    }

    /// Who waits next ahead of a contender of ours that entered at `first`, and how many do in all, but those whom
    /// nobody waits for.
    pub(super) fn next_ahead(
        &self,
        first: Index,
        is_passed: impl Fn(&SessionId) -> bool,
    ) -> Option<(&Shown, u32)> {
        let ahead = self.view.waiters();
        let ahead = ahead
            .take_while(|waiter| waiter.create_index < first)
            .filter(|waiter| !is_passed(&waiter.session));
        let (mut last, mut rank) = (None, 0);
        for waiter in ahead {
            (last, rank) = (Some(waiter), rank + 1);
        }
        Some((last?, rank))
    }
}
