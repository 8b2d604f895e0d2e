//! Which worlds are slow: an answer takes up to a third of the TTL.

use fastrand::Rng;

use super::sharing::leave_in_peace;
use crate::plan::Plan;

/// One world in so many is slow.
const ONE_IN: u32 = 48;

/// Makes some worlds slow, in which nothing else goes wrong. Every other plan stays as it is.
pub(super) fn draw_slow(plan: &mut Plan, rng: &mut Rng) {
    let Some(lease) = plan.lease().filter(|_| rng.u32(..ONE_IN) == 0) else {
        return;
    };
    leave_in_peace(plan);
    // There, and the same back.
    plan.latency = lease.mul_f64(0.05 + 0.11 * rng.f64());
    plan.storm = plan.storm.max(plan.ttl * 4);
}
