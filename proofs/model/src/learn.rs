//! What comes, and what it changes: an answer to a write, a record, a list. Only here do callers get slots.
use crate::defects::Defect;
use crate::known::{members, own, pairs_of, under_way};
use crate::rules::{give_up, lose, served};
use crate::scene::Scene;
use crate::state::{
    CALLERS, CONTENDERS, Contender, Due, FORGET, Index, LOCK_DELAY, NOBODY, OWN_KEY, Op,
    RECORD_MOVED, SESSION_ENDED, SESSIONS, Session, Snapshot, Stage, State, UNNAME, Violation,
    WIPE, Wish, Write, bit,
};

/// The answer to the write under way.
pub(crate) fn answer_write(state: &mut State, q: usize, scene: &Scene) {
    let newest = state.consul.last;
    let p = &mut state.participants[q];
    let (write, tree) = (p.write, p.tree);
    p.write = Write::default();
    p.tree = Snapshot::default();
    p.no_poll = write.claims() && scene.broken(Defect::NoPollAfterClaim);
    if write.stage == Stage::Applied {
        applied(state, q, &write, &tree, scene);
    } else {
        if write.claims() && scene.broken(Defect::PollFromNewest) {
            p.poll_from = newest;
        }
        refused(state, q, &write, scene);
    }
}

pub(crate) fn refused(state: &mut State, q: usize, write: &Write, scene: &Scene) {
    let p = &mut state.participants[q];
    if write.reason & LOCK_DELAY != 0 {
        p.prune_waits |= write.prune;
    }
    for i in 0..CONTENDERS {
        let p = &mut state.participants[q];
        // Rule 2. From now on it only enters.
        p.contenders[i].refused |=
            write.ops[i] == Op::EnterAndClaim && !scene.broken(Defect::NewcomerRetries);
        let ended = write.reason & SESSION_ENDED != 0
            && write.ops[i].locks()
            && state.sessions[write.sessions[i] as usize] != Session::Alive;
        if ended && p.contenders[i].used && !p.contenders[i].ended {
            lose(state, q, i, true, scene);
        }
    }
    // Rule 10. If only the record has moved, reading it is enough: somebody else got on. Anything else: list.
    let p = &mut state.participants[q];
    if write.reason & OWN_KEY != 0 {
        p.due = p.due.max(Due::List);
    } else if write.reason & RECORD_MOVED != 0 && p.record == write.base {
        p.due = p.due.max(Due::NewerRecord);
    }
}

pub(crate) fn applied(state: &mut State, q: usize, write: &Write, tree: &Snapshot, scene: &Scene) {
    let p = &mut state.participants[q];
    p.last_was_handover = write.hands_over();
    p.patience &= !write.claims();
    let answered = (0..CONTENDERS)
        .filter(|i| write.ops[*i] != Op::None)
        .map(|i| bit(write.sessions[i]))
        .fold(0, |a, b| a | b);
    let blind = write.hands_over() && scene.broken(Defect::HandoverBlind);
    if write.cas {
        let (newer, suspects) = ((write.index, write.names, p.lowered), p.suspects);
        learn_record(state, q, newer, answered, scene);
        // Rule 8. Nobody else has changed the record since the list that shows them.
        if !scene.broken(Defect::SuspectsForgotten) {
            state.participants[q].suspects = suspects & write.names;
        }
    } else if write.hands_over() && !blind {
        let newer = (write.record, write.holders, write.lowered);
        learn_record(state, q, newer, answered, scene);
    }
    let mut served = 0u8;
    for i in 0..CONTENDERS {
        let p = &mut state.participants[q];
        let c = &mut p.contenders[i];
        let op = write.ops[i];
        if op == Op::None || !c.used {
            continue;
        }
        if op.deletes() {
            c.key = 0;
            c.created = 0;
            c.leaving = true;
        } else if op.parks() && !c.ended || op.locks() && !c.lost {
            c.key = c.key.max(write.index);
            if c.created == 0 || op.enters() {
                c.created = write.index;
            }
            c.refused = false;
            c.parked |= op.parks();
            c.stayed &= !op.claims();
            if op.claims() || op == Op::HandOver {
                if p.holders & bit(c.session) != 0 || blind {
                    served |= 1 << i;
                } else {
                    give_up(state, q, i, scene);
                }
            }
        }
    }
    grant(state, q, write, served, scene);
    if write.enters() {
        // The tree in the same answer. (Without exact trees a list that is read later stands for it.)
        // Nobody is a suspect by it: rule 8.
        let p = &mut state.participants[q];
        let due = std::mem::take(&mut p.due);
        let suspects = if scene.exact_tree && tree.record == p.record {
            p.suspects
        } else {
            0
        };
        if !scene.exact_tree || !accept_list(state, q, tree, scene) {
            state.participants[q].due = due.max(Due::List);
        } else {
            let p = &mut state.participants[q];
            let keyless = p.suspects;
            p.suspects &= suspects;
            p.due = p.due.max(if due == Due::ConfirmedList {
                due
            } else if keyless != p.suspects {
                // Rule 6. A tree first shows a name without a key.
                Due::List
            } else {
                Due::Nothing
            });
        }
    }
}

/// The only place where callers get slots: an applied write after which the record names the contenders (`served`), if their belief
/// has not run out. A caller of two slots gets both, or none.
pub(crate) fn grant(state: &mut State, q: usize, write: &Write, served: u8, scene: &Scene) {
    let mut tokens: Vec<(Index, usize)> = Vec::new();
    for i in members(served) {
        if write.expired >> i & 1 == 1 && !scene.broken(Defect::BeliefFromAnswer) {
            lose(state, q, i, false, scene);
        }
    }
    let singles = members(served & !write.pairs).map(|i| 1 << i);
    for set in singles.chain(pairs_of(write.pairs)) {
        let size = set.count_ones() as usize;
        let p = &mut state.participants[q];
        if set & served != set || members(set).any(|i| p.contenders[i].leaving) {
            continue;
        }
        // Who came after the write was composed may know of a later grant, whose token is higher: it gets the slot by a handover.
        let may_be_served = |k: &usize| {
            p.callers[*k].wish == Wish::Waits
                && scene.size(q, *k) == size
                && (write.came >> k & 1 == 1 || scene.broken(Defect::ServesLater))
        };
        let Some(k) = (0..CALLERS).find(may_be_served) else {
            continue;
        };
        let floor = std::mem::take(&mut p.callers[k].floor);
        p.callers[k].wish = Wish::Holds;
        for (n, i) in members(set).enumerate() {
            let c = &mut p.contenders[i];
            c.caller = k as u8;
            c.late_belief = scene.broken(Defect::BeliefFromAnswer)
                && state.sessions[c.session as usize].ended();
            // Fencing token: the index of the write, and the number of the grant within it.
            let index = if scene.broken(Defect::TokenOfRecord) {
                p.record
            } else {
                write.index
            };
            let token = (
                index,
                if scene.broken(Defect::TokensPerCaller) {
                    n
                } else {
                    tokens.len()
                },
            );
            let rises = index > floor
                && (scene.limit > 1 || index > state.token || scene.budget[UNNAME] > 0);
            if !rises || tokens.contains(&token) {
                state.violation = Some(Violation::Token);
            }
            if write.named >> i & 1 == 0 {
                state.violation = Some(Violation::Unnamed);
            }
            tokens.push(token);
        }
    }
    for (index, _) in tokens {
        state.token = state.token.max(index);
    }
}

/// Rule 11. A key that may not be deleted, or parked, goes with its session. The contender stays until that has ended: a claim of it that was given
/// up may come before, and its name is removed then.
pub(crate) fn denied(state: &mut State, q: usize, scene: &Scene) {
    let p = &mut state.participants[q];
    for i in (0..CONTENDERS).filter(|i| p.write.ops[*i].only_leaves()) {
        if scene.broken(Defect::DeniedForgotten) || scene.broken(Defect::DeniedLeft) {
            p.contenders[i] = Contender::default();
        }
        if !scene.broken(Defect::DeniedLeft) {
            p.doomed |= bit(p.write.sessions[i]);
        }
    }
    p.write = Write::default();
}

/// Its client gives the write up, or its answer is lost: nothing new is known. List, then compose again from the same indices.
pub(crate) fn unknown(state: &mut State, q: usize) {
    let p = &mut state.participants[q];
    for i in 0..CONTENDERS {
        let op = p.write.ops[i];
        p.contenders[i].open |= (op.enters() || op == Op::ParkUnseen) && p.contenders[i].used;
    }
    p.write = Write::default();
    p.tree = Snapshot::default();
    p.due = p.due.max(Due::List);
}

/// A newer record. `answered`: sessions whose write this answers, so that their names are no news.
pub(crate) fn learn_record(
    state: &mut State,
    q: usize,
    (record, holders, lowered): (Index, u16, bool),
    answered: u16,
    scene: &Scene,
) {
    let p = &mut state.participants[q];
    if record <= p.record && !(scene.broken(Defect::OlderAccepted) && record != p.record) {
        return;
    }
    let before = p.holders;
    p.record = record;
    p.holders = holders;
    p.lowered = lowered;
    p.suspects = 0;
    p.touch_read = false;
    if p.due == Due::NewerRecord {
        p.due = Due::Nothing;
    }
    // Rule 5. Each whom it names has been served.
    for s in 0..SESSIONS {
        if holders >> s & 1 == 1 && p.line_created[s] != 0 && !own(p, s) {
            served(p, s);
        }
    }
    for i in 0..CONTENDERS {
        let p = &mut state.participants[q];
        let c = p.contenders[i];
        if !c.used || under_way(p, i) {
            continue;
        }
        let name = bit(c.session);
        if c.caller != NOBODY && holders & name == 0 {
            give_up(state, q, i, scene);
        } else if c.caller == NOBODY && holders & !before & !answered & name != 0 {
            // A write of ours that ended as unknown was applied.
            p.due = p.due.max(Due::List);
        }
    }
}

/// A list of the prefix, with the record in it. False: it is older than what is known, and ignored.
pub(crate) fn accept_list(state: &mut State, q: usize, seen: &Snapshot, scene: &Scene) -> bool {
    let p = &mut state.participants[q];
    let older = p.known && seen.record < p.record
        || p.contenders
            .iter()
            .any(|c| c.used && !c.ended && c.key > seen.last);
    if older && !scene.broken(Defect::OlderAccepted) {
        return false;
    }
    let first = !p.known;
    // Rule 12. A list without a key of ours, which holds or waits, only asks for a confirmed read.
    let confirmed = p.due == Due::ConfirmedList;
    let shows_own = p
        .contenders
        .iter()
        .any(|c| c.used && seen.modified[c.session as usize] != 0);
    let mut to_confirm = false;
    p.known = true;
    p.list_index = seen.last;
    p.no_poll = false;
    p.poll_from = 0;
    p.touch_read = false;
    for i in 0..CONTENDERS {
        let p = &mut state.participants[q];
        let waits_for_answer = under_way(p, i);
        let c = &mut p.contenders[i];
        let s = c.session as usize;
        if !c.used || c.ended {
            continue;
        }
        if seen.modified[s] != 0 {
            c.key = seen.modified[s];
            c.created = seen.created[s];
            c.refused = false;
        } else if c.key != 0 && !waits_for_answer {
            let is_named = seen.holders & bit(c.session) != 0;
            if !shows_own && !confirmed {
                to_confirm = true;
            } else if !shows_own && !c.leaving && !is_named {
                // It was filtered, or all our keys were deleted by hand. Who waits enters again, which tells.
                c.key = 0;
                c.created = 0;
                c.open = true;
                c.refused = true;
            } else if !shows_own && !c.leaving && scene.broken(Defect::WipedIsFiltered) {
                // A holder can't wait for that: its key was deleted.
            } else if c.leaving && !is_named {
                c.key = 0;
                c.created = 0;
            } else if c.leaving || confirmed {
                lose(state, q, i, false, scene);
            } else {
                to_confirm = true;
            }
        } else {
            c.open &= !scene.broken(Defect::AbsentSettlesEntry);
        }
    }
    if first {
        let p = &mut state.participants[q];
        (p.record, p.holders, p.lowered) = seen.content();
    } else {
        learn_record(state, q, seen.content(), u16::MAX, scene);
    }
    let p = &mut state.participants[q];
    p.due = if to_confirm {
        Due::ConfirmedList
    } else {
        Due::Nothing
    };
    // The line: keys that are tied, not parked, and not named.
    p.suspects = 0;
    p.line_paired = 0;
    p.list_others = false;
    let has_none = p.contenders.iter().all(|c| c.key == 0);
    for s in 0..SESSIONS {
        let exists = seen.modified[s] != 0;
        let in_line = exists && seen.parked >> s & 1 == 0 && seen.holders >> s & 1 == 0;
        p.line_created[s] = if in_line { seen.created[s] } else { 0 };
        p.line_modified[s] = if in_line { seen.modified[s] } else { 0 };
        if in_line && !own(p, s) {
            p.list_others = true;
            p.line_paired |= seen.paired & 1 << s;
        }
        if exists && scene.budget[FORGET] + scene.budget[WIPE] > 0 {
            p.seen |= 1 << s;
        }
        // Rule 8. Suspect: named, without a key in a list that is as new as the record and shows a key of ours, if we have any.
        if seen.holders >> s & 1 == 1 && !exists && (shows_own || has_none) && !own(p, s) {
            p.suspects |= 1 << s;
        }
    }
    true
}
