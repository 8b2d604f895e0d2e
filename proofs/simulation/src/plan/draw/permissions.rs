//! What tokens may not write or not read: for a while, and those of a guest from its first use on.

use fastrand::Rng;

use super::{millis, pick};
use crate::plan::{Deed, Plan, ReadOnly};

const ALL: [ReadOnly; 4] = [
    ReadOnly::Record,
    ReadOnly::Contenders,
    ReadOnly::Keys,
    ReadOnly::Sessions,
];

/// The rest of the plan does not change.
pub(super) fn draw_permissions(plan: &mut Plan, rng: &mut Rng) {
    if plan.access_control.is_none() || plan.hosts.is_empty() {
        return;
    }
    plan.guest = Some(pick(rng, &ALL));
    for _ in 0..rng.u32(..3) {
        let host = rng.usize(..plan.hosts.len());
        let deed = Deed::Narrow {
            host: plan.hosts[host].number,
            what: pick(rng, &ALL),
            time: millis(rng.u64(100..20_000)),
        };
        plan.deeds.push((plan.storm.mul_f64(rng.f64()), deed));
    }
    plan.deeds.sort_by_key(|(at, _)| *at);
    // Drawn last, so that nothing else changes: half of those that may not write sessions may not
    // read them either. No request of the core needs a permission of the agent.
    let narrowed = plan.deeds.iter_mut().filter_map(|(_, deed)| match deed {
        Deed::Narrow { what, .. } => Some(what),
        _ => None,
    });
    for what in plan.guest.iter_mut().chain(narrowed) {
        if *what == ReadOnly::Sessions && rng.bool() {
            *what = ReadOnly::NoSessions;
        }
    }
}
