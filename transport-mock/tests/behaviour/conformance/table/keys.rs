//! Reading keys, and the indexes of reads.

use crate::script::{Script, delete, get, plain_session, put, script};

pub(crate) fn scripts() -> Vec<Script> {
    vec![
        script(
            "a missing key is an empty 404 with an index to wait on",
            [
                get("/v1/kv/{p}/missing").without_index(),
                get("/v1/kv/{p}/missing?raw").without_index(),
                get("/v1/kv/{p}/?recurse").without_index(),
                get("/v1/kv/{p}/?keys").without_index(),
            ],
        ),
        script(
            "a key is shown with its indexes, and with its session only when it is held",
            [
                plain_session("s"),
                put("/v1/kv/{p}/k?flags=42", "value"),
                get("/v1/kv/{p}/k"),
                put("/v1/kv/{p}/k?acquire={s}&flags=43", "held"),
                get("/v1/kv/{p}/k"),
                get("/v1/kv/{p}/?recurse"),
            ],
        ),
        script(
            "an entry's JSON has the agent's order and spacing",
            [
                plain_session("s"),
                put("/v1/kv/{p}/k?acquire={s}", "v<&>"),
                put("/v1/kv/{p}/a%3c%26%3e%22%5c", "v"),
                get("/v1/kv/{p}/?recurse&pretty"),
                get("/v1/kv/{p}/?keys&pretty"),
            ],
        ),
        script(
            "a raw read is the value itself, as bytes",
            [
                put("/v1/kv/{p}/text", "plain"),
                put("/v1/kv/{p}/empty", ""),
                put("/v1/kv/{p}/bytes", [0xff, 0x00, 0xfe]),
                get("/v1/kv/{p}/text?raw"),
                get("/v1/kv/{p}/empty?raw"),
                get("/v1/kv/{p}/bytes?raw"),
                get("/v1/kv/{p}/bytes"),
                get("/v1/kv/{p}/text?recurse&raw"),
            ],
        ),
        script(
            "an empty value is null",
            [put("/v1/kv/{p}/k", ""), get("/v1/kv/{p}/k")],
        ),
        script(
            "a recursive read lists by key and includes what only begins alike",
            [
                put("/v1/kv/{p}/db/b", "1"),
                put("/v1/kv/{p}/db/a", "2"),
                put("/v1/kv/{p}/db", "3"),
                put("/v1/kv/{p}/db2/c", "4"),
                get("/v1/kv/{p}/db?recurse"),
                get("/v1/kv/{p}/db/?recurse"),
                get("/v1/kv/{p}/db/?recurse=false"),
            ],
        ),
        script(
            "names are listed whole or cut after the first separator",
            [
                put("/v1/kv/{p}/a", "1"),
                put("/v1/kv/{p}/b/c", "2"),
                put("/v1/kv/{p}/b/d", "3"),
                put("/v1/kv/{p}/e--f", "4"),
                get("/v1/kv/{p}/?keys"),
                get("/v1/kv/{p}/?keys&separator=/"),
                get("/v1/kv/{p}/?keys&seperator=/"),
                get("/v1/kv/{p}/?keys&separator=--"),
                get("/v1/kv/{p}/?keys&separator="),
                get("/v1/kv/{p}?keys&separator=/"),
                get("/v1/kv/{p}/b?keys&separator=/"),
            ],
        ),
        script(
            "a key's index is its ModifyIndex, a prefix's that of its youngest entry",
            [
                put("/v1/kv/{p}/a", "1"),
                put("/v1/kv/{p}/b", "2"),
                get("/v1/kv/{p}/a"),
                get("/v1/kv/{p}/b"),
                get("/v1/kv/{p}/?recurse"),
                put("/v1/kv/{p}/a", "3"),
                get("/v1/kv/{p}/?recurse"),
                get("/v1/kv/{p}/?keys"),
            ],
        ),
        script(
            "an unrelated write does not move a prefix's index",
            [
                put("/v1/kv/{p}/x/a", "1"),
                get("/v1/kv/{p}/x/?recurse"),
                put("/v1/kv/{p}/y/a", "1"),
                get("/v1/kv/{p}/x/?recurse"),
                get("/v1/kv/{p}/x/a"),
            ],
        ),
        script(
            "a missing prefix has the index of the last write to any key",
            [
                put("/v1/kv/{p}/y/a", "1"),
                get("/v1/kv/{p}/x/?recurse"),
                get("/v1/kv/{p}/x/a"),
                put("/v1/kv/{p}/y/a", "2"),
                get("/v1/kv/{p}/x/?recurse"),
                get("/v1/kv/{p}/x/a"),
            ],
        ),
        script(
            "a deletion moves the index of its prefix forward, by the tombstone",
            [
                put("/v1/kv/{p}/x/a", "1"),
                put("/v1/kv/{p}/x/b", "1"),
                delete("/v1/kv/{p}/x/a"),
                get("/v1/kv/{p}/x/?recurse"),
                put("/v1/kv/{p}/y", "1"),
                get("/v1/kv/{p}/x/?recurse"),
                get("/v1/kv/{p}/x/a"),
            ],
        ),
        script(
            "an emptied prefix keeps the index of its last deletion",
            [
                put("/v1/kv/{p}/x/a", "1"),
                delete("/v1/kv/{p}/x/a"),
                get("/v1/kv/{p}/x/?recurse"),
                put("/v1/kv/{p}/y", "1"),
                get("/v1/kv/{p}/x/?recurse"),
                get("/v1/kv/{p}/x/a"),
                put("/v1/kv/{p}/x/b", "1"),
                get("/v1/kv/{p}/x/?recurse"),
            ],
        ),
        script(
            "a recursive deletion leaves one tombstone, at the prefix it was given",
            [
                put("/v1/kv/{p}/x/deep/a", "1"),
                put("/v1/kv/{p}/x/deep/b", "1"),
                delete("/v1/kv/{p}/x/?recurse"),
                put("/v1/kv/{p}/y", "1"),
                get("/v1/kv/{p}/x/?recurse"),
                get("/v1/kv/{p}/x/deep/?recurse"),
            ],
        ),
        script(
            "reads check their parameters",
            [
                get("/v1/kv/{p}/k?index=x"),
                get("/v1/kv/{p}/k?index=-1"),
                get("/v1/kv/{p}/k?index=99999999999999999999"),
                get("/v1/kv/{p}/k?wait=x"),
                get("/v1/kv/{p}/k?wait=10"),
                get("/v1/kv/{p}/k?index=x&wait=x"),
                get("/v1/kv/{p}/k?stale&consistent"),
                get("/v1/kv/{p}/k?stale&consistent&index=x"),
                get("/v1/kv/{p}/k?dc=elsewhere"),
                get("/v1/kv/{p}/k?ns=team"),
                get("/v1/kv/{p}/k?ns=").without_index(),
                get("/v1/kv/{p}/k?index=&wait=&dc=").without_index(),
                get("/v1/kv/{p}/?recurse&ns=team"),
                get("/v1/kv/{p}/?keys&ns=team"),
            ],
        ),
        script(
            "stale and consistent reads answer the same with one server",
            [
                put("/v1/kv/{p}/k", "v"),
                get("/v1/kv/{p}/k?stale"),
                get("/v1/kv/{p}/k?consistent"),
                get("/v1/kv/{p}/k?cached"),
                get("/v1/kv/{p}/k?dc=dc1"),
            ],
        ),
        script(
            "a token means nothing where access control is off",
            [
                put("/v1/kv/{p}/k", "v").with_token("whatever"),
                get("/v1/kv/{p}/k").with_token("whatever"),
                get("/v1/kv/{p}/k?token=other"),
            ],
        ),
        script(
            "the root needs a key, unless it is read recursively",
            [
                get("/v1/kv/"),
                get("/v1/kv/?raw"),
                put("/v1/kv/", "x"),
                delete("/v1/kv/"),
            ],
        ),
    ]
}
