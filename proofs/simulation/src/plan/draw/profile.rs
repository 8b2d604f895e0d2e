//! The release and edition of Consul.

use fastrand::Rng;
use std::time::Duration;
use transport_mock::consul::{Edition, Profile, Version};

use super::pick;
use crate::plan::{Holding, Plan, Told};

/// Makes half of the worlds newer than 1.8, if the rest of the plan fits a newer release. Unlike
/// 1.8, newer agents say if a read leaves something out, and hold requests for longer. One in four
/// of these worlds is Enterprise. The rest of the plan does not change.
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

/// Whether the plan does something that only 1.8 does.
pub(super) fn is_old(plan: &Plan) -> bool {
    let newer_hold_for = Duration::from_secs(8);
    let is_short = |it: &Holding| it.wait.0 < newer_hold_for;
    plan.access_control == Some(Told::NotAtAll) || plan.holding.as_ref().is_some_and(is_short)
}
