//! The parts of a participant's text that decide what it does next.

use super::shown::{Shown, cut, number_after, without_requests, without_settings};

pub(super) fn shown(text: &str) -> Shown {
    let is_crowd = is_crowd(text);
    let (text, waiting) = without_requests(without_settings(text));
    // Only in a crowd a list may become too old.
    let text = if is_crowd {
        text
    } else {
        cut(&text, "read_at: Instant(", ")").0
    };
    // These only repeat in which order sessions stand by their names.
    let text = without(&without(&text, "places: ["), "sorted: [");
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
        let reader = is_read(entry).then(|| kind(entry));
        (id, entry, reader)
    });
    Shown::new(&text, waiting)
}

/// Whether any two are a crowd to it, as the settings say that stand in the text.
fn is_crowd(text: &str) -> bool {
    text.contains(" crowd: 0 ")
}

/// The text without any of the lists that begin so.
fn without(text: &str, start: &str) -> String {
    let mut parts = text.split(start);
    let first = parts.next().unwrap_or_default().to_owned();
    let after = parts.map(|it| it.split_once(']').map_or(it, |(_, after)| after));
    after.fold(first, |all, after| all + after)
}

/// The last write of the record, which had ended at this moment.
struct LastWrite {
    base: u64,
    at: u64,
    /// Whether it, or one from the same base before it, may have been applied: then the next from there is a
    /// repetition.
    was_unknown: bool,
}

impl LastWrite {
    fn find(text: &str) -> Option<Self> {
        let start = text.find("last: Some(Ended {")?;
        let text = &text[start..];
        Some(Self {
            base: number_after(text, "base: Index(")?,
            at: number_after(text, "at: Moment(")?,
            was_unknown: text.split('}').next()?.contains("was_unknown: true"),
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
            || (is_later || is_newer && !self.was_unknown) && early.next().is_none();
        !is_settled
    }
}

/// Whether the answer shows the prefix. That of a transaction that enters or writes the record does.
fn is_read(entry: &str) -> bool {
    let is_transaction = entry.contains("encoding: Transactions");
    matches!(sender(entry), "Watch" | "Refresh") || is_transaction
}

/// The kind of part that waits for an answer.
fn kind(entry: &str) -> &str {
    let sender = sender(entry);
    sender.split('(').next().unwrap_or(sender)
}

/// Which part waits for an answer.
fn sender(entry: &str) -> &str {
    let start = entry.strip_prefix("InFlight { from: ");
    let sender = start.and_then(|it| it.split(", encoding: ").next());
    sender.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use semaphore_core::Prefix;
    use semaphore_core::sans_io::{Participant, Settings};

    use super::*;

    #[test]
    fn the_text_of_a_participant_says_whether_any_two_are_a_crowd() {
        let prefix = Prefix::new("p").expect("a prefix");
        let settings = Settings::new(prefix, 1).expect("a limit");
        let text = |settings| format!("{:?}", Participant::new(settings, 1));
        assert!(!is_crowd(&text(settings.clone())));
        assert!(is_crowd(&text(settings.with_crowd(0))));
    }
}
