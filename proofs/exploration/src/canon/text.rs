//! Splits the text of a machine, a message or a table into tokens. Some parts are the same in every
//! run. Numbers, names and times only have a meaning relative to others.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use semaphore_core::sans_io::Instant;
use xxhash_rust::xxh3::xxh3_64;

use crate::world::{LEADER, LOCK};

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// The hash of a text that is taken as it is.
    Text(u64),
    /// An index of Consul's.
    Index(IndexOf, u64),
    /// The index of an answer in a semaphore, from which a poll goes on. It is only compared with the indexes of
    /// entries.
    Position(IndexOf, u64),
    /// A session, by its number in the order of creation.
    Session(u64),
    /// A session in a record's list of holders, whose order has no meaning.
    Holder(u64),
    /// A number that its participant counts up.
    Id(IdOf, u64),
    /// The moment when its participant learned something. It only matters which reads were sent
    /// before.
    Moment(u64),
    /// A read under way: the hash of the part that sent it, and when it was sent.
    Read(u64, u64),
    /// A time from which something is measured.
    Origin(u64),
    /// When a transaction showed the present, or a slot was released. For a moment this has more
    /// meaning than later on.
    Recent(u64),
    /// When a poll was sent. Where it waits shows when it ends.
    Poll(u64),
    /// A time from which something is measured, up to so many nanoseconds after it.
    Since(u64, u64),
    /// A time at which something is due. It does not matter how long ago it was.
    Timer(u64),
}

/// The kind of an index, which is only compared with others of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexOf {
    /// The record.
    Lock,
    /// Contender keys.
    Key,
    /// The whole prefix.
    Prefix,
    /// Acquisitions of a key.
    Term,
    /// The kind is unknown, so it is compared with all.
    Any,
}

impl IndexOf {
    /// Whether indexes of the other kind are ranked among those of this kind.
    pub(super) fn holds(self, other: Self) -> bool {
        self == other || other == Self::Any && self != Self::Term
    }
}

/// The kind of an id. Ids of one kind are compared with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum IdOf {
    Request,
    Command,
    Contender,
    Loan,
    Session,
    /// A request about a session.
    Asked,
    Proof,
}

/// The text before a token, and how to read the number after it.
const MARKS: &[(&str, Mark)] = &[
    ("\"Flags\":", Mark::Flags),
    ("Instant(", Mark::Instant),
    ("Moment(", Mark::Moment),
    ("Index(", Mark::Index),
    ("FencingToken(", Mark::IndexOf(IndexOf::Lock)),
    ("RequestId(", Mark::Id(IdOf::Request)),
    ("CommandId(", Mark::Id(IdOf::Command)),
    ("ContenderNo(", Mark::Id(IdOf::Contender)),
    ("LoanNo(", Mark::Id(IdOf::Loan)),
    ("SessionNo(", Mark::Id(IdOf::Session)),
    // How often a key was acquired. It only matters which number is greater.
    ("lock_index: ", Mark::IndexOf(IndexOf::Term)),
    ("\"LockIndex\":", Mark::IndexOf(IndexOf::Term)),
    // Whatever its value, it is higher than all earlier ones.
    ("next_id: ", Mark::Nothing),
    ("\"CreateIndex\":", Mark::Created),
    ("\"ModifyIndex\":", Mark::Modified),
    // The index in a transaction's operation.
    ("\"Index\":", Mark::Modified),
    ("cas=", Mark::Checked),
    ("index=", Mark::IndexOf(IndexOf::Prefix)),
    ("as_of=", Mark::AsOf),
    ("\"Value\":\"", Mark::Value),
];

/// A Consul without randomness begins all session ids with this.
const SESSION: &str = "00000000-0000-4000-8000-";

/// The flags of a contender key whose contender has claimed the last free slot.
const CLAIMED: &str = "\"Flags\":16210313421097356769";

/// The flags of a contender key without the number of its touches, which only makes each differ from
/// the one before. Zero is another program's.
pub(crate) fn untouched(flags: u64) -> u64 {
    const TOUCHES: u64 = 511 << 23;
    const ONCE: u64 = 1 << 23;
    let code = flags ^ semaphore_core::sans_io::api::SEMAPHORE_FLAGS;
    let once = if code & TOUCHES == 0 { 0 } else { ONCE };
    code & !TOUCHES | once
}

#[derive(Clone, Copy)]
enum Mark {
    Instant,
    Moment,
    /// An index whose kind depends on its field.
    Index,
    IndexOf(IndexOf),
    /// The index of an answer that shows the record.
    AsOf,
    /// The index of an entry.
    Created,
    Modified,
    /// The index in a request.
    Checked,
    Id(IdOf),
    Nothing,
    Value,
    Flags,
}

/// Splits a text into tokens.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    append(text, &mut tokens);
    tokens.extend(applied_at(text, &tokens));
    tokens
}

/// The index at which a transaction was applied, from its answer. Then the client knows the whole
/// prefix at that index.
fn applied_at(text: &str, tokens: &[Token]) -> Option<Token> {
    if !text.contains("\"Results\":") {
        return None;
    }
    let indexes = tokens.iter().filter_map(|token| match token {
        Token::Index(_, index) => Some(*index),
        _ => None,
    });
    let newest = indexes.max()?;
    Some(Token::Index(IndexOf::Prefix, newest))
}

pub(super) fn append(text: &str, tokens: &mut Vec<Token>) {
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
                let session = session(rest);
                tokens.push(match session {
                    Token::Session(number) if is_holder(&text[..begin]) => Token::Holder(number),
                    _ => session,
                });
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
            Some(Mark::IndexOf(IndexOf::Term)) if is_of_contender(rest) => {
                rest.bytes().take_while(u8::is_ascii_digit).count()
            }
            Some(mark) => {
                let length = rest.bytes().take_while(u8::is_ascii_digit).count();
                let number = rest[..length].parse().unwrap_or(u64::MAX);
                number_token(mark, &text[..at], number, tokens);
                length
            }
        };
        at = begin + length;
        start = at;
    }
    tokens.push(Token::Text(xxh3_64(&bytes[start..])));
}

/// Whether the session that begins after this text is one of a record's holders.
fn is_holder(before: &str) -> bool {
    before.ends_with(r#""Holders":{""#) || before.ends_with(r#"":true,""#)
}

/// Whether an entry whose `LockIndex` begins here is a contender's. How often it was acquired has no
/// effect.
fn is_of_contender(rest: &str) -> bool {
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.strip_prefix(",\"Key\":\"")
        .is_some_and(|key| !key.starts_with(LEADER))
}

/// The session at the start of a text.
pub(crate) fn session(text: &str) -> Token {
    let name = text.get(SESSION.len()..SESSION.len() + 12);
    let number = name.and_then(|name| u64::from_str_radix(name, 16).ok());
    Token::Session(number.unwrap_or(u64::MAX))
}

/// A time at which something is due.
pub(crate) fn timer(at: Instant) -> Token {
    let at = at.since_origin().as_nanos();
    Token::Timer(u64::try_from(at).unwrap_or(u64::MAX))
}

/// A read under way.
pub(crate) fn read(from: &str, sent: u64) -> Token {
    Token::Read(xxh3_64(from.as_bytes()), sent)
}

/// The mark at this position, and where its token begins. A session is its own mark.
fn mark_at(bytes: &[u8], at: usize) -> Option<(Option<Mark>, usize)> {
    let rest = &bytes[at..];
    if rest[0] == b'0' {
        let is_session = rest.starts_with(SESSION.as_bytes()) && rest.len() >= SESSION.len() + 12;
        return is_session.then_some((None, at));
    }
    if !matches!(
        rest[0],
        b'I' | b'M'
            | b'F'
            | b'R'
            | b'A'
            | b'C'
            | b'L'
            | b'S'
            | b'n'
            | b'l'
            | b'"'
            | b'a'
            | b'c'
            | b'i'
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

fn number_token(mark: Mark, before: &str, number: u64, tokens: &mut Vec<Token>) {
    let is_locks = |before: &str, start: &str, end: char| {
        let at = before.rfind(start).map_or(0, |at| at + start.len());
        before[at..].split(end).next() == Some(LOCK)
    };
    match mark {
        Mark::Moment => tokens.push(Token::Moment(number)),
        Mark::Index => {
            let of = match field(before) {
                // The index of an election's key.
                "base"
                    if is_in_variant(before, "Acquisition") || is_in_variant(before, "GivenUp") =>
                {
                    IndexOf::Key
                }
                "base" | "Maybe" | "Yes" | "After" => IndexOf::Lock,
                "modify_index" if before.ends_with("Lock { modify_index: ") => IndexOf::Lock,
                "create_index" if is_in_variant(before, "Lock") => IndexOf::Lock,
                "modify_index" | "create_index" | "deletable" | "former" | "Key" => IndexOf::Key,
                "index" if is_in_variant(before, "Record") => IndexOf::Lock,
                "index" if is_in_variant(before, "Ahead") => IndexOf::Key,
                "index" | "version" | "entered" | "listed" => IndexOf::Prefix,
                // A step of a transaction for the key of the session before it.
                "" if before.ends_with("\"), ") => IndexOf::Key,
                _ => IndexOf::Any,
            };
            tokens.push(Token::Index(of, number));
        }
        Mark::IndexOf(IndexOf::Term) => tokens.push(Token::Index(IndexOf::Term, number)),
        // A poll of one key.
        Mark::IndexOf(_) if before.contains("/v1/kv/") && !before.ends_with("?recurse&") => {
            tokens.push(match before.rsplit("/v1/kv/").next() {
                Some(after) if after.starts_with(LOCK) => Token::Position(IndexOf::Lock, number),
                // There is no other key below its prefix.
                Some(after) if after.starts_with(LEADER) => Token::Index(IndexOf::Prefix, number),
                _ => Token::Position(IndexOf::Key, number),
            });
        }
        Mark::IndexOf(of) => tokens.push(Token::Index(of, number)),
        Mark::AsOf => tokens.push(Token::Position(IndexOf::Lock, number)),
        // Nothing depends on when a session was created.
        Mark::Created | Mark::Modified if is_sessions(before) => {}
        // Nothing depends on when the record was created.
        Mark::Created if is_locks(before, "\"Key\":\"", '"') => {}
        Mark::Created | Mark::Modified if is_locks(before, "\"Key\":\"", '"') => {
            tokens.push(Token::Index(IndexOf::Lock, number));
        }
        Mark::Checked if is_locks(before, "/v1/kv/", '?') => {
            tokens.push(Token::Index(IndexOf::Lock, number));
        }
        // The claim that marked the key has left the record at the same index.
        Mark::Modified if entry(before).contains(CLAIMED) => {
            tokens.push(Token::Index(IndexOf::Key, number));
            tokens.push(Token::Index(IndexOf::Lock, number));
        }
        Mark::Created | Mark::Modified | Mark::Checked => {
            tokens.push(Token::Index(IndexOf::Key, number));
        }
        Mark::Id(of) => tokens.push(Token::Id(of, number)),
        Mark::Flags => tokens.push(Token::Text(untouched(number))),
        Mark::Nothing | Mark::Instant | Mark::Value => {}
    }
}

/// The entry at the end of this text, starting with its key.
fn entry(before: &str) -> &str {
    &before[before.rfind("\"Key\":\"").unwrap_or_default()..]
}

/// Whether the text ends within an answer's description of a session.
fn is_sessions(before: &str) -> bool {
    before.contains("\"ID\":\"") && !before.contains("\"Key\":\"")
}

/// Whether the text ends in a field of this variant.
fn is_in_variant(before: &str, variant: &str) -> bool {
    let fields = before.rfind("{ ").unwrap_or(0);
    before[..fields].trim_end().ends_with(variant)
}

/// The field or variant at the end of the text.
fn field(before: &str) -> &str {
    let before = before.strip_suffix("Some(").unwrap_or(before);
    let before = before
        .strip_suffix(": ")
        .or(before.strip_suffix('('))
        .unwrap_or_default();
    let word = before.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    &before[word.map_or(0, |at| at + 1)..]
}

/// The meaning of a time depends on its field.
fn instant(before: &str, nanos: u64) -> Option<Token> {
    let field = field(before);
    let is_in = |what: &str| before.ends_with(what);
    Some(match field {
        // When a list was read, not when something is due.
        "read_at" if is_in("read_at: ") => Token::Origin(nanos),
        // The empty name is the time until which overtaken contenders are not waited for.
        "retry_at" | "rests_until" | "unsettled_until" | "early_from" | "ask_again_at"
        | "until" | "respawn_at" | "shared_from" | "end" | "Until" | "wanted_from" | "write_at"
        | "read_at" | "rest" | "contended_until" | "expected_until" | "due_at" | "ends_at"
        | "timer" | "Ending" | "" => Token::Timer(nanos),
        "at" if is_in("Wanted { at: ") => Token::Timer(nanos),
        // While a watch's budget has most of its burst left, nothing depends on the amount.
        "full_at" => Token::Timer(nanos.saturating_sub(unnoticed_reads(before))),
        // When Consul last confirmed a view. It matters for a moment if others write the record all
        // the time.
        "confirmed_at" | "seen_at" | "released_at" | "Free" | "Entered" => Token::Recent(nanos),
        // Since when a holder's key has been missing.
        "since" if is_in("Missing { since: ") => Token::Origin(nanos),
        // How long a slot has been in the process. After 70 ms, it makes no
        // difference any more.
        "since" if is_in("Stay { since: ") => Token::Recent(nanos),
        // Four times without an effect. How long somebody has waited only appears in errors. A
        // check of a key is only due in a process that looks at many. The time of the last look at
        // the timers is only compared with past timers. Only contenders that share a session wait
        // until the latest moment of a write: a client shows it under another name.
        "since" | "checked_at" | "timed_at" | "latest" => return None,
        "polled_at" => {
            let state = before.rfind("Watch { state: ")?;
            return before[state..]
                .starts_with("Watch { state: Polling")
                .then_some(Token::Poll(nanos));
        }
        _ => Token::Origin(nanos),
    })
}

/// Four fifths of a budget's burst: forty reads at the watch's interval, or sixteen polls of one
/// key.
fn unnoticed_reads(before: &str) -> u64 {
    let burst = before
        .rfind("burst: ")
        .map(|at| &before[at + "burst: ".len()..]);
    let burst = burst.and_then(|it| it.split(',').next());
    nanos(burst.unwrap_or_default()) / 5 * 4
}

/// The nanoseconds of a duration in `Debug` format.
pub(super) fn nanos(text: &str) -> u64 {
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
mod fields;

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
        assert_eq!(found("base: Index(7)"), [Token::Index(IndexOf::Lock, 7)]);
        assert_eq!(
            found("/v1/kv/p/.lock?cas=12&flags=1"),
            [Token::Index(IndexOf::Lock, 12)]
        );
        let id = "00000000-0000-4000-8000-00000000001f";
        assert_eq!(found(id), [Token::Session(31)]);
        assert_eq!(
            found("retry_at: Some(Instant(2s))"),
            [Token::Timer(2_000_000_000)]
        );
        assert_eq!(found("Lease { sent_at: Instant(1ns)"), [Token::Origin(1)]);
        let budget = "Budget { interval: 10ms, burst: 500ms, full_at: Instant(2s) }";
        assert_eq!(found(budget), [Token::Timer(1_600_000_000)]);
        let entry = r#"{"Key":"p/leader","LockIndex":3,"CreateIndex":4}"#;
        assert_eq!(
            found(entry),
            [
                Token::Index(IndexOf::Term, 3),
                Token::Index(IndexOf::Key, 4)
            ]
        );
        assert_eq!(found("There(Moment(4))"), [Token::Moment(4)]);
        let renewed = format!(r#"[{{"ID":"{id}","CreateIndex":17,"ModifyIndex":17}}]"#);
        assert_eq!(found(&renewed), [Token::Session(31)]);
        let applied = r#"{"Results":[{"KV":{"Key":"p/x","ModifyIndex":3}},{"KV":{"Key":"p/.lock","ModifyIndex":9}}]}"#;
        assert_eq!(
            found(applied),
            [
                Token::Index(IndexOf::Key, 3),
                Token::Index(IndexOf::Lock, 9),
                Token::Index(IndexOf::Prefix, 9)
            ]
        );
        let value = STANDARD.encode(format!(r#"{{"Holders":{{"{id}":true}}}}"#));
        let entry = format!(r#"{{"Key":"p/x","CreateIndex":3,"Value":"{value}"}}"#);
        assert_eq!(
            found(&entry),
            [Token::Index(IndexOf::Key, 3), Token::Holder(31)]
        );
        let polled = "/v1/kv/p/.lock?index=12&wait=5s";
        assert_eq!(found(polled), [Token::Position(IndexOf::Lock, 12)]);
        assert_eq!(found("200 as_of=7"), [Token::Position(IndexOf::Lock, 7)]);
    }
}
