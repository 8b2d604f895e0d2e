//! Leaders who are asked to step down by their own handle.

use fastrand::Rng;

use super::{millis, pick};
use crate::plan::{Deed, Plan, Sort, Trouble};

/// One in this many of the worlds with an election has such leaders.
const ONE_IN: u32 = 8;

/// Some just as they are elected or change their value, or renew their session. The rest of the plan does
/// not change.
pub(super) fn draw_step_down(plan: &mut Plan, rng: &mut Rng) {
    let leads = |at: &usize| {
        let mut places = plan.hosts[*at].places();
        places.any(|it| plan.place(it).is_election())
    };
    let hosts: Vec<_> = (0..plan.hosts.len()).filter(leads).collect();
    if hosts.is_empty() || plan.is_peaceful() || rng.u32(..ONE_IN) != 0 {
        return;
    }
    for _ in 0..rng.u32(1..=4) {
        let host = &mut plan.hosts[pick(rng, &hosts)];
        let deed = Deed::StepDown { host: host.number };
        if rng.bool() {
            plan.deeds.push((plan.storm.mul_f64(rng.f64()), deed));
            continue;
        }
        let (sort, most) = pick(
            rng,
            &[(Sort::Key, 6), (Sort::Record, 6), (Sort::Renewal, 4)],
        );
        let trouble = Trouble::Deed(millis(rng.u64(..20)), deed);
        host.troubles.insert((sort, rng.u64(1..=most)), trouble);
    }
    plan.deeds.sort_by_key(|(at, _)| *at);
}
