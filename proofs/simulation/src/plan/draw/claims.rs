//! Claims that are given up while they are under way.

use std::time::Duration;

use fastrand::Rng;
use transport_mock::Fault;

use super::{millis, pick};
use crate::plan::{End, How, Plan, Sort, Trouble, Turn, UserPlan};

/// Makes some hosts begin with a caller that gives up while a write of the record is under way.
/// Another caller waits meanwhile. Then the write admits a contender that nobody has asked for. The
/// rest of the plan does not change.
pub(super) fn draw_abandoned_claims(plan: &mut Plan, rng: &mut Rng) {
    let latency = plan.latency;
    for at in 0..plan.hosts.len() {
        let is_one = rng.u32(..6) == 0;
        if !is_one || plan.place(plan.hosts[at].prefix).is_election() {
            continue;
        }
        let host = &mut plan.hosts[at];
        // A later answer counts as missing.
        let timeout = (host.ttl / 5).min(Duration::from_secs(10));
        let given_up = latency * 8 + timeout.mul_f64(0.4 * rng.f64());
        let late = timeout.mul_f64(0.5 + 0.4 * rng.f64());
        let late = pick(rng, &[Fault::Delay, Fault::DelayAnswer])(late);
        let claim = (Sort::Record, pick(rng, &[1, 2, 2, 3]));
        host.troubles.insert(claim, Trouble::Fault(late));
        host.users
            .resize_with(host.users.len().max(2), || UserPlan { turns: Vec::new() });
        let hows = [How::CancelAfter(given_up), How::Acquire];
        for (user, how) in host.users.iter_mut().zip(hows) {
            let turn = Turn {
                idle: millis(rng.u64(..20)),
                how,
                permits: 1,
                hold: millis(rng.u64(..500)),
                changes: 0,
                end: End::Release,
            };
            user.turns.insert(0, turn);
        }
    }
}
