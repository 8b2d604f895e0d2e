//! The verbs of transactions, one by one.

use crate::script::{Script, Step, delete, get, plain_session, put, script, txn};

fn kv(fields: &str) -> Step {
    txn(&format!(r#"[{{"KV":{{{fields}}}}}]"#))
}

pub(crate) fn scripts() -> Vec<Script> {
    vec![
        script(
            "set writes, keeps the session and changes nothing when nothing differs",
            [
                plain_session("s"),
                put("/v1/kv/{p}/k?acquire={s}", "v"),
                kv(r#""Verb":"set","Key":"{p}/k","Value":"dw==""#),
                kv(r#""Verb":"set","Key":"{p}/k","Value":"dw==""#),
                kv(r#""Verb":"set","Key":"{p}/empty","Value":"""#),
                kv(r#""Verb":"set","Key":"{p}/null","Value":null"#),
                get("/v1/kv/{p}/?recurse"),
            ],
        ),
        script(
            "cas writes at the right index only, 0 meaning a missing key",
            [
                kv(r#""Verb":"cas","Key":"{p}/k","Index":0,"Value":"dg==""#)
                    .saving_modify_index("i"),
                kv(r#""Verb":"cas","Key":"{p}/k","Index":0,"Value":"dw==""#),
                kv(r#""Verb":"cas","Key":"{p}/k","Index":{i},"Value":"dw==""#),
                kv(r#""Verb":"cas","Key":"{p}/k","Index":{i},"Value":"eA==""#),
                kv(r#""Verb":"cas","Key":"{p}/none","Index":5"#),
                get("/v1/kv/{p}/k"),
            ],
        ),
        script(
            "lock acquires, again for its holder, and fails for others",
            [
                plain_session("s"),
                plain_session("t"),
                kv(r#""Verb":"lock","Key":"{p}/k","Value":"dg==","Session":"{s}""#),
                kv(r#""Verb":"lock","Key":"{p}/k","Value":"dw==","Session":"{s}""#),
                kv(r#""Verb":"lock","Key":"{p}/k","Value":"eA==","Session":"{t}""#),
                get("/v1/kv/{p}/k"),
            ],
        ),
        script(
            "lock with a dead or a missing session is a 409",
            [
                plain_session("s"),
                put("/v1/session/destroy/{s}", ""),
                kv(r#""Verb":"lock","Key":"{p}/k","Session":"{s}""#),
                kv(r#""Verb":"lock","Key":"{p}/k","Session":"zz""#),
                kv(r#""Verb":"lock","Key":"{p}/k""#),
            ],
        ),
        script(
            "unlock releases for the holder only",
            [
                plain_session("s"),
                plain_session("t"),
                kv(r#""Verb":"unlock","Key":"{p}/k","Session":"{s}""#),
                put("/v1/kv/{p}/k?acquire={s}", "v"),
                kv(r#""Verb":"unlock","Key":"{p}/k","Session":"{t}""#),
                kv(r#""Verb":"unlock","Key":"{p}/k""#),
                kv(r#""Verb":"unlock","Key":"{p}/k","Value":"dw==","Session":"{s}""#),
                get("/v1/kv/{p}/k"),
            ],
        ),
        script(
            "get shows the entry and fails for a missing key",
            [
                plain_session("s"),
                put("/v1/kv/{p}/k?acquire={s}&flags=5", "v"),
                kv(r#""Verb":"get","Key":"{p}/k""#),
                kv(r#""Verb":"get","Key":"{p}/none""#),
                kv(r#""Verb":"get","Key":"{p}/\"quoted\\ <é>\u0001""#),
            ],
        ),
        script(
            "get-tree shows all entries, and none is no failure",
            [
                put("/v1/kv/{p}/x/b", "2"),
                put("/v1/kv/{p}/x/a", "1"),
                put("/v1/kv/{p}/y", "3"),
                kv(r#""Verb":"get-tree","Key":"{p}/x/""#),
                kv(r#""Verb":"get-tree","Key":"{p}/none/""#),
            ],
        ),
        script(
            "check-index compares the ModifyIndex",
            [
                put("/v1/kv/{p}/k", "v"),
                get("/v1/kv/{p}/k").saving_modify_index("i"),
                kv(r#""Verb":"check-index","Key":"{p}/k","Index":{i}"#),
                kv(r#""Verb":"check-index","Key":"{p}/k","Index":1"#),
                kv(r#""Verb":"check-index","Key":"{p}/none","Index":1"#),
            ],
        ),
        script(
            "check-session compares the holder, an empty one standing for nobody",
            [
                plain_session("s"),
                put("/v1/kv/{p}/held?acquire={s}", "v"),
                put("/v1/kv/{p}/free", "v"),
                kv(r#""Verb":"check-session","Key":"{p}/held","Session":"{s}""#),
                kv(r#""Verb":"check-session","Key":"{p}/held","Session":"""#),
                kv(r#""Verb":"check-session","Key":"{p}/free","Session":"""#),
                kv(r#""Verb":"check-session","Key":"{p}/free","Session":"{s}""#),
                kv(r#""Verb":"check-session","Key":"{p}/none","Session":"""#),
            ],
        ),
        script(
            "check-not-exists fails for a key that is there",
            [
                put("/v1/kv/{p}/k", "v"),
                kv(r#""Verb":"check-not-exists","Key":"{p}/k""#),
                kv(r#""Verb":"check-not-exists","Key":"{p}/none""#),
            ],
        ),
        script(
            "delete succeeds with and without a key",
            [
                put("/v1/kv/{p}/k", "v"),
                put("/v1/kv/{p}/l", "v"),
                kv(r#""Verb":"delete","Key":"{p}/k""#),
                kv(r#""Verb":"delete","Key":"{p}/k""#),
                get("/v1/kv/{p}/?recurse"),
            ],
        ),
        script(
            "delete-cas deletes at the right index, and a missing key counts as deleted",
            [
                put("/v1/kv/{p}/k", "v"),
                get("/v1/kv/{p}/k").saving_modify_index("i"),
                kv(r#""Verb":"delete-cas","Key":"{p}/k","Index":1"#),
                kv(r#""Verb":"delete-cas","Key":"{p}/k","Index":{i}"#),
                kv(r#""Verb":"delete-cas","Key":"{p}/k","Index":{i}"#),
                get("/v1/kv/{p}/k"),
            ],
        ),
        script(
            "delete-tree deletes everything that begins alike",
            [
                put("/v1/kv/{p}/x/a", "v"),
                put("/v1/kv/{p}/x/b", "v"),
                put("/v1/kv/{p}/y", "v"),
                kv(r#""Verb":"delete-tree","Key":"{p}/x/""#),
                get("/v1/kv/{p}/?recurse"),
                get("/v1/kv/{p}/x/?recurse"),
                delete("/v1/kv/{p}/?recurse"),
            ],
        ),
    ]
}
