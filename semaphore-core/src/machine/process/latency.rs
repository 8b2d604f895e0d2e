//! Whether recent answers were slow, and so how long to wait for the next one.
//!
//! ```text
//!            no answer in time, or one that took more than half of it
//!  Prompt ──────────────────────────────────────────────────────────▶ Slow
//!     ▲                                                                 │
//!     └───────────────────── an answer in less than half ◀──────────────┘
//! ```
//! A request without an answer in time is sent again, perhaps on a better connection. If every
//! answer took longer than that, nothing would ever succeed. So the next one is waited for twice as
//! long. The usual time is a fifth of the TTL, so an answer may take a third of the TTL. A holder's
//! renewals and proofs have as much time as its lease leaves them (`sessions/retry`).

use core::time::Duration;

/// The latency of one machine's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::machine) enum Latency {
    #[default]
    Prompt,
    Slow,
}

impl Latency {
    /// An answer came after this time. `usual` is the usual wait.
    pub(in crate::machine) fn answered(&mut self, took: Duration, usual: Duration) {
        *self = if took > usual / 2 {
            Self::Slow
        } else {
            Self::Prompt
        };
    }

    /// No answer came in time.
    pub(in crate::machine) fn timed_out(&mut self) {
        *self = Self::Slow;
    }

    /// How long to wait for the next answer.
    pub(in crate::machine) fn patience(self, usual: Duration) -> Duration {
        match self {
            Self::Slow => usual * 2,
            Self::Prompt => usual,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_slow_is_waited_for_twice_as_long_until_an_answer_is_prompt() {
        let s = Duration::from_secs;
        let mut latency = Latency::default();
        assert_eq!(latency.patience(s(3)), s(3));
        latency.timed_out();
        assert_eq!(latency.patience(s(3)), s(6));
        latency.answered(s(5), s(3));
        assert_eq!(latency.patience(s(3)), s(6));
        latency.answered(s(1), s(3));
        assert_eq!(latency.patience(s(3)), s(3));
        latency.answered(s(2), s(3));
        assert_eq!(latency.patience(s(3)), s(6));
    }
}
