//! Whether answers are slow of late, and so how long the next one is waited for.
//!
//! ```text
//!            no answer in time, or one that took more than half of it
//!  Prompt ──────────────────────────────────────────────────────────▶ Slow
//!     ▲                                                                 │
//!     └───────────────────── an answer in less than half ◀──────────────┘
//! ```
//! A request that gets no answer in time is sent again, perhaps on a connection that works. Where every answer takes
//! longer than that nothing would ever succeed, so that the next one is waited for twice as long. With a fifth of the TTL as
//! the usual time an answer may take a third of the TTL.

use core::time::Duration;

use crate::defect::{Defect, is_on};

/// Of one machine's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::machine) enum Latency {
    #[default]
    Prompt,
    Slow,
}

impl Latency {
    /// An answer came after so long, where `usual` is how long one is waited for.
    pub(in crate::machine) fn answered(&mut self, took: Duration, usual: Duration) {
        *self = if took > usual / 2 {
            Self::Slow
        } else {
            Self::Prompt
        };
    }

    /// None came in time.
    pub(in crate::machine) fn timed_out(&mut self) {
        *self = Self::Slow;
    }

    /// How long the next one is waited for.
    pub(in crate::machine) fn patience(self, usual: Duration) -> Duration {
        match self {
            Self::Slow if !is_on(Defect::LatencyIgnored) => usual * 2,
            _ => usual,
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
