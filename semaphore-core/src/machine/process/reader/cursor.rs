//! Where a blocking query continues: the rules of Consul's index.
//!
//! A poll names the index of the last answer. If an index is zero or went backwards, the next poll
//! is a plain read. The same follows an answer that comes early with nothing new: so an agent ends
//! all polls when a snapshot is restored, and the answer still shows the old state.
//!
//! Sources: Consul's documentation of blocking queries (an index that went backwards is reset to 0, and
//! 0 does not block).

use core::time::Duration;

use crate::defect::{Defect, is_on};
use crate::id::Index;
use crate::time::Instant;

/// The index of the next poll, and when the present or last poll was sent.
#[derive(Clone, Debug)]
pub(in crate::machine) struct Cursor {
    index: Index,
    sent_at: Instant,
}

/// How an answer relates to the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::machine) enum Progress {
    /// It was a plain read.
    Anew,
    /// It is newer, or its wait was over.
    Onward,
    /// It has nothing new, and came before its wait was over.
    Early,
    /// Its index is lower.
    Backwards,
}

impl Cursor {
    pub(in crate::machine) fn new() -> Self {
        Self {
            index: Index::ZERO,
            sent_at: Instant::ORIGIN,
        }
    }

    /// The next poll is a plain read.
    pub(in crate::machine) fn restart(&mut self) {
        self.index = Index::ZERO;
    }

    /// Whether the present or next poll is a plain read, which is answered at once.
    pub(in crate::machine) fn is_at_start(&self) -> bool {
        self.index == Index::ZERO
    }

    /// The index of the next poll.
    pub(in crate::machine) fn index(&self) -> Index {
        self.index
    }

    pub(in crate::machine) fn sent(&mut self, now: Instant) {
        self.sent_at = now;
    }

    /// Continues from the answer to a poll that could last for `wait`.
    pub(in crate::machine) fn answered(
        &mut self,
        now: Instant,
        index: Index,
        wait: Duration,
    ) -> Progress {
        let is_reset = index < self.index && !is_on(Defect::IndexResetIgnored);
        let is_early = index == self.index && now.saturating_since(self.sent_at) < wait;
        let progress = if self.is_at_start() {
            Progress::Anew
        } else if is_reset {
            Progress::Backwards
        } else if is_early {
            Progress::Early
        } else {
            Progress::Onward
        };
        if progress == Progress::Backwards {
            tracing::debug!(name: "index-reset", known = %self.index, %index, "Consul's index went backwards");
        }
        if progress == Progress::Early {
            tracing::debug!(name: "early-answer", %index, "a poll ended early with nothing new");
        }
        self.index = match progress {
            Progress::Backwards | Progress::Early => Index::ZERO,
            Progress::Anew | Progress::Onward => self.index.max(index),
        };
        progress
    }
}

#[cfg(test)]
mod tests {
    use crate::machine::process::reader::cursor::*;

    const WAIT: Duration = Duration::from_secs(15);

    fn at(secs: u64) -> Instant {
        Instant::from_origin(Duration::from_secs(secs))
    }

    #[test]
    fn each_answer_is_told_by_its_index_and_its_time() {
        let mut cursor = Cursor::new();
        let mut answered = |sent, answered, index| {
            cursor.sent(at(sent));
            let progress = cursor.answered(at(answered), Index(index), WAIT);
            (progress, cursor.index())
        };
        assert_eq!(answered(1, 1, 7), (Progress::Anew, Index(7)));
        assert_eq!(answered(1, 2, 8), (Progress::Onward, Index(8)));
        assert_eq!(answered(2, 17, 8), (Progress::Onward, Index(8)));
        assert_eq!(answered(17, 31, 8), (Progress::Early, Index::ZERO));
        assert_eq!(answered(31, 31, 8), (Progress::Anew, Index(8)));
        assert_eq!(answered(31, 32, 6), (Progress::Backwards, Index::ZERO));
        assert_eq!(answered(32, 32, 0), (Progress::Anew, Index::ZERO));
    }
}
