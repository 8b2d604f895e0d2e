//! The hosts whose sessions belong to a node without an agent.

use fastrand::Rng;

use crate::plan::{Deed, Plan};

/// In worlds that lose servers, some hosts have such a node. Sometimes that is removed, too. The
/// rest of the plan does not change.
pub(super) fn draw_own_nodes(plan: &mut Plan, rng: &mut Rng) {
    if plan.hosts.iter().all(|it| it.server.is_none()) || rng.u32(..3) != 0 {
        return;
    }
    let in_four = [2, 4][rng.usize(..2)];
    for host in &mut plan.hosts {
        host.own_node = rng.u32(..4) < in_four;
    }
    if rng.u32(..4) == 0 {
        let when = plan.storm.mul_f64(rng.f64());
        plan.deeds.push((when, Deed::DeregisterOwn));
        plan.deeds.sort_by_key(|(at, _)| *at);
    }
}
