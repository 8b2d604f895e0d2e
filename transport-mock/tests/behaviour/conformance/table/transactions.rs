//! Transactions as a whole: bodies, limits, atomicity, answers.

use crate::script::{Script, delete, get, plain_session, put, script, session, txn};

pub(crate) fn scripts() -> Vec<Script> {
    vec![
        script(
            "a transaction is about one namespace, whatever it and its operations name, and knows no partition",
            [
                txn(r#"[{"KV":{"Verb":"set","Key":"{p}/k","Namespace":"team"}}]"#),
                put(
                    "/v1/txn?ns=team&partition=part",
                    r#"[{"KV":{"Verb":"set","Key":"{p}/l"}}]"#,
                ),
                get("/v1/kv/{p}/?keys"),
                txn(r#"[{"KV":{"Verb":"set","Key":"{p}/k","Partition":"part"}}]"#),
                txn(r#"[{"KV":{"Verb":"set","Key":"{p}/k","Namespace":5}}]"#),
                txn(r#"[{"KV":{"Verb":"get-or-empty","Key":"{p}/none"}}]"#),
            ],
        ),
        script(
            "writes answer with their new indexes and without values",
            [
                txn(r#"[{"KV":{"Verb":"set","Key":"{p}/k","Value":"dg==","Flags":7}}]"#),
                get("/v1/kv/{p}/k"),
            ],
        ),
        script(
            "reads answer with values and with the freshness of a read",
            [
                put("/v1/kv/{p}/k", "v"),
                txn(r#"[{"KV":{"Verb":"get","Key":"{p}/k"}}]"#),
                put("/v1/txn?stale", r#"[{"KV":{"Verb":"get","Key":"{p}/k"}}]"#),
                put(
                    "/v1/txn?consistent",
                    r#"[{"KV":{"Verb":"get","Key":"{p}/k"}}]"#,
                ),
            ],
        ),
        script(
            "a transaction's JSON has the agent's order and spacing",
            [
                put(
                    "/v1/txn?pretty",
                    r#"[{"KV":{"Verb":"set","Key":"{p}/k<&>","Value":"dg=="}}]"#,
                ),
                put(
                    "/v1/txn?pretty",
                    r#"[{"KV":{"Verb":"get","Key":"{p}/k<&>"}}]"#,
                ),
                put(
                    "/v1/txn?pretty",
                    r#"[{"KV":{"Verb":"get","Key":"{p}/none"}}]"#,
                ),
                put(
                    "/v1/txn?pretty",
                    r#"[{"KV":{"Verb":"cas","Key":"{p}/none","Index":5}}]"#,
                ),
                put("/v1/txn?pretty", "[]"),
            ],
        ),
        script(
            "all or nothing: one failure undoes the rest, and every failure is listed",
            [
                put("/v1/kv/{p}/k", "v"),
                get("/v1/kv/{p}/?recurse"),
                txn(
                    r#"[{"KV":{"Verb":"set","Key":"{p}/a"}},{"KV":{"Verb":"cas","Key":"{p}/k","Index":0}},{"KV":{"Verb":"delete","Key":"{p}/k"}},{"KV":{"Verb":"get","Key":"{p}/none"}}]"#,
                ),
                get("/v1/kv/{p}/?recurse"),
            ],
        ),
        script(
            "a later operation sees what an earlier one wrote",
            [
                txn(
                    r#"[{"KV":{"Verb":"set","Key":"{p}/a","Value":"dg=="}},{"KV":{"Verb":"get","Key":"{p}/a"}},{"KV":{"Verb":"delete","Key":"{p}/a"}},{"KV":{"Verb":"check-not-exists","Key":"{p}/a"}},{"KV":{"Verb":"set","Key":"{p}/a","Value":"dw=="}}]"#,
                ),
                get("/v1/kv/{p}/a"),
            ],
        ),
        script(
            "everything written in one transaction has one index",
            [
                txn(
                    r#"[{"KV":{"Verb":"set","Key":"{p}/a"}},{"KV":{"Verb":"set","Key":"{p}/b"}},{"KV":{"Verb":"set","Key":"{p}/c"}}]"#,
                ),
                get("/v1/kv/{p}/?recurse"),
            ],
        ),
        script(
            "entering and reading takes one request",
            [
                plain_session("s"),
                plain_session("t"),
                put("/v1/kv/{p}/{t}?acquire={t}", "t"),
                put("/v1/kv/{p}/.lock", "{}"),
                txn(
                    r#"[{"KV":{"Verb":"lock","Key":"{p}/{s}","Value":"dg==","Flags":16210313421097356768,"Session":"{s}"}},{"KV":{"Verb":"get","Key":"{p}/.lock"}}]"#,
                ),
                get("/v1/kv/{p}/{s}"),
            ],
        ),
        script(
            "entering and claiming takes one request, and claims nothing when the record moved",
            [
                plain_session("s"),
                txn(
                    r#"[{"KV":{"Verb":"lock","Key":"{p}/me","Session":"{s}"}},{"KV":{"Verb":"cas","Key":"{p}/.lock","Index":0,"Value":"e30="}}]"#,
                ),
                txn(
                    r#"[{"KV":{"Verb":"lock","Key":"{p}/me2","Session":"{s}"}},{"KV":{"Verb":"cas","Key":"{p}/.lock","Index":0,"Value":"e30="}}]"#,
                ),
                get("/v1/kv/{p}/?recurse"),
            ],
        ),
        script(
            "a claim can depend on being alive and on the pruned holder being dead",
            [
                plain_session("s"),
                put("/v1/kv/{p}/me?acquire={s}", "v"),
                put("/v1/kv/{p}/.lock", "{}"),
                get("/v1/kv/{p}/.lock").saving_modify_index("i"),
                txn(
                    r#"[{"KV":{"Verb":"check-session","Key":"{p}/me","Session":"{s}"}},{"KV":{"Verb":"check-not-exists","Key":"{p}/dead"}},{"KV":{"Verb":"cas","Key":"{p}/.lock","Index":{i},"Value":"e30="}}]"#,
                ),
                put("/v1/kv/{p}/dead", "alive"),
                get("/v1/kv/{p}/.lock").saving_modify_index("i"),
                txn(
                    r#"[{"KV":{"Verb":"check-session","Key":"{p}/me","Session":"{s}"}},{"KV":{"Verb":"check-not-exists","Key":"{p}/dead"}},{"KV":{"Verb":"cas","Key":"{p}/.lock","Index":{i},"Value":"e31="}}]"#,
                ),
                get("/v1/kv/{p}/.lock"),
            ],
        ),
        script(
            "releasing takes one request",
            [
                plain_session("s"),
                put("/v1/kv/{p}/me?acquire={s}", "v"),
                put("/v1/kv/{p}/.lock", "{}"),
                get("/v1/kv/{p}/.lock").saving_modify_index("i"),
                txn(
                    r#"[{"KV":{"Verb":"cas","Key":"{p}/.lock","Index":{i},"Value":"e31="}},{"KV":{"Verb":"delete","Key":"{p}/me"}}]"#,
                ),
                get("/v1/kv/{p}/?recurse"),
            ],
        ),
        script(
            "64 operations are accepted, 65 are a 413",
            [put("/v1/kv/{p}/k", "v"), txn(&gets(64)), txn(&gets(65))],
        ),
        script(
            "a body above 512 KiB is a 413 that names both sizes",
            [
                txn(&one_value(380_000)),
                txn(&one_value(400_000)),
                get("/v1/kv/{p}/big"),
            ],
        ),
        script(
            "a body that is no JSON is a 400 in Go's words",
            [
                txn(""),
                txn("{bad"),
                txn("[{\"KV\":"),
                txn("[{} {}]"),
                txn("<html>"),
                txn("[,]"),
            ],
        ),
        script(
            "a body of another type is a 400 in Go's words",
            [
                txn("{}"),
                txn("5"),
                txn("[5]"),
                txn(r#"["x"]"#),
                txn(r#"[{"KV":5}]"#),
                txn(r#"[{"KV":[]}]"#),
                txn(r#"[{"KV":{"Verb":5}}]"#),
                txn(r#"[{"KV":{"Key":5}}]"#),
                txn(r#"[{"KV":{"Session":5}}]"#),
                txn(r#"[{"KV":{"Value":5}}]"#),
                txn(r#"[{"KV":{"Flags":"7"}}]"#),
                txn(r#"[{"KV":{"Flags":-7}}]"#),
                txn(r#"[{"KV":{"Flags":1.5}}]"#),
                txn(r#"[{"KV":{"Index":"7"}}]"#),
            ],
        ),
        script(
            "a value may have line breaks, or be an array of bytes",
            [
                txn(r#"[{"KV":{"Verb":"set","Key":"{p}/a","Value":"b2\n5l\r\n"}}]"#),
                txn(r#"[{"KV":{"Verb":"set","Key":"{p}/b","Value":[104,105,null]}}]"#),
                txn(r#"[{"KV":{"Verb":"set","Key":"{p}/c","Value":[256]}}]"#),
                txn(r#"[{"KV":{"Verb":"set","Key":"{p}/c","Value":["x"]}}]"#),
                get("/v1/kv/{p}/?recurse"),
            ],
        ),
        script(
            "a key is quoted as Go quotes, and escaped as its JSON escapes",
            [
                txn(
                    r#"[{"KV":{"Verb":"get","Key":"{p}/\u0000\u0007\b\u000b\f\n\r\t\u007f\"'\\ü\u00a0\u2028\ue000🐙\udb40\udc01"}}]"#,
                ),
                put(
                    "/v1/txn?pretty",
                    r#"[{"KV":{"Verb":"set","Key":"{p}/\u0000\u2028\u2029\ue000🐙"}}]"#,
                ),
            ],
        ),
        script(
            "a value that is no base64 is a 400",
            [
                txn(r#"[{"KV":{"Verb":"set","Key":"{p}/k","Value":"***"}}]"#),
                txn(r#"[{"KV":{"Verb":"set","Key":"{p}/k","Value":"dg="}}]"#),
                txn(r#"[{"KV":{"Verb":"set","Key":"{p}/k","Value":"d"}}]"#),
                txn(r#"[{"KV":{"Verb":"set","Key":"{p}/k","Value":"dg==x"}}]"#),
                txn(r#"[{"KV":{"Verb":"set","Key":"{p}/k","Value":"d-__"}}]"#),
            ],
        ),
        script(
            "unknown members are refused, session verbs among them",
            [
                plain_session("s"),
                txn(r#"[{"Session":{"Verb":"delete","Session":{"ID":"{s}"}}}]"#),
                txn(r#"[{"KV":{"Verb":"set","Key":"{p}/k","Bogus":1}}]"#),
            ],
        ),
        script(
            "nothing to do is no error",
            [txn("[]"), txn("null"), txn("[{}]"), txn(r#"[{"KV":null}]"#)],
        ),
        script(
            "the names of members may be in any case, those of verbs not",
            [
                txn(r#"[{"kv":{"verb":"set","kEY":"{p}/k","value":"dg=="}}]"#),
                txn(r#"[{"KV":{"Verb":"SET","Key":"{p}/k"}}]"#),
                get("/v1/kv/{p}/k"),
            ],
        ),
        script(
            "an unknown verb or a missing key is a 409",
            [
                txn(r#"[{"KV":{"Verb":"nope","Key":"{p}/k"}}]"#),
                txn(r#"[{"KV":{"Key":"{p}/k"}}]"#),
                txn(r#"[{"KV":{"Verb":"get-or-empty","Key":"{p}/k"}}]"#),
                txn(r#"[{"KV":{"Verb":"set","Key":""}}]"#),
                txn(r#"[{"KV":{"Verb":"get"}}]"#),
                txn(
                    r#"[{"KV":{"Verb":"set","Key":"{p}/k"}},{"KV":{"Verb":"nope","Key":"{p}/k"}}]"#,
                ),
            ],
        ),
        script(
            "the parameters of reads are checked when nothing is written",
            [
                put(
                    "/v1/txn?index=x",
                    r#"[{"KV":{"Verb":"get","Key":"{p}/k"}}]"#,
                ),
                put(
                    "/v1/txn?stale&consistent",
                    r#"[{"KV":{"Verb":"get","Key":"{p}/k"}}]"#,
                ),
                put(
                    "/v1/txn?index=x",
                    r#"[{"KV":{"Verb":"set","Key":"{p}/k"}}]"#,
                ),
                put(
                    "/v1/txn?dc=elsewhere",
                    r#"[{"KV":{"Verb":"get","Key":"{p}/k"}}]"#,
                ),
                put(
                    "/v1/txn?dc=elsewhere",
                    r#"[{"KV":{"Verb":"set","Key":"{p}/k"}}]"#,
                ),
            ],
        ),
        script(
            "whether a key could be acquired can be asked, and nothing changes",
            [
                session("s", r#"{"NodeChecks":[],"LockDelay":"60s"}"#),
                plain_session("t"),
                put("/v1/kv/{p}/k?acquire={s}", "v"),
                put("/v1/kv/{p}/other", "v"),
                // The key is held.
                txn(PROBE),
                get("/v1/kv/{p}/?recurse"),
                put("/v1/session/destroy/{s}", ""),
                get("/v1/kv/{p}/?recurse"),
                // The key has a lock delay, whether it exists or not.
                txn(PROBE),
                delete("/v1/kv/{p}/k"),
                txn(PROBE),
                get("/v1/kv/{p}/?recurse"),
            ],
        ),
        script(
            "whether a key is free that is not there can be asked, and nothing changes",
            [
                plain_session("t"),
                put("/v1/kv/{p}/other", "v"),
                get("/v1/kv/{p}/?recurse"),
                txn(PROBE),
                get("/v1/kv/{p}/?recurse"),
                // The key exists, and nobody holds it.
                put("/v1/kv/{p}/k", "v"),
                txn(PROBE),
                // Several keys at once, one of which is held.
                put("/v1/kv/{p}/other?acquire={t}", "v"),
                plain_session("u"),
                txn(
                    r#"[{"KV":{"Verb":"lock","Key":"{p}/other","Session":"{u}"}},{"KV":{"Verb":"check-not-exists","Key":"{p}/other"}},{"KV":{"Verb":"lock","Key":"{p}/new","Session":"{u}"}},{"KV":{"Verb":"check-not-exists","Key":"{p}/new"}}]"#,
                ),
                get("/v1/kv/{p}/?recurse"),
                // For a session that is gone.
                put("/v1/session/destroy/{t}", ""),
                txn(PROBE),
            ],
        ),
        script(
            "a lock delay fails the whole transaction",
            [
                session("s", r#"{"NodeChecks":[],"LockDelay":"60s"}"#),
                plain_session("t"),
                put("/v1/kv/{p}/k?acquire={s}", "v"),
                put("/v1/session/destroy/{s}", ""),
                txn(
                    r#"[{"KV":{"Verb":"lock","Key":"{p}/k","Session":"{t}"}},{"KV":{"Verb":"set","Key":"{p}/other"}}]"#,
                ),
                get("/v1/kv/{p}/?recurse"),
            ],
        ),
    ]
}

/// Asks whether `t` could acquire the key. It is always rolled back, since acquiring would create
/// the key.
const PROBE: &str = r#"[{"KV":{"Verb":"lock","Key":"{p}/k","Session":"{t}"}},{"KV":{"Verb":"check-not-exists","Key":"{p}/k"}}]"#;

fn gets(count: usize) -> String {
    let operations = vec![r#"{"KV":{"Verb":"get","Key":"{p}/k"}}"#; count];
    format!("[{}]", operations.join(","))
}

/// A transaction that writes this many bytes. Base64 makes them a third longer.
fn one_value(bytes: usize) -> String {
    let value = "A".repeat(bytes.div_ceil(3) * 4);
    format!(r#"[{{"KV":{{"Verb":"set","Key":"{{p}}/big","Value":"{value}"}}}}]"#)
}
