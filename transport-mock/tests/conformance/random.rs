//! Scripts that are drawn from a seed, over few keys and sessions so that they often meet.

use crate::script::{
    Script, Step, delete, get, peek, plain_session, put, script, session, start, txn,
};

/// How many scripts are run, from the seeds 0, 1, ….
pub(crate) const SEEDS: u32 = 40;

const STEPS: usize = 60;
const QUERIES: usize = 2;
const KEYS: [&str; 8] = [
    "a",
    "ab",
    "a/b",
    "a/b/c",
    "a/c",
    "b",
    "b/a",
    "b/longer/path",
];
const PREFIXES: [&str; 7] = ["a", "a/", "a/b", "a/b/", "b/", "b/longer/", "c/"];
const SESSIONS: [&str; 3] = ["{s}", "{t}", "{u}"];
const VALUES: [&str; 3] = ["one", "two", ""];
const VALUES_BASE64: [&str; 3] = ["b25l", "dHdv", ""];

/// The script of a seed.
pub(crate) fn script_of(seed: u32) -> Script {
    let mut draw = Draw(fastrand::Rng::with_seed(seed.into()));
    // Two keys that stay make the script's own branch of the agent's tree, which other scripts'
    // keys then can't touch.
    let mut steps = vec![
        put("/v1/kv/{p}/0", "stays"),
        put("/v1/kv/{p}/z", "stays"),
        plain_session("s"),
        session_with_delete(),
        session("u", r#"{"NodeChecks":[],"LockDelay":"60s"}"#),
        get("/v1/kv/{p}/0").saving_modify_index("i"),
    ];
    for _ in 0..QUERIES {
        for _ in 0..STEPS / QUERIES {
            let step = draw.step();
            steps.push(step);
        }
        let target = draw.read();
        let blocking = if target.contains('?') { "&" } else { "?" };
        steps.push(get(&target).saving_index("x"));
        steps.push(start(
            "q",
            &format!("{target}{blocking}index={{x}}&wait=5s"),
        ));
        let write = draw.write();
        steps.push(write);
        steps.push(peek("q"));
    }
    steps.push(get("/v1/kv/{p}/?recurse"));
    script(
        Box::leak(format!("the random script of seed {seed}").into_boxed_str()),
        steps,
    )
}

struct Draw(fastrand::Rng);

impl Draw {
    fn step(&mut self) -> Step {
        match self.0.u8(..10) {
            0..2 => get(&self.read()),
            2 => get(&format!("/v1/kv/{{p}}/{}", self.key())).saving_modify_index("i"),
            3 => self.txn(),
            4 => get(&format!("/v1/session/info/{}", self.session())),
            _ => self.write(),
        }
    }

    fn read(&mut self) -> String {
        let (key, prefix) = (self.key(), self.prefix());
        match self.0.u8(..5) {
            0 => format!("/v1/kv/{{p}}/{key}"),
            1 => format!("/v1/kv/{{p}}/{key}?raw"),
            2 => format!("/v1/kv/{{p}}/{prefix}?keys"),
            3 => format!("/v1/kv/{{p}}/{prefix}?keys&separator=/"),
            _ => format!("/v1/kv/{{p}}/{prefix}?recurse"),
        }
    }

    fn write(&mut self) -> Step {
        let key = format!("/v1/kv/{{p}}/{}", self.key());
        let (session, value) = (self.session(), self.value());
        match self.0.u8(..16) {
            0..3 => put(&key, value),
            3 => put(&format!("{key}?flags=3"), value),
            4 => put(&format!("{key}?cas=0"), value),
            5 => put(&format!("{key}?cas={{i}}"), value),
            6..9 => put(&format!("{key}?acquire={session}"), value),
            9 => put(&format!("{key}?release={session}"), value),
            10 => delete(&key),
            11 => delete(&format!("{key}?cas={{i}}")),
            12 => delete(&format!("/v1/kv/{{p}}/{}?recurse", self.prefix())),
            13 => put(&format!("/v1/session/destroy/{session}"), ""),
            14 => match session {
                "{s}" => plain_session("s"),
                "{t}" => session_with_delete(),
                _ => put(&format!("/v1/session/renew/{session}"), ""),
            },
            _ => self.txn(),
        }
    }

    fn txn(&mut self) -> Step {
        let operations: Vec<_> = (0..self.0.usize(1..5)).map(|_| self.operation()).collect();
        txn(&format!("[{}]", operations.join(",")))
    }

    fn operation(&mut self) -> String {
        let verbs = [
            "set",
            "set",
            "cas",
            "cas",
            "lock",
            "lock",
            "unlock",
            "get",
            "get-tree",
            "delete",
            "delete-cas",
            "delete-tree",
            "check-index",
            "check-session",
            "check-not-exists",
        ];
        let verb = verbs[self.0.usize(..verbs.len())];
        let key = if verb.ends_with("tree") {
            self.prefix()
        } else {
            self.key()
        };
        let index = ["0", "{i}"][self.0.usize(..2)];
        let session = ["", self.session()][self.0.usize(..2)];
        let value = VALUES_BASE64[self.0.usize(..VALUES_BASE64.len())];
        format!(
            r#"{{"KV":{{"Verb":"{verb}","Key":"{{p}}/{key}","Index":{index},"Session":"{session}","Value":"{value}"}}}}"#
        )
    }

    fn key(&mut self) -> &'static str {
        KEYS[self.0.usize(..KEYS.len())]
    }

    fn prefix(&mut self) -> &'static str {
        PREFIXES[self.0.usize(..PREFIXES.len())]
    }

    fn session(&mut self) -> &'static str {
        SESSIONS[self.0.usize(..SESSIONS.len())]
    }

    fn value(&mut self) -> &'static str {
        VALUES[self.0.usize(..VALUES.len())]
    }
}

fn session_with_delete() -> Step {
    session(
        "t",
        r#"{"NodeChecks":[],"LockDelay":"0s","Behavior":"delete"}"#,
    )
}
