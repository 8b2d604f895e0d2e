//! A user that holds many slots of one semaphore at once, each with its session.

use std::time::Duration;

use fastrand::Rng;

use crate::plan::Plan;

/// One in this many worlds has such a user, if messages are quick.
const ONE_IN: u32 = 12;

/// The least and the most that it wants. The sessions of the first sixteen are each asked about
/// alone. With those of its own turns they are 31 at most, as a transaction has room for.
const LEAST: u32 = 18;
const MOST: u32 = 28;

/// Gives one user turns with many permits, and everybody as many more slots. The rest of the plan
/// does not change.
pub(super) fn draw_many(plan: &mut Plan, rng: &mut Rng) {
    // Where a message takes long, so many sessions take minutes.
    let is_near = plan.latency <= Duration::from_millis(50);
    let has_one_limit = plan.hosts.iter().all(|host| host.rolling.is_none());
    if rng.u32(..ONE_IN) != 0 || !has_one_limit || !is_near {
        return;
    }
    let prefixes = &plan.prefixes;
    let is_of_semaphore = |number: usize| {
        let place = prefixes.get(number);
        place.is_some_and(|place| !place.is_election())
    };
    let mut hosts = plan.hosts.iter_mut();
    let host = hosts.find(|host| is_of_semaphore(host.prefix) && !host.users.is_empty());
    let Some(user) = host.and_then(|host| host.users.first_mut()) else {
        return;
    };
    let many = rng.u32(LEAST..=MOST);
    plan.limit += many;
    for turn in &mut user.turns {
        turn.permits += many;
        // Long enough for renewals.
        turn.hold = turn.hold.max(plan.ttl / 2) + Duration::from_millis(rng.u64(..5_000));
    }
}
