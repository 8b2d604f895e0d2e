//! The parts of a candidate's text that decide what it does next.

use super::shown::{Shown, without_requests, without_settings};

pub(super) fn shown(text: &str) -> Shown {
    let text = without_settings(text);
    // Each step draws from the same seed, so the random state is left out.
    let text = text.find("next_id: ").map_or(text, |at| &text[at..]);
    let (text, waiting) = without_requests(text);
    let waiting = waiting.into_iter().map(|(id, entry)| {
        let from = entry.strip_prefix("InFlight { from: ");
        let reads = ["Watch", "Candidacy(Read"];
        let is_from = |it: &&str| from.is_some_and(|from| from.starts_with(it));
        let read = reads.into_iter().find(is_from);
        (id, entry, read)
    });
    Shown::new(&text, waiting)
}
