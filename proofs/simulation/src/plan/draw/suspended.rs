//! Machines that are suspended, and clocks that jump ahead.

use std::time::Duration;

use fastrand::Rng;

use super::{millis, pick};
use crate::plan::{Deed, Plan, Sort, Trouble};

/// One in this many worlds has such a machine.
const ONE_IN: u32 = 14;

/// Mostly for longer than a lease, some while a session is created or renewed. The rest of the plan does
/// not change.
pub(super) fn draw_suspended(plan: &mut Plan, rng: &mut Rng) {
    if plan.hosts.is_empty() || plan.is_peaceful() || rng.u32(..ONE_IN) != 0 {
        return;
    }
    for _ in 0..rng.u32(1..=2) {
        let at = rng.usize(..plan.hosts.len());
        let host = &mut plan.hosts[at];
        let longest = host.ttl.mul_f64(pick(rng, &[0.1, 0.5, 1.0, 2.5]));
        let ahead = match rng.u32(..3) {
            0 => host.ttl.mul_f64(pick(rng, &[0.2, 1.0, 3.0]) * rng.f64()),
            _ => Duration::ZERO,
        };
        let deed = Deed::Suspend {
            host: host.number,
            time: longest.mul_f64(rng.f64()),
            ahead,
        };
        if rng.bool() {
            plan.deeds.push((plan.storm.mul_f64(rng.f64()), deed));
            continue;
        }
        let sorts = [
            (Sort::Record, 6),
            (Sort::Session, 4),
            (Sort::Renewal, 6),
            (Sort::Read, 20),
        ];
        let (sort, most) = pick(rng, &sorts);
        let trouble = Trouble::Deed(millis(rng.u64(..20)), deed);
        host.troubles.insert((sort, rng.u64(1..=most)), trouble);
    }
    plan.deeds.sort_by_key(|(at, _)| *at);
}
