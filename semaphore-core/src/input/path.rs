//! What keys and prefixes have in common: segments between slashes that every agent reads as the
//! same key.
//!
//! | what | why it is refused |
//! |---|---|
//! | an empty or dot segment | the HTTP server redirects it to another key, or cleans it (1.21.5), and a transaction does not |
//! | a space at either end | agents from 1.22 refuse it |
//! | `%` and two hexadecimal digits | agents of 1.12.0 to 1.12.2 decode it once more: in a transaction it is another key. Some from 1.22 refuse it |
//! | what Go calls unprintable | the HTTP server refuses it, without a word why, and a transaction takes it |
//! | more bytes than [`MAX_BYTES`] | the URL would be longer than clients and proxies take |
//!
//! Further rules of single releases are reported when an agent refuses a key:
//! [`RequestError::InvalidKey`](crate::RequestError::InvalidKey).

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

/// The longest path in a URL, in bytes. Every client, proxy and agent should accept a request line
/// of 8,000 bytes (RFC 9112, 3), and ureq and most proxies accept no more. The rest is for the last
/// segment and the query.
pub(super) const MAX_BYTES: usize = 6_000;

/// What is wrong with a prefix or a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Flaw {
    /// It is empty, or only a slash. Give it a name such as `service/db`.
    #[error("is empty; give it a name such as service/db")]
    Empty,
    /// It has an empty segment (`a//b`), which Consul would redirect to another key.
    #[error(
        "has an empty segment, which Consul would redirect to another key; leave one slash out"
    )]
    EmptySegment,
    /// It has a segment `.` or `..`, which Consul would resolve to another key.
    #[error("has a segment of dots, which Consul would resolve to another key")]
    DotSegment,
    /// It has a control character.
    #[error("has a control character, which Consul does not accept")]
    ControlCharacter,
    /// It has a character that Consul's HTTP server considers unprintable, such as a non-breaking
    /// space.
    #[error("has a character that is not printable: U+{:04X}", u32::from(*_0))]
    Unprintable(char),
    /// It begins or ends with a space, which agents from 1.22 refuse.
    #[error("has a space at one of its ends, which agents from 1.22 refuse")]
    OuterSpace,
    /// It has a `%` before two hexadecimal digits. Some agents decode that again, so it would be
    /// two keys (1.12.0 to 1.12.2), and some refuse it (1.22).
    #[error("has a `%` before two hexadecimal digits, which agents read differently")]
    Encoded,
    /// It is longer than a URL may be.
    #[error("has {_0} bytes in a URL, and at most {MAX_BYTES} are allowed; choose a shorter one")]
    TooLong(usize),
    /// Its last segment is `.lock`, which is the name of a semaphore's record. Use the part before
    /// it.
    #[error("ends in `.lock`, the name of the record below the prefix; leave that out")]
    OfRecord,
}

/// How many characters an error shows.
const SHOWN: usize = 200;

/// The beginning of what was given.
pub(super) fn shown(given: &str) -> String {
    given.chars().take(SHOWN).collect()
}

/// The path without one leading and one trailing slash.
pub(super) fn canonical(given: &str) -> Result<&str, Flaw> {
    if given.chars().any(char::is_control) {
        return Err(Flaw::ControlCharacter);
    }
    let trimmed = given.strip_prefix('/').unwrap_or(given);
    let trimmed = trimmed.strip_suffix('/').unwrap_or(trimmed);
    if trimmed.is_empty() {
        return Err(if given.len() <= 1 {
            Flaw::Empty
        } else {
            Flaw::EmptySegment
        });
    }
    for segment in trimmed.split('/') {
        match segment {
            "" => return Err(Flaw::EmptySegment),
            "." | ".." => return Err(Flaw::DotSegment),
            _ => {}
        }
    }
    if let Some(unprintable) = trimmed.chars().find(|c| !is_printable(*c)) {
        return Err(Flaw::Unprintable(unprintable));
    }
    if trimmed.starts_with(' ') || trimmed.ends_with(' ') {
        return Err(Flaw::OuterSpace);
    }
    if has_encoded(trimmed) {
        return Err(Flaw::Encoded);
    }
    let length = encoded_len(trimmed);
    if length > MAX_BYTES {
        return Err(Flaw::TooLong(length));
    }
    Ok(trimmed)
}

/// The most bytes that it has in a URL.
pub(super) fn encoded_len(text: &str) -> usize {
    let encoded = utf8_percent_encode(text, NON_ALPHANUMERIC);
    encoded.map(str::len).sum()
}

/// As Go's `unicode.IsPrint`, by which an agent's HTTP server decides.
fn is_printable(c: char) -> bool {
    let is_separator = |c: char| {
        matches!(
            c.general_category_group(),
            GeneralCategoryGroup::Separator | GeneralCategoryGroup::Other
        )
    };
    c == ' ' || c.is_ascii_graphic() || !is_separator(c)
}

/// Whether a part of it looks percent-encoded.
fn has_encoded(path: &str) -> bool {
    let mut triples = path.as_bytes().windows(3);
    triples.any(|it| it[0] == b'%' && it[1..].iter().all(u8::is_ascii_hexdigit))
}
