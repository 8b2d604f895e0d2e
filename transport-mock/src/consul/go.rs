//! What the agent inherits from Go: durations, quoted strings, numbers, and JSON as Go writes it.

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::PrettyFormatter;

/// A duration as Go parses it: a signed number of nanoseconds.
///
/// The error is Go's own text.
pub(super) fn parse_duration(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {}", quote(text));
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let (whole, after) = split_digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => split_digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let unit_len = after
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_len);
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", quote(text)));
        }
        let Some(scale) = unit_nanos(unit) else {
            return Err(format!(
                "time: unknown unit {} in duration {}",
                quote(unit),
                quote(text)
            ));
        };
        let whole: i128 = if whole.is_empty() {
            0
        } else {
            whole.parse().map_err(|_| invalid())?
        };
        total = whole
            .checked_mul(scale)
            .and_then(|nanos| nanos.checked_add(fraction_nanos(fraction, scale)))
            .and_then(|nanos| nanos.checked_add(total))
            .ok_or_else(invalid)?;
        rest = after;
    }
    i64::try_from(if negative { -total } else { total }).map_err(|_| invalid())
}

/// An unsigned number in base ten, or Go's text for what is wrong with it.
pub(super) fn parse_uint(text: &str) -> Result<u64, String> {
    let reason = if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        "invalid syntax"
    } else {
        match text.parse() {
            Ok(number) => return Ok(number),
            Err(_) => "value out of range",
        }
    };
    Err(format!(
        "strconv.ParseUint: parsing {}: {reason}",
        quote(text)
    ))
}

/// `text` as Go's `%q` prints it.
pub(super) fn quote(text: &str) -> String {
    use core::fmt::Write;
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{b}' => quoted.push_str("\\v"),
            '\u{c}' => quoted.push_str("\\f"),
            c if is_printable(c) => quoted.push(c),
            c => {
                let _ = match u32::from(c) {
                    code @ ..0x20 => write!(quoted, "\\x{code:02x}"),
                    code @ ..0x1_0000 => write!(quoted, "\\u{code:04x}"),
                    code => write!(quoted, "\\U{code:08x}"),
                };
            }
        }
    }
    quoted.push('"');
    quoted
}

/// Whether Go prints a character as it is. Rust's idea of it is the same, except for marks, which
/// it takes for printable only after another character.
pub(super) fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return matches!(c, ' '..='~');
    }
    String::from_iter(['a', c]).escape_debug().count() == 2
}

/// `value` as Go's encoder writes it: with more characters escaped than is needed; indented by four spaces and ended
/// by a line break when `pretty`.
pub(super) fn to_json(value: &impl Serialize, pretty: bool) -> Vec<u8> {
    let mut json = Vec::new();
    let written = if pretty {
        let formatter = PrettyFormatter::with_indent(b"    ");
        value.serialize(&mut Serializer::with_formatter(&mut json, formatter))
    } else {
        value.serialize(&mut Serializer::new(&mut json))
    };
    debug_assert!(written.is_ok(), "the agent's answers have string keys only");
    // Searching is much faster than rewriting, above all in a debug build, and mostly in vain.
    let has = |byte| json.contains(&byte);
    if has(b'<') || has(b'>') || has(b'&') || has(0xe2) || has(0xef) {
        json = escape(json);
    }
    if pretty {
        json.push(b'\n');
    }
    json
}

/// Go escapes what HTML or JavaScript could trip over. The replacement character mostly stands for
/// bytes that are not UTF-8, which Go writes so.
fn escape(json: Vec<u8>) -> Vec<u8> {
    match String::from_utf8(json) {
        Ok(text) => text
            .replace('<', "\\u003c")
            .replace('>', "\\u003e")
            .replace('&', "\\u0026")
            .replace('\u{2028}', "\\u2028")
            .replace('\u{2029}', "\\u2029")
            .replace('\u{fffd}', "\\ufffd")
            .into_bytes(),
        Err(bytes) => bytes.into_bytes(),
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

fn unit_nanos(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

fn fraction_nanos(digits: &str, scale: i128) -> i128 {
    let mut nanos = 0;
    let mut place = scale;
    for digit in digits.bytes() {
        nanos += i128::from(digit - b'0') * place / 10;
        place /= 10;
    }
    nanos
}
