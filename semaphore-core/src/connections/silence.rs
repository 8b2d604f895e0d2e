//! How rarely short requests are sent while nothing is answered.
//!
//! In a silence nobody knows whether requests are lost, or are held by an agent without a leader,
//! which counts them. Each keeps its lane until its timeout. If all that is due were sent, all lanes
//! would be taken, and more given up than an agent may hold, so no renewal would find room when the
//! silence ends (L4). So from its second second on, one request is sent each [`RARELY`], by half of
//! the lanes. The first answer ends it, and what waited is sent.

use core::time::Duration;

use crate::time::Instant;

/// What was sent since the last answer.
#[derive(Debug)]
pub(super) struct Silence {
    /// When the first of it was sent.
    since: Option<Instant>,
    /// When the last of it was sent.
    sent_at: Instant,
}

/// After so long without an answer it is one.
const LONG: Duration = Duration::from_secs(1);

/// Less than a fortieth of the least TTL: a lease that outlasts the silence has that much left.
const RARELY: Duration = Duration::from_millis(250);

impl Silence {
    pub(super) const NONE: Self = Self {
        since: None,
        sent_at: Instant::ORIGIN,
    };

    /// A short request is sent. `is_first`: no other one is unanswered.
    pub(super) fn sent(&mut self, now: Instant, is_first: bool) {
        if is_first {
            self.since = Some(now);
        }
        self.since.get_or_insert(now);
        self.sent_at = now;
    }

    /// Something came back.
    pub(super) fn ends(&mut self) {
        self.since = None;
    }

    /// Whether nothing has been answered for long.
    pub(super) fn lasts(&self, now: Instant) -> bool {
        self.since.is_some_and(|since| since + LONG <= now)
    }

    /// Whether another request may be sent.
    pub(super) fn allows(&self, now: Instant) -> bool {
        !self.lasts(now) || self.sent_at + RARELY <= now
    }

    /// When a request that waits should look again.
    pub(super) fn waits_until(&self, now: Instant) -> Option<Instant> {
        let since = self.since?;
        Some((since + LONG).max(now + RARELY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_origin(Duration::from_millis(millis))
    }

    #[test]
    fn after_a_second_without_an_answer_one_is_sent_each_quarter_of_a_second() {
        let mut silence = Silence::NONE;
        for now in [0, 500, 999] {
            assert!(silence.allows(at(now)));
            silence.sent(at(now), now == 0);
        }
        for (now, allows) in [(1_000, false), (1_248, false), (1_249, true)] {
            assert_eq!(silence.allows(at(now)), allows, "{now}");
        }
        silence.sent(at(1_249), false);
        assert!(!silence.allows(at(1_250)));
        silence.ends();
        assert!(silence.allows(at(1_250)));
    }

    #[test]
    fn what_was_given_up_before_a_pause_is_no_silence() {
        let mut silence = Silence::NONE;
        silence.sent(at(0), true);
        silence.sent(at(60_000), true);
        assert!(silence.allows(at(60_001)));
    }
}
