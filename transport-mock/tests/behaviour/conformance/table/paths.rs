//! Paths, queries, methods and the small endpoints.

use crate::script::{Script, delete, get, put, script};

pub(crate) fn scripts() -> Vec<Script> {
    vec![
        script(
            "a path that is not clean is redirected to the clean one",
            [
                get("/v1/kv//{p}/k"),
                get("/v1/kv/{p}//k?x=1"),
                get("/v1/kv/{p}/./k"),
                get("/v1/kv/{p}/../k"),
                get("/v1/kv/{p}/%2e%2e/k"),
                get("/v1/kv/{p}%2F%2Fk"),
                get("/v1/kv/%2F{p}"),
                get("/v1/kv/{p}/.."),
                get("/v1/kv/{p}/."),
                get("/v1/kv/{p}//"),
                get("/v1//kv/{p}"),
                get("//v1/kv/{p}"),
                get("/v1/kv/../../../x"),
            ],
        ),
        script(
            "a partition is passed over, or refused",
            [
                put("/v1/kv/{p}/k?partition=part", "v"),
                get("/v1/kv/{p}/k?partition=part"),
                get("/v1/kv/{p}/k"),
                put("/v1/session/renew/none?partition=part", ""),
            ],
        ),
        script(
            "a redirect of a write has no body",
            [
                put("/v1/kv/{p}//k?cas=1", "v"),
                delete("/v1/kv//{p}/k"),
                get("/v1/kv/{p}/k").without_index(),
            ],
        ),
        script(
            "a redirect encodes the path and keeps the query",
            [
                get("/v1/kv/a%20b//c?x=1&y=<"),
                get("/v1/kv/a%3fb//c'd"),
                get("/v1/kv//%c3%a9%25!*()"),
                get("/v1/kv//a&b=c+d,e:f;g@h$i~j"),
            ],
        ),
        script(
            "an endpoint that takes a name is redirected to its slash",
            [
                get("/v1/kv"),
                get("/v1/kv?recurse"),
                get("/v1/session/info"),
                put("/v1/session/renew?x=1", ""),
                get("/v1/session/node"),
            ],
        ),
        script(
            "keys are percent-decoded, and may hold anything",
            [
                put("/v1/kv/{p}/a%20b%3f%23%25+%c3%a9&=", "v"),
                put("/v1/kv/{p}/%3Cscript%3E%22'", "v"),
                get("/v1/kv/{p}/a%20b%3F%23%25%2B%C3%A9%26%3D"),
                get("/v1/kv/{p}/?keys"),
            ],
        ),
        script(
            "a key that is not UTF-8 is shown with its bytes replaced",
            [
                put("/v1/kv/{p}/k%ff", "v"),
                get("/v1/kv/{p}/k%ff"),
                get("/v1/kv/{p}/?keys"),
                get("/v1/kv/{p}/?keys&pretty"),
            ],
        ),
        script(
            "a path that can't be printed is an empty 400, whatever else it is",
            [
                put("/v1/kv/{p}/k%00", "v"),
                get("/v1/kv/{p}/k%0A"),
                delete("/v1/kv/{p}/k%7F"),
                put("/v1/kv/{p}/%C2%A0", "v"),
                put("/v1/kv/{p}/%C2%AD", "v"),
                put("/v1/kv/{p}/%E2%80%A8", "v"),
                put("/v1/kv/{p}/%EE%80%80", "v"),
                get("/v1/kv//{p}/%00"),
                get("/v1/nothing%00"),
                put("/v1/status/leader%00", ""),
                put("/v1/kv/{p}/e%CC%81", "v"),
                put("/v1/kv/{p}/%F0%9F%90%99%22%5C'%20", "v"),
                put("/v1/kv/{p}/k?x=%00", "v"),
                get("/v1/kv/{p}/?keys"),
            ],
        ),
        script(
            "a semicolon parts parameters as an ampersand does",
            [
                put("/v1/kv/{p}/a/k;x?flags=7;cas=0", "v"),
                get("/v1/kv/{p}/a?raw;keys"),
                get("/v1/kv/{p}/a?recurse;pretty"),
                get("/v1/kv//{p}/a?x;y"),
            ],
        ),
        script(
            "a trailing slash makes another key",
            [
                put("/v1/kv/{p}/k", "1"),
                put("/v1/kv/{p}/k/", "2"),
                get("/v1/kv/{p}/k"),
                get("/v1/kv/{p}/k/"),
                get("/v1/kv/{p}/?keys"),
            ],
        ),
        script(
            "a bad escape in the path is a 400, in the query an empty 500",
            [
                get("/v1/kv/a%zz"),
                get("/v1/kv/a%2"),
                get("/v1/kv/{p}/k?x=%zz"),
                put("/v1/kv/{p}/k?flags=%", "v"),
                put("/v1/status/leader?x=%zz", ""),
                get("/v1/nothing?x=%zz"),
            ],
        ),
        script(
            "the first of several equal parameters counts",
            [
                put("/v1/kv/{p}/k?flags=1&flags=x", "v"),
                get("/v1/kv/{p}/k"),
            ],
        ),
        script(
            "an unknown path is an empty 404, whatever the method",
            [
                get("/v1/nothing"),
                put("/v1/nothing", "x"),
                delete("/v1/session/nothing"),
                get("/v1/session/create/x"),
                get("/v1/session/list/"),
                put("/v1/txn/", "[]"),
                get("/v1"),
                get("/v1/"),
            ],
        ),
        script(
            "the wrong method is a 405 that names the right ones",
            [
                put("/v1/status/leader", ""),
                delete("/v1/status/peers"),
                get("/v1/txn"),
                delete("/v1/txn"),
                put("/v1/agent/self", ""),
            ],
        ),
        script(
            "the leader is asked for in one datacenter only",
            [
                get("/v1/status/leader?dc=elsewhere"),
                get("/v1/status/peers?dc=elsewhere"),
            ],
        ),
    ]
}
