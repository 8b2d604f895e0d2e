//! How often a renewal or a proof is repeated while nothing is answered, and how long each is waited for.
//!
//! In a silence nobody knows whether what was sent is lost, or is kept by an agent without a leader.
//! Each request keeps a connection, and an agent has few for one address. So they follow one another
//! as always, and sooner only when little is left of the lease; and they are given up sooner, too, so
//! that few are under way:
//!
//! ```text
//!   |----|----|----|----|----|----|---|--|-|-|  end of the lease
//!       as always             a third of what is left, at least T/40
//! ```
//! Whenever the silence ends, the next one leaves two thirds of what is left for its answer (L4).
//!
//! Source: docs/PROTOCOL.md, rule 12.

use core::time::Duration;

use crate::defect::{Defect, is_on};
use crate::machine::process::tenancy::settings::SessionSettings;

/// The next one follows one that was sent with this much left of the lease within this time.
pub(super) fn follows_within(left: Duration, settings: &SessionSettings) -> Duration {
    (left / 3).max(settings.proved_time() / 40)
}

/// How long its answer is waited for, if the last one took this time: what is slow may succeed.
pub(super) fn waits_for(left: Duration, took: Duration, settings: &SessionSettings) -> Duration {
    if is_on(Defect::LatencyIgnored) {
        return settings.request_timeout();
    }
    let least = (settings.proved_time() / 16).max(took * 2);
    (left / 2).max(least).min(settings.request_timeout() * 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::SessionOptions;
    use crate::machine::fixture::at;

    #[test]
    fn in_a_silence_few_are_under_way_and_the_last_one_is_sent_soon_before_the_end() {
        let settings = SessionSettings::new(SessionOptions::default());
        let whole = settings.ttl();
        let end = at(0) + settings.lease_time();
        let (mut now, mut under_way, mut last) = (at(0) + whole / 15, Vec::new(), at(0));
        while now < end {
            let left = end.saturating_since(now);
            under_way.retain(|until| *until > now);
            under_way.push(now + waits_for(left, Duration::ZERO, &settings));
            let few = if left > whole / 4 { 7 } else { 4 };
            assert!(under_way.len() <= few, "{} with {left:?}", under_way.len());
            last = now;
            now = now + follows_within(left, &settings).min(whole / 16);
        }
        assert!(end.saturating_since(last) <= whole / 40);
    }
}
