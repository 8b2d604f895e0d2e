//! Takes the text that shows a machine, a message or a table apart: into what says the same in
//! every run, and the numbers, names and times that only mean something beside one another.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use xxhash_rust::xxh3::xxh3_64;

/// A piece of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// Text as it is, as a hash.
    Text(u64),
    /// An index of Consul's.
    Index(u64),
    /// A session, by its place in the order of creation.
    Session(u64),
    /// A number that its participant counts up.
    Id(u64),
    /// Such a number as the moment at which a read was sent.
    Sent(u64),
    /// Such a number as the moment of anything else, which is only compared with those of reads.
    Moment(u64),
    /// A time that is only compared with others.
    Order(u64),
    /// A time that something is measured from.
    Origin(u64),
    /// A time at which something is due, no matter how long ago.
    Timer(u64),
}

/// Where a token begins, and how the number after it is read.
const MARKS: [(&str, Mark); 13] = [
    ("Instant(", Mark::Instant),
    ("Index(", Mark::Index),
    ("FencingToken(", Mark::Index),
    ("RequestId(", Mark::Id),
    ("Moment(", Mark::Moment),
    ("AcquireId(", Mark::Id),
    ("ContenderNo(", Mark::Id),
    ("next_id: ", Mark::Id),
    ("\"CreateIndex\":", Mark::Index),
    ("\"ModifyIndex\":", Mark::Index),
    ("cas=", Mark::Index),
    ("index=", Mark::Index),
    ("\"Value\":\"", Mark::Value),
];

/// What the ids of the sessions of a Consul without chance begin with.
const SESSION: &str = "00000000-0000-4000-8000-";

#[derive(Clone, Copy)]
enum Mark {
    Instant,
    Index,
    Id,
    Moment,
    Value,
}

/// Takes a text apart.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    append(text, &mut tokens);
    tokens
}

fn append(text: &str, tokens: &mut Vec<Token>) {
    let bytes = text.as_bytes();
    let (mut start, mut at) = (0, 0);
    while at < bytes.len() {
        let Some((mark, begin)) = mark_at(bytes, at) else {
            at += 1;
            continue;
        };
        tokens.push(Token::Text(xxh3_64(&bytes[start..begin])));
        let rest = &text[begin..];
        let length = match mark {
            None => {
                let name = &rest[SESSION.len()..SESSION.len() + 12];
                tokens.push(Token::Session(
                    u64::from_str_radix(name, 16).unwrap_or(u64::MAX),
                ));
                SESSION.len() + 12
            }
            Some(Mark::Instant) => {
                let length = rest.find(')').unwrap_or(rest.len());
                tokens.extend(instant(&text[..at], nanos(&rest[..length])));
                length
            }
            Some(Mark::Value) => {
                let length = rest.find('"').unwrap_or(rest.len());
                let value = STANDARD.decode(&rest[..length]).unwrap_or_default();
                append(&String::from_utf8_lossy(&value), tokens);
                length
            }
            Some(mark) => {
                let length = rest.bytes().take_while(u8::is_ascii_digit).count();
                let number = rest[..length].parse().unwrap_or(u64::MAX);
                tokens.push(match mark {
                    Mark::Id => Token::Id(number),
                    Mark::Moment if text[..at].ends_with("sent: ") => Token::Sent(number),
                    Mark::Moment => Token::Moment(number),
                    _ => Token::Index(number),
                });
                // Of the requests under way, only the reads are compared with moments.
                let then = &rest[length..];
                if then.starts_with("): Watch") || then.starts_with("): Refresh") {
                    tokens.push(Token::Sent(number));
                }
                length
            }
        };
        at = begin + length;
        start = at;
    }
    tokens.push(Token::Text(xxh3_64(&bytes[start..])));
}

/// The mark at this place and where what it marks begins; a session is its own mark.
fn mark_at(bytes: &[u8], at: usize) -> Option<(Option<Mark>, usize)> {
    let rest = &bytes[at..];
    if rest[0] == b'0' {
        let is_session = rest.starts_with(SESSION.as_bytes()) && rest.len() >= SESSION.len() + 12;
        return is_session.then_some((None, at));
    }
    if !matches!(
        rest[0],
        b'I' | b'F' | b'R' | b'M' | b'A' | b'C' | b'n' | b'"' | b'c' | b'i'
    ) {
        return None;
    }
    let second = *rest.get(1)?;
    MARKS
        .iter()
        .filter(|(word, _)| word.as_bytes()[1] == second)
        .find(|(word, _)| rest.starts_with(word.as_bytes()))
        .map(|(word, mark)| (Some(*mark), at + word.len()))
}

/// A time means what the field means that it stands in.
fn instant(before: &str, nanos: u64) -> Option<Token> {
    let before = before.strip_suffix("Some(").unwrap_or(before);
    let field = before.strip_suffix(": ").map_or("", |before| {
        let word = before.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        &before[word.map_or(0, |at| at + 1)..]
    });
    Some(match field {
        "retry_at" | "until" | "respawn_at" | "patience" | "at_most" => Token::Timer(nanos),
        // Within the burst of the watch's budget nothing depends on how much of it is used.
        "full_at" => Token::Timer(nanos.saturating_sub(UNNOTICED_READS)),
        // Only an error tells how long somebody has waited.
        "since" => return None,
        "polled_at" => {
            let state = before.rfind("Watch { state: ")?;
            return before[state..]
                .starts_with("Watch { state: Polling")
                .then_some(Token::Origin(nanos));
        }
        "sent_at" => Token::Origin(nanos),
        _ => Token::Order(nanos),
    })
}

/// Forty reads at the watch's interval; its burst are fifty.
const UNNOTICED_READS: u64 = 400_000_000;

/// A duration as `Debug` shows it.
fn nanos(text: &str) -> u64 {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let digits: u32 = match unit {
        "s" => 9,
        "ms" => 6,
        "µs" => 3,
        _ => 0,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: u64 = whole.parse().unwrap_or(0);
    let places = u32::try_from(fraction.len()).unwrap_or(0).min(digits);
    let fraction: u64 = fraction.parse().unwrap_or(0);
    whole * 10_u64.pow(digits) + fraction * 10_u64.pow(digits - places)
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn durations_are_read_as_they_are_shown() {
        for shown in [0, 1, 999, 1_500, 2_000_000, 1_250_000_001, 15_000_000_000] {
            let text = format!("{:?}", Duration::from_nanos(shown));
            assert_eq!(nanos(&text), shown, "{text}");
        }
    }

    #[test]
    fn numbers_names_and_times_are_told_from_text() {
        let found = |text| {
            let all = tokens(text).into_iter();
            all.filter(|token| !matches!(token, Token::Text(_)))
                .collect::<Vec<_>>()
        };
        assert_eq!(found("base: Index(7)"), [Token::Index(7)]);
        assert_eq!(found("/v1/kv/a/.lock?cas=12&flags=1"), [Token::Index(12)]);
        let id = "00000000-0000-4000-8000-00000000001f";
        assert_eq!(found(id), [Token::Session(31)]);
        assert_eq!(
            found("retry_at: Some(Instant(2s))"),
            [Token::Timer(2_000_000_000)]
        );
        assert_eq!(found("Lease { sent_at: Instant(1ns)"), [Token::Origin(1)]);
        assert_eq!(found("timed_at: Instant(1ns)"), [Token::Order(1)]);
        assert_eq!(found("view: 1, sent: Moment(4)"), [Token::Sent(4)]);
        assert_eq!(found("received: Moment(4)"), [Token::Moment(4)]);
        let under_way = "{RequestId(5): Watch, RequestId(6): Ledger}";
        let read = [Token::Id(5), Token::Sent(5)];
        assert_eq!(found(under_way), [&read[..], &[Token::Id(6)]].concat());
        let value = STANDARD.encode(format!(r#"{{"Holders":{{"{id}":true}}}}"#));
        let entry = format!(r#"{{"CreateIndex":3,"Value":"{value}"}}"#);
        assert_eq!(found(&entry), [Token::Index(3), Token::Session(31)]);
    }
}
