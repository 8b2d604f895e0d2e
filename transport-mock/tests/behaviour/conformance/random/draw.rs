//! Random choices that all scripts share.

/// A node without an agent, and its check.
pub(super) const STRANGER: &str = "n";
pub(super) const NODE_CHECK: &str = "disk";

/// The variables that stand for a script's sessions. Some sessions are never created.
pub(super) const SESSIONS: [&str; 4] = ["s", "t", "u", "v"];

const SESSION_IDS: [&str; 4] = ["{s}", "{t}", "{u}", "{v}"];
const KEYS: [&str; 9] = [
    "a",
    "a/b",
    "ab",
    "a/b/c",
    "a/c",
    "b",
    "b/a",
    "b/longer/path",
    "c",
];
const PREFIXES: [&str; 9] = [
    "",
    "a",
    "a/",
    "a/b",
    "a/b/",
    "b/",
    "b/longer/",
    "c/",
    "a/b/c/d",
];
const ODD_KEYS: &[&str] = &[
    "",
    "a/",
    "a/b/",
    "a%20b",
    "a+b",
    "a%2Fb",
    "a%2fb%2F",
    "%C3%BC",
    "%c3",
    "%FF",
    "%00",
    "a%00b",
    "a%0Ab",
    "a%22b",
    "a%5Cb",
    "a%3Fb",
    "a%23b",
    "a%25b",
    "%3C%26%3E",
    "%E2%80%A8",
    "%7F",
    "%F0%9F%90%99",
    "a//b",
    "/a",
    "./a",
    "a/.",
    "a/..",
    "a/../b",
    "..",
    ".",
    ".lock",
    "a%2F%2Fb",
    "%2Fa",
    "a/%2E%2E/b",
    "~!*'()",
    "a:b@c",
    "a=b&c",
    "a,b;c",
    "[a]",
    "|^`",
    "{{}}",
];
const ODD_IDS: &[&str] = &[
    "",
    "x",
    "11111111-1111-1111-1111-111111111111",
    "aaaaaaaa-AAAA-aaaa-AAAA-aaaaaaaaaaaa",
    "111111111111111111111111111111111111",
    "1111111111111111111111111111111111",
    "1111-1111-1111-1111-1111-11111111111",
    "gggggggg-1111-1111-1111-111111111111",
    "11111111-1111-1111-1111-11111111111%C3%BC",
    "-11111111111111111111111111111-1-1-1",
    "{s}x",
    "{p}",
];
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "5",
    "007",
    "18446744073709551615",
    "16210313421097356768",
];
const BAD_NUMBERS: &[&str] = &[
    "",
    "x",
    "-1",
    "%2B1",
    "+1",
    "1.0",
    "1e3",
    "0x10",
    "1_000",
    "%201",
    "18446744073709551616",
    "%C3%BC",
    "%22",
];
const ODD_PARAMETERS: &[&str] = &[
    "stale",
    "consistent",
    "stale&consistent",
    "stale=false",
    "pretty",
    "pretty=false",
    "dc=dc1",
    "dc=elsewhere",
    "ns",
    "ns=",
    "ns=x",
    "token=anything",
    "index",
    "index=0",
    "index=x",
    "index=-1",
    "index=18446744073709551616",
    "index=1&wait=1s",
    "wait",
    "wait=10",
    "wait=x",
    "wait=-1s",
    "wait=1x",
    "wait=1h",
    "wait=0s",
    "index=0&index=5",
    "bogus",
    "near=x",
    "recurse",
    "raw",
    "keys",
    "separator=/",
    "flags=x",
    "cas=x",
    "recurse=false",
];

/// Draws from a seed.
pub(super) struct Draw {
    rng: fastrand::Rng,
    keys: usize,
}

impl Draw {
    pub(super) fn of(seed: u64) -> Self {
        Self {
            rng: fastrand::Rng::with_seed(seed),
            keys: KEYS.len(),
        }
    }

    /// Uses only this many keys.
    pub(super) fn limit_keys(&mut self, keys: usize) {
        self.keys = keys.min(KEYS.len());
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        self.rng.usize(..end)
    }

    pub(super) fn between(&mut self, from: usize, to: usize) -> usize {
        self.rng.usize(from..=to)
    }

    pub(super) fn chance(&mut self, probability: f64) -> bool {
        self.rng.f64() < probability
    }

    pub(super) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    pub(super) fn key(&mut self) -> &'static str {
        if self.chance(0.03) {
            self.odd_key()
        } else {
            self.usual_key()
        }
    }

    pub(super) fn usual_key(&mut self) -> &'static str {
        KEYS[self.rng.usize(..self.keys)]
    }

    pub(super) fn odd_key(&mut self) -> &'static str {
        self.one_of(ODD_KEYS)
    }

    /// A key that JSON can show without escapes.
    pub(super) fn plain_key(&mut self) -> &'static str {
        if self.chance(0.03) {
            self.one_of(&[
                "",
                "/",
                "a//b",
                "../a",
                "\\u00fc",
                "ü",
                "\\n",
                "<&>",
                "\\u2028",
                "\\\"",
                "\\\\",
                "a\\u0000b",
                "🐙",
            ])
        } else {
            self.usual_key()
        }
    }

    pub(super) fn prefix(&mut self) -> &'static str {
        self.one_of(&PREFIXES)
    }

    /// A session's id. Mostly the session was created; it may have ended since.
    pub(super) fn session(&mut self) -> &'static str {
        if self.chance(0.05) {
            self.one_of(ODD_IDS)
        } else {
            self.one_of(&SESSION_IDS)
        }
    }

    pub(super) fn value(&mut self) -> Vec<u8> {
        match self.below(200) {
            0 => vec![b'x'; 512 * 1024],
            1 => vec![b'x'; 512 * 1024 + 1],
            2..8 => vec![b'y'; 3000],
            8..20 => vec![0, 255, 128, 10, 13, 34],
            20..50 => Vec::new(),
            50..60 => b"{\"Limit\":1,\"Holders\":{}}".to_vec(),
            60..120 => b"one".to_vec(),
            _ => b"two".to_vec(),
        }
    }

    /// A number for a query, which may be an index.
    pub(super) fn number(&mut self) -> &'static str {
        match self.below(12) {
            0 => self.one_of(BAD_NUMBERS),
            1..6 => self.one_of(&["0", "{i}", "{j}"]),
            _ => self.one_of(NUMBERS),
        }
    }

    pub(super) fn flags(&mut self) -> &'static str {
        match self.below(12) {
            0 => self.one_of(BAD_NUMBERS),
            _ => self.one_of(NUMBERS),
        }
    }

    /// The target, with one more parameter by chance.
    pub(super) fn with_perhaps_a_parameter(&mut self, target: &str) -> String {
        if self.chance(0.05) {
            self.with_odd_parameter(target)
        } else {
            target.to_owned()
        }
    }

    pub(super) fn with_odd_parameter(&mut self, target: &str) -> String {
        let and = if target.contains('?') { '&' } else { '?' };
        format!("{target}{and}{}", self.one_of(ODD_PARAMETERS))
    }

    /// A JSON body that is cut short, or that contains something else in one place.
    pub(super) fn malformed(&mut self, mut body: String) -> String {
        let places: Vec<usize> = body.char_indices().map(|(at, _)| at).collect();
        let at = self.one_of(&places);
        if self.chance(0.5) {
            body.truncate(at);
        } else {
            body.insert_str(
                at,
                self.one_of(&["x", "\"", "{", "]", ",", "0", "\\", "\n"]),
            );
        }
        body
    }
}
