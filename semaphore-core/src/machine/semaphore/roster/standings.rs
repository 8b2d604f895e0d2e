//! What is asked of all contenders at once, kept up to date with each change of one of them.

use core::fmt;
use core::ops::{Deref, DerefMut};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::id::SessionId;
use crate::machine::process::tenancy::loan::{LoanNo, LoanWish};
use crate::machine::semaphore::admission::ContenderNo;
use crate::machine::semaphore::contender::Contender;
use crate::time::Instant;

/// Contenders that have something in common. One may be in several.
#[derive(Clone, Copy, Debug)]
pub(in crate::machine::semaphore) enum Group {
    /// Waits for a slot, or is about to.
    Wanting,
    /// Has its slot from the hold before, for the next of our queue.
    HandingOver,
    Held,
    /// Leaves, and the record must be written without it.
    Withdrawing,
    /// Goes on with the next view only.
    Looking,
    /// Leaves in the background.
    LeftBehind,
    /// Nothing of it is left.
    Gone,
}

impl Group {
    const ALL: [Self; 7] = [
        Self::Wanting,
        Self::HandingOver,
        Self::Held,
        Self::Withdrawing,
        Self::Looking,
        Self::LeftBehind,
        Self::Gone,
    ];

    fn has(self, contender: &Contender) -> bool {
        match self {
            Self::Wanting => contender.is_wanting(),
            Self::HandingOver => contender.is_handing_over(),
            Self::Held => contender.is_held(),
            Self::Withdrawing => contender.must_withdraw(),
            Self::Looking => contender.waits_for_view(),
            Self::LeftBehind => contender.is_left_behind(),
            Self::Gone => contender.is_gone(),
        }
    }
}

#[derive(Clone, Default)]
pub(super) struct Standings {
    each: BTreeMap<ContenderNo, Standing>,
    groups: [BTreeSet<ContenderNo>; Group::ALL.len()],
    due: BTreeSet<(Instant, ContenderNo)>,
    ends: BTreeSet<(Instant, ContenderNo)>,
    /// A session of the caller's may be that of several, one after the other.
    sessions: BTreeSet<(SessionId, ContenderNo)>,
}

/// It follows from the contenders, so that it tells no two states apart.
impl fmt::Debug for Standings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Standings")
    }
}

/// How one of them stands.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
struct Standing {
    groups: [bool; Group::ALL.len()],
    due_at: Option<Instant>,
    ends_at: Option<Instant>,
    session: Option<SessionId>,
}

impl Standing {
    fn of(contender: &Contender) -> Self {
        Self {
            groups: Group::ALL.map(|group| group.has(contender)),
            due_at: contender.due_at(),
            ends_at: contender.ends_at(),
            session: contender.session_id().cloned(),
        }
    }
}

impl Standings {
    pub(super) fn update(&mut self, no: ContenderNo, contender: &Contender) {
        let after = Standing::of(contender);
        let before = self.each.entry(no).or_default();
        if *before != after {
            let before = core::mem::replace(before, after.clone());
            self.move_over(no, before, after);
        }
    }

    pub(super) fn remove(&mut self, no: ContenderNo) {
        if let Some(before) = self.each.remove(&no) {
            self.move_over(no, before, Standing::default());
        }
    }

    fn move_over(&mut self, no: ContenderNo, before: Standing, after: Standing) {
        let was_and_is = before.groups.into_iter().zip(after.groups);
        for (members, change) in self.groups.iter_mut().zip(was_and_is) {
            match change {
                (true, false) => _ = members.remove(&no),
                (false, true) => _ = members.insert(no),
                (true, true) | (false, false) => {}
            }
        }
        replace(&mut self.due, no, before.due_at, after.due_at);
        replace(&mut self.ends, no, before.ends_at, after.ends_at);
        replace(&mut self.sessions, no, before.session, after.session);
    }

    pub(super) fn group(&self, group: Group) -> &BTreeSet<ContenderNo> {
        &self.groups[group as usize]
    }

    /// Those of whom a request is due.
    pub(super) fn due(&self, now: Instant) -> impl Iterator<Item = ContenderNo> {
        up_to(&self.due, now)
    }

    /// Those whose time is over, in the order in which they were made.
    pub(super) fn ended(&self, now: Instant) -> BTreeSet<ContenderNo> {
        up_to(&self.ends, now).collect()
    }

    /// When the first request after this time is due.
    pub(super) fn due_after(&self, after: Instant) -> Option<Instant> {
        first_after(&self.due, after)
    }

    /// When the time of the first is over after this one.
    pub(super) fn ends_after(&self, after: Instant) -> Option<Instant> {
        first_after(&self.ends, after)
    }

    pub(super) fn has_session(&self, session: &SessionId) -> bool {
        let from = (session.clone(), ContenderNo(0));
        let found = self.sessions.range(from..).next();
        found.is_some_and(|(found, _)| found == session)
    }
}

fn first_after(times: &BTreeSet<(Instant, ContenderNo)>, after: Instant) -> Option<Instant> {
    let mut later = times.range((after, LAST)..);
    later.find(|(at, _)| *at > after).map(|(at, _)| *at)
}

const LAST: ContenderNo = ContenderNo(u64::MAX);

fn up_to(
    times: &BTreeSet<(Instant, ContenderNo)>,
    now: Instant,
) -> impl Iterator<Item = ContenderNo> {
    times.range(..=(now, LAST)).map(|(_, no)| *no)
}

fn replace<K: Ord>(
    of: &mut BTreeSet<(K, ContenderNo)>,
    no: ContenderNo,
    before: Option<K>,
    after: Option<K>,
) {
    if before == after {
        return;
    }
    if let Some(before) = before {
        of.remove(&(before, no));
    }
    of.extend(after.map(|after| (after, no)));
}

/// A contender that may change. What is kept of it is brought up to date when it is let go of.
pub(in crate::machine::semaphore) struct Changing<'a> {
    pub(super) no: ContenderNo,
    pub(super) contender: &'a mut Contender,
    pub(super) standings: &'a mut Standings,
    pub(super) wishes: &'a mut Wishes,
}

/// What contenders want of the sessions that they share with others, in order.
pub(super) type Wishes = VecDeque<LoanWish>;

/// Takes what this one wants.
pub(super) fn collect(no: ContenderNo, contender: &mut Contender, wishes: &mut Wishes) {
    let loan = LoanNo(no.0);
    while let Some(step) = contender.poll_wish() {
        wishes.push_back(LoanWish { loan, step });
    }
}

impl Deref for Changing<'_> {
    type Target = Contender;

    fn deref(&self) -> &Contender {
        self.contender
    }
}

impl DerefMut for Changing<'_> {
    fn deref_mut(&mut self) -> &mut Contender {
        self.contender
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.standings.update(self.no, self.contender);
        collect(self.no, self.contender, self.wishes);
    }
}
