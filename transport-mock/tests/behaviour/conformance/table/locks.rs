//! Keys that sessions hold.

use crate::script::{Script, delete, get, plain_session, put, script, session};

const UNKNOWN: &str = "11111111-1111-1111-1111-111111111111";

pub(crate) fn scripts() -> Vec<Script> {
    vec![
        script(
            "acquiring answers true to the first session and false to others",
            [
                plain_session("s"),
                plain_session("t"),
                put("/v1/kv/{p}/k?acquire={s}", "s"),
                put("/v1/kv/{p}/k?acquire={t}", "t"),
                get("/v1/kv/{p}/k"),
            ],
        ),
        script(
            "acquiring again by the holder changes the value and not the LockIndex",
            [
                plain_session("s"),
                put("/v1/kv/{p}/k?acquire={s}", "one"),
                get("/v1/kv/{p}/k"),
                put("/v1/kv/{p}/k?acquire={s}", "two"),
                get("/v1/kv/{p}/k"),
                put("/v1/kv/{p}/k?acquire={s}", "two"),
                get("/v1/kv/{p}/k"),
            ],
        ),
        script(
            "the LockIndex counts acquisitions of the unheld key",
            [
                plain_session("s"),
                plain_session("t"),
                put("/v1/kv/{p}/k?acquire={s}", "v"),
                put("/v1/kv/{p}/k?release={s}", "v"),
                get("/v1/kv/{p}/k"),
                put("/v1/kv/{p}/k?acquire={t}", "v"),
                get("/v1/kv/{p}/k"),
            ],
        ),
        script(
            "an existing key that nobody holds is acquired with LockIndex 1",
            [
                plain_session("s"),
                put("/v1/kv/{p}/k", "v"),
                put("/v1/kv/{p}/k?acquire={s}", "w"),
                get("/v1/kv/{p}/k"),
            ],
        ),
        script(
            "releasing writes its body, so that an empty one clears the value",
            [
                plain_session("s"),
                put("/v1/kv/{p}/k?acquire={s}", "v"),
                put("/v1/kv/{p}/k?release={s}", ""),
                get("/v1/kv/{p}/k"),
            ],
        ),
        script(
            "releasing by another session, twice, or of a missing key is false",
            [
                plain_session("s"),
                plain_session("t"),
                put("/v1/kv/{p}/k?release={s}", "v"),
                put("/v1/kv/{p}/k?acquire={s}", "v"),
                put("/v1/kv/{p}/k?release={t}", "v"),
                put("/v1/kv/{p}/k?release=zz", "v"),
                get("/v1/kv/{p}/k"),
                put("/v1/kv/{p}/k?release={s}", "v"),
                put("/v1/kv/{p}/k?release={s}", "v"),
            ],
        ),
        script(
            "a dead session acquires nothing: a 500 that names it",
            [
                plain_session("s"),
                put("/v1/session/destroy/{s}", ""),
                put("/v1/kv/{p}/k?acquire={s}", "v"),
                put(&format!("/v1/kv/{{p}}/k?acquire={UNKNOWN}"), "v"),
                get("/v1/kv/{p}/k").without_index(),
            ],
        ),
        script(
            "acquiring with what is no UUID, or with nothing, is a 500",
            [
                put("/v1/kv/{p}/k?acquire=zz", "v"),
                put("/v1/kv/{p}/k?acquire=", "v"),
                put("/v1/kv/{p}/k?acquire", "v"),
                put("/v1/kv/{p}/k?release=", "v"),
            ],
        ),
        script(
            "locks are advisory: a plain write goes through, keeps the session and resets the LockIndex",
            [
                plain_session("s"),
                put("/v1/kv/{p}/k?acquire={s}", "v"),
                put("/v1/kv/{p}/k", "w"),
                get("/v1/kv/{p}/k"),
                put("/v1/kv/{p}/k?acquire={s}", "x"),
                get("/v1/kv/{p}/k"),
                put("/v1/kv/{p}/k?release={s}", "x"),
                put("/v1/kv/{p}/k?acquire={s}", "x"),
                get("/v1/kv/{p}/k"),
            ],
        ),
        script(
            "a held key can be written by cas and deleted",
            [
                plain_session("s"),
                put("/v1/kv/{p}/k?acquire={s}", "v"),
                get("/v1/kv/{p}/k").saving_modify_index("i"),
                put("/v1/kv/{p}/k?cas={i}", "w"),
                get("/v1/kv/{p}/k"),
                delete("/v1/kv/{p}/k"),
                get("/v1/kv/{p}/k"),
                put("/v1/kv/{p}/k?acquire={s}", "v"),
                get("/v1/kv/{p}/k"),
            ],
        ),
        script(
            "a session that is destroyed releases its keys, whose index moves",
            [
                session("s", r#"{"NodeChecks":[],"LockDelay":"0s"}"#),
                put("/v1/kv/{p}/a?acquire={s}", "v"),
                put("/v1/kv/{p}/b?acquire={s}", "v"),
                put("/v1/kv/{p}/c", "v"),
                get("/v1/kv/{p}/?recurse"),
                put("/v1/session/destroy/{s}", ""),
                get("/v1/kv/{p}/?recurse"),
            ],
        ),
        script(
            "a session with behavior delete takes its keys along, and the index moves",
            [
                session(
                    "s",
                    r#"{"NodeChecks":[],"LockDelay":"0s","Behavior":"delete"}"#,
                ),
                put("/v1/kv/{p}/a?acquire={s}", "v"),
                put("/v1/kv/{p}/c", "v"),
                put("/v1/session/destroy/{s}", ""),
                get("/v1/kv/{p}/?recurse"),
                get("/v1/kv/{p}/a"),
            ],
        ),
        script(
            "after a destroyed session its lock delay keeps the key from being acquired, not from being written",
            [
                session("s", r#"{"NodeChecks":[],"LockDelay":"60s"}"#),
                plain_session("t"),
                put("/v1/kv/{p}/k?acquire={s}", "v"),
                put("/v1/session/destroy/{s}", ""),
                put("/v1/kv/{p}/k?acquire={t}", "w"),
                get("/v1/kv/{p}/k"),
                put("/v1/kv/{p}/k", "x"),
                put("/v1/kv/{p}/other?acquire={t}", "w"),
                get("/v1/kv/{p}/?recurse"),
            ],
        ),
        script(
            "a lock delay also guards a key that was deleted with its session",
            [
                session(
                    "s",
                    r#"{"NodeChecks":[],"LockDelay":"60s","Behavior":"delete"}"#,
                ),
                plain_session("t"),
                put("/v1/kv/{p}/k?acquire={s}", "v"),
                put("/v1/session/destroy/{s}", ""),
                put("/v1/kv/{p}/k?acquire={t}", "w"),
                get("/v1/kv/{p}/k"),
            ],
        ),
        script(
            "after a clean release another session acquires at once",
            [
                session("s", r#"{"NodeChecks":[],"LockDelay":"60s"}"#),
                plain_session("t"),
                put("/v1/kv/{p}/k?acquire={s}", "v"),
                put("/v1/kv/{p}/k?release={s}", "v"),
                put("/v1/session/destroy/{s}", ""),
                put("/v1/kv/{p}/k?acquire={t}", "w"),
                get("/v1/kv/{p}/k"),
            ],
        ),
        script(
            "during a lock delay even an unknown session gets false, not an error",
            [
                session("s", r#"{"NodeChecks":[],"LockDelay":"60s"}"#),
                put("/v1/kv/{p}/k?acquire={s}", "v"),
                put("/v1/session/destroy/{s}", ""),
                put("/v1/kv/{p}/k?acquire={s}", "v"),
                put("/v1/kv/{p}/k?acquire=zz", "v"),
            ],
        ),
    ]
}
