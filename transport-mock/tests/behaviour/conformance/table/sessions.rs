//! Sessions: creating, renewing, destroying and showing them.

use crate::script::{Script, delete, get, plain_session, put, script, session};

const UNKNOWN: &str = "11111111-1111-1111-1111-111111111111";

pub(crate) fn scripts() -> Vec<Script> {
    vec![
        script(
            "a session that is created without a body is tied to serfHealth",
            [session("s", ""), get("/v1/session/info/{s}")],
        ),
        script(
            "an empty list of node checks leaves no health check",
            [
                session("s", r#"{"NodeChecks":[]}"#),
                get("/v1/session/info/{s}"),
            ],
        ),
        script(
            "an empty legacy list of checks leaves no health check",
            [
                session("s", r#"{"Checks":[]}"#),
                get("/v1/session/info/{s}"),
            ],
        ),
        script(
            "a session with a TTL and no checks given is tied to serfHealth, too",
            [
                session("s", r#"{"TTL":"10s"}"#),
                get("/v1/session/info/{s}"),
            ],
        ),
        script(
            "a session shows everything it was created with",
            [
                session(
                    "s",
                    r#"{"Name":"a <name>","Node":"mock","TTL":"15s","LockDelay":"1s","Behavior":"delete","NodeChecks":[]}"#,
                ),
                get("/v1/session/info/{s}?pretty").without_index(),
            ],
        ),
        script(
            "a session's JSON has the agent's order and spacing",
            [
                session("s", r#"{"Name":"a & b","NodeChecks":[]}"#),
                put("/v1/session/renew/{s}?pretty", ""),
            ],
        ),
        script(
            "a namespace is refused before it is seen that no session is named",
            [
                get("/v1/session/info/?ns=x"),
                put("/v1/session/renew/?ns=x", ""),
                put("/v1/session/destroy/?ns=x", ""),
                get("/v1/session/info/"),
                put("/v1/session/renew/", ""),
                put("/v1/session/destroy/", ""),
            ],
        ),
        script(
            "a renewal answers with the session in an array",
            [
                session("s", r#"{"TTL":"10s","NodeChecks":[]}"#),
                put("/v1/session/renew/{s}", ""),
                put("/v1/session/renew/{s}?pretty=1", ""),
            ],
        ),
        script(
            "a session without a TTL can be renewed",
            [plain_session("s"), put("/v1/session/renew/{s}", "")],
        ),
        script(
            "a renewal of an unknown session is a 404 that names it",
            [put(&format!("/v1/session/renew/{UNKNOWN}"), "")],
        ),
        script(
            "a renewal of a destroyed session is a 404",
            [
                plain_session("s"),
                put("/v1/session/destroy/{s}", ""),
                put("/v1/session/renew/{s}", ""),
            ],
        ),
        script(
            "destroying answers true, also for an unknown and an already destroyed session",
            [
                plain_session("s"),
                put("/v1/session/destroy/{s}", ""),
                put("/v1/session/destroy/{s}", ""),
                put(&format!("/v1/session/destroy/{UNKNOWN}"), ""),
            ],
        ),
        script(
            "info of an unknown session is an empty array",
            [get(&format!("/v1/session/info/{UNKNOWN}")).without_index()],
        ),
        script(
            "info of a destroyed session is an empty array at a later index",
            [
                plain_session("s"),
                get("/v1/session/info/{s}"),
                put("/v1/session/destroy/{s}", ""),
                get("/v1/session/info/{s}"),
            ],
        ),
        script(
            "sessions are listed, all and by node",
            [
                plain_session("s"),
                plain_session("t"),
                get("/v1/session/list"),
                get("/v1/session/node/mock"),
                get("/v1/session/node/MOCK"),
                get("/v1/session/node/nowhere").without_index(),
                put("/v1/session/destroy/{s}", ""),
                get("/v1/session/list"),
            ],
        ),
        script(
            "a session's index is that of the table of sessions",
            [
                plain_session("s"),
                plain_session("t"),
                get("/v1/session/info/{s}"),
                put("/v1/kv/{p}/k", "v"),
                get("/v1/session/info/{s}"),
            ],
        ),
        script(
            "an id that is no UUID is a 500 that says why",
            [
                put("/v1/session/renew/abc", ""),
                put("/v1/session/destroy/abc", ""),
                get("/v1/session/info/abc"),
                get("/v1/session/info/11111111-1111-1111-1111-1111111111zz"),
                get("/v1/session/info/11111111-1111-1111-1111111111111----"),
                put("/v1/session/renew/1111111-11111-1111-1111-1111111111", ""),
            ],
        ),
        script(
            "a missing id is a 400",
            [
                put("/v1/session/renew/", ""),
                put("/v1/session/destroy/", ""),
                get("/v1/session/info/"),
                get("/v1/session/node/"),
            ],
        ),
        script(
            "an id may be written in capitals",
            [
                plain_session("s"),
                put("/v1/kv/{p}/k?acquire={s}", "v"),
                get("/v1/kv/{p}/k"),
            ],
        ),
        script(
            "a session endpoint refuses other methods and names its own",
            [
                get("/v1/session/create"),
                put("/v1/session/list", ""),
                delete("/v1/session/destroy/x"),
                get("/v1/session/renew/x"),
                put("/v1/session/info/x", ""),
                delete("/v1/session/node/x"),
            ],
        ),
        script(
            "sessions of another datacenter or of a namespace can't be had",
            [
                put("/v1/session/create?dc=elsewhere", ""),
                put("/v1/session/create?ns=team", ""),
                put(&format!("/v1/session/renew/{UNKNOWN}?dc=elsewhere"), ""),
                put(&format!("/v1/session/renew/{UNKNOWN}?ns=team"), ""),
                put(&format!("/v1/session/destroy/{UNKNOWN}?dc=elsewhere"), ""),
                put(&format!("/v1/session/destroy/{UNKNOWN}?ns=team"), ""),
                get(&format!("/v1/session/info/{UNKNOWN}?dc=elsewhere")),
                get(&format!("/v1/session/info/{UNKNOWN}?ns=team")),
                get("/v1/session/list?dc=elsewhere"),
                get("/v1/session/list?ns=team"),
                get("/v1/session/node/mock?ns=team"),
            ],
        ),
        script(
            "session reads check their parameters",
            [
                get("/v1/session/list?index=x"),
                get("/v1/session/list?wait=x"),
                get("/v1/session/info/abc?index=x"),
                get("/v1/session/node/mock?stale&consistent"),
                put("/v1/session/renew/abc?index=x", ""),
                put("/v1/session/renew/abc?stale&consistent", ""),
                put("/v1/session/destroy/?index=x", ""),
            ],
        ),
    ]
}
