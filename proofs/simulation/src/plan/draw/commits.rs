//! The worlds whose leader commits slowly.

use fastrand::Rng;

use super::pick;
use crate::plan::{Deed, Plan};

/// One in this many worlds has such a leader.
const ONE_IN: u32 = 16;

/// Some commits take longer than a client waits. The rest of the plan does not change.
pub(super) fn draw_slow_commits(plan: &mut Plan, rng: &mut Rng) {
    if plan.is_peaceful() || rng.u32(..ONE_IN) != 0 {
        return;
    }
    for _ in 0..rng.u32(1..=2) {
        let longest = plan
            .request_timeout()
            .mul_f64(pick(rng, &[0.05, 0.5, 0.9, 1.3]));
        let deed = Deed::SlowCommits {
            takes: longest.mul_f64(rng.f64()),
            time: plan.storm.mul_f64(0.5 * rng.f64()),
            renewals: rng.bool(),
        };
        plan.deeds.push((plan.storm.mul_f64(rng.f64()), deed));
    }
    plan.deeds.sort_by_key(|(at, _)| *at);
}
