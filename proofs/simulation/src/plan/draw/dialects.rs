//! The worlds in which strangers of all dialects come to the same semaphore.

use fastrand::Rng;
use semaphore_core::sans_io::Dialect;

use super::{millis, pick};
use crate::plan::{Deed, Plan, Stranger, StrangerPlan};

/// One in this many worlds has them.
const ONE_IN: u32 = 16;

const ALL: [Dialect; 3] = [Dialect::Map, Dialect::Array, Dialect::LowerCaseArray];

/// A stranger leaves a record alone that it does not understand, and writes a missing one in its own
/// dialect. In half of these worlds an operator deletes the record meanwhile. The rest of the plan
/// does not change.
pub(super) fn draw_dialects(plan: &mut Plan, rng: &mut Rng) {
    let mut semaphores = (0..plan.prefixes.len()).filter(|it| !plan.place(*it).is_election());
    let Some(prefix) = semaphores.next() else {
        return;
    };
    if plan.is_peaceful() || rng.u32(..ONE_IN) != 0 {
        return;
    }
    let first = plan.strangers.len();
    for (place, dialect) in ALL.into_iter().enumerate() {
        plan.strangers.push(StrangerPlan {
            number: first + place,
            prefix,
            at: plan.storm.mul_f64(0.8 * rng.f64()),
            dialect: Some(dialect),
            kind: Stranger::Go {
                turns: rng.u32(1..=3),
                hold: millis(rng.u64(10..3_000)),
            },
        });
    }
    if first == 0 {
        plan.dialect = pick(rng, &ALL);
    }
    if rng.bool() {
        let when = plan.storm.mul_f64(rng.f64());
        plan.deeds.push((when, Deed::DeleteRecord { prefix }));
        plan.deeds.sort_by_key(|(at, _)| *at);
    }
}
