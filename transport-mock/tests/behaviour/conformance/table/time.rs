//! Scripts that take time: sessions expire, and lock delays pass. The real agent runs these side by
//! side, so they leave out the indexes that other scripts' writes move.

use crate::script::{
    Script, get, pass, plain_session, put, script, session, start, still_waits, wakes,
};

pub(crate) fn scripts() -> Vec<Script> {
    vec![
        script(
            "a session lives past its TTL and ends before twice its TTL and a bit",
            [
                session("s", r#"{"NodeChecks":[],"TTL":"10s","LockDelay":"0s"}"#),
                put("/v1/kv/{p}/k?acquire={s}", "v"),
                pass(18.0),
                get("/v1/session/info/{s}").without_index(),
                get("/v1/kv/{p}/k"),
                pass(3.5),
                get("/v1/session/info/{s}").without_index(),
                get("/v1/kv/{p}/k"),
                put("/v1/session/renew/{s}", ""),
                put("/v1/kv/{p}/k?acquire={s}", "v"),
            ],
        ),
        script(
            "a renewal starts the time anew",
            [
                session("s", r#"{"NodeChecks":[],"TTL":"10s"}"#),
                pass(8.0),
                put("/v1/session/renew/{s}", ""),
                pass(15.0),
                get("/v1/session/info/{s}").without_index(),
                put("/v1/session/renew/{s}", ""),
            ],
        ),
        script(
            "reading a session does not renew it",
            [
                session("s", r#"{"NodeChecks":[],"TTL":"10s"}"#),
                pass(12.0),
                get("/v1/session/info/{s}").without_index(),
                get("/v1/session/list").without_index(),
                put("/v1/kv/{p}/k?acquire={s}", "v"),
                pass(9.5),
                get("/v1/session/info/{s}").without_index(),
            ],
        ),
        script(
            "the expiry of a session wakes the queries on its keys",
            [
                session("s", r#"{"NodeChecks":[],"TTL":"10s","Behavior":"delete"}"#),
                put("/v1/kv/{p}/x/{s}?acquire={s}", "v"),
                put("/v1/kv/{p}/x/.lock", "v"),
                get("/v1/kv/{p}/x/?recurse").saving_index("i"),
                start("q", "/v1/kv/{p}/x/?recurse&index={i}&wait=60s"),
                pass(18.0),
                still_waits("q"),
                pass(3.5),
                wakes("q"),
            ],
        ),
        script(
            "an expired session leaves its lock delay behind",
            [
                session("s", r#"{"NodeChecks":[],"TTL":"10s","LockDelay":"4s"}"#),
                plain_session("t"),
                put("/v1/kv/{p}/k?acquire={s}", "v"),
                pass(21.5),
                put("/v1/kv/{p}/k?acquire={t}", "w"),
                pass(4.0),
                put("/v1/kv/{p}/k?acquire={t}", "w"),
                get("/v1/kv/{p}/k"),
            ],
        ),
        script(
            "a lock delay of a second is over after a second",
            [
                session("s", r#"{"NodeChecks":[],"LockDelay":"1s"}"#),
                plain_session("t"),
                put("/v1/kv/{p}/k?acquire={s}", "v"),
                put("/v1/session/destroy/{s}", ""),
                put("/v1/kv/{p}/k?acquire={t}", "w"),
                pass(1.5),
                put("/v1/kv/{p}/k?acquire={t}", "w"),
                get("/v1/kv/{p}/k"),
            ],
        ),
        script(
            "the default lock delay is fifteen seconds",
            [
                session("s", r#"{"NodeChecks":[]}"#),
                plain_session("t"),
                put("/v1/kv/{p}/k?acquire={s}", "v"),
                put("/v1/session/destroy/{s}", ""),
                pass(13.0),
                put("/v1/kv/{p}/k?acquire={t}", "w"),
                pass(3.0),
                put("/v1/kv/{p}/k?acquire={t}", "w"),
                get("/v1/kv/{p}/k"),
            ],
        ),
    ]
}
