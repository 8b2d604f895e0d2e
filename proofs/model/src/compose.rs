//! The next write of a participant, in order: releases, claims, entries; or handovers.
use crate::defects::Defect;
use crate::known::{alone, free_beside, groups, members, named, rank, waiting_callers};
use crate::rules::{Handovers, handovers, may_prune, room_counts};
use crate::scene::Scene;
use crate::state::{Contender, Due, Index, Op, Participant, SESSIONS, Stage, State, Write, bit};

/// The next write, composed from what is known at this moment; nothing is queued.
pub(crate) fn compose(state: &State, q: usize, scene: &Scene) -> Option<Write> {
    let p = &state.participants[q];
    if p.crashed || p.write.exists() || p.due >= Due::List {
        return None;
    }
    // Rule 3. A handover write has no `cas`: no other process can make it fail.
    let plan = handovers(p, q, scene);
    let mut handover = Write {
        pairs: plan.pairs,
        ..Write::default()
    };
    members(plan.slots).for_each(|i| set(&mut handover, p, i, Op::HandOver));
    let write = record_write(state, q, &plan, scene);
    // If both kinds are due, they take turns.
    let record_ready = write.exists() && p.due == Due::Nothing;
    if handover.exists() && !(p.last_was_handover && record_ready) {
        return Some(handover);
    }
    record_ready.then_some(write)
}

fn set(write: &mut Write, p: &Participant, i: usize, op: Op) {
    write.stage = Stage::Sent;
    write.ops[i] = op;
    write.sessions[i] = p.contenders[i].session;
    write.keys[i] = p.contenders[i].key;
}

/// A record write: releases first, then claims, then entries, in the order of the line.
fn record_write(state: &State, q: usize, plan: &Handovers, scene: &Scene) -> Write {
    let p = &state.participants[q];
    let mut write = Write::default();
    let mut names = p.holders;
    release(&mut write, &mut names, p, scene);
    let mut free = free_beside(p, names, scene);
    let mut callers = [0, 1, 2].map(|size| waiting_callers(p, q, size, scene) - plan.served[size]);
    let mut blocked = false;
    for (n, g) in groups(p).iter().enumerate() {
        let entered = g.key != 0;
        let rank = rank(p, if entered { g.created } else { Index::MAX });
        let whole = g.members.count_ones() as usize == g.size;
        let may = !blocked && callers[g.size] > 0 && !p.touch_read && whole;
        // Rule 1. Its turn: all its slots in one write, or none; those of ours before it take theirs first.
        // Rule 2. A newcomer claims only if it is alone and has not been refused. In others, or without a list, it enters, which nobody
        // can refuse.
        let newcomer_may =
            entered || alone(p, scene) && members(g.members).all(|i| !p.contenders[i].refused);
        let mut claims = may && (rank + g.size).cast_signed() <= free && newcomer_may;
        if may && !claims && n == 0 && entered {
            // Rule 7. Room that has been there for PATIENCE may be claimed by our first waiter, whatever its rank, if it is room for
            // the head of the line as it is now.
            let suspects = (p.suspects & names).count_ones() as usize;
            let patient = p.patience && room_counts(p, g, free, suspects, scene);
            let needed = (g.size + if patient { 0 } else { rank }).cast_signed();
            // Rule 8. Who needs the slots of dead holders removes their names in the same write.
            let dead =
                (0..SESSIONS).filter(|d| names >> d & 1 == 1 && may_prune(p, state, scene, *d));
            let missing = usize::try_from(needed - free).unwrap_or(0);
            let pruned: u16 = dead.take(missing).map(|d| 1 << d).sum();
            if pruned.count_ones() as usize == missing {
                claims = true;
                write.prune = pruned;
                write.pruner = if pruned == 0 {
                    0
                } else {
                    p.contenders[g.first()].session
                };
                names &= !pruned;
                free += missing.cast_signed();
            }
        }
        let mut claimed = if claims { g.members } else { 0 };
        if scene.broken(Defect::SlotBySlot)
            && g.size == 2
            && entered
            && !blocked
            && callers[2] > 0
            && !p.touch_read
        {
            let room = usize::try_from(free - rank.cast_signed()).unwrap_or(0);
            claimed = members(g.members).take(room).map(|i| 1 << i).sum();
        }
        for i in members(g.members) {
            if claimed >> i & 1 == 1 {
                set(
                    &mut write,
                    p,
                    i,
                    if entered {
                        Op::Claim
                    } else {
                        Op::EnterAndClaim
                    },
                );
                names |= bit(p.contenders[i].session);
                free -= 1;
            } else if !entered {
                set(&mut write, p, i, Op::Enter);
            }
        }
        if g.size == 2 && !entered {
            write.entry_pairs |= g.members;
        }
        if claims {
            write.pairs |= if g.size == 2 { g.members } else { 0 };
            callers[g.size] -= 1;
        } else {
            blocked = true;
        }
    }
    if names != p.holders {
        write.cas = true;
        write.base = p.record;
        write.names = names;
    }
    write
}

/// What those who leave need.
fn release(write: &mut Write, names: &mut u16, p: &Participant, scene: &Scene) {
    for (i, c) in p.contenders.iter().enumerate() {
        // A key that may not be deleted goes with its session.
        let goes = !c.ended && p.doomed & bit(c.session) != 0;
        if !c.used || !c.leaving || goes {
            continue;
        }
        let op = leaving_op(p, c, scene);
        if matches!(op, Op::Release | Op::ParkNamed | Op::RemoveName) {
            *names &= !bit(c.session);
        }
        if op != Op::None {
            set(write, p, i, op);
        }
    }
}

// Rule 11. Leaving is repeated until its end is known. An open contender parks instead of deleting its key: while the key exists, and
// after its session, no late entry can succeed.
fn leaving_op(p: &Participant, c: &Contender, scene: &Scene) -> Op {
    let open = c.open && !scene.broken(Defect::OpenDestroyed) && !scene.broken(Defect::OpenKept);
    match (named(p, c), c.key != 0) {
        (true, false) if scene.broken(Defect::LostKeepsName) => Op::None,
        (true, false) => Op::RemoveName,
        (true, true) if open => Op::ParkNamed,
        (true, true) => Op::Release,
        (false, true) if open && (c.parked || scene.broken(Defect::OpenNotParked)) => Op::None,
        (false, true) if open => Op::Park,
        (false, true) => Op::Leave,
        (false, false) if open && !c.ended => Op::ParkUnseen,
        (false, false) => Op::None,
    }
}
