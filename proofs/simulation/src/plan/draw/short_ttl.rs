//! Servers that ask for longer TTLs than hosts have.

use fastrand::Rng;

use super::{millis, pick, secs};
use crate::plan::{Deed, GUEST_TTL, Plan};

/// One in this many worlds has such servers for a while.
const ONE_IN: u32 = 20;

/// In one of this many such servers refuse a guest in the end.
const GUEST_ONE_IN: u32 = 10;

/// The rest of the plan does not change.
pub(super) fn draw_short_ttl(plan: &mut Plan, rng: &mut Rng) {
    // An answer takes a third of its TTL at most, on the way there and back.
    let is_near = plan.latency * 6 <= GUEST_TTL;
    if rng.u32(..GUEST_ONE_IN) == 0 && is_near {
        plan.least_ttl = Some(secs(pick(rng, &[16, 60, 3_600])));
    }
    if plan.is_peaceful() || rng.u32(..ONE_IN) != 0 {
        return;
    }
    let longest = pick(rng, &[millis(3_000), plan.ttl, plan.ttl * 2]);
    let deed = Deed::RaiseLeastTtl {
        ttl: secs(pick(rng, &[11, 20, 31, 100])),
        time: longest.mul_f64(rng.f64()),
    };
    plan.deeds.push((plan.storm.mul_f64(rng.f64()), deed));
    plan.deeds.sort_by_key(|(at, _)| *at);
}
