//! The hosts with a gateway that answers instead of their agent for a while.

use fastrand::Rng;

use super::{millis, pick};
use crate::plan::{Deed, Gateway, Plan, Sort, Trouble};

/// One in this many worlds has one.
const ONE_IN: u32 = 12;

const ANSWERS: [Gateway; 4] = [
    Gateway::NotFound,
    Gateway::Forbidden,
    Gateway::TooLarge,
    Gateway::Moved,
];

/// Mostly during a release, a renewal or a read. The rest of the plan does not change.
pub(super) fn draw_gateways(plan: &mut Plan, rng: &mut Rng) {
    if plan.hosts.is_empty() || rng.u32(..ONE_IN) != 0 {
        return;
    }
    for _ in 0..rng.u32(1..=3) {
        let host = rng.usize(..plan.hosts.len());
        let number = plan.hosts[host].number;
        // Some last longer than a lease.
        let time = plan
            .ttl
            .mul_f64(pick(rng, &[0.1, 0.4, 0.4, 1.2]) * rng.f64());
        let deed = Deed::Gateway {
            host: number,
            time,
            answer: pick(rng, &ANSWERS),
        };
        if rng.u32(..4) == 0 {
            plan.deeds.push((plan.storm.mul_f64(rng.f64()), deed));
            continue;
        }
        let sorts = [
            (Sort::Record, 6),
            (Sort::Key, 6),
            (Sort::Session, 6),
            (Sort::Renewal, 8),
            (Sort::Read, 12),
        ];
        let (sort, most) = pick(rng, &sorts);
        let after = millis(rng.u64(..20));
        let trouble = Trouble::Deed(after, deed);
        let at = (sort, rng.u64(1..=most));
        plan.hosts[host].troubles.insert(at, trouble);
    }
    plan.deeds.sort_by_key(|(at, _)| *at);
}
