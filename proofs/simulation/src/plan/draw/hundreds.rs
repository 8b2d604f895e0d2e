//! The records that name hundreds of holders.

use std::time::Duration;

use fastrand::Rng;

use super::{millis, secs};
use crate::plan::{Deed, Plan, Stranger, StrangerPlan};

/// One in this many worlds has such a record. Others are excepted below, so fewer have one.
const ONE_IN: u32 = 40;

/// Adds a crowd of strangers, and as many slots, where no operator takes anything away from the crowd,
/// everybody has the same limit, and each can ask about dead holders. The rest of the plan does not
/// change.
pub(super) fn draw_hundreds(plan: &mut Plan, rng: &mut Rng) {
    let mut semaphores = (0..plan.prefixes.len()).filter(|it| !plan.place(*it).is_election());
    let Some(prefix) = semaphores.next() else {
        return;
    };
    let is_near = plan.latency <= Duration::from_millis(50);
    let is_left_alone = plan.access_control.is_none() && !plan.has(is_operation);
    let is_one = is_near && is_left_alone && !plan.changes_limits() && !plan.shares_connections();
    if !is_one || plan.hosts.is_empty() || rng.u32(..ONE_IN) != 0 {
        return;
    }
    let holders = rng.u32(150..=300);
    let at = plan.storm.mul_f64(0.3 * rng.f64());
    let hold = millis(rng.u64(3_000..15_000));
    plan.limit += holders;
    plan.storm = plan.storm.max(at + hold + secs(15));
    plan.strangers.push(StrangerPlan {
        number: plan.strangers.len(),
        prefix,
        at,
        kind: Stranger::Crowd { holders, hold },
        dialect: None,
    });
}

fn is_operation(deed: &Deed) -> bool {
    matches!(
        deed,
        Deed::DestroySession { .. }
            | Deed::DeleteKey { .. }
            | Deed::RemoveHolder { .. }
            | Deed::DeleteRecord { .. }
            | Deed::Garble { .. }
            | Deed::ResetIndex
            | Deed::Restore
            | Deed::Evict { .. }
    )
}
