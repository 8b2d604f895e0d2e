//! All contenders of ours, by what they do. No event visits more of them than it concerns.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::contender::{Contender, ContenderNo, Stand};
use crate::id::{Index, SessionId};
use crate::machine::process::tenancy::loan::{LoanNo, LoanWish};
use crate::machine::process::tenancy::settings::SessionSettings;
use crate::time::Instant;
use crate::work;

#[derive(Clone, Debug, Default)]
pub(super) struct Contenders {
    all: BTreeMap<ContenderNo, Contender>,
    by_session: BTreeMap<SessionId, ContenderNo>,
    by_stand: BTreeMap<Stand, BTreeSet<ContenderNo>>,
    /// When the beliefs end of those that have a slot, or had one.
    ends: BTreeSet<(Instant, ContenderNo)>,
    /// How many the newest record names.
    named: usize,
    wishes: VecDeque<LoanWish>,
}

/// Contenders that serve one caller together and wait or enter.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) members: Vec<ContenderNo>,
    /// How many slots their caller wants.
    pub(super) size: usize,
    /// Their place in the line; `None` before they have entered.
    pub(super) created: Option<Index>,
}

impl Group {
    /// Whether all of it waits or enters.
    pub(super) fn is_whole(&self) -> bool {
        self.members.len() == self.size
    }
}

impl Contenders {
    pub(super) fn add(
        &mut self,
        no: ContenderNo,
        group: (ContenderNo, u32),
        settings: &SessionSettings,
    ) {
        self.all.insert(no, Contender::new(group, settings));
        self.file(no);
        self.change(no, |_| ());
    }

    pub(super) fn get(&self, no: ContenderNo) -> Option<&Contender> {
        self.all.get(&no)
    }

    /// Changes a contender, and files it again.
    pub(super) fn change<T>(
        &mut self,
        no: ContenderNo,
        change: impl FnOnce(&mut Contender) -> T,
    ) -> Option<T> {
        self.unfile(no);
        let contender = self.all.get_mut(&no)?;
        let changed = change(contender);
        while let Some(step) = contender.loan.poll_wish() {
            let loan = LoanNo(no.0);
            self.wishes.push_back(LoanWish { loan, step });
        }
        self.file(no);
        Some(changed)
    }

    /// Nothing of it is left.
    pub(super) fn forget(&mut self, no: ContenderNo) {
        self.unfile(no);
        self.all.remove(&no);
    }

    fn file(&mut self, no: ContenderNo) {
        let Some(contender) = self.all.get(&no) else {
            return;
        };
        if let Some(session) = contender.session() {
            self.by_session.insert(session.clone(), no);
        }
        let stand = contender.stand();
        if stand >= Stand::Idle
            && let Some(end) = contender.believed_until()
        {
            self.ends.insert((end, no));
        }
        self.by_stand.entry(stand).or_default().insert(no);
        self.named += usize::from(contender.is_named);
    }

    fn unfile(&mut self, no: ContenderNo) {
        let Some(contender) = self.all.get(&no) else {
            return;
        };
        if let Some(session) = contender.session()
            && self.by_session.get(session) == Some(&no)
        {
            self.by_session.remove(session);
        }
        if let Some(end) = contender.believed_until() {
            self.ends.remove(&(end, no));
        }
        if let Some(those) = self.by_stand.get_mut(&contender.stand()) {
            those.remove(&no);
        }
        self.named -= usize::from(contender.is_named);
    }

    /// How many of them the newest record names.
    pub(super) fn named(&self) -> usize {
        self.named
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// All of them, in the order in which they came.
    pub(super) fn all(&self) -> impl Iterator<Item = (ContenderNo, &Contender)> {
        work::passed(self.all.len());
        self.all.iter().map(|(no, contender)| (*no, contender))
    }

    pub(super) fn numbers(&self) -> Vec<ContenderNo> {
        self.all().map(|(no, _)| no).collect()
    }

    /// The contender with this session.
    pub(super) fn of_session(&self, session: &str) -> Option<ContenderNo> {
        let session = SessionId::read(session)?;
        self.by_session.get(&session).copied()
    }

    pub(super) fn those(
        &self,
        stand: Stand,
    ) -> impl DoubleEndedIterator<Item = (ContenderNo, &Contender)> {
        let those = self.by_stand.get(&stand).into_iter().flatten();
        those.filter_map(|no| {
            work::passed(1);
            Some((*no, self.all.get(no)?))
        })
    }

    /// Those that leave.
    pub(super) fn leaving(&self) -> impl Iterator<Item = (ContenderNo, &Contender)> {
        self.those(Stand::Leaving).chain(self.those(Stand::Over))
    }

    pub(super) fn any_leaves(&self) -> bool {
        self.count(Stand::Leaving) + self.count(Stand::Over) > 0
    }

    pub(super) fn numbers_of(&self, stand: Stand) -> Vec<ContenderNo> {
        self.those(stand).map(|(no, _)| no).collect()
    }

    pub(super) fn count(&self, stand: Stand) -> usize {
        self.by_stand.get(&stand).map_or(0, BTreeSet::len)
    }

    /// The groups that wait or enter, in the order of the line.
    pub(super) fn groups(&self) -> Vec<Group> {
        let mut groups: BTreeMap<ContenderNo, Group> = BTreeMap::new();
        let wanting = self
            .those(Stand::Waiting)
            .chain(self.those(Stand::Entering));
        for (no, contender) in wanting {
            let (first, size) = contender.group;
            let group = groups.entry(first).or_insert(Group {
                members: Vec::new(),
                size: size as usize,
                created: contender.created(),
            });
            group.members.push(no);
            group.created = group.created.max(contender.created());
        }
        let mut groups: Vec<(ContenderNo, Group)> = groups.into_iter().collect();
        groups.sort_by_key(|(first, group)| (group.created.is_none(), group.created, *first));
        groups.into_iter().map(|(_, group)| group).collect()
    }

    /// Those whose belief has ended by then.
    pub(super) fn ended(&self, by: Instant) -> Vec<ContenderNo> {
        let ended = self.ends.iter().take_while(|(end, _)| *end <= by);
        ended.map(|(_, no)| *no).collect()
    }

    /// When the first belief ends that lasts beyond this time.
    pub(super) fn end_after(&self, now: Instant) -> Option<Instant> {
        let later = self.ends.range((now, ContenderNo(u64::MAX))..);
        later.map(|(end, _)| *end).next()
    }

    /// The next wish for the sessions.
    pub(super) fn poll_wish(&mut self) -> Option<LoanWish> {
        self.wishes.pop_front()
    }
}
