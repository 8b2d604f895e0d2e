//! What of a participant's text decides what it does next.

use semaphore_core::RequestId;

use crate::canon::{Token, read, tokens};

/// What a participant is shown as.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    pub(crate) tokens: Vec<Token>,
    /// The parts of it that wait for answers, by their requests' numbers.
    pub(crate) waiting: Vec<(u64, Vec<Token>)>,
}

impl Shown {
    pub(crate) fn new(text: &str) -> Self {
        // The settings never change, and come first.
        let text = &text[text.find(" rng: ").unwrap_or(0)..];
        let (text, waiting) = cut(text, "in_flight: {", "}, aborts: ");
        let waiting: Vec<_> = waiting.split("RequestId(").filter_map(waits).collect();
        // It only repeats in which order the keys are there.
        let (text, _) = cut(&text, "places: [", "]");
        let (mut text, sent) = cut(&text, " sent: Moment(", ")");
        let write = LastWrite::find(&text);
        let is_open = |write: &LastWrite| write.is_open(&text, sent.parse().ok(), &waiting);
        match write.filter(is_open) {
            // When the view was asked for is compared with when the write ended.
            Some(write) => text.push_str(match sent.parse::<u64>() {
                Ok(sent) if sent > write.at => " asked for after it",
                _ => "",
            }),
            None => text = cut(&text, "last: ", ", retry_at").0,
        }
        // A wait that is over is as good as none. The next one to be shown is the record's.
        if let Some((before, after)) = text.split_once("last: ")
            && let Some((last, after)) = after.split_once(", retry_at: None")
            && !last.contains("retry_at")
        {
            text = format!("{before}last: {last}, retry_at: Some(Instant(0ns)){after}");
        }
        let waiting = waiting.into_iter().map(|(id, entry)| {
            let mut tokens = tokens(entry);
            if is_read(entry) {
                tokens.push(read(sender(entry), id));
            }
            (id, tokens)
        });
        Self {
            tokens: tokens(&text),
            waiting: waiting.collect(),
        }
    }
}

/// A request's number: an id tells it only as text.
pub(crate) fn number(id: RequestId) -> Option<u64> {
    number_after(&format!("{id:?}"), "RequestId(")
}

/// The last write of the record, which had ended at this moment.
struct LastWrite {
    base: u64,
    at: u64,
}

impl LastWrite {
    fn find(text: &str) -> Option<Self> {
        let start = text.find("last: Some(Ended {")?;
        let text = &text[start..];
        Some(Self {
            base: number_after(text, "base: Index(")?,
            at: number_after(text, "at: Moment(")?,
        })
    }

    /// Whether a decision may still depend on what became of it. None does from a view that was asked
    /// for after it, or shows a later record, unless a read that was sent before it can bring
    /// an older one back.
    fn is_open(&self, text: &str, sent: Option<u64>, waiting: &[(u64, &str)]) -> bool {
        let mut early = waiting
            .iter()
            .filter(|(id, entry)| is_read(entry) && *id <= self.at);
        let shown = sent.map(|_| {
            let lock = number_after(text, "lock: Some(Lock { modify_index: Index(");
            lock.unwrap_or_default()
        });
        let is_later = shown.is_some_and(|shown| shown > self.base);
        let is_newer = sent.is_none_or(|sent| sent > self.at);
        let is_settled = is_later && early.clone().all(|(_, entry)| sender(entry) == "Watch")
            || (is_later || is_newer) && early.next().is_none();
        !is_settled
    }
}

fn is_read(entry: &str) -> bool {
    matches!(sender(entry), "Watch" | "Refresh")
}

/// Which part waits for an answer.
fn sender(entry: &str) -> &str {
    let start = entry.strip_prefix("InFlight { from: ");
    let sender = start.and_then(|it| it.split(", encoding: ").next());
    sender.unwrap_or_default()
}

/// A request's number, and what is known of it.
fn waits(entry: &str) -> Option<(u64, &str)> {
    let (id, rest) = entry.split_once("): ")?;
    Some((id.parse().ok()?, rest.trim_end_matches(", ")))
}

fn number_after(text: &str, start: &str) -> Option<u64> {
    let (_, rest) = text.split_once(start)?;
    rest.split(')').next()?.parse().ok()
}

/// The text without what is between, and that.
fn cut<'a>(text: &'a str, start: &str, end: &str) -> (String, &'a str) {
    let found = text.split_once(start).and_then(|(before, rest)| {
        let (between, after) = rest.split_once(end)?;
        Some((before, between, after))
    });
    match found {
        Some((before, between, after)) => (format!("{before}{start}{end}{after}"), between),
        None => (text.to_owned(), ""),
    }
}
