//! A foreign client, which claims when it sees room, and prunes at once.
use crate::action::Event;
use crate::consul::delete_key;
use crate::state::{FOREIGN, Foreign, ForeignStep, SESSIONS, Session, State};
use crate::step::Next;

pub(crate) fn foreign_client(state: &State, next: &mut Next) {
    let mut s = *state;
    let f = &mut s.foreign;
    let consul = &mut s.consul;
    let me = 1 << FOREIGN;
    match f.step {
        ForeignStep::Idle if f.turns > 0 => {
            s.sessions[FOREIGN] = Session::Alive;
            consul.last += 1;
            consul.created[FOREIGN] = consul.last;
            consul.modified[FOREIGN] = consul.last;
            f.step = ForeignStep::Waits;
            f.seen = 0;
        }
        ForeignStep::Waits if f.seen != consul.last => {
            let dead = (0..SESSIONS)
                .filter(|d| consul.modified[*d] == 0)
                .map(|d| 1 << d)
                .sum::<u16>();
            let names = consul.holders & !dead;
            if names.count_ones() as usize + usize::from(consul.lowered) < next.scene.limit {
                *f = Foreign {
                    step: ForeignStep::Claims,
                    base: consul.record,
                    names: names | me,
                    ..*f
                };
            } else {
                f.seen = consul.last;
            }
        }
        ForeignStep::Claims | ForeignStep::Releases => {
            let claims = f.step == ForeignStep::Claims;
            if consul.record == f.base {
                consul.last += 1;
                consul.record = consul.last;
                consul.holders = f.names;
                *f = Foreign {
                    step: if claims {
                        ForeignStep::Holds
                    } else {
                        ForeignStep::Leaves
                    },
                    base: 0,
                    names: 0,
                    ..*f
                };
            } else if claims {
                *f = Foreign {
                    step: ForeignStep::Waits,
                    base: 0,
                    names: 0,
                    seen: 0,
                    ..*f
                };
            } else {
                *f = Foreign {
                    base: consul.record,
                    names: consul.holders & !me,
                    ..*f
                };
            }
        }
        ForeignStep::Holds => {
            *f = Foreign {
                step: ForeignStep::Releases,
                base: consul.record,
                names: consul.holders & !me,
                ..*f
            }
        }
        ForeignStep::Leaves => {
            consul.last += 1;
            delete_key(consul, FOREIGN);
            s.sessions[FOREIGN] = Session::Unborn;
            f.turns -= 1;
            f.step = if f.turns == 0 {
                ForeignStep::Done
            } else {
                ForeignStep::Idle
            };
            f.seen = 0;
        }
        _ => return,
    }
    next.push(Event::ForeignMoves, 0, state.foreign.step as usize, s);
}
