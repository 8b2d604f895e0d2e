//! What follows at once from what is known, by the rules of PROTOCOL.md. Each rule is found by its number.
use crate::compose::compose;
use crate::defects::Defect;
use crate::known::{
    Group, believed, first_waiter, free_slots, groups, head_size, idle_slot, limit, members, named,
    others, own, pairs_of, rank, under_way, waiting_callers, waits,
};
use crate::scene::Scene;
use crate::state::{
    CALLERS, CONTENDERS, Caller, Contender, Due, Index, NOBODY, Op, Participant, SESSIONS, Session,
    Snapshot, State, Wish, bit,
};

/// What follows from the state at once, done after each event of a participant.
pub(crate) fn settle(state: &mut State, q: usize, scene: &Scene) {
    if state.participants[q].crashed {
        return;
    }
    fail_too_large(&mut state.participants[q], q, scene);
    while keep_groups_whole(&mut state.participants[q], scene)
        || forget_ended(&mut state.participants[q], scene)
        || give_up_slots(&mut state.participants[q], q, scene)
        || adjust_waiters(state, q, scene)
    {}
    let p = &mut state.participants[q];
    if p.callers.iter().all(|c| c.wish == Wish::Done)
        && p.contenders.iter().all(|c| !c.used)
        && !p.write.exists()
    {
        // Its work is done: the pool ends what it kept, and nothing is remembered.
        let doomed = if scene.shared {
            p.doomed
        } else {
            p.doomed | p.spare
        };
        *p = Participant {
            doomed,
            late: p.late,
            callers: p.callers,
            ..Participant::default()
        };
    }
    p.patience &= leaves_room(p, scene);
}

/// A caller that wants more slots than the record's Limit fails.
fn fail_too_large(p: &mut Participant, q: usize, scene: &Scene) {
    let limit = limit(p, scene);
    for k in (0..CALLERS).filter(|k| scene.size(q, *k) > limit) {
        if matches!(p.callers[k].wish, Wish::Idle | Wish::Waits) {
            p.callers[k] = Caller {
                wish: Wish::Done,
                ..Caller::default()
            };
        }
    }
}

/// A group waits and leaves as a whole: if one of it leaves, is lost, or is not seen where the other is (its key was deleted before we
/// knew it), the others leave, and their caller enters again. Once named, its contenders own slots like any others.
fn keep_groups_whole(p: &mut Participant, scene: &Scene) -> bool {
    for i in 0..CONTENDERS {
        let c = p.contenders[i];
        if !c.used || c.mate == NOBODY {
            continue;
        }
        let mate = c.mate as usize;
        let owns = |c: &Contender| c.key != 0 && named(p, c);
        let both_own = owns(&c) && owns(&p.contenders[mate]);
        let leaves = c.leaving && !scene.broken(Defect::LostMemberOnly);
        let partial = (c.key == 0) != (p.contenders[mate].key == 0)
            && !scene.broken(Defect::LostMemberOnly)
            && !scene.broken(Defect::PartlySeenStays);
        if both_own || leaves || partial || owns(&c) && !scene.broken(Defect::SlotBySlot) {
            for x in [i, mate] {
                let owns = p.contenders[x].key != 0 && named(p, &p.contenders[x]);
                p.contenders[x].mate = NOBODY;
                p.contenders[x].leaving |= !owns;
            }
            return true;
        }
    }
    false
}

/// Rule 11. Those of whom nothing is left, and no write of theirs can leave anything: their sessions are kept, or destroyed.
fn forget_ended(p: &mut Participant, scene: &Scene) -> bool {
    for i in 0..CONTENDERS {
        let c = p.contenders[i];
        if !c.used || !c.leaving || under_way(p, i) || p.due >= Due::List {
            continue;
        }
        let named = named(p, &c);
        let unfenced = scene.broken(Defect::OpenDestroyed) || scene.broken(Defect::OpenKept);
        let gone = c.key == 0 && !named && (c.ended || !c.open || unfenced);
        let fenced = c.key != 0
            && !named
            && c.open
            && (c.parked || scene.broken(Defect::OpenNotParked))
            && !scene.shared;
        let forgotten = c.lost && scene.broken(Defect::LostKeepsName);
        if !(gone || fenced || forgotten) {
            continue;
        }
        let lost = c.ended || c.lost && !scene.shared;
        let destroyed = !gone
            || lost
            || !(scene.keep || scene.shared)
            || c.open && !scene.broken(Defect::OpenKept);
        if destroyed {
            p.doomed |= bit(c.session);
        } else {
            p.spare |= bit(c.session);
        }
        p.contenders[i] = Contender::default();
        return true;
    }
    false
}

// Rule 3. A slot that has stayed, or that no local caller can use at once, is released. Leaving is final: what was once sent as a
// release may come late, and must not meet a user.
fn give_up_slots(p: &mut Participant, q: usize, scene: &Scene) -> bool {
    let place = groups(p)
        .first()
        .filter(|g| g.key != 0)
        .map_or(Index::MAX, |g| g.created);
    let stays = scene.broken(Defect::NoRotation)
        || scene.broken(Defect::RotationIfPreceded) && rank(p, place) == 0;
    let mut given_up = 0u8;
    for (i, c) in p.contenders.iter().enumerate() {
        let has_stayed = idle_slot(p, c, scene) && !under_way(p, i) && c.stayed && !stays;
        given_up |= u8::from(has_stayed) << i;
    }
    if given_up == 0 {
        given_up = handovers(p, q, scene).surplus;
    }
    for i in members(given_up) {
        p.contenders[i].leaving = true;
        p.contenders[i].given_up = waits(p);
    }
    given_up != 0
}

/// Rule 3. What becomes of the slots without a user.
#[derive(Default)]
pub(crate) struct Handovers {
    /// Callers, by size, that a handover serves, those under way included.
    pub(crate) served: [usize; 3],
    /// Contenders (bits) to hand over; those of them that go to a caller of two slots; those that no caller can use at once.
    pub(crate) slots: u8,
    pub(crate) pairs: u8,
    pub(crate) surplus: u8,
}

pub(crate) fn handovers(p: &Participant, q: usize, scene: &Scene) -> Handovers {
    let mut plan = Handovers::default();
    let (mut free, mut sent) = (0u8, 0u8);
    for i in (0..CONTENDERS).filter(|i| idle_slot(p, &p.contenders[*i], scene)) {
        if p.write.ops[i] == Op::HandOver {
            sent |= 1 << i;
        } else if !under_way(p, i) {
            free |= 1 << i;
        }
    }
    let mut under_way = [
        0,
        (sent & !p.write.pairs).count_ones() as usize,
        pairs_of(p.write.pairs)
            .filter(|pair| sent & pair == *pair)
            .count(),
    ];
    let mut stopped = false;
    for k in (0..CALLERS).filter(|k| p.callers[*k].wish == Wish::Waits) {
        let size = scene.size(q, k);
        if under_way[size] > 0 {
            under_way[size] -= 1;
            plan.served[size] += 1;
        } else if !stopped && free.count_ones() as usize >= size {
            for i in members(free).take(size) {
                free &= !(1 << i);
                plan.slots |= 1 << i;
                plan.pairs |= u8::from(size == 2) << i;
            }
            plan.served[size] += 1;
        } else {
            // A slot that the next caller can't use at once is not kept for it, nor given to one behind it.
            stopped = true;
        }
    }
    plan.surplus = free;
    plan
}

/// A participant has as many waiting groups of each size as it has callers of that size that wait and get no handover.
fn adjust_waiters(state: &mut State, q: usize, scene: &Scene) -> bool {
    for size in 1..=2 {
        let p = &mut state.participants[q];
        let waiting = waiting_callers(p, q, size, scene);
        let need = waiting - handovers(p, q, scene).served[size];
        let waiters: Vec<Group> = groups(p).into_iter().filter(|g| g.size == size).collect();
        if waiters.len() < need && new_group(state, q, size, scene) {
            return true;
        }
        // Rule 4. A waiter without a caller keeps its place for the next one of the same size, as long as such a caller waits here (one
        // of ours stands before it then, and takes the slot first). When none waits, all such leave: nobody may wait behind a waiter
        // that will not claim. Who has not entered yet has no place to keep.
        let p = &mut state.participants[q];
        let no_caller = match scene.defect {
            Some(Defect::PlacesKept) => p.callers.iter().all(|c| c.wish == Wish::Done),
            Some(Defect::PlacesKeptForAny) => !waits(p),
            _ => waiting == 0,
        };
        for g in waiters.iter().skip(need).rev() {
            if (g.key == 0 || no_caller) && !members(g.members).any(|i| under_way(p, i)) {
                for i in members(g.members) {
                    p.contenders[i].leaving = true;
                }
                return true;
            }
        }
    }
    false
}

fn new_group(state: &mut State, q: usize, size: usize, scene: &Scene) -> bool {
    let p = &state.participants[q];
    let unused: Vec<usize> = (0..CONTENDERS)
        .filter(|i| !p.contenders[*i].used)
        .take(size)
        .collect();
    let (first, end) = scene.sessions[q];
    let spare = (0..SESSIONS).filter(|s| p.spare >> s & 1 == 1);
    let sessions: Vec<usize> = spare
        .chain((first..end).filter(|s| state.sessions[*s] == Session::Unborn))
        .take(size)
        .collect();
    if unused.len() < size || sessions.len() < size {
        return false;
    }
    for (n, (i, s)) in unused.iter().zip(sessions).enumerate() {
        let mate = if size == 2 {
            unused[1 - n] as u8
        } else {
            NOBODY
        };
        state.participants[q].spare &= !bit(s as u8);
        state.participants[q].contenders[*i] = Contender {
            used: true,
            session: s as u8,
            mate,
            ..Contender::default()
        };
        state.sessions[s] = Session::Alive;
    }
    true
}

// Rule 5. Each who was seen to be served leaves our line, and all others' waiters before it: they were served or passed, and who
// was passed knows its own rank. So nobody waits for somebody who is gone.
pub(crate) fn served(p: &mut Participant, s: usize) {
    let created = p.line_created[s];
    for x in 0..SESSIONS {
        if x == s || p.line_created[x] < created && !own(p, x) && p.line_paired >> x & 1 == 0 {
            p.line_created[x] = 0;
            p.line_modified[x] = 0;
        }
    }
}

/// Rule 5. A key ahead that our poll saw changed. False: a list is needed.
pub(crate) fn touched(p: &mut Participant, s: usize, seen: &Snapshot, scene: &Scene) -> bool {
    if seen.modified[s] == 0 || seen.parked >> s & 1 == 1 {
        return false;
    }
    if scene.broken(Defect::TouchedStays) {
        p.line_modified[s] = seen.modified[s];
        return true;
    }
    // Entered again. Like a deleted or parked one it may have left without being served, so it says nothing about those before it.
    if seen.created[s] != p.line_created[s] {
        return false;
    }
    if scene.broken(Defect::NextPolledFromNow) {
        p.line_created[s] = 0;
        for x in 0..SESSIONS {
            p.line_modified[x] = if p.line_created[x] == 0 {
                0
            } else {
                seen.modified[x]
            };
        }
    } else {
        served(p, s);
    }
    // It has been served, so the record that we know is likely old: one read, whatever it shows, before a claim from it is tried.
    p.touch_read = true;
    true
}

/// Rule 7. PATIENCE counts while each record that we see leaves room: enough for the group at the head, which may be gathering it, and
/// for us, who could not claim it by turn.
pub(crate) fn patience_runs(p: &Participant, scene: &Scene) -> bool {
    !p.patience
        && !scene.broken(Defect::NoPatience)
        && p.due == Due::Nothing
        && !p.write.exists()
        && leaves_room(p, scene)
}

fn leaves_room(p: &Participant, scene: &Scene) -> bool {
    let Some(g) = first_waiter(p) else {
        return false;
    };
    let rank = rank(p, g.created);
    let free = free_slots(p, scene);
    let counts = room_counts(
        p,
        &g,
        free,
        (p.suspects & p.holders).count_ones() as usize,
        scene,
    );
    rank > 0 && (rank + g.size).cast_signed() > free && counts
}

pub(crate) fn room_counts(
    p: &Participant,
    g: &Group,
    free: isize,
    suspects: usize,
    scene: &Scene,
) -> bool {
    let room = free
        + if scene.broken(Defect::SuspectIsNoRoom) {
            0
        } else {
            suspects.cast_signed()
        };
    let head = if scene.broken(Defect::PatienceForOne) {
        1
    } else {
        head_size(p, g.created, scene)
    };
    room >= head.max(g.size).cast_signed()
}

/// Rule 8. The own clock counts from the first list without the key, so it is over no earlier than the true time.
pub(crate) fn may_prune(p: &Participant, state: &State, scene: &Scene, dead: usize) -> bool {
    let is_over = match state.sessions[dead] {
        Session::Over => true,
        // Its key was deleted by hand.
        Session::Alive => !believed(state, dead),
        _ => false,
    };
    let clock_runs = p.seen >> dead & 1 == 1
        && !is_over
        && !scene.broken(Defect::NoOwnClock)
        && !scene.broken(Defect::PruneAtOnce);
    p.suspects & p.holders & !p.prune_waits & bit(dead as u8) != 0 && !clock_runs
}

// Rule 9. While others may change the record, a record write may begin with a read of it: a release that is refused costs more than a read.
pub(crate) fn reads_first(state: &State, q: usize, scene: &Scene) -> bool {
    let p = &state.participants[q];
    state.consul.record > p.record && others(p) && compose(state, q, scene).is_some_and(|w| w.cas)
}

/// A caller's turn ends: it released, gave up, or lost its slots.
pub(crate) fn end_turn(state: &mut State, q: usize, k: usize, scene: &Scene) {
    let p = &mut state.participants[q];
    for c in p.contenders.iter_mut().filter(|c| c.caller == k as u8) {
        c.caller = NOBODY;
        c.late_belief = false;
    }
    p.write.came &= !(1 << k);
    let c = &mut p.callers[k];
    if !scene.greedy[q] {
        c.turns -= 1;
    }
    c.wish = match c.turns {
        0 => Wish::Done,
        _ => Wish::Idle,
    };
    if c.wish == Wish::Idle && scene.greedy[q] && !scene.greedy_pauses {
        comes(state, q, k);
    }
}

/// A caller wants its slots. It may know of all grants until now.
pub(crate) fn comes(state: &mut State, q: usize, k: usize) {
    let c = &mut state.participants[q].callers[k];
    c.wish = Wish::Waits;
    c.floor = state.token;
}

// Rule 12. The belief ends: the session is known to have ended, the key is gone, or the time is over. A group's caller loses all its slots.
pub(crate) fn lose(state: &mut State, q: usize, i: usize, ended: bool, scene: &Scene) {
    give_up(state, q, i, scene);
    let c = &mut state.participants[q].contenders[i];
    c.lost = true;
    c.ended |= ended;
    c.key = 0;
    c.created = 0;
    state.participants[q].due = Due::ConfirmedList;
}

/// It serves nobody any more and leaves.
pub(crate) fn give_up(state: &mut State, q: usize, i: usize, scene: &Scene) {
    let c = &mut state.participants[q].contenders[i];
    c.leaving = true;
    if c.caller != NOBODY {
        let k = c.caller as usize;
        end_turn(state, q, k, scene);
    }
}
