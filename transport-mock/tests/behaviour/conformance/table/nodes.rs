//! Nodes without an agent, which transactions create.

use crate::script::Lever::DeregisterNode;
use crate::script::{Script, lever, put, script, session};

const NODE: &str = r#""Node":"{p}-n","Address":"192.0.2.1","Meta":{"external-node":"true"}"#;

fn cas(index: &str) -> String {
    format!(r#"[{{"Node":{{"Verb":"cas","Node":{{{NODE},"ModifyIndex":{index}}}}}}}]"#)
}

pub(crate) fn scripts() -> Vec<Script> {
    vec![
        script(
            "a node is made by a check-and-set with index zero, once, and sessions stand on it",
            [
                put("/v1/session/create", r#"{"Node":"{p}-n","NodeChecks":[]}"#),
                put("/v1/txn", cas("7")),
                put("/v1/txn", cas("0")),
                put("/v1/txn", cas("0")),
                session("s", r#"{"Node":"{p}-n","NodeChecks":[],"TTL":"60s"}"#),
                put("/v1/session/create", r#"{"Node":"{p}-n"}"#),
                put("/v1/session/renew/{s}", ""),
                lever(DeregisterNode("n")),
                put("/v1/session/renew/{s}", ""),
                put("/v1/txn", cas("0")),
                session("again", r#"{"Node":"{p}-n","NodeChecks":[]}"#),
                lever(DeregisterNode("n")),
            ],
        ),
        script(
            "a node is set and read, and a transaction that fails leaves none behind",
            [
                put(
                    "/v1/txn",
                    r#"[{"Node":{"Verb":"get","Node":{"Node":"{p}-n"}}}]"#,
                ),
                put(
                    "/v1/txn",
                    format!(
                        r#"[{{"Node":{{"Verb":"set","Node":{{{NODE}}}}}}},{{"KV":{{"Verb":"get","Key":"{{p}}/none"}}}}]"#
                    ),
                ),
                put(
                    "/v1/txn",
                    r#"[{"Node":{"Verb":"get","Node":{"Node":"{p}-n"}}}]"#,
                ),
                put(
                    "/v1/txn",
                    format!(r#"[{{"Node":{{"Verb":"set","Node":{{{NODE}}}}}}}]"#),
                ),
                put(
                    "/v1/txn",
                    r#"[{"Node":{"Verb":"get","Node":{"Node":"{p}-n"}}}]"#,
                ),
                lever(DeregisterNode("n")),
            ],
        ),
    ]
}
