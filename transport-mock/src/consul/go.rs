//! What the agent inherits from Go: the parsing of durations and numbers, printable characters, and
//! JSON.

use serde::Serialize;

/// A duration as Go parses it: a signed number of nanoseconds.
pub(super) fn parse_duration(text: &str) -> Result<i64, String> {
    let invalid = || format!("invalid duration {text:?}");
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
        let scale = unit_nanos(unit).ok_or_else(invalid)?;
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

/// A duration of whole seconds as Go shows it.
pub(super) fn show_duration(nanos: i64) -> String {
    let seconds = nanos / 1_000_000_000;
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// An unsigned number in base ten.
pub(super) fn parse_uint(text: &str) -> Result<u64, String> {
    let digits = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = digits.and_then(|digits| digits.parse().ok());
    number.ok_or_else(|| format!("{text:?} is no number that fits"))
}

/// Whether Go prints a character unescaped. Rust agrees except for combining marks, which it prints
/// only after another character.
pub(super) fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return matches!(c, ' '..='~');
    }
    String::from_iter(['a', c]).escape_debug().count() == 2
}

/// `value` as JSON, indented if `pretty`.
pub(super) fn to_json(value: &impl Serialize, pretty: bool) -> Vec<u8> {
    let json = if pretty {
        serde_json::to_vec_pretty(value)
    } else {
        serde_json::to_vec(value)
    };
    debug_assert!(json.is_ok(), "the agent's answers have string keys only");
    json.unwrap_or_default()
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
