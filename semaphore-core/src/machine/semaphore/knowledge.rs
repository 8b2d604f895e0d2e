//! What is known about the prefix: the newest view, how reliable it is, and what is in doubt.
//!
//! A transaction's answer comes from the leader after it was applied (Consul's documentation of
//! transactions: all operations or none, in the order of its log). So it is as good as a confirmed
//! read, and saves one.

use core::time::Duration;

use super::settings::Settings;
use crate::id::{Index, SessionId};
use crate::machine::process::moment::Moment;
use crate::record::Record;
use crate::time::Instant;
use crate::view::{Claimed, Contender as Shown, ContenderFlags, Lock, View};

/// How long a transaction's view counts as the present.
const FIRST_MOMENTS: Duration = Duration::from_millis(250);

#[derive(Clone, Debug)]
pub(super) struct Knowledge {
    newest: Option<Observed>,
    /// When our transaction last showed what is known.
    confirmed_at: Option<Instant>,
    /// Since when an answer is in doubt, so that the leader must be asked.
    doubt: Option<Moment>,
    /// Whether the record is read next, whatever else is watched.
    record_look: RecordLook,
    /// Whether the next waiter ahead has not moved for too long. Then the record is watched, too.
    is_next_stuck: bool,
    /// A limit that the record may show until it shows ours.
    former_limit: Option<u32>,
}

/// A view, and when it was requested and received.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    pub(super) view: View,
    pub(super) sent: Moment,
    pub(super) received: Moment,
    /// When Consul last said that the record is as in this view.
    pub(super) seen_at: Instant,
    /// When the whole prefix was read, and how many contended then.
    pub(super) read_at: Instant,
    width: usize,
    /// Whether it is, or may be, outdated. Nothing is decided from it then.
    is_outdated: bool,
}

/// Whether only the record is read, whatever else would be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordLook {
    Not,
    Now,
    /// When it has changed beyond this index.
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

    /// Nothing is read any more, so what is known will be outdated.
    pub(super) fn forget(&mut self) {
        self.newest = None;
        self.record_look = RecordLook::Not;
        self.is_next_stuck = false;
        self.doubt = None;
    }

    /// Everything is read again.
    pub(super) fn drop_view(&mut self) {
        self.newest = None;
    }

    /// The newest view, maybe outdated. It serves to recognise older ones.
    pub(super) fn newest(&self) -> Option<&Observed> {
        self.newest.as_ref()
    }

    pub(super) fn view(&self) -> Option<&View> {
        self.newest.as_ref().map(|it| &it.view)
    }

    pub(super) fn record(&self) -> Option<&Record> {
        self.view()?.record()
    }

    /// The view for decisions.
    pub(super) fn current(&self) -> Option<&Observed> {
        self.newest.as_ref().filter(|it| !it.is_outdated)
    }

    pub(super) fn newest_mut(&mut self) -> Option<&mut Observed> {
        self.newest.as_mut()
    }

    /// A list of the whole prefix came, newer than everything known.
    pub(super) fn learn(&mut self, now: Instant, received: Moment, view: View, sent: Moment) {
        // The same index means the same state, as fresh as the later of the two requests.
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

    /// A poll of only its key has shown the next waiter ahead. Returns whether it has changed since
    /// this index.
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
            // Its claim has changed the record at the same index, and no free slot is left.
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

    /// Our transaction shows what is known.
    pub(super) fn confirm(&mut self, now: Instant) {
        self.confirmed_at = Some(now);
    }

    /// Until when a transaction's view counts as the present.
    pub(super) fn confirmed_until(&self, now: Instant) -> Instant {
        let until = |confirmed| confirmed + FIRST_MOMENTS;
        self.confirmed_at.map_or(now, until)
    }

    /// The leader must be asked.
    pub(super) fn doubt(&mut self, since: Moment) {
        self.doubt = Some(since);
    }

    pub(super) fn is_doubted(&self) -> bool {
        self.doubt.is_some()
    }

    /// The leader has answered a request from this moment.
    pub(super) fn settle_doubt(&mut self, sent: Moment) {
        self.doubt.take_if(|since| *since < sent);
    }

    pub(super) fn record_look(&self) -> RecordLook {
        self.record_look
    }

    /// Sets whether the record is read next.
    pub(super) fn set_record_look(&mut self, record_look: RecordLook) {
        self.record_look = record_look;
    }

    /// Whether the next waiter ahead has not moved for too long.
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

    /// Whether this limit, which is not ours, is no conflict.
    pub(super) fn tolerates(&self, limit: u32) -> bool {
        self.former_limit == Some(limit)
    }

    /// The record shows our limit.
    pub(super) fn limit_shown(&mut self) {
        self.former_limit = None;
    }

    /// Whether more than `crowd` contend, and they can be watched key by key.
    pub(super) fn is_crowd(&self, crowd: usize) -> bool {
        self.newest.as_ref().is_some_and(|observed| {
            let is_understood = |lock: &Lock| lock.record.is_ok();
            // Fewer of those ahead are left since then, but as many may have come.
            observed.width > crowd && observed.view.lock().is_none_or(is_understood)
        })
    }

    /// Whether a view from before the watch was paused suffices for an attempt without a read.
    pub(super) fn is_useful_recollection(&self, settings: &Settings) -> bool {
        let is_settled = |record: &Record| record.limit() == settings.limit;
        self.view()
            .is_some_and(|view| !view.is_filtered() && view.record().is_some_and(is_settled))
    }
}

impl Observed {
    /// Nothing is decided from it any more.
    pub(super) fn outdate(&mut self) {
        self.is_outdated = true;
    }

    /// It counts as the present again, as of this moment.
    pub(super) fn update(&mut self, now: Instant, received: Moment) {
        self.received = received;
        self.is_current_again(now);
    }

    /// The record is unchanged.
    pub(super) fn seen_again(&mut self, now: Instant) {
        self.seen_at = now;
    }

    pub(super) fn is_current_again(&mut self, now: Instant) {
        self.seen_at = now;
        self.is_outdated = false;
    }

    /// The next waiter ahead of our contender that entered at `first`, and the number of all
    /// waiters ahead, without those that nobody waits for.
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
