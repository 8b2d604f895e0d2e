//! The state of Consul that a process relies on: that of the newest answer that it accepted.

use semaphore_core::sans_io::Instant;

/// What a process knows of its prefix.
#[derive(Default)]
pub(super) struct Knowledge {
    index: u64,
    received_at: Instant,
    of: Instant,
}

/// An answer that lists the prefix.
#[derive(Clone, Copy)]
pub(super) struct Answer {
    pub(super) index: u64,
    pub(super) is_consistent: bool,
    pub(super) sent_at: Instant,
    pub(super) received_at: Instant,
    /// Since when the answering agent has lagged behind.
    pub(super) lags_since: Option<Instant>,
}

impl Knowledge {
    /// Takes an answer. Returns the earliest moment of the state that the process now relies on.
    ///
    /// An index that went backwards belongs to an older state or to a restored one. The process
    /// must ask the leader which. Until then it relies on its earlier knowledge.
    pub(super) fn learn(&mut self, answer: &Answer) -> Option<Instant> {
        let is_older = answer.sent_at < self.received_at;
        if answer.index < self.index && (is_older || !answer.is_consistent) {
            return None;
        }
        self.index = answer.index;
        self.received_at = answer.received_at;
        self.of = match answer.lags_since {
            // The agent may be behind earlier answers of the leader.
            Some(since) => since,
            None => self.of.max(answer.sent_at),
        };
        Some(self.of)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(secs: u64) -> Instant {
        Instant::from_origin(Duration::from_secs(secs))
    }

    fn answer(index: u64, sent: u64) -> Answer {
        Answer {
            index,
            is_consistent: false,
            sent_at: at(sent),
            received_at: at(sent + 1),
            lags_since: None,
        }
    }

    fn consistent(answer: Answer) -> Answer {
        Answer {
            is_consistent: true,
            ..answer
        }
    }

    #[test]
    fn an_answer_tells_of_when_it_was_asked_for_or_later() {
        let mut knowledge = Knowledge::default();
        assert_eq!(knowledge.learn(&answer(7, 1)), Some(at(1)));
        assert_eq!(knowledge.learn(&answer(7, 3)), Some(at(3)));
        assert_eq!(knowledge.learn(&answer(8, 2)), Some(at(3)));
    }

    #[test]
    fn an_index_that_went_backwards_counts_when_the_leader_has_confirmed_it() {
        let mut knowledge = Knowledge::default();
        knowledge.learn(&answer(7, 1));
        assert_eq!(knowledge.learn(&answer(6, 5)), None);
        assert_eq!(knowledge.learn(&consistent(answer(6, 1))), None, "too old");
        assert_eq!(knowledge.learn(&consistent(answer(6, 5))), Some(at(5)));
        assert_eq!(knowledge.learn(&answer(6, 6)), Some(at(6)));
    }

    #[test]
    fn an_agent_that_lags_behind_tells_of_when_it_began_to() {
        let mut knowledge = Knowledge::default();
        knowledge.learn(&answer(7, 5));
        let lagging = Answer {
            lags_since: Some(at(3)),
            ..answer(7, 6)
        };
        assert_eq!(knowledge.learn(&lagging), Some(at(3)));
    }
}
