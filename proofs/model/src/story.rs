//! States and steps in words.
use crate::explore::Report;
use crate::initial::initial;
use crate::known::free_slots;
use crate::scene::Scene;
use crate::state::{CALLERS, CONTENDERS, Due, NOBODY, Op, Participant, SESSIONS, State, Write};
use crate::step::successors;
use std::fmt::{self, Write as _};

/// The way of a report, step by step.
pub fn tell(scene: &Scene, report: &Report) -> String {
    let mut state = initial(scene);
    let mut next = Vec::new();
    let mut text = format!("      {}\n", describe(&state, scene));
    for (n, step) in report.steps.iter().enumerate() {
        successors(&state, scene, &mut next);
        let Some((_, after)) = next.iter().find(|(action, _)| action == step) else {
            text += "that step is not possible here\n";
            break;
        };
        state = *after;
        text += &[
            &format!("{:>3}  ", n + 1),
            &*step.text(),
            "\n      ",
            &*describe(&state, scene),
            "\n",
        ]
        .concat();
    }
    text
}

/// The state in a few lines: indices are #numbers in their order, sessions are s-numbers.
pub(crate) fn describe(state: &State, scene: &Scene) -> String {
    let mut text = String::new();
    // A `String` takes all that is written.
    let _ = write_state(&mut text, state, scene);
    text
}

/// Sessions by a mask, each with a space before it.
struct Names(u16);

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (0..SESSIONS)
            .filter(|s| self.0 >> s & 1 == 1)
            .try_for_each(|s| write!(f, " s{s}"))
    }
}

fn write_state(text: &mut String, state: &State, scene: &Scene) -> fmt::Result {
    let consul = &state.consul;
    write!(
        text,
        "record #{}:{}; keys",
        consul.record,
        Names(consul.holders)
    )?;
    for s in (0..SESSIONS).filter(|s| consul.modified[*s] != 0) {
        write!(text, " s{s}#{}/{}", consul.created[s], consul.modified[s])?;
    }
    let mut mark = "; ended";
    for s in (0..SESSIONS).filter(|s| state.sessions[*s].ended()) {
        write!(text, "{mark} s{s} {:?}", state.sessions[s])?;
        mark = "";
    }
    for (q, p) in state.participants[..scene.participants].iter().enumerate() {
        write_participant(text, p, q, scene)?;
    }
    if state.has_former {
        let former = &state.former;
        write!(
            text,
            "\n      former leader: record #{}:{}",
            former.record,
            Names(former.holders)
        )?;
    }
    Ok(())
}

fn write_participant(text: &mut String, p: &Participant, q: usize, scene: &Scene) -> fmt::Result {
    write!(text, "\n      {}", ["P", "Q", "R"][q])?;
    if p.crashed {
        *text += " crashed";
    } else {
        for k in (0..CALLERS).filter(|k| scene.size(q, *k) > 0) {
            write!(text, " {:?}", p.callers[k].wish)?;
        }
    }
    if p.known {
        let (names, free) = (Names(p.holders), free_slots(p, scene));
        write!(text, "; knows #{}:{names}, {free} free", p.record)?;
        let mut mark = ", line";
        for s in (0..SESSIONS).filter(|s| p.line_created[*s] != 0) {
            write!(text, "{mark} s{s}#{}", p.line_created[s])?;
            mark = "";
        }
    }
    if p.due != Due::Nothing {
        write!(text, ", due {:?}", p.due)?;
    }
    for c in p.contenders.iter().filter(|c| c.used) {
        write!(text, "; s{}#{}", c.session, c.key)?;
        let marks = [
            (c.leaving, " leaving"),
            (c.open, " open"),
            (c.parked, " parked"),
            (c.lost, " lost"),
            (c.stayed, " stayed"),
            (c.mate != NOBODY, " of a group"),
            (c.caller != NOBODY, " HOLDS"),
        ];
        text.extend(marks.iter().filter(|it| it.0).map(|it| it.1));
    }
    write_write(text, "write", &p.write)?;
    p.late
        .iter()
        .try_for_each(|it| write_write(text, "late", it))
}

fn write_write(text: &mut String, what: &str, write: &Write) -> fmt::Result {
    if !write.exists() {
        return Ok(());
    }
    write!(text, "\n          {what} {:?}", write.stage)?;
    for i in (0..CONTENDERS).filter(|i| write.ops[*i] != Op::None) {
        let (op, session, key) = (write.ops[i], write.sessions[i], write.keys[i]);
        write!(text, " {op:?}(s{session}#{key})")?;
    }
    if write.cas {
        write!(text, " cas #{} ->{}", write.base, Names(write.names))?;
    }
    if write.prune != 0 {
        write!(text, " prune{}", Names(write.prune))?;
    }
    Ok(())
}
