//! The parts of a participant's text that decide what it does next.

use super::shown::{Shown, cut, number_after, without_requests, without_settings};

pub(super) fn shown(text: &str) -> Shown {
    let is_crowd = is_crowd(text);
    let (text, waiting) = without_requests(without_settings(text));
    // Only in a crowd can a list become too old.
    let text = if is_crowd {
        text
    } else {
        cut(&text, "read_at: Instant(", ")").0
    };
    // These only repeat the order of the sessions' names.
    let text = without(&without(&text, "places: ["), "sorted: [");
    let (mut text, sent) = cut(&text, " sent: Moment(", ")");
    let write = LastWrite::find(&text);
    let is_open = |write: &LastWrite| write.is_open(&text, sent.parse().ok(), &waiting);
    match write.filter(is_open) {
        // It matters whether the view was requested before or after the end of the write.
        Some(write) => text.push_str(match sent.parse::<u64>() {
            Ok(sent) if sent > write.at => " asked for after it",
            _ => "",
        }),
        None => text = cut(&text, "last: ", ", retry_at").0,
    }
    // A wait that is over is the same as no wait. The next one that is shown is the record's.
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

/// Whether two contenders are a crowd, according to the settings in the text.
fn is_crowd(text: &str) -> bool {
    text.contains(" crowd: 0 ")
}

/// The text without any of the lists that begin like this.
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
    /// Whether it, or an earlier write from the same base, may have been applied. Then the next
    /// write from that base is a repetition.
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

    /// Whether a decision may still depend on the write's outcome. A view that was requested after
    /// it, or that shows a later record, decides without it. The exception is an earlier read that
    /// can bring an older view back.
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

/// Whether the answer shows the prefix. A transaction that enters or writes the record shows it.
fn is_read(entry: &str) -> bool {
    let is_transaction = entry.contains("is_transaction: true");
    matches!(sender(entry), "Watch" | "Refresh") || is_transaction
}

/// The kind of the part that waits for an answer.
fn kind(entry: &str) -> &str {
    let sender = sender(entry);
    sender.split('(').next().unwrap_or(sender)
}

/// The part that waits for an answer.
fn sender(entry: &str) -> &str {
    let start = entry.strip_prefix("InFlight { from: ");
    let sender = start.and_then(|it| it.split(", is_transaction: ").next());
    sender.unwrap_or_default()
}

#[cfg(all(test, not(semaphore_next)))]
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
