//! The parts of a candidate's text that decide what it does next.

use super::pool;
use super::shown::{Shown, cut, without_requests, without_settings};
use crate::canon::{Tree, fingerprinted};

pub(super) fn shown(text: &str) -> Shown {
    let text = without_settings(text);
    // Each step draws from the same seed, so the random state is left out.
    let text = text.find("next_id: ").map_or(text, |at| &text[at..]);
    let (text, lone) = without_pool(text);
    let (text, waiting) = without_requests(&text);
    let waiting = waiting.into_iter().map(|(id, entry)| {
        let from = entry.strip_prefix("InFlight { from: ");
        let reads = ["Watch", "Candidacy(Read"];
        let is_from = |it: &&str| from.is_some_and(|from| from.starts_with(it));
        let read = reads.into_iter().find(is_from);
        (id, entry, read)
    });
    let mut shown = Shown::new(&text, waiting);
    if !lone.is_empty() {
        let mut lone = Tree::read(lone);
        shown.waiting.extend(pool::own(&mut lone));
        shown.tokens.extend(fingerprinted(&lone));
    }
    shown
}

/// The text without the candidate's own pool, and that pool: it is read as those of others are.
pub(crate) fn without_pool(text: &str) -> (String, &str) {
    cut(text, "lone: Some(", ") }, timed_at: ")
}
