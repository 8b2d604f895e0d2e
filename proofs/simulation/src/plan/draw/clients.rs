//! The hosts that use one client, whose semaphores share sessions.

use fastrand::Rng;

use super::{millis, pick};
use crate::plan::{End, HostPlan, How, Plan, Turn, UserPlan};

/// One in this many worlds has such hosts.
const ONE_IN: u32 = 3;

/// Makes some hosts of some worlds use one client. Gives them separate semaphores in addition, if
/// they have none. In some of these worlds, holders are watched together. Elections and semaphores
/// use different sessions, unless both release their keys. The rest of the plan does not change.
pub(super) fn draw_clients(plan: &mut Plan, rng: &mut Rng) {
    if rng.u32(..ONE_IN) != 0 {
        return;
    }
    for at in 0..plan.hosts.len() {
        let is_election = plan.place(plan.hosts[at].prefix).is_election();
        let in_four = if is_election { 2 } else { 3 };
        let host = &mut plan.hosts[at];
        host.client = rng.u32(..4) < in_four;
        let few = rng.usize(1..=3);
        if host.client && host.own.is_empty() {
            host.own = (0..few).map(|_| user(rng, host)).collect();
        }
    }
    for host in plan.hosts.iter_mut().filter(|it| it.client) {
        host.own_polls = pick(rng, &[None, Some(0), Some(0), Some(2)]);
    }
}

/// Gives some hosts with a client separate elections, so several terms use one session.
pub(super) fn draw_own_elections(plan: &mut Plan, rng: &mut Rng) {
    for host in plan.hosts.iter_mut().filter(|it| it.client) {
        let many = pick(rng, &[0, 1, 2, 3]);
        host.own_elections = (0..many).map(|_| leader(rng, host)).collect();
    }
}

/// As for a semaphore, but with changes of the value.
fn leader(rng: &mut Rng, host: &HostPlan) -> UserPlan {
    let mut user = user(rng, host);
    for turn in &mut user.turns {
        turn.changes = pick(rng, &[0, 0, 1, 3]);
    }
    user
}

/// It comes soon, and again. It has one long hold, while others come and go, or several short ones.
fn user(rng: &mut Rng, host: &HostPlan) -> UserPlan {
    let turns = pick(rng, &[1, 1, 2, 4]);
    let turn = |rng: &mut Rng| {
        let longest_idle = pick(rng, &[5, 500, 3_000]);
        let longest = pick(rng, &[50, 500, 5_000]);
        Turn {
            idle: millis(rng.u64(..longest_idle)),
            how: match rng.u32(..8) {
                0 => How::Try,
                1 => How::Within(host.ttl.mul_f64(0.5 + rng.f64())),
                2 | 3 => How::CancelAfter(millis(rng.u64(..1_000))),
                _ => How::Acquire,
            },
            permits: 1,
            hold: if turns == 1 {
                host.ttl.mul_f64(0.5 + 2.0 * rng.f64())
            } else {
                millis(rng.u64(..longest))
            },
            changes: 0,
            end: match rng.u32(..3) {
                0 => End::Drop,
                1 => End::Abandon(millis(rng.u64(..50))),
                _ => End::Release,
            },
        }
    };
    UserPlan {
        turns: (0..turns).map(|_| turn(rng)).collect(),
    }
}
