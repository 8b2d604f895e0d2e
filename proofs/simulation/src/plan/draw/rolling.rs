//! The hosts with a new version and a new limit, which they write when nobody holds.

use fastrand::Rng;

use crate::plan::{Place, Plan, Rolling};

/// One in this many worlds is in the middle of a deploy.
const ONE_IN: u32 = 12;

/// Gives some hosts another limit. While somebody holds, some of them adopt the record's limit, and
/// others refuse it. Two hosts may want different ones. The rest of the plan does not change.
pub(super) fn draw_rolling(plan: &mut Plan, rng: &mut Rng) {
    if rng.u32(..ONE_IN) != 0 {
        return;
    }
    for host in &mut plan.hosts {
        let place = plan.prefixes.get(host.prefix);
        let is_election = place.is_some_and(Place::is_election);
        if rng.u32(..3) != 0 && !is_election {
            host.rolling = Some(Rolling {
                limit: rng.u32(1..=4),
                adopts: rng.u32(..4) != 0,
            });
        }
    }
}
