//! The requests that Consul has not answered yet, to tell a silent agent from a full semaphore.

use std::collections::BTreeMap;

use crate::id::RequestId;
use crate::time::Instant;

/// Requests under way without polls, which may be held open for long.
#[derive(Default)]
pub(super) struct UnderWay {
    sent: BTreeMap<RequestId, Instant>,
    answered_at: Option<Instant>,
}

/// How a request has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Came,
    Missing,
}

impl UnderWay {
    pub(super) fn asked(&mut self, id: RequestId, now: Instant) {
        self.sent.insert(id, now);
    }

    pub(super) fn ended(&mut self, id: RequestId, now: Instant, reply: Reply) {
        self.sent.remove(&id);
        if reply == Reply::Came {
            self.answered_at = Some(now);
        }
    }

    /// Since when no answer has come though one is expected.
    pub(super) fn silent_since(&self) -> Option<Instant> {
        let asked_at = self.sent.values().min().copied()?;
        Some(self.answered_at.map_or(asked_at, |at| at.max(asked_at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Duration::from_millis(ms)
    }

    #[test]
    fn silence_counts_from_the_oldest_request_and_ends_with_any_answer() {
        let mut under_way = UnderWay::default();
        assert_eq!(under_way.silent_since(), None);
        under_way.asked(RequestId(1), at(0));
        under_way.asked(RequestId(2), at(10));
        assert_eq!(under_way.silent_since(), Some(at(0)));
        under_way.ended(RequestId(2), at(20), Reply::Came);
        assert_eq!(under_way.silent_since(), Some(at(20)));
        under_way.ended(RequestId(1), at(30), Reply::Missing);
        assert_eq!(under_way.silent_since(), None);
    }
}
