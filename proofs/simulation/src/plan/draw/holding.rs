//! The worlds in which agents hold requests while there is no leader, and apply them after their
//! clients have given up.

use fastrand::Rng;

use super::{millis, pick};
use crate::plan::{Deed, Holding, Plan};

/// One in this many worlds has such agents.
const ONE_IN: u32 = 6;

/// What agents of these releases do.
const RELEASES: [Holding; 2] = [
    // 1.8.7
    Holding {
        wait: (millis(6_800), millis(7_200)),
        late: millis(300),
    },
    // 1.23
    Holding {
        wait: (millis(8_600), millis(18_000)),
        late: millis(4_700),
    },
];

/// Most of these worlds lose their leader more than once. The rest of the plan does not change.
pub(super) fn draw_holding(plan: &mut Plan, rng: &mut Rng) {
    if rng.u32(..ONE_IN) != 0 {
        return;
    }
    plan.holding = Some(pick(rng, &RELEASES));
    for _ in 0..rng.u32(..=3) {
        let longest = pick(rng, &[500, 4_000, 12_000, 25_000]);
        let time = millis(rng.u64(..longest));
        let at = plan.storm.mul_f64(rng.f64());
        plan.deeds.push((at, Deed::LoseLeader { time }));
    }
    plan.deeds.sort_by_key(|(at, _)| *at);
}
