//! Which prefixes are elections, and how that affects the rest of a plan.

use std::time::Duration;

use fastrand::Rng;

use super::{millis, pick, secs};
use crate::plan::{Deed, HostPlan, Place, Plan, Stranger, Trouble};

/// Makes some prefixes elections. The rest of the plan does not change, as far as it makes sense
/// there.
pub(super) fn draw_elections(plan: &mut Plan, rng: &mut Rng) {
    for prefix in 0..plan.prefixes.len() {
        if rng.u32(..8) < 4 {
            plan.prefixes[prefix] = Place::Election {
                lock_delay: lock_delay(rng),
            };
        }
    }
    let places = plan.prefixes.clone();
    let is_election = |prefix: usize| places.get(prefix).is_some_and(Place::is_election);
    for host in plan.hosts.iter_mut().filter(|it| is_election(it.prefix)) {
        host.follows = rng.bool();
        for turn in host.users.iter_mut().flat_map(|it| &mut it.turns) {
            turn.permits = 1;
            turn.changes = pick(rng, &[0, 0, 1, 1, 3, 8]);
        }
        if rng.u32(..4) == 0 {
            hurry(host, rng);
        }
    }
    for stranger in plan
        .strangers
        .iter_mut()
        .filter(|it| is_election(it.prefix))
    {
        stranger.kind = locker(rng);
    }
    let caused = plan.hosts.iter_mut().flat_map(|host| {
        host.troubles
            .values_mut()
            .filter_map(|trouble| match trouble {
                Trouble::Deed(_, deed) => Some(deed),
                Trouble::Fault(_) => None,
            })
    });
    for deed in plan.deeds.iter_mut().map(|(_, deed)| deed).chain(caused) {
        translate(deed, &is_election);
    }
}

/// Campaigns follow one another within a moment, so sessions are kept from one to the next.
fn hurry(host: &mut HostPlan, rng: &mut Rng) {
    for turn in host.users.iter_mut().flat_map(|it| &mut it.turns) {
        turn.idle = millis(pick(rng, &[0, 0, 3, 30, 300]));
        turn.hold = millis(pick(rng, &[0, 0, 3, 30, 300]));
        turn.changes = turn.changes.min(1);
    }
}

/// A lock delay that is longer than belief, Consul's default, or a short one.
fn lock_delay(rng: &mut Rng) -> Option<Duration> {
    Some(match rng.u32(..6) {
        0 => Duration::ZERO,
        1 => secs(15),
        2 => millis(rng.u64(1..1_000)),
        3 => millis(rng.u64(1_000..6_000)),
        _ => return None,
    })
}

/// A user of Go's `api.Lock`, or of `consul lock`.
fn locker(rng: &mut Rng) -> Stranger {
    let (turns, hold) = (rng.u32(1..=4), millis(rng.u64(10..5_000)));
    if rng.bool() {
        Stranger::Go { turns, hold }
    } else {
        Stranger::ConsulLock { turns, hold }
    }
}

/// An election has no contender keys and no limit.
fn translate(deed: &mut Deed, is_election: &impl Fn(usize) -> bool) {
    match *deed {
        Deed::DeleteKey { prefix, .. } if is_election(prefix) => {
            *deed = Deed::DeleteRecord { prefix };
        }
        Deed::Resize { prefix, .. } if is_election(prefix) => {
            *deed = Deed::Overwrite { prefix };
        }
        _ => {}
    }
}
