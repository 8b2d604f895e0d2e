//! Scripts in which sessions expire and lock delays pass.
//!
//! A real agent needs time for its answers. So a script is only useful if the Consul in memory
//! gives the same answers at most paces: [`script_of`] draws scripts until one does. Whether the
//! order of timers was decided in a run on the agent is measured, by [`crate::timing`]. The scripts
//! run side by side, and leave out the indexes that other scripts' writes move.

use std::time::Duration;

use transport_mock::consul::Profile;

use crate::compare;
use crate::meaning::Redirects;
use crate::memory::Memory;
use crate::run;
use crate::script::{
    Script, Step, delete, get, glance, pass, peek, put, script, session, start, txn,
};

use super::draw::Draw;

/// When the phases begin, in seconds.
const PHASES: [f64; 10] = [0.0, 6.0, 12.0, 18.0, 23.0, 25.5, 29.0, 33.0, 38.0, 45.0];
const STEPS: usize = 20;
const PACINGS: u64 = 8;

/// If timers must end one after the other, their starts are at least this many seconds apart. A real
/// agent may be slow by less.
const APART: f64 = 0.04;

const SESSIONS: [&str; 12] = [
    "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "sa", "sb",
];
const QUERIES: [&str; 4] = ["q0", "q1", "q2", "q3"];
const KEYS: [&str; 8] = ["a", "b", "c", "d/a", "d/b", "d/c", "e", "f"];

/// The first script of this seed whose answers do not depend on its speed.
pub(crate) fn script_of(seed: u64) -> Script {
    let candidates = (0..).map(|attempt: u64| attempt << 32 | seed);
    let mut robust = candidates.map(draw_script).filter(is_robust);
    robust.next().expect("some script is robust")
}

fn is_robust(script: &Script) -> bool {
    let record = |pacing| {
        run::run(
            script,
            "p",
            &mut Memory::of(Profile::default()).with_paces(pacing),
            None,
        )
    };
    let first = record(0);
    let differs =
        |pacing| compare::differences(script, &first, &record(pacing), Redirects::TheSame);
    (1..PACINGS).all(|pacing| differs(pacing).is_empty())
}

fn draw_script(seed: u64) -> Script {
    let mut draw = Draw::of(seed);
    let mut steps = vec![put("/v1/kv/{p}/0", "stays"), put("/v1/kv/{p}/z", "stays")];
    for (phase, moment) in PHASES.into_iter().enumerate() {
        steps.push(Step::Until(Duration::from_secs_f64(moment)));
        steps.extend(QUERIES.map(glance));
        if phase == 0 {
            for name in SESSIONS {
                steps.extend(create(&mut draw, name));
                let key = draw.one_of(&KEYS);
                steps.push(put(&format!("/v1/kv/{{p}}/{key}?acquire={{{name}}}"), name));
            }
        }
        if let Some(name) = QUERIES.get(phase) {
            steps.extend(watch(&mut draw, name));
        }
        for _ in 0..STEPS {
            steps.extend(step(&mut draw));
            steps.extend(QUERIES.map(glance));
        }
        steps.push(get("/v1/kv/{p}/?recurse"));
        steps.push(get("/v1/session/list").without_index());
    }
    steps.extend(QUERIES.map(peek));
    script(format!("the timed script of seed {seed}"), steps)
}

fn create(draw: &mut Draw, name: &'static str) -> [Step; 2] {
    let ttl = draw.one_of(&["10s", "10s", "11s", "13s", ""]);
    let delay = draw.one_of(&["0s", "1s", "4s", "10s", "100s"]);
    let behavior = draw.one_of(&["release", "delete"]);
    let body = format!(
        r#"{{"NodeChecks":[],"TTL":"{ttl}","LockDelay":"{delay}","Behavior":"{behavior}"}}"#
    );
    [pass(APART), session(name, &body)]
}

/// A query that other scripts' writes do not wake.
fn watch(draw: &mut Draw, name: &'static str) -> [Step; 2] {
    let prefix = draw.one_of(&["?recurse", "?keys", "d/?recurse", "0", "z"]);
    let wait = draw.one_of(&["3s", "60s"]);
    let target = format!("/v1/kv/{{p}}/{prefix}");
    let and = if target.contains('?') { '&' } else { '?' };
    [
        get(&target).saving_index("x"),
        start(name, &format!("{target}{and}index={{x}}&wait={wait}")),
    ]
}

fn step(draw: &mut Draw) -> Vec<Step> {
    let key = draw.one_of(&KEYS);
    let name = draw.one_of(&SESSIONS);
    let path = format!("/v1/kv/{{p}}/{key}");
    match draw.below(16) {
        0..3 => vec![
            pass(APART),
            put(&format!("/v1/session/renew/{{{name}}}"), ""),
        ],
        3 => vec![put(&format!("/v1/session/destroy/{{{name}}}"), "")],
        4 => create(draw, name).into(),
        5..9 => vec![put(&format!("{path}?acquire={{{name}}}"), name)],
        9 => vec![put(&format!("{path}?release={{{name}}}"), "released")],
        10 => vec![get(&format!("/v1/session/info/{{{name}}}")).without_index()],
        11 => vec![delete(&path)],
        12 => vec![put(&path, "plain")],
        13 => vec![get(&path).without_index()],
        _ => vec![txn(&format!(
            r#"[{{"KV":{{"Verb":"lock","Key":"{{p}}/{key}","Session":"{{{name}}}"}}}}]"#
        ))],
    }
}
