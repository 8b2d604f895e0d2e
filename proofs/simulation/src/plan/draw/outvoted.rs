//! Servers that are parted, in some of the worlds that lose a server.

use fastrand::Rng;

use super::millis;
use crate::plan::{Deed, Fate, Plan, Trouble};

/// One in this many servers that are lost is the leader, and parted from the others.
const ONE_IN: u32 = 4;

/// The rest of the plan does not change.
pub(super) fn draw_outvoted(plan: &mut Plan, rng: &mut Rng) {
    let caused = plan.hosts.iter_mut().flat_map(|host| {
        host.troubles.values_mut().filter_map(|it| match it {
            Trouble::Deed(_, deed) => Some(deed),
            Trouble::Fault(_) => None,
        })
    });
    let timed = plan.deeds.iter_mut().map(|(_, deed)| deed);
    for deed in timed.chain(caused) {
        if let Deed::LoseServer {
            fate,
            reaped_after,
            time,
            ..
        } = deed
            && rng.u32(..ONE_IN) == 0
        {
            // A leader's lease is over before others can have elected another one.
            let believes = millis(rng.u64(..2_500));
            let elects = believes + millis(rng.u64(..3_000));
            *fate = Fate::Outvoted { believes, elects };
            // Only a leader takes a node out of the catalog.
            let later = elects.saturating_sub(*reaped_after);
            *reaped_after += later;
            *time += later;
        }
    }
}
