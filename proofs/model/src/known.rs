//! What a participant knows, as the rules ask for it: names, ranks, groups.
use crate::defects::Defect;
use crate::scene::Scene;
use crate::state::{
    CALLERS, CONTENDERS, Contender, Index, NOBODY, Op, Participant, SESSIONS, Stage, State, Wish,
    bit,
};

pub(crate) fn named(p: &Participant, c: &Contender) -> bool {
    p.holders & bit(c.session) != 0
}

pub(crate) fn under_way(p: &Participant, i: usize) -> bool {
    p.write.ops[i] != Op::None
}

/// A session of this participant.
pub(crate) fn own(p: &Participant, s: usize) -> bool {
    p.contenders
        .iter()
        .any(|c| c.used && c.session as usize == s)
        || (p.spare | p.doomed) >> s & 1 == 1
}

/// A caller holds with this session, or will when the answer comes.
pub(crate) fn believed(state: &State, session: usize) -> bool {
    state.participants.iter().any(|p| {
        (0..CONTENDERS).any(|i| {
            let (c, op) = (&p.contenders[i], p.write.ops[i]);
            let will_hold = p.write.stage == Stage::Applied
                && (op.claims() || op == Op::HandOver)
                && p.write.expired >> i & 1 == 0;
            c.used && c.session as usize == session && (c.caller != NOBODY || will_hold)
        })
    })
}

/// It waits, or enters.
fn active(p: &Participant, c: &Contender) -> bool {
    c.used && !c.leaving && (c.key == 0 || !named(p, c))
}

/// It owns a slot, and no caller uses it.
pub(crate) fn idle_slot(p: &Participant, c: &Contender, scene: &Scene) -> bool {
    let gathering = scene.broken(Defect::SlotBySlot)
        && c.mate != NOBODY
        && !named(p, &p.contenders[c.mate as usize]);
    c.used && !c.leaving && c.key != 0 && named(p, c) && c.caller == NOBODY && !gathering
}

/// The record's Limit.
pub(crate) fn limit(p: &Participant, scene: &Scene) -> usize {
    scene.limit - usize::from(p.lowered)
}

pub(crate) fn free_slots(p: &Participant, scene: &Scene) -> isize {
    free_beside(p, p.holders, scene)
}

/// Rule 8. Below zero where the limit was lowered under its holders: a claim leaves no more names than the limit.
pub(crate) fn free_beside(p: &Participant, names: u16, scene: &Scene) -> isize {
    let free = limit(p, scene).cast_signed() - (names.count_ones() as usize).cast_signed();
    if scene.broken(Defect::FreeNeverNegative) {
        free.max(0)
    } else {
        free
    }
}

pub(crate) fn waits(p: &Participant) -> bool {
    p.callers.iter().any(|c| c.wish == Wish::Waits)
}

/// Callers that wait for so many slots.
pub(crate) fn waiting_callers(p: &Participant, q: usize, size: usize, scene: &Scene) -> usize {
    (0..CALLERS)
        .filter(|k| p.callers[*k].wish == Wish::Waits && scene.size(q, *k) == size)
        .count()
}

/// Waiters of others ahead of a contender that entered at `created`.
fn others_ahead(p: &Participant, created: Index) -> impl Iterator<Item = usize> + '_ {
    (0..SESSIONS).filter(move |s| {
        p.line_created[*s] != 0
            && p.line_created[*s] < created
            && p.holders >> s & 1 == 0
            && !own(p, *s)
    })
}

/// Rule 1. The rank.
pub(crate) fn rank(p: &Participant, created: Index) -> usize {
    others_ahead(p, created).count()
}

/// The one just ahead.
pub(crate) fn just_ahead(p: &Participant, created: Index) -> Option<usize> {
    others_ahead(p, created).max_by_key(|s| (p.line_created[*s], std::cmp::Reverse(*s)))
}

/// Rule 7. How many slots the group at the head needs; a group larger than the limit is taken for one of that size.
pub(crate) fn head_size(p: &Participant, created: Index, scene: &Scene) -> usize {
    let Some(head) = others_ahead(p, created).map(|s| p.line_created[s]).min() else {
        return 0;
    };
    let paired =
        others_ahead(p, created).any(|s| p.line_created[s] == head && p.line_paired >> s & 1 == 1);
    if paired { 2.min(limit(p, scene)) } else { 1 }
}

/// Contenders (bits) of one group, all of which wait or enter, and how many slots its caller asked for.
#[derive(Clone, Copy)]
pub(crate) struct Group {
    pub(crate) members: u8,
    pub(crate) size: usize,
    pub(crate) key: Index,
    pub(crate) created: Index,
}

impl Group {
    /// The number of its first member.
    pub(crate) fn first(&self) -> usize {
        self.members.trailing_zeros() as usize
    }
}
/// Our groups that wait or enter, in the order of the line.
pub(crate) fn groups(p: &Participant) -> Vec<Group> {
    let mut found = Vec::new();
    for (i, c) in p
        .contenders
        .iter()
        .enumerate()
        .filter(|(_, c)| active(p, c))
    {
        let mate = c.mate as usize;
        let both = c.mate != NOBODY
            && p.contenders[mate].mate as usize == i
            && active(p, &p.contenders[mate]);
        if both && mate < i {
            continue;
        }
        let members = 1 << i | if both { 1 << mate } else { 0 };
        found.push(Group {
            members,
            size: if c.mate == NOBODY { 1 } else { 2 },
            key: c.key,
            created: c.created,
        });
    }
    found.sort_by_key(|g| (g.key == 0, g.created, g.first()));
    found
}

/// Our first waiter: the first of ours in the line.
pub(crate) fn first_waiter(p: &Participant) -> Option<Group> {
    groups(p).into_iter().find(|g| g.key != 0)
}

pub(crate) fn members(mask: u8) -> impl Iterator<Item = usize> {
    (0..CONTENDERS).filter(move |i| mask >> i & 1 == 1)
}

/// Two by two, in the order of their numbers.
pub(crate) fn pairs_of(mask: u8) -> impl Iterator<Item = u8> {
    let bits: Vec<usize> = members(mask).collect();
    (0..bits.len() / 2).map(move |n| 1 << bits[2 * n] | 1 << bits[2 * n + 1])
}

/// Somebody else is named or waits.
pub(crate) fn others(p: &Participant) -> bool {
    p.list_others
        || (0..SESSIONS).any(|s| (p.holders >> s & 1 == 1 || p.line_created[s] != 0) && !own(p, s))
}

/// Rule 2. There has been a list, the newest record and list show nobody else, and no slot is given up that a caller here waits for:
/// it is meant for others, whom our list may be too old to show.
pub(crate) fn alone(p: &Participant, scene: &Scene) -> bool {
    let gives_up =
        p.contenders.iter().any(|c| c.leaving && c.given_up) && !scene.broken(Defect::GivesUpAlone);
    p.known
        && !p.list_others
        && !gives_up
        && !(0..SESSIONS).any(|s| p.holders >> s & 1 == 1 && !own(p, s))
}
