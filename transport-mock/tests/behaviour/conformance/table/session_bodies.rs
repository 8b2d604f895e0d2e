//! Which bodies create a session, and which are refused.

use crate::script::{Script, Step, get, put, script, session};

fn refused(body: &str) -> Step {
    put("/v1/session/create", body)
}

pub(crate) fn scripts() -> Vec<Script> {
    vec![
        script(
            "a TTL outside ten seconds to a day is a 500 that names the bounds",
            [
                refused(r#"{"TTL":"5s"}"#),
                refused(r#"{"TTL":"9.999999999s"}"#),
                refused(r#"{"TTL":"25h"}"#),
                refused(r#"{"TTL":"24h0m0.000000001s"}"#),
                refused(r#"{"TTL":"-10s"}"#),
            ],
        ),
        script(
            "a TTL at the bounds is accepted, and none at all is written in three ways",
            [
                session("a", r#"{"TTL":"10s"}"#),
                session("b", r#"{"TTL":"24h"}"#),
                session("c", r#"{"TTL":"10000ms"}"#),
                session("d", r#"{"TTL":"0s"}"#),
                session("e", r#"{"TTL":""}"#),
                session("f", r#"{"TTL":null}"#),
                get("/v1/session/info/{c}"),
                get("/v1/session/info/{d}"),
                get("/v1/session/info/{f}"),
            ],
        ),
        script(
            "a TTL that is no duration is a 500 in Go's words",
            [
                refused(r#"{"TTL":"abc"}"#),
                refused(r#"{"TTL":"15"}"#),
                refused(r#"{"TTL":"15 s"}"#),
                refused(r#"{"TTL":"15x"}"#),
                refused(r#"{"TTL":"s"}"#),
                refused(r#"{"TTL":"1.5.5s"}"#),
                refused(r#"{"TTL":"-"}"#),
                refused(r#"{"TTL":"."}"#),
            ],
        ),
        script(
            "an unknown behavior is a 500, the known ones are kept",
            [
                refused(r#"{"Behavior":"keep"}"#),
                refused(r#"{"Behavior":"DELETE"}"#),
                session("a", r#"{"Behavior":"delete"}"#),
                session("b", r#"{"Behavior":"release"}"#),
                session("c", r#"{"Behavior":""}"#),
                get("/v1/session/info/{a}"),
                get("/v1/session/info/{b}"),
                get("/v1/session/info/{c}"),
            ],
        ),
        script(
            "an unknown node is a 500, and a node's case does not matter",
            [
                refused(r#"{"Node":"nowhere"}"#),
                refused(r#"{"Node":""}"#),
                session("s", r#"{"Node":"MOCK"}"#),
                get("/v1/session/info/{s}"),
            ],
        ),
        script(
            "an unknown check is a 500 that names it",
            [
                refused(r#"{"NodeChecks":["nothing"]}"#),
                refused(r#"{"Checks":["nothing"]}"#),
                refused(r#"{"ServiceChecks":[{"ID":"nothing"}]}"#),
                refused(r#"{"NodeChecks":["serfHealth","nothing"]}"#),
            ],
        ),
        script(
            "checks may be named, left out or null",
            [
                session("a", r#"{"NodeChecks":["serfHealth"]}"#),
                session("b", r#"{"NodeChecks":null}"#),
                session("c", r#"{"ServiceChecks":[]}"#),
                session("d", r#"{"Checks":null}"#),
                session("e", r#"{"checks":["serfHealth"]}"#),
                session("f", r#"{"Checks":[],"NodeChecks":["serfHealth"]}"#),
                get("/v1/session/info/{a}"),
                get("/v1/session/info/{b}"),
                get("/v1/session/info/{c}"),
                get("/v1/session/info/{d}"),
                get("/v1/session/info/{e}"),
                get("/v1/session/info/{f}"),
            ],
        ),
        script(
            "the two names of checks are told apart unless one says nothing of its own",
            [
                session("a", r#"{"Checks":["serfHealth","serfHealth"]}"#),
                session(
                    "b",
                    r#"{"Checks":["SERFHEALTH"],"NodeChecks":["serfHealth"]}"#,
                ),
                session("c", r#"{"Checks":["serfHealth"],"NodeChecks":[]}"#),
                session("d", r#"{"Checks":["serfHealth"],"NodeChecks":null}"#),
                session("e", r#"{"Checks":["nothing"],"NodeChecks":[]}"#),
                session("f", r#"{"Checks":[null]}"#),
                session("g", r#"{"NodeChecks":[null]}"#),
                refused(r#"{"NodeChecks":["serfHealth",null]}"#),
                refused(
                    r#"{"Checks":["one"],"NodeChecks":["two"],"ServiceChecks":[{"ID":"three"}]}"#,
                ),
                refused(r#"{"NodeChecks":["two"],"ServiceChecks":[null]}"#),
                refused(r#"{"Checks":5}"#),
                refused(r#"{"Checks":[5]}"#),
                get("/v1/session/info/{a}"),
                get("/v1/session/info/{b}"),
                get("/v1/session/info/{c}"),
                get("/v1/session/info/{d}"),
                get("/v1/session/info/{e}"),
                get("/v1/session/info/{f}"),
                get("/v1/session/info/{g}"),
                get("/v1/session/info/{b}?pretty"),
            ],
        ),
        script(
            "a lock delay that can't be read is told of after all other faults",
            [
                refused(r#"{"LockDelay":"x","TTL":5}"#),
                refused(r#"{"LockDelay":"x","Checks":5}"#),
            ],
        ),
        script(
            "a lock delay is a duration, or a number that is seconds when it is small",
            [
                session("a", r#"{"LockDelay":"20s"}"#),
                session("b", r#"{"LockDelay":5}"#),
                session("c", r#"{"LockDelay":5000}"#),
                session("d", r#"{"LockDelay":0}"#),
                session("e", r#"{"LockDelay":null}"#),
                session("f", r#"{"LockDelay":"500ns"}"#),
                session("g", r#"{"LockDelay":1.5}"#),
                session("h", r#"{"LockDelay":"1m30s"}"#),
                session("i", r#"{"LockDelay":"-1s"}"#),
                get("/v1/session/info/{a}"),
                get("/v1/session/info/{b}"),
                get("/v1/session/info/{c}"),
                get("/v1/session/info/{d}"),
                get("/v1/session/info/{e}"),
                get("/v1/session/info/{f}"),
                get("/v1/session/info/{g}"),
                get("/v1/session/info/{h}"),
                get("/v1/session/info/{i}"),
            ],
        ),
        script(
            "a lock delay that is no duration is a 400",
            [
                refused(r#"{"LockDelay":"x"}"#),
                refused(r#"{"LockDelay":"5"}"#),
                refused(r#"{"LockDelay":""}"#),
            ],
        ),
        script(
            "a lock delay above a minute is not refused",
            [
                session("s", r#"{"LockDelay":"90s"}"#),
                get("/v1/session/info/{s}"),
            ],
        ),
        script(
            "a session from what is no JSON is a 400 in Go's words",
            [
                refused("{bad"),
                refused("{\"Name\":\"x\""),
                refused(r#"{"Name":"x",}"#),
                refused(r#"{"Name" "x"}"#),
                refused(r#"{"Name":"x" "TTL":"10s"}"#),
                refused("bad"),
                refused("<html>"),
                refused(" "),
                refused(r#"{"Name":"#),
            ],
        ),
        script(
            "a session from JSON of another type is a 400 in Go's words",
            [
                refused("[]"),
                refused(r#""x""#),
                refused("5"),
                refused("true"),
                refused(r#"{"TTL":5}"#),
                refused(r#"{"Name":5}"#),
                refused(r#"{"Name":{}}"#),
                refused(r#"{"Name":[]}"#),
                refused(r#"{"Node":true}"#),
                refused(r#"{"Behavior":5}"#),
                refused(r#"{"NodeChecks":"x"}"#),
                refused(r#"{"NodeChecks":[5]}"#),
                refused(r#"{"ServiceChecks":["x"]}"#),
                refused(r#"{"ServiceChecks":"x"}"#),
            ],
        ),
        script(
            "unknown members, null and what follows the first value are passed over",
            [
                session("a", r#"{"Bogus":{"x":1},"Name":"a"}"#),
                session("b", "null"),
                session("c", r#"{"Name":"c"} and more"#),
                session("d", r#"{"ID":"11111111-1111-1111-1111-111111111111"}"#),
                get("/v1/session/info/{a}"),
                get("/v1/session/info/{c}"),
                get("/v1/session/info/{d}"),
            ],
        ),
        script(
            "the names of members may be in any case",
            [
                session(
                    "s",
                    r#"{"name":"n","TTl":"10s","lockdelay":"1s","behaviOR":"delete","nodechecks":[]}"#,
                ),
                get("/v1/session/info/{s}"),
            ],
        ),
    ]
}
