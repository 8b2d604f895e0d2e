//! Tokens that are deleted for a while, and those that lose the permission to write sessions.

use fastrand::Rng;

use super::{millis, pick};
use crate::plan::{Deed, Plan, ReadOnly, Sort, Told, Trouble};

/// One in this many of the worlds that ask for tokens has such tokens.
const ONE_IN: u32 = 2;

/// One in this many of the others asks for tokens because of this, so other things go wrong, too.
const ONE_OTHER_IN: u32 = 20;

/// Mostly while a session is created or renewed. The rest of the plan does not change.
pub(super) fn draw_revoked(plan: &mut Plan, rng: &mut Rng) {
    let one_in = match plan.access_control {
        Some(_) => ONE_IN,
        None => ONE_OTHER_IN,
    };
    if plan.hosts.is_empty() || plan.is_peaceful() || rng.u32(..one_in) != 0 {
        return;
    }
    plan.access_control.get_or_insert(Told::InHeader);
    for _ in 0..rng.u32(1..=2) {
        let at = rng.usize(..plan.hosts.len());
        let host = plan.hosts[at].number;
        // Some last longer than a session.
        let longest = pick(rng, &[millis(2_000), plan.ttl, plan.ttl * 3]);
        let time = longest.mul_f64(rng.f64());
        let deed = match rng.u32(..4) {
            0 => Deed::Narrow {
                host,
                what: ReadOnly::Sessions,
                time,
            },
            1 => Deed::Narrow {
                host,
                what: ReadOnly::NoSessions,
                time,
            },
            _ => Deed::Revoke { host, time },
        };
        if rng.bool() {
            plan.deeds.push((plan.storm.mul_f64(rng.f64()), deed));
            continue;
        }
        let sorts = [(Sort::Record, 6), (Sort::Session, 4), (Sort::Renewal, 6)];
        let (sort, most) = pick(rng, &sorts);
        let trouble = Trouble::Deed(millis(rng.u64(..20)), deed);
        plan.hosts[at]
            .troubles
            .insert((sort, rng.u64(1..=most)), trouble);
    }
    plan.deeds.sort_by_key(|(at, _)| *at);
}
