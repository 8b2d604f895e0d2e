//! Operations with this library during the storm, and semaphores that keep lost slots.

use fastrand::Rng;

use super::{millis, pick};
use crate::plan::{Deed, Plan, Sort, Trouble};

/// One in this many worlds has an operator who uses this library.
const ONE_IN: u32 = 10;

/// In one of this many some hosts keep lost slots.
const KEEPS_ONE_IN: u32 = 4;

/// Somebody's session is destroyed, so there is a lost slot to keep.
fn take_sessions(plan: &mut Plan, rng: &mut Rng) {
    if plan.is_peaceful() {
        return;
    }
    for _ in 0..rng.u32(0..=3) {
        let deed = Deed::DestroySession {
            nth: rng.usize(..4),
        };
        plan.deeds.push((plan.storm.mul_f64(rng.f64()), deed));
    }
    plan.deeds.sort_by_key(|(at, _)| *at);
}

/// Mostly evictions. The rest of the plan does not change.
pub(super) fn draw_managed(plan: &mut Plan, rng: &mut Rng) {
    if rng.u32(..KEEPS_ONE_IN) == 0 {
        for host in &mut plan.hosts {
            let time = millis(rng.u64(..8_000));
            host.keeps_lost = (rng.u32(..3) != 0).then_some(time);
        }
        take_sessions(plan, rng);
    }
    let semaphores = (0..plan.prefixes.len()).filter(|it| !plan.place(*it).is_election());
    let semaphores: Vec<_> = semaphores.collect();
    if semaphores.is_empty() || plan.is_peaceful() || rng.u32(..ONE_IN) != 0 {
        return;
    }
    for _ in 0..rng.u32(1..=4) {
        let prefix = pick(rng, &semaphores);
        let deed = match rng.u32(..6) {
            0 => Deed::SetLimit {
                prefix,
                limit: rng.u32(1..=4),
            },
            1 => Deed::Destroy { prefix },
            _ => Deed::Evict {
                prefix,
                nth: rng.usize(..8),
            },
        };
        // A host that renews its session may hold. Some evictions come just then.
        let is_eviction = matches!(deed, Deed::Evict { .. });
        let mut there = plan.hosts.iter_mut().filter(|it| it.prefix == prefix);
        match there.next().filter(|_| is_eviction && rng.bool()) {
            Some(host) => {
                let renewal = (Sort::Renewal, rng.u64(1..=3));
                let trouble = Trouble::Deed(millis(rng.u64(..50)), deed);
                host.troubles.insert(renewal, trouble);
            }
            None => plan.deeds.push((plan.storm.mul_f64(rng.f64()), deed)),
        }
    }
    plan.deeds.sort_by_key(|(at, _)| *at);
}
