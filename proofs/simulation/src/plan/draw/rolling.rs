//! Which hosts have another version with another limit, which they write while nobody holds.

use fastrand::Rng;

use crate::plan::{Place, Plan, Rolling};

/// One world in so many is in the middle of a deploy.
const ONE_IN: u32 = 12;

/// Gives some hosts another limit. Some take the record's over while somebody holds, some refuse it, and two of them may want
/// different ones. The rest of the plan stays as it is.
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
