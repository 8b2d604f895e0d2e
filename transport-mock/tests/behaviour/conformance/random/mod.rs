//! Scripts that are drawn from a seed. They use few keys and sessions, so these often meet.
//!
//! ```text
//!   mod ── the shape of a script: its profile, the steps, the queries that wait meanwhile
//!    ├── keys ── reads and writes of one key or many
//!    ├── sessions ── their life; session_forms: every form of what creates them
//!    ├── transactions
//!    ├── timed ── scripts that let sessions expire and lock delays pass
//!    └── draw ── the draws that all share: keys, sessions, values, numbers, parameters
//! ```

mod draw;
mod keys;
mod session_forms;
mod sessions;
mod timed;
mod transactions;

use crate::script::Lever::{DeregisterNode, FailCheck, PassCheck, RegisterStranger, RemoveCheck};
use crate::script::{Script, Step, delete, get, glance, lever, peek, put, script, session, start};
use draw::{Draw, NODE_CHECK, STRANGER};

pub(crate) use timed::script_of as timed_script_of;

/// A script's first steps change both tables. Without them its indexes could not be compared, since
/// an agent keeps its indexes from script to script.
pub(crate) const SCENE: usize = 3;

const STEPS: usize = 60;

/// The most writes that a query sees.
const WATCHED: usize = 8;

/// What a script does most of the time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Profile {
    Mixed,
    /// Sessions that compete for very few keys, as leaders do.
    Locks,
    Transactions,
    Sessions,
    /// Requests that no well-behaved client sends.
    Odd,
}

/// The script of a seed.
pub(crate) fn script_of(seed: u64) -> Script {
    let mut draw = Draw::of(seed);
    let profile = draw.one_of(&[
        Profile::Mixed,
        Profile::Mixed,
        Profile::Locks,
        Profile::Transactions,
        Profile::Sessions,
        Profile::Odd,
    ]);
    draw.limit_keys(if profile == Profile::Locks { 2 } else { 9 });
    let mut steps = opening();
    while steps.len() < STEPS {
        if draw.chance(0.06) {
            watch(&mut draw, profile, &mut steps);
        } else if draw.chance(0.08) {
            steps.extend(keys::conditional(&mut draw));
        } else {
            steps.push(step(&mut draw, profile));
        }
    }
    steps.extend([
        get("/v1/kv/{p}/?recurse"),
        get("/v1/kv/{p}/?keys"),
        get("/v1/session/list"),
    ]);
    script(format!("the random script of seed {seed}"), steps)
}

/// Keys that stay, and several kinds of sessions.
fn opening() -> Vec<Step> {
    vec![
        put("/v1/kv/{p}/0", "stays"),
        put("/v1/kv/{p}/z", "stays"),
        session("s", r#"{"NodeChecks":[],"LockDelay":"0s"}"#),
        session(
            "t",
            r#"{"NodeChecks":[],"LockDelay":"0s","Behavior":"delete"}"#,
        ),
        session("u", r#"{"NodeChecks":[],"LockDelay":"1h","TTL":"24h"}"#),
        get("/v1/kv/{p}/0").saving_modify_index("i"),
        get("/v1/kv/{p}/z").saving_modify_index("j"),
    ]
}

fn step(draw: &mut Draw, profile: Profile) -> Step {
    let drawn = draw.below(100);
    let kinds = match profile {
        Profile::Mixed => [30, 60, 75, 92, 97],
        Profile::Locks => [20, 60, 65, 98, 99],
        Profile::Transactions => [15, 35, 90, 97, 99],
        Profile::Sessions => [15, 30, 35, 96, 97],
        Profile::Odd => [15, 25, 35, 50, 98],
    };
    let kind = kinds.iter().position(|until| drawn < *until);
    match kind {
        Some(0) => keys::read_step(draw),
        Some(1) => keys::write(draw),
        Some(2) => transactions::step(draw),
        Some(3) => sessions::step(draw),
        Some(4) => odd(draw),
        _ => happening(draw),
    }
}

/// A query that waits during some writes.
fn watch(draw: &mut Draw, profile: Profile, steps: &mut Vec<Step>) {
    let target = match draw.below(8) {
        0 => "/v1/session/list".into(),
        1 => "/v1/session/node/mock".into(),
        // A query about a session that is gone may wake when other sessions change, depending on
        // random ids. So this session is alive, and the query ends before it does.
        2 => {
            steps.push(session("w", r#"{"NodeChecks":[]}"#));
            "/v1/session/info/{w}".into()
        }
        _ => keys::plain_read(draw),
    };
    let and = if target.contains('?') { '&' } else { '?' };
    steps.push(get(&target).saving_index("x"));
    let target = format!("{target}{and}index={{x}}&wait=60s");
    steps.push(start("q", &target));
    for _ in 0..draw.between(1, WATCHED) {
        steps.push(glance("q"));
        steps.push(match draw.below(10) {
            0 => put("/v1/session/destroy/{w}", ""),
            1 | 2 => step(draw, profile),
            3 | 4 => sessions::step(draw),
            5 | 6 => transactions::step(draw),
            _ => keys::write(draw),
        });
    }
    steps.push(peek("q"));
}

/// A change of a node that is not the agent's.
fn happening(draw: &mut Draw) -> Step {
    lever(match draw.below(6) {
        0 | 1 => RegisterStranger(STRANGER),
        2 => PassCheck(STRANGER, NODE_CHECK),
        3 => FailCheck(STRANGER, NODE_CHECK),
        4 => RemoveCheck(STRANGER, NODE_CHECK),
        _ => DeregisterNode(STRANGER),
    })
}

/// Paths, methods and parameters that no client means to send.
fn odd(draw: &mut Draw) -> Step {
    const PATHS: &[&str] = &[
        "/v1/kv",
        "/v1/kv/",
        "/v1/kv//{p}/a",
        "//v1/kv/{p}/a",
        "/v1//kv/{p}/a",
        "/v1/./kv/{p}/a",
        "/v1/../v1/kv/{p}/a",
        "/v1/kv/../txn",
        "/V1/kv/{p}/a",
        "/v1/kv%2F{p}/a",
        "/v1%2fkv/{p}/a",
        "/v1/txn/",
        "/v1/txn/x",
        "/v1/session",
        "/v1/session/",
        "/v1/session/create/",
        "/v1/session/create/x",
        "/v1/session/list/",
        "/v1/session/info",
        "/v1/session/info/",
        "/v1/session/info/{s}/",
        "/v1/session/info/{s}/x",
        "/v1/session/node",
        "/v1/session/node/",
        "/v1/session/node/mock/",
        "/v1/session/renew/",
        "/v1/session/destroy/",
        "/v1/session/destroy",
        "/v1/session/nothing",
        "/v1/nothing",
        "/v2/kv/{p}/a",
        "/v1/status/leader/",
        "/v1/kv/{p}/%zz",
        "/v1/kv/{p}/%",
        "/v1/kv/{p}/a%2",
        "/v1/kv/{p}/a?%zz",
        "/v1/kv/{p}/a?x=%zz",
        "/v1/kv/{p}/a?recurse=%",
        "/v1/kv/{p}/a?&&",
        "/v1/kv/{p}/a?=",
        "/v1/kv/{p}/a?=x",
        "/v1/kv/{p}/a?a=b?c",
        "/v1/kv/{p}/a?x#y",
        "/v1/kv/{p}/a;b",
        "/v1/kv/{p}/a?raw;keys",
        "/v1/session/info/{s}?ns=default",
        "/v1/kv/{p}/a?token=",
        "/v1/kv/{p}/a?dc=",
    ];
    let path = match draw.below(3) {
        0 => format!("/v1/kv/{{p}}/{}", draw.odd_key()),
        1 => {
            let path = keys::read(draw);
            draw.with_odd_parameter(&path)
        }
        _ => draw.one_of(PATHS).to_owned(),
    };
    match draw.below(5) {
        0..3 => get(&path),
        3 => put(&path, "odd"),
        _ => delete(&path),
    }
}
