//! The first state of a scene.
use crate::scene::{Scene, Stuck};
use crate::state::{
    CALLERS, Caller, Contender, FOREIGN, Foreign, PARTICIPANTS, Session, State, Wish,
};

pub(crate) fn initial(scene: &Scene) -> State {
    let mut state = State {
        budget: scene.budget,
        ..State::default()
    };
    for q in 0..PARTICIPANTS {
        for k in 0..CALLERS {
            let exists = q < scene.participants && scene.size(q, k) > 0;
            state.participants[q].callers[k] = if exists {
                Caller {
                    wish: Wish::Idle,
                    turns: scene.turns[q],
                    ..Caller::default()
                }
            } else {
                Caller {
                    wish: Wish::Done,
                    ..Caller::default()
                }
            };
        }
    }
    if scene.foreign_turns > 0 {
        state.foreign = Foreign {
            exists: true,
            turns: scene.foreign_turns,
            ..Foreign::default()
        };
    }
    let consul = &mut state.consul;
    if scene.stuck != Stuck::Nobody {
        consul.last = 1;
        consul.created[FOREIGN] = 1;
        consul.modified[FOREIGN] = 1;
        consul.paired = if scene.stuck == Stuck::OursOfGroup {
            1 << FOREIGN
        } else {
            0
        };
        state.sessions[FOREIGN] = Session::Alive;
    }
    // Slots that R holds at the start, each by one caller.
    for k in 0..scene.held {
        let s = scene.sessions[2].0 + k;
        state.sessions[s] = Session::Alive;
        consul.last = 1;
        consul.record = 1;
        consul.created[s] = 1;
        consul.modified[s] = 1;
        consul.holders |= 1 << s;
        state.token = 1;
        let r = &mut state.participants[2];
        r.contenders[k] = Contender {
            used: true,
            session: s as u8,
            key: 1,
            created: 1,
            caller: k as u8,
            ..Contender::default()
        };
        r.callers[k] = Caller {
            wish: Wish::Holds,
            turns: 1,
            ..Caller::default()
        };
        r.known = true;
        r.record = 1;
    }
    state.participants[2].holders = consul.holders;
    // Dead holders have the sessions that R would have.
    for s in 7..7 + scene.dead {
        state.sessions[s] = Session::Over;
        consul.last = 1;
        consul.record = 1;
        consul.holders |= 1 << s;
    }
    state.canonical(scene.checks());
    state
}
