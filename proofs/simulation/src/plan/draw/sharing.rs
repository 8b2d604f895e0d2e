//! The hosts that share a few connections among many semaphores.

use std::time::Duration;

use fastrand::Rng;

use super::{millis, pick, secs};
use crate::plan::{End, HostPlan, How, Plan, Shared, Turn, UserPlan};

/// One in this many worlds has such hosts.
const ONE_IN: u32 = 32;

/// The most separate semaphores of a host, unless more are asked for.
const MOST_SEMAPHORES: usize = 300;

/// Makes some hosts of some worlds keep their connections open and share them, and gives them
/// separate semaphores. If a number of semaphores is asked for, every world has such hosts. In some
/// of these worlds nothing goes wrong, except that connections are refused. Otherwise plans do not
/// change.
pub(super) fn draw_sharing(plan: &mut Plan, rng: &mut Rng, semaphores: Option<usize>) {
    let is_one = rng.u32(..ONE_IN) == 0 || semaphores.is_some();
    if !is_one || plan.hosts.is_empty() {
        return;
    }
    if rng.u32(..4) == 0 {
        leave_in_peace(plan);
    }
    let first = rng.usize(..plan.hosts.len());
    let mut longest = Duration::ZERO;
    for at in 0..plan.hosts.len() {
        let shares = rng.u32(..4) == 0;
        if !shares && at != first {
            continue;
        }
        let transports = pick(rng, &[1, 1, 1, 1, 2, 4]);
        let allowed = match rng.u32(..4) {
            0 => rng.usize(1..=8),
            1 => rng.usize(1..=200),
            _ => 200,
        };
        // There must be room for the renewals of all transports. Otherwise some could never get in.
        let mut allowed = allowed.max((transports - 1) * 8);
        if semaphores.is_some_and(|it| it > most_served(plan, &plan.hosts[at], allowed)) {
            allowed = 200;
            plan.latency = plan.latency.min(millis(2));
        }
        let many = semaphores.unwrap_or_else(|| {
            let fit = most_served(plan, &plan.hosts[at], allowed);
            number_of_semaphores(rng).min(fit)
        });
        let is_slow = allowed <= 8 && plan.latency >= millis(50);
        let readers = if is_slow { pick(rng, &[0, 200]) } else { 0 };
        let own: Vec<_> = (0..many)
            .map(|_| user(rng, plan.hosts[at].ttl, &mut longest))
            .collect();
        plan.hosts[at].shared = Some(Shared {
            transports,
            allowed,
            readers,
        });
        plan.hosts[at].own = own;
    }
    plan.storm = plan.storm.max(longest + secs(rng.u64(1..10)));
}

/// Nothing goes wrong, and everybody uses this library.
pub(super) fn leave_in_peace(plan: &mut Plan) {
    plan.deeds.clear();
    plan.strangers.clear();
    for host in &mut plan.hosts {
        host.troubles.clear();
    }
}

/// Most hosts have few: a world with hundreds takes as long as a hundred other worlds.
fn number_of_semaphores(rng: &mut Rng) -> usize {
    match rng.u32(..256) {
        0 => rng.usize(65..=MOST_SEMAPHORES),
        1..17 => rng.usize(13..=64),
        _ => rng.usize(1..=6),
    }
}

/// How many semaphores this many connections can renew. Polls may have most of the connections.
/// Each semaphore needs less than one exchange per second, and an exchange takes at most two
/// travels.
fn most_served(plan: &Plan, host: &HostPlan, allowed: usize) -> usize {
    let exchange = plan.latency.max(millis(1)) * 2;
    let by_one = host.ttl.as_millis() / (exchange.as_millis() * 20);
    let by_one = usize::try_from(by_one).unwrap_or(usize::MAX).max(1);
    (allowed / 8).clamp(1, 25).saturating_mul(by_one)
}

/// It acquires, holds for longer than a lease, and releases.
fn user(rng: &mut Rng, ttl: Duration, longest: &mut Duration) -> UserPlan {
    let turn = Turn {
        idle: millis(rng.u64(..3_000)),
        how: match rng.u32(..4) {
            0 => How::Within(ttl.mul_f64(0.5 + rng.f64())),
            _ => How::Acquire,
        },
        permits: 1,
        hold: ttl.mul_f64(1.1 + rng.f64()),
        changes: 0,
        end: match rng.u32(..4) {
            0 => End::Drop,
            _ => End::Release,
        },
    };
    *longest = (*longest).max(turn.idle + turn.hold);
    UserPlan { turns: vec![turn] }
}
