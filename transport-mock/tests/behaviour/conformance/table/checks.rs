//! Nodes and health checks, as far as they matter to sessions.

use crate::script::Lever::{DeregisterNode, FailCheck, PassCheck, RegisterNode, RemoveCheck};
use crate::script::{Script, get, lever, put, script, session};

pub(crate) fn scripts() -> Vec<Script> {
    vec![
        script(
            "a check that turns critical ends the sessions tied to it, and no other",
            [
                lever(RegisterNode("n")),
                lever(PassCheck("n", "disk")),
                session(
                    "tied",
                    r#"{"Node":"{p}-n","NodeChecks":["disk"],"LockDelay":"0s"}"#,
                ),
                session("free", r#"{"Node":"{p}-n","NodeChecks":[]}"#),
                session("serf", r#"{"Node":"{p}-n"}"#),
                put("/v1/kv/{p}/k?acquire={tied}", "v"),
                lever(FailCheck("n", "disk")),
                get("/v1/session/info/{tied}"),
                get("/v1/session/info/{free}"),
                get("/v1/session/info/{serf}"),
                get("/v1/kv/{p}/k"),
                put("/v1/session/renew/{tied}", ""),
            ],
        ),
        script(
            "a session can't be tied to a critical check until it passes again",
            [
                lever(RegisterNode("n")),
                lever(FailCheck("n", "disk")),
                put(
                    "/v1/session/create",
                    r#"{"Node":"{p}-n","NodeChecks":["disk"]}"#,
                ),
                put(
                    "/v1/session/create",
                    r#"{"Node":"{p}-n","Checks":["disk"]}"#,
                ),
                lever(PassCheck("n", "disk")),
                session("s", r#"{"Node":"{p}-n","NodeChecks":["disk"]}"#),
                get("/v1/session/node/{p}-n"),
            ],
        ),
        script(
            "a node that fails serfHealth loses the sessions with default checks",
            [
                lever(RegisterNode("n")),
                session("default", r#"{"Node":"{p}-n","TTL":"60s"}"#),
                session("ttl", r#"{"Node":"{p}-n","TTL":"60s","NodeChecks":[]}"#),
                lever(FailCheck("n", "serfHealth")),
                get("/v1/session/node/{p}-n"),
                put("/v1/session/renew/{default}", ""),
                put("/v1/session/renew/{ttl}", ""),
            ],
        ),
        script(
            "a check that is removed ends the sessions tied to it",
            [
                lever(RegisterNode("n")),
                lever(PassCheck("n", "disk")),
                session("s", r#"{"Node":"{p}-n","NodeChecks":["disk"]}"#),
                lever(RemoveCheck("n", "disk")),
                get("/v1/session/info/{s}"),
            ],
        ),
        script(
            "a node that is deregistered takes all its sessions along",
            [
                lever(RegisterNode("n")),
                session(
                    "s",
                    r#"{"Node":"{p}-n","NodeChecks":[],"Behavior":"delete"}"#,
                ),
                session("t", r#"{"Node":"{p}-n"}"#),
                session("elsewhere", r#"{"NodeChecks":[]}"#),
                put("/v1/kv/{p}/k?acquire={s}", "v"),
                lever(DeregisterNode("n")),
                get("/v1/session/info/{s}"),
                get("/v1/session/info/{t}"),
                get("/v1/session/info/{elsewhere}"),
                get("/v1/kv/{p}/k"),
                put("/v1/session/create", r#"{"Node":"{p}-n"}"#),
            ],
        ),
        script(
            "the case of a check's name does not matter",
            [
                lever(RegisterNode("n")),
                lever(PassCheck("n", "Disk")),
                session("s", r#"{"Node":"{p}-n","NodeChecks":["dISK"]}"#),
                session("t", r#"{"Node":"{p}-n","NodeChecks":["SERFHEALTH"]}"#),
                lever(FailCheck("n", "disk")),
                get("/v1/session/info/{s}"),
                get("/v1/session/info/{t}"),
                put(
                    "/v1/session/create",
                    r#"{"Node":"{p}-n","NodeChecks":["DISK"]}"#,
                ),
            ],
        ),
        script(
            "a session can be tied to a check by the name of service checks",
            [
                lever(RegisterNode("n")),
                lever(PassCheck("n", "web")),
                session(
                    "s",
                    r#"{"Node":"{p}-n","NodeChecks":[],"ServiceChecks":[{"ID":"web"}]}"#,
                ),
                get("/v1/session/info/{s}"),
                lever(FailCheck("n", "web")),
                get("/v1/session/info/{s}"),
            ],
        ),
    ]
}
