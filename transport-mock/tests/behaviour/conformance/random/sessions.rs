//! The life of sessions, and every form of their creation bodies.

use crate::script::{Step, delete, get, put, session};

use super::draw::{Draw, SESSIONS};
use super::session_forms::{ALL, forms_of};

pub(super) fn step(draw: &mut Draw) -> Step {
    let id = draw.session();
    let target = match draw.below(20) {
        0..6 => return create(draw),
        6 | 7 => format!("/v1/session/info/{id}"),
        8 => "/v1/session/list".to_owned(),
        9 => format!("/v1/session/node/{}", draw.one_of(NODES)),
        10..13 => format!("/v1/session/renew/{id}"),
        _ => format!("/v1/session/destroy/{id}"),
    };
    let is_read = !target.contains("/renew/") && !target.contains("/destroy/");
    let target = draw.with_perhaps_a_parameter(&target);
    match draw.below(50) {
        0 => delete(&target),
        1 => get(&target),
        2 => put(&target, ""),
        _ if is_read => get(&target),
        _ => put(&target, draw.one_of(&["", "", "", "{}", "x"])),
    }
}

fn create(draw: &mut Draw) -> Step {
    let name = draw.one_of(&SESSIONS);
    let members = match draw.below(20) {
        0 => return session(name, ""),
        1 => {
            let body = body(draw, &ALL.map(|name| (name, 0.3))).0;
            return put("/v1/session/create", draw.malformed(body)).by_status();
        }
        2..6 => ALL.map(|name| (name, 0.4)).to_vec(),
        6 => vec![("LockDelay", 1.0)],
        7 => vec![("TTL", 1.0)],
        8 => vec![("NodeChecks", 0.7), ("Checks", 0.5), ("ServiceChecks", 0.5)],
        _ => return session(name, &usual_body(draw)),
    };
    let (body, faults) = body(draw, &members);
    let create = session(name, &body);
    // If there are several faults, the decoder chooses which one it reports.
    if faults > 1 {
        create.by_status()
    } else {
        create
    }
}

fn usual_body(draw: &mut Draw) -> String {
    let behavior = draw.one_of(&["release", "delete"]);
    let delay = draw.one_of(&["0s", "0s", "60s"]);
    let ttl = draw.one_of(&["", "", "24h"]);
    format!(r#"{{"NodeChecks":[],"Behavior":"{behavior}","LockDelay":"{delay}","TTL":"{ttl}"}}"#)
}

/// A body with each of these members at its probability, in any of its forms. Also returns how many
/// of them can't be decoded.
fn body(draw: &mut Draw, members: &[(&str, f64)]) -> (String, usize) {
    let mut written = Vec::new();
    let mut faults = 0;
    for (name, probability) in members {
        if !draw.chance(*probability) {
            continue;
        }
        let (sound, broken) = forms_of(name);
        let form = if draw.chance(0.06) && !broken.is_empty() {
            faults += 1;
            draw.one_of(broken)
        } else {
            draw.one_of(sound)
        };
        let name = match draw.below(20) {
            0 => name.to_lowercase(),
            1 => name.to_uppercase(),
            _ => (*name).to_owned(),
        };
        written.push(format!(r#""{name}":{form}"#));
    }
    (format!("{{{}}}", written.join(",")), faults)
}

const NODES: &[&str] = &[
    "mock", "mock", "MOCK", "{p}-n", "nowhere", "", "a/b", "%C3%BC",
];
