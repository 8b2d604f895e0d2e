//! Data about all contenders, kept up to date with each change of one of them.

use core::fmt;
use core::ops::{Bound, Deref, DerefMut};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::id::{CommandId, SessionId};
use crate::machine::process::tenancy::loan::{LoanNo, LoanWish};
use crate::machine::semaphore::admission::ContenderNo;
use crate::machine::semaphore::contender::Contender;
use crate::record::Record;
use crate::time::Instant;
use crate::work;

/// Contenders with something in common. One may be in several groups.
#[derive(Clone, Copy, Debug)]
pub(in crate::machine::semaphore) enum Group {
    /// It waits for a slot, or soon will.
    Wanting,
    /// It still has its slot from the last hold, for the next caller in our queue.
    HandingOver,
    Held,
    /// It leaves, and the record must be written without it.
    Withdrawing,
    /// Its session waits for a question about many.
    Unconfirmed,
    /// It needs the next view.
    Looking,
    /// It leaves in the background.
    LeftBehind,
    /// Nothing of it is left.
    Gone,
}

impl Group {
    const ALL: [Self; 8] = [
        Self::Wanting,
        Self::HandingOver,
        Self::Held,
        Self::Withdrawing,
        Self::Unconfirmed,
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
            Self::Unconfirmed => contender.awaits_confirmation(),
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
    /// When this was last updated: those who were due then, and the holders among them by their
    /// deadlines.
    looked_at: Instant,
    ready: BTreeSet<ContenderNo>,
    urgent: BTreeSet<(Option<Instant>, ContenderNo)>,
    ends: BTreeSet<(Instant, ContenderNo)>,
    /// A caller's session may serve several contenders, one after the other.
    sessions: BTreeSet<(SessionId, ContenderNo)>,
    /// Those that have come or gone since the record was last looked at, and how many of its slots
    /// were ours then.
    changed: Vec<(SessionId, Change)>,
    record: Option<Record>,
    slots: usize,
    /// The requests under way of each session, and the number of those that keep a hold.
    under_way: BTreeMap<ContenderNo, usize>,
    of_holds: usize,
    /// The acquisition of each contender until nothing of it is left, and those to check since the
    /// last call.
    turns: BTreeMap<ContenderNo, CommandId>,
    changed_turns: BTreeSet<CommandId>,
}

/// How a session has changed.
#[derive(Clone, Copy, Debug)]
enum Change {
    Came,
    Went,
}

/// It follows from the contenders, so it does not distinguish states.
impl fmt::Debug for Standings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Standings")
    }
}

/// The state of one contender.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
struct Standing {
    groups: [bool; Group::ALL.len()],
    due_at: Option<Instant>,
    ends_at: Option<Instant>,
    /// When its belief ends.
    deadline: Option<Instant>,
    session: Option<SessionId>,
}

impl Standing {
    fn of(contender: &Contender) -> Self {
        Self {
            groups: Group::ALL.map(|group| group.has(contender)),
            due_at: contender.due_at(),
            ends_at: contender.ends_at(),
            deadline: contender.deadline(),
            session: contender.session_id().cloned(),
        }
    }

    fn is(&self, group: Group) -> bool {
        self.groups[group as usize]
    }

    fn is_due(&self, now: Instant) -> bool {
        self.due_at.is_some_and(|due| due <= now)
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
        self.under_way.remove(&no);
        self.changed_turns.extend(self.turns.get(&no));
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
        if before.is_due(self.looked_at) {
            self.ready.remove(&no);
            self.urgent.remove(&(before.deadline, no));
        }
        if after.is_due(self.looked_at) {
            self.is_ready(no, &after);
        }
        let under_way = self.under_way.get(&no).copied().unwrap_or_default();
        match [&before, &after].map(|it| it.is(Group::Held)) {
            [true, false] => self.of_holds -= under_way,
            [false, true] => self.of_holds += under_way,
            _ => {}
        }
        if after.is(Group::LeftBehind) && !before.is(Group::LeftBehind) {
            self.changed_turns.extend(self.turns.get(&no));
        }
        replace(&mut self.due, no, before.due_at, after.due_at);
        replace(&mut self.ends, no, before.ends_at, after.ends_at);
        if before.session != after.session {
            self.session_changed(no, before.session, after.session);
        }
    }

    fn is_ready(&mut self, no: ContenderNo, standing: &Standing) {
        self.ready.insert(no);
        if standing.is(Group::Held) {
            self.urgent.insert((standing.deadline, no));
        }
    }

    fn session_changed(
        &mut self,
        no: ContenderNo,
        before: Option<SessionId>,
        after: Option<SessionId>,
    ) {
        let came = after.clone().filter(|it| !self.has(it));
        replace(&mut self.sessions, no, before.clone(), after);
        let went = before.filter(|it| !self.has(it));
        self.changed.extend(went.map(|it| (it, Change::Went)));
        self.changed.extend(came.map(|it| (it, Change::Came)));
    }

    pub(super) fn group(&self, group: Group) -> &BTreeSet<ContenderNo> {
        &self.groups[group as usize]
    }

    /// Those whose time is over, in the order in which they were made.
    pub(super) fn ended(&self, now: Instant) -> BTreeSet<ContenderNo> {
        up_to(&self.ends, now).collect()
    }

    /// When the first request after this time is due.
    pub(super) fn due_after(&self, after: Instant) -> Option<Instant> {
        first_after(&self.due, after)
    }

    /// When the first one's time is over after this time.
    pub(super) fn ends_after(&self, after: Instant) -> Option<Instant> {
        first_after(&self.ends, after)
    }

    /// Finds those who are due now.
    fn look(&mut self, now: Instant) {
        let mut from = Bound::Excluded((self.looked_at, LAST));
        if now < self.looked_at {
            self.ready.clear();
            self.urgent.clear();
            from = Bound::Unbounded;
        }
        let since = self.due.range((from, Bound::Included((now, LAST))));
        for (_, no) in since {
            work::passed(1);
            self.ready.insert(*no);
            let standing = self.each.get(no).filter(|it| it.is(Group::Held));
            self.urgent.extend(standing.map(|it| (it.deadline, *no)));
        }
        self.looked_at = now;
    }

    /// Those with a request that is due, in the order in which they were made, and whether another
    /// one of their sessions is under way.
    pub(super) fn ready(&mut self, now: Instant) -> impl Iterator<Item = (ContenderNo, bool)> {
        self.look(now);
        let asking = &self.under_way;
        let ready = self.ready.iter();
        ready.map(|no| (*no, asking.contains_key(no)))
    }

    /// Of the holders with a request that is due, the one with the first deadline.
    pub(super) fn most_urgent(&mut self, now: Instant) -> Option<ContenderNo> {
        self.look(now);
        self.urgent.first().map(|(_, no)| *no)
    }

    /// A request of its session is sent.
    pub(super) fn asks(&mut self, no: ContenderNo) {
        *self.under_way.entry(no).or_default() += 1;
        self.of_holds += usize::from(self.group(Group::Held).contains(&no));
    }

    /// A request of its session has ended.
    pub(super) fn was_answered(&mut self, no: ContenderNo) {
        if let Some(under_way) = self.under_way.get_mut(&no) {
            *under_way -= 1;
            if *under_way == 0 {
                self.under_way.remove(&no);
            }
            self.of_holds -= usize::from(self.group(Group::Held).contains(&no));
        }
    }

    pub(super) fn is_asking(&self, no: ContenderNo) -> bool {
        self.under_way.contains_key(&no)
    }

    /// How many requests are under way that keep a hold.
    pub(super) fn asked_for_holds(&self) -> usize {
        self.of_holds
    }

    /// It serves this acquisition from now on.
    pub(super) fn serves(&mut self, no: ContenderNo, acquire: CommandId) {
        self.turns.insert(no, acquire);
    }

    /// It no longer serves anybody.
    pub(super) fn serves_nobody(&mut self, no: ContenderNo) {
        self.turns.remove(&no);
    }

    pub(super) fn turn_of(&self, no: ContenderNo) -> Option<CommandId> {
        self.turns.get(&no).copied()
    }

    /// Someone must check whether anything of it is left.
    pub(super) fn turn_changed(&mut self, acquire: CommandId) {
        self.changed_turns.insert(acquire);
    }

    pub(super) fn take_changed_turns(&mut self) -> BTreeSet<CommandId> {
        core::mem::take(&mut self.changed_turns)
    }

    /// Counts our slots in this record.
    pub(super) fn look_at(&mut self, record: Option<&Record>) {
        let changed = core::mem::take(&mut self.changed);
        work::passed(changed.len());
        let Some(record) = record else {
            self.record = None;
            return;
        };
        if self.has_counted(record) {
            for (session, change) in changed {
                let slots = record.slots_of(session.as_str());
                match change {
                    Change::Came => self.slots += slots,
                    Change::Went => self.slots -= slots,
                }
            }
        } else {
            work::passed(self.sessions.len());
            let mut ours = self.sessions.iter().map(|(it, _)| it.as_bytes()).peekable();
            let is_ours = |(_, holder): &(usize, &str)| {
                while ours.next_if(|it| *it < holder.as_bytes()).is_some() {}
                ours.peek().is_some_and(|it| *it == holder.as_bytes())
            };
            self.slots = record.in_order().filter(is_ours).count();
            self.record = Some(record.clone());
        }
    }

    fn has_counted(&self, record: &Record) -> bool {
        let counted = self.record.as_ref();
        counted.is_some_and(|it| it.has_holders_of(record))
    }

    /// Whether all slots of this record are ours.
    pub(super) fn have_all_of(&self, record: &Record) -> bool {
        if self.changed.is_empty() && self.has_counted(record) {
            return self.slots == record.holders().len();
        }
        record.holders().all(|holder| self.is_ours(holder))
    }

    /// Whether this text is exactly a session of ours.
    pub(super) fn is_ours(&self, session: &str) -> bool {
        let read = SessionId::read(session).filter(|it| it.is(session));
        read.is_some_and(|session| self.has(&session))
    }

    pub(super) fn has(&self, session: &SessionId) -> bool {
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

/// A contender that may change. The data about it is updated when this is dropped.
pub(in crate::machine::semaphore) struct Changing<'a> {
    pub(super) no: ContenderNo,
    pub(super) contender: &'a mut Contender,
    pub(super) standings: &'a mut Standings,
    pub(super) wishes: &'a mut Wishes,
}

/// The wishes of contenders for shared sessions, in order.
pub(super) type Wishes = VecDeque<LoanWish>;

/// Takes the wishes of this contender.
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
