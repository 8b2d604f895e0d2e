//! The slow worlds: an answer takes up to a third of the TTL.

use fastrand::Rng;
use semaphore_core::sans_io::SessionOptions;

use super::sharing::leave_in_peace;
use crate::plan::Plan;

/// One in this many worlds is slow.
const ONE_IN: u32 = 48;

/// Makes some worlds slow. Nothing else goes wrong in them. All other plans do not change.
pub(super) fn draw_slow(plan: &mut Plan, rng: &mut Rng) {
    let ttl = plan.ttl;
    let are_alike = plan.hosts.iter().all(|host| host.ttl == ttl);
    if !are_alike || plan.shares_connections() || rng.u32(..ONE_IN) != 0 {
        return;
    }
    leave_in_peace(plan);
    // This is the way there. The way back takes the same.
    plan.latency = ttl
        .min(SessionOptions::MAX_LOCK_DELAY)
        .mul_f64(0.05 + 0.11 * rng.f64());
    plan.storm = plan.storm.max(plan.ttl * 4);
}
