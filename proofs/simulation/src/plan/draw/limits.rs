//! Servers that limit requests for longer than a moment.

use fastrand::Rng;
use transport_mock::consul::Version;

use super::pick;
use super::profile::is_old;
use crate::plan::{Deed, Plan};

/// One in this many worlds has such a server.
const ONE_IN: u32 = 16;

/// Releases before 1.15 have no such limits, so the release may change. The rest of the plan does not.
pub(super) fn draw_limits(plan: &mut Plan, rng: &mut Rng) {
    if plan.is_peaceful() || is_old(plan) || rng.u32(..ONE_IN) != 0 {
        return;
    }
    if plan.profile.version == Version::V1_8 {
        plan.profile.version = pick(rng, &[Version::V1_15, Version::V1_22, Version::V1_23]);
    }
    let servers: Vec<_> = plan.hosts.iter().filter_map(|it| it.server).collect();
    for _ in 0..rng.u32(1..=2) {
        // What ten seconds allow comes at once, so a low rate is felt first.
        let reads = pick(rng, &[None, Some(0.2), Some(0.5), Some(1.0), Some(4.0)]);
        let writes = pick(
            rng,
            &[Some(0.1), Some(0.2), Some(0.5), Some(1.0), Some(3.0)],
        );
        let is_leader = servers.is_empty() || rng.bool();
        let deed = Deed::LimitRequests {
            server: (!is_leader).then(|| pick(rng, &servers)),
            reads,
            writes,
            time: plan.storm.mul_f64(0.2 + 0.6 * rng.f64()),
        };
        let at = plan.storm.mul_f64(0.7 * rng.f64());
        plan.deeds.push((at, deed));
    }
    plan.deeds.sort_by_key(|(at, _)| *at);
}
