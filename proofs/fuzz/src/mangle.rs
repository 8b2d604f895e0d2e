//! Answers that are almost Consul's, so the fuzzer gets past the parsers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use semaphore_core::sans_io::{Response, TransportError, TransportErrorKind};
use serde_json::{Map, Value as Json, json};

use crate::choices::Choices;

/// Status codes that a client treats specially, and some that it does not.
pub(crate) const STATUSES: &[u16] = &[
    200, 404, 500, 403, 429, 503, 301, 400, 409, 413, 204, 502, 504, 408, 405, 0, 999,
];

/// The possible failures of a transport.
pub(crate) const FAILURES: &[TransportErrorKind] = &[
    TransportErrorKind::Timeout,
    TransportErrorKind::NotSent,
    TransportErrorKind::Unknown,
    TransportErrorKind::BadAnswer,
    TransportErrorKind::Misconfigured,
];

/// Sessions of any owner.
pub(crate) const SESSIONS: &[&str] = &[
    "aaaaaaaa-0000-0000-0000-000000000000",
    "bbbbbbbb-0000-0000-0000-000000000000",
    "cccccccc-0000-0000-0000-000000000000",
    "AAAAAAAA-0000-0000-0000-000000000000",
    "not a session",
    "",
];

const TEXTS: &[&str] = &[
    "",
    "null",
    "garbage",
    "<html><body>Please log in</body></html>",
    "{}",
    "[]",
    "[{}]",
    "true",
    "false",
    "truefalse",
    "No cluster leader",
    "Permission denied",
    "ACL not found",
    "invalid session \"aaaaaaaa-0000-0000-0000-000000000000\"",
    "Session id 'aaaaaaaa-0000-0000-0000-000000000000' not found",
    "rpc error making call: EOF",
    "Your IP is issuing too many concurrent connections",
    "15s",
    "0s",
    "1ns",
    "1ms",
    "10s",
    "24h0m0s",
    "584942417355h",
    "9999999999999999999999h",
    "-5s",
    "eyJMaW1",
    "bnVsbA==",
    "e30=",
    "service/db/.lock",
    "service/db/",
    "\u{0}\u{1F600}\n",
];

const NUMBERS: &[u64] = &[0, 1, 2, 3, 10, 1 << 32, u64::MAX - 1, u64::MAX];

/// An invented answer.
pub(crate) fn invent(choices: &mut Choices<'_>) -> Response {
    let status = choices.pick(STATUSES);
    let body = match choices.below(5) {
        0 => choices.bytes(64).to_vec(),
        1 => json!([list_entry(choices), list_entry(choices)])
            .to_string()
            .into(),
        2 => json!([{ "ID": choices.pick(SESSIONS), "TTL": choices.pick(TEXTS) }])
            .to_string()
            .into(),
        3 => json!({ "ID": choices.pick(SESSIONS) }).to_string().into(),
        _ => choices.pick(TEXTS).into(),
    };
    let response = Response::new(status, body);
    match choices.below(4) {
        0 => response,
        1 => response.with_header("X-Consul-Index", choices.pick(TEXTS)),
        _ => response.with_header("X-Consul-Index", choices.pick(NUMBERS).to_string()),
    }
}

/// The answer, with a change that Consul did not make.
pub(crate) fn mangle(response: &Response, choices: &mut Choices<'_>) -> Response {
    let mut status = response.status();
    let mut body = response.body().to_vec();
    let mut headers: Vec<_> = response
        .headers()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    match choices.below(8) {
        0 => status = choices.pick(STATUSES),
        1 => headers.clear(),
        2 => {
            let index = choices.pick(NUMBERS).to_string();
            headers.insert(0, ("X-Consul-Index".to_owned(), index));
        }
        3 => {
            let name = "X-Consul-Results-Filtered-By-ACLs".to_owned();
            headers.push((name, "true".to_owned()));
        }
        4 => spoil(&mut body, choices),
        _ => {
            for _ in 0..=choices.below(3) {
                twist(&mut body, choices);
            }
        }
    }
    let answer = Response::new(status, body);
    headers.into_iter().fold(answer, |answer, (name, value)| {
        answer.with_header(name, value)
    })
}

/// The result of a request that Consul answered: the answer, a similar one, a different one, or
/// none.
pub(crate) fn result(
    honest: Response,
    choices: &mut Choices<'_>,
) -> Result<Response, TransportError> {
    match choices.below(8) {
        0..=2 => Ok(honest),
        3..=5 => Ok(mangle(&honest, choices)),
        6 => Ok(invent(choices)),
        _ => Err(TransportError::new(choices.pick(FAILURES))),
    }
}

/// A value for `.lock` that is a record or almost one.
pub(crate) fn record(choices: &mut Choices<'_>) -> Vec<u8> {
    let sessions: Vec<_> = (0..choices.below(5))
        .map(|_| choices.pick(SESSIONS))
        .collect();
    let mark = choices.pick(&[Some(true), Some(false), None]);
    let map: Map<_, _> = sessions
        .iter()
        .map(|session| ((*session).to_owned(), json!(mark)))
        .collect();
    let limit = choices.pick(&[1, 2, 3, 0, u64::from(u32::MAX), u64::from(u32::MAX) + 1]);
    let mut record = match choices.below(5) {
        0 => json!({ "Limit": limit, "Holders": map }),
        1 => json!({ "Limit": limit, "Holders": sessions }),
        2 => json!({ "limit": limit, "holders": sessions }),
        3 => json!({ "Limit": limit, "Holders": null }),
        _ => json!({ "Limit": limit }),
    };
    if choices.once_in(3)
        && let Some(fields) = record.as_object_mut()
    {
        let name = choices.text(8);
        fields.insert(name, odd_value(choices));
    }
    let mut value = record.to_string().into_bytes();
    if choices.once_in(4) {
        value.push(b'\n');
    }
    if choices.once_in(4) {
        twist(&mut value, choices);
    }
    if choices.once_in(8) {
        spoil(&mut value, choices);
    }
    value
}

/// An entry of a list, below the prefix or almost.
pub(crate) fn list_entry(choices: &mut Choices<'_>) -> Json {
    let prefix = crate::PREFIX;
    let session = choices.pick(SESSIONS);
    let key = match choices.below(8) {
        0 | 1 => format!("{prefix}/.lock"),
        2 => format!("{prefix}/{}", choices.text(12)),
        3 => format!("{prefix}-2/{session}"),
        4 => format!("{prefix}/deeper/{session}"),
        5 => choices.text(16),
        _ => format!("{prefix}/{session}"),
    };
    let value = if key.ends_with("/.lock") {
        json!(STANDARD.encode(record(choices)))
    } else {
        json!(choices.pick(&[None, Some("AA=="), Some("?")]))
    };
    let tied = match choices.below(6) {
        0 => choices.pick(SESSIONS),
        1 => "",
        _ => session,
    };
    let mut entry = json!({
        "Key": key, "Value": value, "Session": tied,
        "Flags": choices.pick(&[0, semaphore_core::sans_io::api::SEMAPHORE_FLAGS, 1]),
        "LockIndex": 1, "CreateIndex": choices.below(32), "ModifyIndex": choices.below(32),
    });
    if choices.once_in(6)
        && let Some(fields) = entry.as_object_mut()
    {
        fields.remove(choices.pick(&["Session", "Value", "Flags", "ModifyIndex", "CreateIndex"]));
    }
    entry
}

/// Changes some bytes.
fn spoil(body: &mut Vec<u8>, choices: &mut Choices<'_>) {
    let at = choices.below(body.len() + 1);
    match choices.below(4) {
        0 => body.truncate(at),
        1 => {
            if let Some(byte) = body.get_mut(at) {
                *byte ^= 1 << choices.below(8);
            }
        }
        2 => {
            body.splice(at..at, choices.bytes(16).iter().copied());
        }
        _ => *body = choices.bytes(64).to_vec(),
    }
}

/// Changes one place in a JSON text. Other text stays as it is.
fn twist(body: &mut Vec<u8>, choices: &mut Choices<'_>) {
    let Ok(mut json) = serde_json::from_slice::<Json>(body) else {
        return;
    };
    let mut countdown = choices.below(count(&json));
    if let Some(node) = nth(&mut json, &mut countdown) {
        twist_node(node, choices);
    }
    *body = json.to_string().into_bytes();
}

fn twist_node(node: &mut Json, choices: &mut Choices<'_>) {
    match (choices.below(4), &mut *node) {
        (0, Json::Array(items)) if !items.is_empty() => {
            let (a, b) = (choices.below(items.len()), choices.below(items.len()));
            match choices.below(3) {
                0 => items.swap(a, b),
                1 => drop(items.remove(a)),
                _ => items.insert(b, items[a].clone()),
            }
        }
        (1, Json::Array(items)) => items.push(list_entry(choices)),
        (0, Json::Object(fields)) if !fields.is_empty() => {
            let at = choices.below(fields.len());
            let name = fields.keys().nth(at).cloned().unwrap_or_default();
            let value = fields.remove(&name);
            if choices.flag() {
                fields.insert(choices.text(8), value.unwrap_or_default());
            }
        }
        (1, Json::Object(fields)) => {
            fields.insert(choices.text(8), odd_value(choices));
        }
        // The text may be a record in base64.
        (0..=2, Json::String(text)) => match STANDARD.decode(&*text) {
            Ok(mut value) if !value.is_empty() => {
                if choices.flag() {
                    twist(&mut value, choices);
                } else {
                    value = record(choices);
                }
                *text = STANDARD.encode(value);
            }
            _ => choices.pick(SESSIONS).clone_into(text),
        },
        (0, Json::Number(number)) => {
            let near = number.as_u64().unwrap_or_default();
            *number = near.wrapping_add(choices.pick(&[1, u64::MAX, 10])).into();
        }
        _ => *node = odd_value(choices),
    }
}

fn odd_value(choices: &mut Choices<'_>) -> Json {
    match choices.below(9) {
        0 => Json::Null,
        1 => json!(choices.flag()),
        2 => json!(choices.pick(NUMBERS)),
        3 => json!(-1),
        4 => json!(f64::from_bits(choices.number())),
        5 => json!(choices.pick(TEXTS)),
        6 => json!(choices.text(24)),
        7 => json!([]),
        _ => json!({ "": [{}] }),
    }
}

fn count(json: &Json) -> usize {
    1 + match json {
        Json::Array(items) => items.iter().map(count).sum(),
        Json::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

/// The node that is reached after `countdown` others.
fn nth<'j>(json: &'j mut Json, countdown: &mut usize) -> Option<&'j mut Json> {
    if *countdown == 0 {
        return Some(json);
    }
    *countdown -= 1;
    match json {
        Json::Array(items) => items.iter_mut().find_map(|item| nth(item, countdown)),
        Json::Object(fields) => fields.values_mut().find_map(|item| nth(item, countdown)),
        _ => None,
    }
}
