//! Writing and deleting keys without a session.

use crate::script::{Script, delete, get, put, script};

pub(crate) fn scripts() -> Vec<Script> {
    vec![
        script(
            "a write that changes nothing moves no index",
            [
                put("/v1/kv/{p}/k", "v"),
                get("/v1/kv/{p}/k"),
                put("/v1/kv/{p}/k", "v"),
                get("/v1/kv/{p}/k"),
                put("/v1/kv/{p}/k?flags=1", "v"),
                get("/v1/kv/{p}/k"),
            ],
        ),
        script(
            "a plain write resets the flags it does not give",
            [
                put("/v1/kv/{p}/k?flags=7", "v"),
                put("/v1/kv/{p}/k", "w"),
                get("/v1/kv/{p}/k"),
            ],
        ),
        script(
            "flags take 64 bits",
            [
                put("/v1/kv/{p}/k?flags=16210313421097356768", "v"),
                get("/v1/kv/{p}/k"),
                put("/v1/kv/{p}/k?flags=18446744073709551615", "v"),
                get("/v1/kv/{p}/k"),
            ],
        ),
        script(
            "cas=0 creates and never overwrites",
            [
                put("/v1/kv/{p}/k?cas=0", "v"),
                put("/v1/kv/{p}/k?cas=0", "w"),
                get("/v1/kv/{p}/k"),
            ],
        ),
        script(
            "cas writes at the right index only and answers true or false",
            [
                put("/v1/kv/{p}/k?cas=1", "v"),
                put("/v1/kv/{p}/k", "v"),
                get("/v1/kv/{p}/k").saving_modify_index("i"),
                put("/v1/kv/{p}/k?cas={i}", "w"),
                put("/v1/kv/{p}/k?cas={i}", "x"),
                get("/v1/kv/{p}/k"),
            ],
        ),
        script(
            "cas with the value that is there succeeds and moves nothing",
            [
                put("/v1/kv/{p}/k", "v"),
                get("/v1/kv/{p}/k").saving_modify_index("i"),
                put("/v1/kv/{p}/k?cas={i}", "v"),
                get("/v1/kv/{p}/k"),
                put("/v1/kv/{p}/k?cas={i}", "w"),
                get("/v1/kv/{p}/k"),
            ],
        ),
        script(
            "cas after a deletion and a new creation is stale",
            [
                put("/v1/kv/{p}/k", "v"),
                get("/v1/kv/{p}/k").saving_modify_index("i"),
                delete("/v1/kv/{p}/k"),
                put("/v1/kv/{p}/k?cas={i}", "w"),
                put("/v1/kv/{p}/k?cas=0", "w"),
                put("/v1/kv/{p}/k?cas={i}", "x"),
                get("/v1/kv/{p}/k"),
            ],
        ),
        script(
            "cas and flags that are no numbers are a 500 in Go's words",
            [
                put("/v1/kv/{p}/k?cas=x", "v"),
                put("/v1/kv/{p}/k?cas=", "v"),
                put("/v1/kv/{p}/k?cas=-1", "v"),
                put("/v1/kv/{p}/k?cas=%201", "v"),
                put("/v1/kv/{p}/k?cas=99999999999999999999999", "v"),
                put("/v1/kv/{p}/k?flags=x", "v"),
                put("/v1/kv/{p}/k?flags=%22", "v"),
                put("/v1/kv/{p}/k?flags=x&cas=y", "v"),
                delete("/v1/kv/{p}/k?cas=x"),
                get("/v1/kv/{p}/k").without_index(),
            ],
        ),
        script(
            "parameters that exclude each other are a 400 that lists them",
            [
                put("/v1/kv/{p}/k?cas=1&acquire=x", "v"),
                put("/v1/kv/{p}/k?release=y&acquire=x+y", "v"),
                put("/v1/kv/{p}/k?release=%3c&cas", "v"),
                delete("/v1/kv/{p}/k?recurse&cas=1"),
            ],
        ),
        script(
            "writes check the parameters of reads, too",
            [
                put("/v1/kv/{p}/k?index=x", "v"),
                put("/v1/kv/{p}/k?stale&consistent", "v"),
                delete("/v1/kv/{p}/k?wait=x"),
                put("/v1/kv/{p}/k?dc=elsewhere", "v"),
                delete("/v1/kv/{p}/k?dc=elsewhere"),
                put("/v1/kv/{p}/k?ns=team", "v"),
                delete("/v1/kv/{p}/k?ns=team"),
                get("/v1/kv/{p}/k").without_index(),
            ],
        ),
        script(
            "a deletion answers true, whether or not there was a key",
            [
                put("/v1/kv/{p}/k", "v"),
                delete("/v1/kv/{p}/k"),
                delete("/v1/kv/{p}/k"),
                get("/v1/kv/{p}/k"),
            ],
        ),
        script(
            "a deletion by cas answers false for another index, true for a missing key",
            [
                put("/v1/kv/{p}/k", "v"),
                get("/v1/kv/{p}/k").saving_modify_index("i"),
                delete("/v1/kv/{p}/k?cas=1"),
                delete("/v1/kv/{p}/k?cas=0"),
                get("/v1/kv/{p}/k"),
                delete("/v1/kv/{p}/k?cas={i}"),
                get("/v1/kv/{p}/k"),
                delete("/v1/kv/{p}/k?cas={i}"),
                delete("/v1/kv/{p}/k?cas=0"),
            ],
        ),
        script(
            "a recursive deletion takes everything that begins alike",
            [
                put("/v1/kv/{p}/db/a", "1"),
                put("/v1/kv/{p}/db2", "1"),
                put("/v1/kv/{p}/other", "1"),
                delete("/v1/kv/{p}/db?recurse"),
                get("/v1/kv/{p}/?keys"),
                delete("/v1/kv/{p}/nothing/?recurse"),
                get("/v1/kv/{p}/?keys"),
            ],
        ),
        script(
            "a value of 512 KiB is kept, one byte more is a 413 that names both sizes",
            [
                put("/v1/kv/{p}/k", vec![b'x'; 512 * 1024]),
                put("/v1/kv/{p}/k", vec![b'x'; 512 * 1024 + 1]),
                put("/v1/kv/{p}/k?cas=y", vec![b'x'; 512 * 1024 + 1]),
                get("/v1/kv/{p}/k?raw"),
                delete("/v1/kv/{p}/k"),
            ],
        ),
        script(
            "a key that is created again has a new CreateIndex and no lock history",
            [
                put("/v1/kv/{p}/k", "v"),
                get("/v1/kv/{p}/k"),
                delete("/v1/kv/{p}/k"),
                put("/v1/kv/{p}/k", "v"),
                get("/v1/kv/{p}/k"),
            ],
        ),
    ]
}
