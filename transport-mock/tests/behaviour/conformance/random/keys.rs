//! Reads and writes of one key or many.

use crate::script::{Step, delete, get, put};

use super::draw::Draw;

const SEPARATORS: &[&str] = &["", "/", "b", "a/", "%2F", "%2fb", "{p}", "%C3%BC"];

pub(super) fn read_step(draw: &mut Draw) -> Step {
    match draw.below(4) {
        0 => {
            let name = draw.one_of(&["i", "j"]);
            get(&format!("/v1/kv/{{p}}/{}", draw.key())).saving_modify_index(name)
        }
        1 => {
            let target = read(draw);
            let and = if target.contains('?') { '&' } else { '?' };
            get(&format!("{target}{and}pretty"))
        }
        _ => {
            let target = read(draw);
            get(&draw.with_perhaps_a_parameter(&target))
        }
    }
}

/// The target of any read.
pub(super) fn read(draw: &mut Draw) -> String {
    let target = plain_read(draw);
    let and = if target.contains('?') { '&' } else { '?' };
    match draw.below(8) {
        0 => format!("{target}{and}stale"),
        1 => format!("{target}{and}consistent"),
        _ => target,
    }
}

/// The target of a read without parameters for consistency and the like.
pub(super) fn plain_read(draw: &mut Draw) -> String {
    let (key, prefix) = (draw.key(), draw.prefix());
    match draw.below(12) {
        0..3 => format!("/v1/kv/{{p}}/{key}"),
        3 => format!("/v1/kv/{{p}}/{key}?raw"),
        4 => format!("/v1/kv/{{p}}/{prefix}?keys"),
        5 => format!(
            "/v1/kv/{{p}}/{prefix}?keys&separator={}",
            draw.one_of(SEPARATORS)
        ),
        6 => format!("/v1/kv/{{p}}/{key}?recurse"),
        7 => format!("/v1/kv/{{p}}/{key}?keys&recurse&raw"),
        8 => format!("/v1/kv/{}", draw.one_of(&["?recurse", "?keys", "{p}?keys"])),
        _ => format!("/v1/kv/{{p}}/{prefix}?recurse"),
    }
}

pub(super) fn write(draw: &mut Draw) -> Step {
    let path = format!("/v1/kv/{{p}}/{}", draw.key());
    if draw.below(5) == 0 {
        return removal(draw, &path);
    }
    let mut parameters = Vec::new();
    let wanted = match draw.below(12) {
        0 | 1 => vec![],
        2 => vec!["cas"],
        3..7 => vec!["acquire"],
        7 | 8 => vec!["release"],
        9 => vec!["flags"],
        10 => vec!["flags", "acquire"],
        _ => {
            let all = ["flags", "cas", "acquire", "release"];
            (0..draw.between(1, 4)).map(|_| draw.one_of(&all)).collect()
        }
    };
    for name in wanted {
        let value = match name {
            "acquire" | "release" => draw.session(),
            "flags" => draw.flags(),
            _ => draw.number(),
        };
        parameters.push(match draw.below(40) {
            0 => name.to_owned(),
            _ => format!("{name}={value}"),
        });
    }
    let target = match parameters.as_slice() {
        [] => path,
        some => format!("{path}?{}", some.join("&")),
    };
    put(&draw.with_perhaps_a_parameter(&target), draw.value())
}

/// A read and a write that depends on it, maybe with something in between.
pub(super) fn conditional(draw: &mut Draw) -> Vec<Step> {
    let key = draw.usual_key();
    let path = format!("/v1/kv/{{p}}/{key}");
    let mut steps = vec![get(&path).saving_modify_index("i")];
    if draw.chance(0.3) {
        steps.push(write(draw));
    }
    steps.push(match draw.below(4) {
        0 => put(&format!("{path}?cas={{i}}"), draw.value()),
        1 => put(&format!("{path}?cas={{i}}&flags=3"), draw.value()),
        2 => delete(&format!("{path}?cas={{i}}")),
        _ => super::transactions::conditional(draw, key),
    });
    steps
}

fn removal(draw: &mut Draw, path: &str) -> Step {
    let target = match draw.below(8) {
        0..3 => path.to_owned(),
        3 | 4 => format!("{path}?cas={}", draw.number()),
        5 => format!("{path}?recurse"),
        6 => format!("{path}?recurse&cas={}", draw.number()),
        _ => format!("/v1/kv/{{p}}/{}?recurse", draw.prefix()),
    };
    delete(&draw.with_perhaps_a_parameter(&target))
}
