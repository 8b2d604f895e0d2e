//! The hosts on which a new process starts before the old one has ended, with other settings.
//!
//! In a plan the new process is a separate host. It runs on the old one's server, by the old one's
//! clock.

use std::time::Duration;

use fastrand::Rng;

use super::{millis, pick, secs};
use crate::plan::{Deed, HostPlan, Plan, Rolling};

/// One in this many worlds has such a host.
const ONE_IN: u32 = 12;

/// Where one user wants many slots, no limit is low.
const FEW_SLOTS: u32 = 10;

/// The new process has another TTL, lock delay or limit, and the turns of the old one. The rest of
/// the plan does not change.
pub(super) fn draw_deploy(plan: &mut Plan, rng: &mut Rng) {
    let is_left_alone = plan.is_peaceful() || plan.shares_connections();
    let has_many = plan.limit > FEW_SLOTS;
    if plan.hosts.is_empty() || is_left_alone || has_many || rng.u32(..ONE_IN) != 0 {
        return;
    }
    let old = &plan.hosts[rng.usize(..plan.hosts.len())];
    let number = plan.hosts.iter().map(|it| it.number).max();
    let number = number.map_or(0, |it| it + 1);
    let starts_at = plan.storm.mul_f64(0.05 + 0.6 * rng.f64());
    let mut new = HostPlan {
        number,
        starts_at,
        own: Vec::new(),
        own_elections: Vec::new(),
        troubles: old.troubles.clone().into_iter().take(2).collect(),
        ..old.clone()
    };
    let is_semaphore = !plan.place(old.prefix).is_election();
    let others = rng.u32(1..8);
    if others & 1 != 0 {
        let ttl = secs(pick(rng, &[10, 15, 20, 30]));
        // An answer takes a third of the TTL at most, on the way there and back.
        new.ttl = if plan.latency * 6 > ttl {
            plan.ttl
        } else {
            ttl
        };
    }
    if others & 2 != 0 && is_semaphore {
        let delays = [Duration::ZERO, secs(1), secs(15), secs(30)];
        new.lock_delay = Some(pick(rng, &delays));
    }
    if others & 4 != 0 && is_semaphore {
        new.rolling = Some(Rolling {
            limit: rng.u32(1..=4),
            adopts: true,
        });
    }
    let ends_at =
        starts_at + millis(rng.u64(..8_000)).min(plan.storm.saturating_sub(starts_at) / 2);
    let host = old.number;
    plan.ttl = plan.ttl.max(new.ttl);
    plan.hosts.push(new);
    plan.deeds.push((ends_at, Deed::Retire { host }));
    plan.deeds.sort_by_key(|(at, _)| *at);
}
