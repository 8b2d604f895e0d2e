//! The members of a session's creation body, in all their forms.

/// The members. One of them does not exist.
pub(super) const ALL: [&str; 9] = [
    "Name",
    "Node",
    "Behavior",
    "TTL",
    "LockDelay",
    "NodeChecks",
    "Checks",
    "ServiceChecks",
    "Bogus",
];

type Forms = &'static [&'static str];

/// The forms of a member that can be decoded, whether accepted or not, and those that can't.
pub(super) fn forms_of(name: &str) -> (Forms, Forms) {
    match name {
        "Name" => (NAMES, TYPES_BUT_TEXT),
        "Node" => (NODES, TYPES_BUT_TEXT),
        "Behavior" => (BEHAVIORS, TYPES_BUT_TEXT),
        "TTL" => (TTLS, TYPES_BUT_TEXT),
        "LockDelay" => (LOCK_DELAYS, BAD_LOCK_DELAYS),
        "NodeChecks" | "Checks" => (CHECKS, BAD_CHECKS),
        "ServiceChecks" => (SERVICE_CHECKS, BAD_SERVICE_CHECKS),
        _ => (ANYTHING, &[]),
    }
}

const ANYTHING: Forms = &["1", "null", r#"{"TTL":"10s"}"#, "[[]]", r#""x""#];

const TYPES_BUT_TEXT: Forms = &["5", "true", "[]", "{}"];

const NAMES: Forms = &[r#""n""#, r#""ü<&>""#, r#""""#, "null", r#""\u0000\n""#];

const NODES: Forms = &[
    r#""mock""#,
    r#""mock""#,
    r#""mock""#,
    r#""MOCK""#,
    r#""{p}-n""#,
    r#""{p}-n""#,
    r#""nowhere""#,
    r#""""#,
    "null",
];

const BEHAVIORS: Forms = &[
    r#""release""#,
    r#""delete""#,
    r#""delete""#,
    r#""""#,
    "null",
    r#""DELETE""#,
    r#""keep""#,
];

const TTLS: Forms = &[
    r#""10s""#,
    r#""24h""#,
    r#""24h0m0s""#,
    r#""1h30m""#,
    r#""86400s""#,
    r#""10000ms""#,
    r#""10000000us""#,
    r#""10000000µs""#,
    r#""10000000000ns""#,
    r#""1e3s""#,
    r#""+20s""#,
    r#""15.5s""#,
    r#"".5h""#,
    r#""20.s""#,
    r#""""#,
    r#""0""#,
    r#""0s""#,
    r#""-0s""#,
    r#""9s""#,
    r#""9.9999999999s""#,
    r#""25h""#,
    r#""-10s""#,
    r#""10""#,
    r#""abc""#,
    r#"" 10s""#,
    r#""10S""#,
    r#""10ü""#,
    r#""9999999999999h""#,
    r#""99999999999999999999s""#,
    "null",
];

const LOCK_DELAYS: Forms = &[
    r#""0s""#,
    r#""60s""#,
    r#""1h""#,
    r#""15s""#,
    r#""100h""#,
    r#""-5s""#,
    r#""500ns""#,
    r#""1000ns""#,
    r#""1.5h""#,
    r#""0""#,
    "0",
    "60",
    "999",
    "1000",
    "60000000000",
    "1e3",
    "1.5",
    "-5",
    "null",
    "true",
    "[]",
    "{}",
];

const BAD_LOCK_DELAYS: Forms = &[r#""10""#, r#""""#, r#""x""#];

const CHECKS: Forms = &[
    "[]",
    "[]",
    "null",
    r#"["serfHealth"]"#,
    r#"["serfHealth","serfHealth"]"#,
    r#"["nothing"]"#,
    r#"["serfHealth","nothing"]"#,
    r#"["disk"]"#,
    r#"["disk","serfHealth","disk"]"#,
    r#"["SERFHEALTH"]"#,
    r#"["DISK"]"#,
    r#"[""]"#,
    "[null]",
    r#"["disk",null]"#,
];

const BAD_CHECKS: Forms = &["[5]", "5", r#""serfHealth""#, "{}"];

const SERVICE_CHECKS: Forms = &[
    "[]",
    "null",
    r#"[{"ID":"nothing"}]"#,
    r#"[{"ID":"serfHealth"}]"#,
    r#"[{"ID":"serfHealth","Namespace":"x"}]"#,
    r#"[{"ID":"disk"}]"#,
    "[{}]",
    "[null]",
];

const BAD_SERVICE_CHECKS: Forms = &[r#"["serfHealth"]"#, "5", "{}"];
