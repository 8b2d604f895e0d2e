//! What of a candidate's text decides what it does next.

use super::shown::{Shown, without_requests, without_settings};

pub(super) fn shown(text: &str) -> Shown {
    let text = without_settings(text);
    // Drawn from one seed at each step.
    let text = text.find("next_id: ").map_or(text, |at| &text[at..]);
    let (text, waiting) = without_requests(text);
    let waiting = waiting.into_iter().map(|(id, entry)| {
        let is_read = entry.starts_with("Poll") || entry.starts_with("Candidacy(Read");
        (id, entry, is_read.then_some(entry))
    });
    Shown::new(&text, waiting)
}
