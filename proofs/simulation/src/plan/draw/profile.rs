//! The release and edition of Consul.

use fastrand::Rng;
use std::time::Duration;
use transport_mock::consul::{Edition, Profile, Version};

use super::pick;
use crate::plan::{Holding, Plan, Told};

/// Half of the worlds are of a newer release than 1.8, where the rest of the plan is as one does it: 1.8 says nothing of what
/// a read leaves out, and newer agents do; they hold requests for longer. One in four of those is of Enterprise. The rest of
/// the plan stays as it is.
pub(super) fn draw_profile(plan: &mut Plan, rng: &mut Rng) {
    let is_newer = rng.bool();
    let version = pick(rng, &[Version::V1_15, Version::V1_22, Version::V1_23]);
    let edition = match rng.u32(..4) {
        0 => Edition::Enterprise,
        _ => Edition::Community,
    };
    if is_newer && !is_old(plan) {
        plan.profile = Profile { version, edition };
    }
}

/// Whether something is done as only 1.8 does it.
fn is_old(plan: &Plan) -> bool {
    let newer_hold_for = Duration::from_secs(8);
    let is_short = |it: &Holding| it.wait.0 < newer_hold_for;
    plan.access_control == Some(Told::NotAtAll) || plan.holding.as_ref().is_some_and(is_short)
}
