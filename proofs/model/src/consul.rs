//! Consul's side: a transaction is applied as a whole, or refused with its reasons.
use crate::defects::Defect;
use crate::scene::Scene;
use crate::state::{
    CONTENDERS, LOCK_DELAY, OWN_KEY, Op, RECORD_MOVED, SESSION_ENDED, SESSIONS, Session, Snapshot,
    State, Violation, Write, bit,
};

pub(crate) fn apply(state: &mut State, write: &Write, scene: &Scene) -> Result<(), u8> {
    let why = refusal(state, write, scene);
    if why != 0 {
        return Err(why);
    }
    let before = state.consul.holders;
    let consul = &mut state.consul;
    consul.last += 1;
    let n = consul.last;
    let mut ours = write.prune;
    for i in (0..CONTENDERS).filter(|i| write.ops[*i] != Op::None) {
        let (op, s, name) = (
            write.ops[i],
            write.sessions[i] as usize,
            bit(write.sessions[i]),
        );
        ours |= name;
        if op.locks() {
            consul.modified[s] = n;
            consul.parked = if op.parks() {
                consul.parked | name
            } else {
                consul.parked & !name
            };
            if consul.created[s] == 0 {
                consul.created[s] = n;
                consul.paired = if write.entry_pairs >> i & 1 == 1 {
                    consul.paired | name
                } else {
                    consul.paired & !name
                };
            }
        } else if op.deletes() {
            delete_key(consul, s);
        }
    }
    if write.cas {
        consul.record = n;
        consul.holders = write.names;
        // S4: nobody's name is changed by a write that knew nothing of it.
        if (before ^ write.names) & !ours != 0 {
            state.violation = Some(Violation::ForeignName);
        }
        // S1: no write of ours adds a name beyond the record's Limit.
        let limit = scene.limit - usize::from(consul.lowered);
        if write.names & !before != 0 && write.names.count_ones() as usize > limit {
            state.violation = Some(Violation::TooManyNames);
        }
    }
    Ok(())
}

fn refusal(state: &State, write: &Write, scene: &Scene) -> u8 {
    let consul = &state.consul;
    let mut why = 0;
    for dead in (0..SESSIONS).filter(|s| write.prune >> s & 1 == 1) {
        // `lock P/D` by another session: refused while the lock delay of D's session runs, or if anybody holds the key.
        if state.sessions[dead] == Session::Delayed
            && !scene.broken(Defect::PruneAtOnce)
            && !scene.broken(Defect::PruneWithoutLock)
        {
            why |= LOCK_DELAY;
        }
        if consul.modified[dead] != 0 {
            why |= OWN_KEY;
        }
    }
    if write.prune != 0 && state.sessions[write.pruner as usize] != Session::Alive {
        why |= OWN_KEY;
    }
    let checks = scene.checks();
    for i in 0..CONTENDERS {
        let (op, s) = (write.ops[i], write.sessions[i] as usize);
        let index_checked = match op {
            Op::HandOver => checks.handover,
            Op::Claim => checks.claim,
            Op::Release | Op::Leave | Op::Park | Op::ParkNamed => checks.release,
            _ => false,
        };
        let absence_checked = match op {
            Op::Enter | Op::EnterAndClaim | Op::ParkUnseen => !scene.broken(Defect::EntryUnchecked),
            Op::RemoveName => checks.release,
            _ => false,
        };
        if index_checked && (consul.modified[s] != write.keys[i] || write.keys[i] == 0)
            || absence_checked && consul.modified[s] != 0
        {
            why |= OWN_KEY;
        }
        if op.locks() && state.sessions[s] != Session::Alive {
            why |= OWN_KEY | SESSION_ENDED;
        }
    }
    if write.cas && consul.record != write.base {
        why |= RECORD_MOVED;
    }
    why
}

pub(crate) fn delete_key(consul: &mut Snapshot, s: usize) {
    consul.modified[s] = 0;
    consul.created[s] = 0;
    consul.parked &= !(1 << s);
    consul.paired &= !(1 << s);
}

/// Its keys are deleted with it, and get a lock delay if there were any.
pub(crate) fn end_session(state: &mut State, s: usize) {
    if state.sessions[s] != Session::Alive {
        return;
    }
    state.sessions[s] = if state.consul.modified[s] != 0 {
        state.consul.last += 1;
        delete_key(&mut state.consul, s);
        Session::Delayed
    } else {
        Session::Undelayed
    };
}
