//! Access control with a default of deny.

use transport_mock::consul::Access::{Deny, Read, Write};

use crate::script::Lever::{AddToken, DeregisterNode};
use crate::script::Rule::{Key, KeyPrefix, Nodes, Sessions};
use crate::script::{Script, Step, delete, get, lever, put, script, session, start, txn, wakes};

const UNKNOWN: &str = "11111111-1111-1111-1111-111111111111";

/// Creates the token for the preparations.
fn root() -> Step {
    lever(AddToken("root", &[KeyPrefix("", Write), Sessions(Write)]))
}

const NODE: &str =
    r#"[{"Node":{"Verb":"cas","Node":{"Node":"{p}-n","Address":"192.0.2.1","ModifyIndex":0}}}]"#;

pub(crate) fn scripts() -> Vec<Script> {
    vec![
        script(
            "without a token nothing is written, and reads find nothing",
            [
                root(),
                put("/v1/kv/{p}/k", "v").with_token("{root}"),
                session("s", "").with_token("{root}"),
                get("/v1/kv/{p}/k"),
                get("/v1/kv/{p}/missing"),
                get("/v1/kv/{p}/?recurse"),
                get("/v1/kv/{p}/?keys"),
                put("/v1/kv/{p}/k", "w"),
                put("/v1/kv/{p}/k?cas=0", "w"),
                put("/v1/kv/{p}/k?acquire={s}", "w"),
                put("/v1/kv/{p}/k?release={s}", "w"),
                delete("/v1/kv/{p}/k"),
                delete("/v1/kv/{p}/?recurse"),
                put("/v1/session/create", ""),
                put("/v1/session/renew/{s}", ""),
                put("/v1/session/destroy/{s}", ""),
                get("/v1/session/info/{s}").without_index(),
                get("/v1/session/list").without_index(),
                get("/v1/session/node/mock").without_index(),
                get("/v1/agent/self").by_status(),
                get("/v1/status/leader").by_status(),
            ],
        ),
        script(
            "an unknown token is told so",
            [
                get("/v1/kv/{p}/k").with_token("unknown"),
                get("/v1/kv/{p}/?recurse").with_token("unknown"),
                get("/v1/kv/{p}/?keys").with_token("unknown"),
                put("/v1/kv/{p}/k", "v").with_token("unknown"),
                delete("/v1/kv/{p}/k").with_token("unknown"),
                put("/v1/session/create", "").with_token("unknown"),
                put(&format!("/v1/session/destroy/{UNKNOWN}"), "").with_token("unknown"),
                put(&format!("/v1/session/renew/{UNKNOWN}"), "").with_token("unknown"),
                get(&format!("/v1/session/info/{UNKNOWN}")).with_token("unknown"),
                get("/v1/session/list").with_token("unknown"),
                get("/v1/session/node/mock").with_token("unknown"),
                txn(r#"[{"KV":{"Verb":"get","Key":"{p}/k"}}]"#).with_token("unknown"),
                txn(r#"[{"KV":{"Verb":"set","Key":"{p}/k"}}]"#).with_token("unknown"),
                get("/v1/agent/self").with_token("unknown").by_status(),
            ],
        ),
        script(
            "a listing leaves out in silence what may not be read",
            [
                root(),
                lever(AddToken("some", &[KeyPrefix("/open/", Read), Key("/shut/one", Read)])),
                put("/v1/kv/{p}/open/a", "v").with_token("{root}"),
                put("/v1/kv/{p}/shut/one", "v").with_token("{root}"),
                put("/v1/kv/{p}/shut/two", "v").with_token("{root}"),
                get("/v1/kv/{p}/?recurse").with_token("{some}"),
                get("/v1/kv/{p}/?keys").with_token("{some}"),
                get("/v1/kv/{p}/?keys&separator=/").with_token("{some}"),
                get("/v1/kv/{p}/shut/t?recurse").with_token("{some}"),
                get("/v1/kv/{p}/shut/t?keys").with_token("{some}"),
                get("/v1/kv/{p}/shut/one").with_token("{some}"),
                get("/v1/kv/{p}/shut/two").with_token("{some}"),
                get("/v1/kv/{p}/shut/two?token={root}").with_token("{some}"),
            ],
        ),
        script(
            "reading does not imply writing",
            [
                root(),
                lever(AddToken("reader", &[KeyPrefix("/", Read)])),
                put("/v1/kv/{p}/k", "v").with_token("{root}"),
                get("/v1/kv/{p}/k").with_token("{reader}"),
                get("/v1/kv/{p}/missing").with_token("{reader}"),
                put("/v1/kv/{p}/k", "w").with_token("{reader}"),
                delete("/v1/kv/{p}/k").with_token("{reader}"),
                delete("/v1/kv/{p}/?recurse").with_token("{reader}"),
                get("/v1/kv/{p}/k").with_token("{reader}"),
            ],
        ),
        script(
            "an exact rule goes before a prefix, and a longer prefix before a shorter one",
            [
                lever(AddToken(
                    "mixed",
                    &[
                        KeyPrefix("/", Write),
                        KeyPrefix("/a/", Read),
                        KeyPrefix("/a/b/", Deny),
                        Key("/a/b/c", Write),
                    ],
                )),
                put("/v1/kv/{p}/k", "v").with_token("{mixed}"),
                put("/v1/kv/{p}/a/k", "v").with_token("{mixed}"),
                get("/v1/kv/{p}/a/k").with_token("{mixed}"),
                put("/v1/kv/{p}/a/b/k", "v").with_token("{mixed}"),
                get("/v1/kv/{p}/a/b/k").with_token("{mixed}"),
                put("/v1/kv/{p}/a/b/c", "v").with_token("{mixed}"),
                put("/v1/kv/{p}/a/b/c/d", "v").with_token("{mixed}"),
                get("/v1/kv/{p}/?recurse").with_token("{mixed}"),
            ],
        ),
        script(
            "a recursive deletion needs the right to write everything below",
            [
                root(),
                lever(AddToken("mixed", &[KeyPrefix("/", Write), KeyPrefix("/a/b/", Read)])),
                lever(AddToken("exact", &[KeyPrefix("/", Write), Key("/a/b", Deny)])),
                lever(AddToken("only", &[Key("/a", Write)])),
                put("/v1/kv/{p}/a/k", "v").with_token("{root}"),
                delete("/v1/kv/{p}/a/?recurse").with_token("{mixed}"),
                delete("/v1/kv/{p}/a/?recurse").with_token("{exact}"),
                delete("/v1/kv/{p}/a?recurse").with_token("{only}"),
                delete("/v1/kv/{p}/c/?recurse").with_token("{mixed}"),
                get("/v1/kv/{p}/a/k").with_token("{mixed}"),
                delete("/v1/kv/{p}/a/?recurse").with_token("{root}"),
                get("/v1/kv/{p}/a/k").with_token("{mixed}"),
            ],
        ),
        script(
            "sessions need a right of their own, to read and to write",
            [
                root(),
                lever(AddToken("reader", &[Sessions(Read)])),
                lever(AddToken("keys", &[KeyPrefix("/", Write)])),
                session("s", r#"{"NodeChecks":[]}"#).with_token("{root}"),
                get("/v1/session/info/{s}").with_token("{reader}"),
                get("/v1/session/list").with_token("{reader}"),
                get("/v1/session/info/{s}").with_token("{keys}"),
                get("/v1/session/list").with_token("{keys}"),
                put("/v1/session/create", "").with_token("{reader}"),
                put("/v1/session/create", "").with_token("{keys}"),
                put("/v1/session/renew/{s}", "").with_token("{reader}"),
                put("/v1/session/destroy/{s}", "").with_token("{keys}"),
                put("/v1/kv/{p}/k?acquire={s}", "v").with_token("{keys}"),
                put("/v1/session/renew/{s}", "").with_token("{root}"),
                put("/v1/session/destroy/{s}", "").with_token("{root}"),
                get("/v1/kv/{p}/k").with_token("{keys}"),
            ],
        ),
        script(
            "a node needs a right of its own, which that to its sessions is not",
            [
                root(),
                lever(AddToken("some", &[Sessions(Write)])),
                lever(AddToken("nodes", &[Nodes(Write)])),
                put("/v1/session/create", r#"{"Node":"{p}-n","NodeChecks":[]}"#)
                    .with_token("{some}"),
                put("/v1/txn", NODE).with_token("{some}"),
                put("/v1/txn", NODE).with_token("{nodes}"),
                put("/v1/txn", NODE).with_token("{nodes}"),
                put("/v1/txn", NODE).with_token("{some}"),
                session("s", r#"{"Node":"{p}-n","NodeChecks":[]}"#).with_token("{some}"),
                lever(DeregisterNode("n")),
            ],
        ),
        script(
            "with access control an unknown session is destroyed as well as without",
            [
                root(),
                put(&format!("/v1/session/destroy/{UNKNOWN}"), "").with_token("{root}"),
                put("/v1/session/destroy/zz", "").with_token("{root}"),
                put(&format!("/v1/session/renew/{UNKNOWN}"), "").with_token("{root}"),
            ],
        ),
        script(
            "permission is looked at before the body of a session's creation",
            [
                put("/v1/session/create", r#"{"TTL":"5s"}"#),
                put("/v1/session/create", r#"{"Behavior":"x"}"#),
                put("/v1/session/create", r#"{"Node":"nowhere"}"#),
                put("/v1/session/create", r#"{"Node":""}"#),
                put("/v1/session/create", "{bad"),
            ],
        ),
        script(
            "a transaction fails on what may not be written, and leaves out what may not be read",
            [
                root(),
                lever(AddToken("some", &[KeyPrefix("/open/", Write), KeyPrefix("/look/", Read)])),
                put("/v1/kv/{p}/open/a", "v").with_token("{root}"),
                put("/v1/kv/{p}/look/a", "v").with_token("{root}"),
                put("/v1/kv/{p}/shut/a", "v").with_token("{root}"),
                txn(r#"[{"KV":{"Verb":"set","Key":"{p}/open/b"}},{"KV":{"Verb":"set","Key":"{p}/look/b"}},{"KV":{"Verb":"set","Key":"{p}/shut/b"}}]"#)
                    .with_token("{some}"),
                txn(r#"[{"KV":{"Verb":"set","Key":"{p}/open/b"}},{"KV":{"Verb":"get-tree","Key":"{p}/"}}]"#)
                    .with_token("{some}"),
                txn(r#"[{"KV":{"Verb":"get-tree","Key":"{p}/"}}]"#).with_token("{some}"),
                txn(r#"[{"KV":{"Verb":"get","Key":"{p}/shut/a"}}]"#).with_token("{some}"),
                txn(r#"[{"KV":{"Verb":"get","Key":"{p}/shut/none"}}]"#).with_token("{some}"),
                txn(r#"[{"KV":{"Verb":"check-session","Key":"{p}/look/a","Session":""}}]"#)
                    .with_token("{some}"),
                txn(r#"[{"KV":{"Verb":"check-session","Key":"{p}/shut/a","Session":""}}]"#)
                    .with_token("{some}"),
                txn(r#"[{"KV":{"Verb":"check-index","Key":"{p}/shut/a","Index":1}}]"#)
                    .with_token("{some}"),
                txn(r#"[{"KV":{"Verb":"check-not-exists","Key":"{p}/look/none"}}]"#)
                    .with_token("{some}"),
                txn(r#"[{"KV":{"Verb":"check-not-exists","Key":"{p}/open/none"}}]"#)
                    .with_token("{some}"),
                txn(r#"[{"KV":{"Verb":"delete-tree","Key":"{p}/"}}]"#).with_token("{some}"),
                txn(r#"[{"KV":{"Verb":"delete-tree","Key":"{p}/open/"}}]"#).with_token("{some}"),
                txn(r#"[{"KV":{"Verb":"nope","Key":"{p}/shut/a"}}]"#).with_token("{some}"),
                txn(r#"[{"KV":{"Verb":"get","Key":"{p}/open/a"}}]"#),
            ],
        ),
        script(
            "a hidden write wakes a query on its prefix, which shows nothing of it but the index",
            [
                root(),
                lever(AddToken("some", &[KeyPrefix("/x/open", Read)])),
                put("/v1/kv/{p}/x/open", "v").with_token("{root}"),
                put("/v1/kv/{p}/x/shut", "v").with_token("{root}"),
                get("/v1/kv/{p}/x/?recurse").with_token("{some}").saving_index("i"),
                start("q", "/v1/kv/{p}/x/?recurse&index={i}&wait=60s").with_token("{some}"),
                put("/v1/kv/{p}/x/shut", "w").with_token("{root}"),
                wakes("q"),
            ],
        ),
    ]
}
