//! What must hold in every state.
use crate::scene::Scene;
use crate::state::{
    CALLERS, CONTENDERS, ForeignStep, NOBODY, Op, SESSIONS, Session, State, UNNAME, Violation,
    Wish, Write,
};

/// Everybody is served and nothing is under way.
pub(crate) fn at_rest(state: &State, scene: &Scene) -> bool {
    state.participants[..scene.participants].iter().all(|p| {
        p.crashed
            || p.callers.iter().all(|c| c.wish == Wish::Done)
                && p.contenders.iter().all(|c| !c.used)
                && !p.write.exists()
                && p.doomed | p.spare == 0
    }) && (!state.foreign.exists || state.foreign.step == ForeignStep::Done)
}

/// Local callers pass a waiter for STAY only: a write that gives a slot up for them takes none at once.
pub(crate) fn judge_order(state: &mut State, q: usize, write: &Write, scene: &Scene) {
    let consul = &state.consul;
    let gives_up = |i: usize| {
        matches!(write.ops[i], Op::Release | Op::ParkNamed | Op::RemoveName)
            && state.participants[q].contenders[i].given_up
    };
    let waits = |s: usize| {
        consul.modified[s] != 0
            && (consul.parked | consul.holders) >> s & 1 == 0
            && scene.owner(s) != Some(q)
    };
    if write.ops.contains(&Op::EnterAndClaim)
        && (0..CONTENDERS).any(gives_up)
        && (0..SESSIONS).any(waits)
    {
        state.violation = Some(Violation::Passed);
    }
}

/// What must hold in every state.
pub(crate) fn judge(state: &mut State, scene: &Scene) {
    let mut holders = usize::from(state.foreign.step == ForeignStep::Holds);
    for q in (0..scene.participants).filter(|q| !state.participants[*q].crashed) {
        let p = &state.participants[q];
        for k in (0..CALLERS).filter(|k| p.callers[*k].wish == Wish::Holds) {
            holders += scene.size(q, k);
            // All or none.
            if p.contenders.iter().filter(|c| c.caller == k as u8).count() != scene.size(q, k) {
                state.violation = Some(Violation::Partial);
            }
        }
    }
    // A group is claimed as a whole.
    if scene.calm() {
        for p in &state.participants {
            let named = |i: usize| state.consul.holders >> p.contenders[i].session & 1;
            if (0..CONTENDERS).any(|i| {
                p.contenders[i].mate != NOBODY && named(i) != named(p.contenders[i].mate as usize)
            }) {
                state.violation = Some(Violation::Partial);
            }
        }
    }
    // S1, but for an operator's doing.
    if holders > scene.limit && scene.budget[UNNAME] == 0 {
        state.violation = Some(Violation::TooManyHolders);
    }
    if state.consul.holders.count_ones() as usize > scene.limit {
        state.violation = Some(Violation::TooManyNames);
    }
    // L2.
    if at_rest(state, scene) {
        for s in 0..SESSIONS {
            let left = state.sessions[s] == Session::Alive && !scene.shared
                || state.consul.modified[s] != 0
                || state.consul.holders >> s & 1 == 1;
            if left
                && scene
                    .owner(s)
                    .is_some_and(|q| !state.participants[q].crashed)
            {
                state.violation = Some(Violation::Leftover);
            }
        }
    }
}
