//! The hosts that contend with others at more prefixes than one.

use fastrand::Rng;

use super::{millis, pick};
use crate::plan::{Also, Deed, End, HostPlan, How, Place, Plan, Turn, UserPlan};

/// One in this many of the worlds in which a host uses a client has such hosts.
const ONE_IN: u32 = 6;

/// Adds one or two prefixes for which two or more hosts contend, so one session of a client holds at
/// several. Each host with a client is among them. In some of these worlds an operator takes something
/// away there. The rest of the plan does not change.
pub(super) fn draw_elsewhere(plan: &mut Plan, rng: &mut Rng) {
    if !plan.has_client() || plan.hosts.len() < 2 || rng.u32(..ONE_IN) != 0 {
        return;
    }
    let first = plan.prefixes.len();
    plan.prefixes.push(Place::Semaphore);
    if rng.u32(..3) == 0 {
        plan.prefixes.push(Place::Election { lock_delay: None });
    }
    let further = first..plan.prefixes.len();
    for prefix in further.clone() {
        let second = rng.usize(..plan.hosts.len());
        let (place, limit) = (plan.place(prefix), plan.limit);
        // A client is one of them, and there is another one.
        let is_alone = plan.hosts.iter().filter(|it| it.client).count() < 2;
        let other = plan.hosts.iter().position(|it| !it.client);
        for (at, host) in plan.hosts.iter_mut().enumerate() {
            let is_other = is_alone && other == Some(at);
            if !host.client && !is_other && at != second {
                continue;
            }
            let users = (0..rng.usize(1..=2)).map(|_| user(rng, host, place, limit));
            let users = users.collect();
            host.also.push(Also { prefix, users });
        }
    }
    if rng.u32(..3) == 0 {
        for _ in 0..rng.u32(1..=2) {
            let prefix = rng.usize(further.clone());
            let deed = deed(rng, prefix, plan.place(prefix));
            plan.deeds.push((plan.storm.mul_f64(rng.f64()), deed));
        }
        plan.deeds.sort_by_key(|(at, _)| *at);
    }
}

/// It comes soon, and holds for a moment or for as long as others hold elsewhere.
fn user(rng: &mut Rng, host: &HostPlan, place: Place, limit: u32) -> UserPlan {
    let mut turn = || {
        let longest_idle = pick(rng, &[5, 500, 3_000]);
        let longest = pick(rng, &[50, 500, 5_000]);
        Turn {
            idle: millis(rng.u64(..longest_idle)),
            how: match rng.u32(..8) {
                0 => How::Try,
                1 => How::Within(host.ttl.mul_f64(0.5 + rng.f64())),
                2 => How::CancelAfter(millis(rng.u64(..2_000))),
                _ => How::Acquire,
            },
            permits: match place {
                Place::Semaphore if rng.u32(..4) == 0 => rng.u32(1..=limit.min(3)),
                _ => 1,
            },
            hold: if rng.u32(..4) == 0 {
                host.ttl.mul_f64(0.5 + rng.f64())
            } else {
                millis(rng.u64(..longest))
            },
            changes: match place {
                Place::Semaphore => 0,
                Place::Election { .. } => pick(rng, &[0, 0, 1, 3]),
            },
            end: match rng.u32(..3) {
                0 => End::Drop,
                1 => End::Abandon(millis(rng.u64(..50))),
                _ => End::Release,
            },
        }
    };
    UserPlan {
        turns: (0..3).map(|_| turn()).collect(),
    }
}

fn deed(rng: &mut Rng, prefix: usize, place: Place) -> Deed {
    let nth = rng.usize(..8);
    match rng.u32(..4) {
        0 => Deed::DeleteRecord { prefix },
        1 if place.is_election() => Deed::Overwrite { prefix },
        1 => Deed::DeleteKey { prefix, nth },
        2 => Deed::Garble {
            prefix,
            time: millis(rng.u64(..5_000)),
        },
        _ => Deed::RemoveHolder { prefix, nth },
    }
}
