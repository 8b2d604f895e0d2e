//! The request's target: path cleaning, percent-decoding and query parameters, as in Go.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, percent_encode};

use super::go;
use super::profile::Unclean;

/// The characters that Go does not escape in a path.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b'/')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// A parsed target.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// The path, decoded: any bytes.
    pub(super) path: Vec<u8>,
    pub(super) query: Query,
    /// The path as it was sent.
    raw_path: Vec<u8>,
    raw_query: Option<String>,
}

impl Target {
    /// Parses a target. `semicolon_parts` says whether semicolons separate parameters. `None` means
    /// that Go's server refuses it before any handler sees it.
    pub(super) fn parse(target: &str, semicolon_parts: bool) -> Option<Self> {
        if target.bytes().any(|byte| byte <= b' ' || byte == 0x7f) || !target.starts_with('/') {
            return None;
        }
        let (path, raw_query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        Some(Self {
            path: decode(path)?,
            raw_path: path.as_bytes().to_vec(),
            query: Query::parse(raw_query.unwrap_or_default(), semicolon_parts),
            raw_query: raw_query.map(str::to_owned),
        })
    }

    /// Whether the path is printable, with replacements for bytes that are not UTF-8.
    pub(super) fn is_printable(&self) -> bool {
        String::from_utf8_lossy(&self.path)
            .chars()
            .all(go::is_printable)
    }

    /// The cleaned path, if it differs: cleaned after or before decoding.
    pub(super) fn cleaned(&self, unclean: Unclean) -> Option<Vec<u8>> {
        let path = match unclean {
            Unclean::Redirected => &self.path,
            Unclean::EncodedCleaned => &self.raw_path,
        };
        Some(clean(path)).filter(|clean| clean != path)
    }

    /// Whether the path leads to this endpoint. Newer routers split the path as it was sent, and
    /// then decode each segment, so a percent-encoded slash does not split (seen on 1.22.0 and
    /// 1.22.7).
    pub(super) fn leads_to(&self, endpoint: &[u8], unclean: Unclean) -> bool {
        let is_slash = |byte: &u8| *byte == b'/';
        let mut sent = self.raw_path.split(is_slash);
        let (own, is_folder) = match endpoint.strip_suffix(b"/") {
            Some(own) => (own, true),
            None => (endpoint, false),
        };
        let mut own = own.split(is_slash);
        unclean == Unclean::Redirected
            || own.all(|it| {
                sent.next()
                    .is_some_and(|sent| percent_decode(sent).eq(it.iter().copied()))
            }) && sent.next().is_some() == is_folder
    }

    /// The address of `path` with this target's query.
    pub(super) fn location(&self, path: &[u8]) -> String {
        let path = percent_encode(path, PATH);
        match &self.raw_query {
            Some(query) => format!("{path}?{query}"),
            None => path.to_string(),
        }
    }
}

/// The parameters of a query, in order. A semicolon separates them, too, or is an error.
#[derive(Clone, Debug, Default)]
pub(super) struct Query {
    parameters: Vec<(String, String)>,
    malformed: bool,
}

impl Query {
    fn parse(raw: &str, semicolon_parts: bool) -> Self {
        let mut query = Self {
            malformed: !semicolon_parts && raw.contains(';'),
            ..Self::default()
        };
        for part in raw.split(['&', ';']).filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            match (decode_form(name), decode_form(value)) {
                (Some(name), Some(value)) => query.parameters.push((name, value)),
                _ => query.malformed = true,
            }
        }
        query
    }

    /// Whether a parameter could not be decoded.
    pub(super) fn is_malformed(&self) -> bool {
        self.malformed
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The first value of a parameter.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.parameters
            .iter()
            .find(|(found, _)| found == name)
            .map(|(_, value)| value.as_str())
    }

    /// The value of a parameter, if it is given and not empty.
    pub(super) fn filled(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }
}

fn decode_form(text: &str) -> Option<String> {
    let bytes = decode(&text.replace('+', " "))?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let bytes = text.as_bytes();
    let is_escape = |at: usize| {
        bytes
            .get(at + 1..at + 3)
            .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    let escapes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%');
    escapes
        .into_iter()
        .all(|(at, _)| is_escape(at))
        .then(|| percent_decode(bytes).collect())
}

/// The path without empty segments, `.` and `..`. A trailing slash stays.
fn clean(path: &[u8]) -> Vec<u8> {
    let mut segments: Vec<&[u8]> = Vec::new();
    for segment in path.split(|byte| *byte == b'/') {
        match segment {
            b"" | b"." => {}
            b".." => {
                segments.pop();
            }
            segment => segments.push(segment),
        }
    }
    let mut clean = vec![b'/'];
    clean.extend(segments.join(&b'/'));
    if path.ends_with(b"/") && clean.len() > 1 {
        clean.push(b'/');
    }
    clean
}
