//! All that can happen in a state.
use crate::action::Event::{
    Answers, Cancels, ComesLate, Copied, Crashes, CutOff, Denied, Destroys, EndsEarly, Forgets,
    FormerDown, KeyDeleted, LateOver, Learns, LosesAnswer, LosesRequest, Lowered, MayPrune,
    Patience, PollEnds, PollEndsRecord, ProofByFormer, Reads, ReadsFirst, ReadsFormer, Releases,
    Sends, Stayed, Takes, TimeOver, TtlEnds, Unnamed, Vanishes, Wants, Wiped,
};
use crate::action::{Action, Event};
use crate::compose::compose;
use crate::consul::{apply, delete_key, end_session};
use crate::defects::Defect;
use crate::foreign::foreign_client;
use crate::judge::{judge, judge_order};
use crate::known::{believed, first_waiter, named, under_way};
use crate::learn::{accept_list, answer_write, denied, unknown};
use crate::reads::{Read, answer_read, next_read, read_record};
use crate::rules::{comes, end_turn, lose, patience_runs, reads_first, settle};
use crate::scene::Scene;
use crate::state::{
    CALLERS, CANCEL, CONTENDERS, COPY, CRASH, DENY, Due, EARLY, FOREIGN, FORGET, FORMER, LATE,
    LOST, LOWER, NOBODY, Op, Participant, SESSIONS, Session, Snapshot, Stage, State, UNKEY, UNNAME,
    WIPE, Wish, Write, bit,
};

/// Collects what can follow.
pub(crate) struct Next<'a> {
    pub(crate) scene: &'a Scene,
    pub(crate) out: &'a mut Vec<(Action, State)>,
}

impl Next<'_> {
    pub(crate) fn push(&mut self, event: Event, who: usize, what: usize, mut state: State) {
        let scene = self.scene;
        let action = Action {
            event,
            who: who as u8,
            what: what as u8,
        };
        if action.of_consul() {
            (0..scene.participants).for_each(|q| settle(&mut state, q, scene));
        } else {
            settle(&mut state, who, scene);
        }
        judge(&mut state, scene);
        if state.canonical(scene.checks()) {
            // The number of a session has become free, perhaps for one who wants a new one.
            (0..scene.participants).for_each(|q| settle(&mut state, q, scene));
            state.canonical(scene.checks());
        }
        self.out.push((action, state));
    }
    /// The same for a fault of which the scene has some left.
    fn fault(
        &mut self,
        budget: usize,
        event: Event,
        who: usize,
        what: usize,
        state: &State,
        change: impl FnOnce(&mut State),
    ) {
        if state.budget[budget] > 0 {
            let mut state = *state;
            state.budget[budget] -= 1;
            change(&mut state);
            self.push(event, who, what, state);
        }
    }
    pub(crate) fn event(
        &mut self,
        event: Event,
        who: usize,
        what: usize,
        state: &State,
        change: impl FnOnce(&mut State),
    ) {
        let mut state = *state;
        change(&mut state);
        self.push(event, who, what, state);
    }
}

pub(crate) fn successors(state: &State, scene: &Scene, out: &mut Vec<(Action, State)>) {
    out.clear();
    let mut next = Next { scene, out };
    for q in 0..scene.participants {
        if !state.participants[q].crashed {
            of_callers(state, q, &mut next);
            of_writes(state, q, &mut next);
            of_reads(state, q, &mut next);
            of_sessions(state, q, &mut next);
            of_timers(state, q, &mut next);
            let crash = |s: &mut State| {
                let p = &mut s.participants[q];
                let mut late = p.late;
                if p.write.stage == Stage::Sent
                    && let Some(place) = late.iter_mut().find(|w| !w.exists())
                {
                    *place = p.write.given_up();
                }
                *p = Participant {
                    crashed: true,
                    late,
                    ..Participant::default()
                };
            };
            next.fault(CRASH, Crashes, q, 0, state, crash);
        }
        for l in 0..LATE {
            let write = state.participants[q].late[l];
            if write.exists() {
                let mut late = *state;
                late.participants[q].late[l] = Write::default();
                next.push(Vanishes, q, l, late);
                if apply(&mut late, &write, scene).is_ok() {
                    next.push(ComesLate, q, l, late);
                }
            }
        }
    }
    of_consul(state, &mut next);
    if state.foreign.exists {
        foreign_client(state, &mut next);
    }
    // PATIENCE is long: where it matters, it is over only when nothing else moves.
    if !scene.slow_patience || !next.out.iter().any(|(a, s)| a.by_protocol() && s != state) {
        for q in (0..scene.participants)
            .filter(|q| scene.timers && scene.patience && !state.participants[*q].crashed)
        {
            if patience_runs(&state.participants[q], scene) {
                next.event(Patience, q, 0, state, |s| s.participants[q].patience = true);
            }
        }
    }
}

fn of_callers(state: &State, q: usize, next: &mut Next) {
    let scene = next.scene;
    for k in 0..CALLERS {
        let caller = state.participants[q].callers[k];
        match caller.wish {
            Wish::Idle => next.event(Wants, q, k, state, |s| comes(s, q, k)),
            Wish::Waits => next.fault(CANCEL, Cancels, q, k, state, |s| end_turn(s, q, k, scene)),
            Wish::Holds => next.event(Releases, q, k, state, |s| end_turn(s, q, k, scene)),
            Wish::Done => {}
        }
    }
}

fn of_writes(state: &State, q: usize, next: &mut Next) {
    let scene = next.scene;
    let write = state.participants[q].write;
    match write.stage {
        Stage::None => {
            if let Some(mut write) = compose(state, q, scene) {
                for k in
                    (0..CALLERS).filter(|k| state.participants[q].callers[*k].wish == Wish::Waits)
                {
                    write.came |= 1 << k;
                }
                next.event(Sends, q, 0, state, |s| {
                    judge_order(s, q, &write, scene);
                    s.participants[q].write = write;
                    if scene.instant {
                        take(s, q, scene);
                        answer_write(s, q, scene);
                    }
                });
            }
        }
        Stage::Sent => {
            let mut taken = *state;
            let applied = take(&mut taken, q, scene);
            let room_for_late = !state.participants[q].late[0].exists();
            if applied && room_for_late {
                next.fault(COPY, Copied, q, 0, &taken, |s| {
                    s.participants[q].late[0] = write.given_up();
                });
            }
            if scene.quick {
                answer_write(&mut taken, q, scene);
            }
            next.push(Takes, q, 0, taken);
            if write.ops.iter().any(|op| op.only_leaves()) && !write.cas {
                next.fault(DENY, Denied, q, 0, state, |s| denied(s, q, scene));
            }
            if room_for_late {
                next.fault(LOST, LosesRequest, q, 0, state, |s| {
                    s.participants[q].late[0] = write.given_up();
                    unknown(s, q);
                });
            }
        }
        Stage::Applied | Stage::Refused => {
            next.event(Answers, q, 0, state, |s| answer_write(s, q, scene));
            next.fault(LOST, LosesAnswer, q, 0, state, |s| unknown(s, q));
        }
    }
}

/// The write under way reaches Consul. Returns whether it was applied.
pub(crate) fn take(state: &mut State, q: usize, scene: &Scene) -> bool {
    let write = state.participants[q].write;
    let result = apply(state, &write, scene);
    let consul = state.consul;
    let p = &mut state.participants[q];
    let w = &mut p.write;
    match result {
        Ok(()) => {
            w.stage = Stage::Applied;
            w.index = consul.last;
            for i in (0..CONTENDERS).filter(|i| write.ops[*i] != Op::None) {
                w.named |= u8::from(consul.holders & bit(write.sessions[i]) != 0) << i;
            }
            if write.hands_over() {
                (w.record, w.holders, w.lowered) = consul.content();
            }
            if write.enters() && scene.exact_tree {
                p.tree = consul;
            }
        }
        Err(why) => {
            w.stage = Stage::Refused;
            w.reason = why;
        }
    }
    result.is_ok()
}

fn of_reads(state: &State, q: usize, next: &mut Next) {
    let scene = next.scene;
    let mut read = *state;
    if answer_read(&mut read, q, &state.consul, false, scene) {
        next.push(Reads, q, 0, read);
    }
    if state.has_former {
        let mut read = *state;
        if answer_read(&mut read, q, &state.former, true, scene) {
            next.push(ReadsFormer, q, 0, read);
        }
    }
    if reads_first(state, q, scene) {
        next.event(ReadsFirst, q, 0, state, |s| {
            read_record(s, q, &state.consul, scene);
        });
    }
}

fn of_sessions(state: &State, q: usize, next: &mut Next) {
    let scene = next.scene;
    let p = &state.participants[q];
    for session in (0..SESSIONS).filter(|s| p.doomed >> s & 1 == 1) {
        next.event(Destroys, q, session, state, |s| {
            s.participants[q].doomed &= !(1 << session);
            end_session(s, session);
            for i in (0..CONTENDERS)
                .filter(|i| p.contenders[*i].used && p.contenders[*i].session as usize == session)
            {
                lose(s, q, i, true, scene);
            }
        });
    }
    for (i, c) in p.contenders.iter().enumerate().filter(|(_, c)| c.used) {
        if !c.ended && state.sessions[c.session as usize].ended() {
            next.event(Learns, q, i, state, |s| lose(s, q, i, true, scene));
        }
        // A shared session isn't destroyed: once no write can come late, the parked key is deleted.
        let writes_late = |w: &Write| {
            w.exists()
                && (0..CONTENDERS).any(|j| w.ops[j] != Op::None && w.sessions[j] == c.session)
        };
        let parked = c.open
            && c.leaving
            && (c.parked || scene.broken(Defect::OpenNotParked))
            && c.key != 0
            && !named(p, c);
        if scene.shared
            && parked
            && !under_way(p, i)
            && !state
                .participants
                .iter()
                .any(|p| p.late.iter().any(writes_late))
        {
            next.event(LateOver, q, i, state, |s| {
                s.participants[q].contenders[i].open = false;
            });
        }
    }
}

fn of_timers(state: &State, q: usize, next: &mut Next) {
    let scene = next.scene;
    let p = &state.participants[q];
    if scene.timers {
        if p.due < Due::List && p.known && !matches!(next_read(state, q, scene), Read::Nothing) {
            // Only a waiter lists.
            let waits = first_waiter(p).is_some();
            let mut listed = *state;
            if waits && accept_list(&mut listed, q, &state.consul, scene) {
                next.push(PollEnds, q, 0, listed);
            }
            if (scene.poll_reads || !waits) && state.consul.record > p.record {
                next.event(PollEndsRecord, q, 0, state, |s| {
                    read_record(s, q, &state.consul, scene);
                });
            }
        }
        if (0..SESSIONS)
            .any(|d| p.prune_waits >> d & 1 == 1 && state.sessions[d] != Session::Delayed)
        {
            next.event(MayPrune, q, 0, state, |s| s.participants[q].prune_waits = 0);
        }
    }
    for (i, c) in p.contenders.iter().enumerate().filter(|(_, c)| c.used) {
        if scene.stay && !c.stayed && !c.leaving && c.key != 0 && named(p, c) {
            next.event(Stayed, q, i, state, |s| {
                s.participants[q].contenders[i].stayed = true;
            });
        }
        let believes_wrongly =
            c.caller != NOBODY && !c.late_belief && state.sessions[c.session as usize].ended();
        if scene.broken(Defect::ProofByFormer)
            && state.has_former
            && believes_wrongly
            && state.former.modified[c.session as usize] != 0
        {
            next.event(ProofByFormer, q, i, state, |s| {
                s.participants[q].contenders[i].late_belief = true;
            });
        }
    }
}

pub(crate) fn of_consul(state: &State, next: &mut Next) {
    let scene = next.scene;
    for s in 0..SESSIONS {
        let owner = scene.owner(s);
        match (state.sessions[s], owner) {
            (Session::Alive, Some(q)) if state.participants[q].crashed => {
                next.event(TtlEnds, q, s, state, |x| end_session(x, s));
            }
            (Session::Alive, Some(q)) => {
                next.fault(EARLY, EndsEarly, q, s, state, |x| end_session(x, s));
                // Without its key no proof comes any more.
                if scene.budget[WIPE] > 0 && state.consul.modified[s] == 0 && believed(state, s) {
                    next.event(TimeOver, 0, s, state, |x| time_over(x, s, scene));
                }
            }
            (Session::Delayed | Session::Undelayed, _) => {
                next.event(TimeOver, 0, s, state, |x| time_over(x, s, scene));
                if state.sessions[s] == Session::Delayed && seen_by_all(state, s, scene) {
                    next.fault(FORGET, Forgets, 0, s, state, |x| {
                        x.sessions[s] = Session::Undelayed;
                    });
                }
            }
            _ => {}
        }
        if s != FOREIGN && state.consul.holders >> s & 1 == 1 {
            next.fault(UNNAME, Unnamed, 0, s, state, |x| {
                x.consul.last += 1;
                x.consul.record = x.consul.last;
                x.consul.holders &= !(1 << s);
            });
        } else if s != FOREIGN && state.consul.modified[s] != 0 {
            next.fault(UNKEY, KeyDeleted, 0, s, state, |x| {
                x.consul.last += 1;
                delete_key(&mut x.consul, s);
            });
        }
    }
    for q in 0..scene.participants {
        let has_key = |s: &usize| scene.owner(*s) == Some(q) && state.consul.modified[*s] != 0;
        let keys: Vec<usize> = (0..SESSIONS).filter(has_key).collect();
        let is_named = |s: usize| state.consul.holders >> s & 1 == 1;
        if !keys.is_empty()
            && keys
                .iter()
                .all(|s| !is_named(*s) || seen_by_all(state, *s, scene))
        {
            next.fault(WIPE, Wiped, 0, q, state, |x| {
                x.consul.last += 1;
                for s in &keys {
                    delete_key(&mut x.consul, *s);
                }
            });
        }
    }
    if state.consul.record != 0 {
        next.fault(LOWER, Lowered, 0, 0, state, |s| {
            s.consul.last += 1;
            s.consul.record = s.consul.last;
            s.consul.lowered ^= true;
        });
    }
    if state.has_former {
        next.event(FormerDown, 0, 0, state, |s| {
            s.has_former = false;
            s.former = Snapshot::default();
        });
    } else {
        next.fault(FORMER, CutOff, 0, 0, state, |s| {
            s.has_former = true;
            s.former = s.consul;
        });
    }
}

/// A leader may forget the lock delay of those whom everybody saw, and an operator may delete their keys (rule 8's own clock).
fn seen_by_all(state: &State, s: usize, scene: &Scene) -> bool {
    (0..scene.participants).all(|q| {
        let p = &state.participants[q];
        p.crashed
            || Some(q) == scene.owner(s)
            || p.seen >> s & 1 == 1
            || !p.known && p.callers.iter().all(|c| c.wish == Wish::Done)
    })
}

/// Rule 12. Beliefs that count from before the session's end are over by their holders' clocks.
fn time_over(state: &mut State, session: usize, scene: &Scene) {
    if state.sessions[session].ended() {
        state.sessions[session] = Session::Over;
    }
    for q in 0..scene.participants {
        for i in 0..CONTENDERS {
            let p = &mut state.participants[q];
            if under_way(p, i) && p.write.sessions[i] as usize == session {
                p.write.expired |= 1 << i;
            }
            let c = p.contenders[i];
            if c.used && c.session as usize == session && c.caller != NOBODY && !c.late_belief {
                lose(state, q, i, false, scene);
            }
        }
    }
}
