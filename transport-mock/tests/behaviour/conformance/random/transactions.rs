//! Transactions: every verb, alone and mixed, and bodies that are not transactions.

use crate::script::{Save, Step, put, txn};

use super::draw::Draw;

const VERBS: &[&str] = &[
    "set",
    "set",
    "cas",
    "cas",
    "lock",
    "lock",
    "lock",
    "unlock",
    "get",
    "get-tree",
    "delete",
    "delete-cas",
    "delete-tree",
    "check-index",
    "check-session",
    "check-session",
    "check-not-exists",
];
/// Verbs that hardly ever fail, so one transaction writes a lot.
const PEACEFUL: &[&str] = &["set", "set", "get-tree", "delete", "delete", "delete-tree"];
const READS: &[&str] = &[
    "get",
    "get-tree",
    "check-index",
    "check-session",
    "check-not-exists",
];
const ODD_VERBS: &[&str] = &["", "SET", "get-or-empty", "release", "x\\n", "ü"];
const VALUES: &[&str] = &[
    r#""b25l""#,
    r#""dHdv""#,
    r#""""#,
    "null",
    r#""AP+A""#,
    r#""dg==""#,
];
const ODD_VALUES: &[&str] = &[
    r#""dg""#,
    r#""dg=""#,
    r#""d""#,
    r#""***""#,
    r#""dg==\n""#,
    r#""d\ng==""#,
    r#""d-__""#,
    r#""dh==""#,
    "5",
    "[]",
    "[100]",
    "true",
];
const INDEXES: &[&str] = &["0", "1", "{i}", "{j}", "{i}", "{j}", "18446744073709551615"];
const FLAGS: &[&str] = &[
    "0",
    "1",
    "7",
    "16210313421097356768",
    "18446744073709551615",
];
const ODD_NUMBERS: &[&str] = &[
    r#""7""#,
    "-1",
    "1.5",
    "1e3",
    "18446744073709551616",
    "null",
    "[]",
    "1e400",
];

const ODD_MEMBERS: &[&str] = &[r#""Bogus":1"#, r#""Namespace":"""#, r#""Verb":5"#];

pub(super) fn step(draw: &mut Draw) -> Step {
    let count = match draw.below(60) {
        0 => 0,
        1 => 63,
        2 => 64,
        3 => 65,
        4 => 130,
        5..30 => 1,
        _ => draw.between(2, 5),
    };
    let verbs = draw.one_of(&[VERBS, VERBS, VERBS, PEACEFUL, PEACEFUL, READS]);
    let operations: Vec<_> = (0..count)
        .map(|number| operation(draw, verbs, number == 0))
        .collect();
    let is_odd = operations.iter().any(|(_, is_odd)| *is_odd);
    let operations: Vec<_> = operations.into_iter().map(|(text, _)| text).collect();
    let body = format!("[{}]", operations.join(","));
    match draw.below(40) {
        _ if is_odd => txn(&body).by_status(),
        0 => put("/v1/txn", draw.malformed(body)),
        1 => put(&draw.with_odd_parameter("/v1/txn"), body),
        2..10 => put("/v1/txn?pretty", body),
        10 => txn(draw.one_of(&["", "null", "{}", "5", "[{}]", r#"[{"KV":null}]"#])),
        _ => txn(&body).saving(draw.one_of(&["i", "j"]), Save::ModifyIndex),
    }
}

/// A transaction that depends on an entry that the script has read.
pub(super) fn conditional(draw: &mut Draw, key: &str) -> Step {
    let verb = draw.one_of(&["cas", "cas", "check-index", "delete-cas"]);
    let condition =
        format!(r#"{{"KV":{{"Verb":"{verb}","Key":"{{p}}/{key}","Index":{{i}},"Value":"dHdv"}}}}"#);
    let (other, is_odd) = operation(draw, PEACEFUL, false);
    let step = txn(&match draw.below(3) {
        0 => format!("[{condition}]"),
        1 => format!("[{condition},{other}]"),
        _ => format!("[{other},{condition}]"),
    });
    if is_odd { step.by_status() } else { step }
}

/// An operation, and whether it contains a form that hardly anyone sends.
///
/// Only a first operation deletes a tree. Consul 1.8.7 has two faults if a write comes before it in
/// the same transaction: queries on the deleted keys do not wake, and if no other keys existed, the
/// next write kills it.
fn operation(draw: &mut Draw, verbs: &[&'static str], is_first: bool) -> (String, bool) {
    let mut is_odd = false;
    let mut usual_or_odd = |draw: &mut Draw, usual: &[&'static str], odd: &[&'static str]| {
        let this = draw.chance(0.01);
        is_odd |= this;
        draw.one_of(if this { odd } else { usual })
    };
    let verb = if draw.chance(0.01) {
        draw.one_of(ODD_VERBS)
    } else {
        draw.one_of(verbs)
    };
    let verb = match verb {
        "delete-tree" if !is_first => "delete",
        verb => verb,
    };
    let key = if verb.ends_with("tree") {
        draw.prefix()
    } else {
        draw.plain_key()
    };
    let mut members = vec![format!(r#""Verb":"{verb}""#)];
    if !draw.chance(0.01) {
        members.push(format!(r#""Key":"{{p}}/{key}""#));
    }
    if draw.chance(0.5) || verb.ends_with("cas") || verb == "check-index" {
        let index = usual_or_odd(draw, INDEXES, ODD_NUMBERS);
        members.push(format!(r#""Index":{index}"#));
    }
    if draw.chance(0.6) || verb.ends_with("lock") {
        members.push(format!(r#""Session":"{}""#, draw.session()));
    }
    if draw.chance(0.6) {
        let value = usual_or_odd(draw, VALUES, ODD_VALUES);
        members.push(format!(r#""Value":{value}"#));
    }
    if draw.chance(0.2) {
        let flags = usual_or_odd(draw, FLAGS, ODD_NUMBERS);
        members.push(format!(r#""Flags":{flags}"#));
    }
    if draw.chance(0.004) {
        is_odd = true;
        members.push(draw.one_of(ODD_MEMBERS).to_owned());
    }
    (format!(r#"{{"KV":{{{}}}}}"#, members.join(",")), is_odd)
}
