//! The parts of a machine's text that decide what it does next.

use semaphore_core::sans_io::RequestId;

use crate::canon::{Token, read, tokens};

/// The tokens of a machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    pub(crate) tokens: Vec<Token>,
    /// The parts that wait for answers, by their requests' numbers.
    pub(crate) waiting: Vec<(u64, Vec<Token>)>,
}

impl Shown {
    /// `waiting` has each request with the part that waits for it, and whether it is a read.
    pub(crate) fn new<'t>(
        text: &str,
        waiting: impl Iterator<Item = (u64, &'t str, Option<&'t str>)>,
    ) -> Self {
        let waiting = waiting.map(|(id, entry, reader)| {
            let mut tokens = tokens(entry);
            tokens.extend(reader.map(|reader| read(reader, id)));
            (id, tokens)
        });
        Self {
            tokens: tokens(text),
            waiting: waiting.collect(),
        }
    }
}

/// The text after the settings. They come first, and never change.
pub(super) fn without_settings(text: &str) -> &str {
    &text[text.find(" rng: ").unwrap_or(0)..]
}

/// The text without the requests under way. Also returns who waits for each request, by its number.
pub(super) fn without_requests(text: &str) -> (String, Vec<(u64, &str)>) {
    let (text, waiting) = cut(text, "in_flight: {", "}, steps: {");
    let waiting = waiting.split("RequestId(").filter_map(waits).collect();
    // The lists of steps and polls only repeat who sent the requests.
    let (text, _) = cut(&text, "steps: {", ", aborts: ");
    (text, waiting)
}

/// The number of a request. Only the id's text shows it.
pub(crate) fn number(id: RequestId) -> Option<u64> {
    number_after(&format!("{id:?}"), "RequestId(")
}

/// A request's number, and what is known about it.
fn waits(entry: &str) -> Option<(u64, &str)> {
    let (id, rest) = entry.split_once("): ")?;
    Some((id.parse().ok()?, rest.trim_end_matches(", ")))
}

pub(super) fn number_after(text: &str, start: &str) -> Option<u64> {
    let (_, rest) = text.split_once(start)?;
    rest.split(')').next()?.parse().ok()
}

/// The text without the part between `start` and `end`, and that part.
pub(super) fn cut<'a>(text: &'a str, start: &str, end: &str) -> (String, &'a str) {
    let found = text.split_once(start).and_then(|(before, rest)| {
        let (between, after) = rest.split_once(end)?;
        Some((before, between, after))
    });
    match found {
        Some((before, between, after)) => (format!("{before}{start}{end}{after}"), between),
        None => (text.to_owned(), ""),
    }
}
