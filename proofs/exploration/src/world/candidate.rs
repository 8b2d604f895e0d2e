//! What of a candidate's text decides what it does next.

use super::shown::{Shown, without_requests, without_settings};

pub(super) fn shown(text: &str) -> Shown {
    let text = without_settings(text);
    // Drawn from one seed at each step.
    let text = text.find("next_id: ").map_or(text, |at| &text[at..]);
    let (text, waiting) = without_requests(text);
    let waiting = waiting.into_iter().map(|(id, entry)| {
        let reads = ["Poll", "Candidacy { part: Read"];
        let read = reads.into_iter().find(|it| entry.starts_with(it));
        (id, entry, read)
    });
    Shown::new(&text, waiting)
}
