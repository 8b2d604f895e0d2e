//! What must be true after everything that went wrong has passed.

use transport_mock::{MockConsul, RequestKind, Rule};

use crate::support::steps::{self, Is};
use crate::support::*;

/// Asserts that a slot is free at once, and that nothing of anybody is left afterwards.
#[track_caller]
pub(crate) fn assert_recovered(world: &MockConsul, limit: u32) {
    // Sessions are destroyed later than they were used, and a failed step is repeated.
    world.advance(secs(15));
    assert_eq!(world.pending_rules(), 0, "a fault was never met");
    world.clear_faults();
    // An orphaned session ends by its TTL. So does the session of a holder that could not be
    // withdrawn.
    world.advance(secs(60));
    world.run(async {
        let semaphore = semaphore(world, "last", limit);
        let permit = semaphore.acquire_many_timeout(limit, secs(5)).await;
        permit
            .unwrap_or_else(|error| panic!("{error:?}\n{}", world.trace()))
            .release()
            .await
            .expect("released");
    });
    world.advance(secs(5));
    assert_nothing_left(world);
}

/// Each request of an uncontended acquisition and release by name, in order.
pub(crate) fn steps() -> impl Iterator<Item = Step> {
    // A transaction that removes a contender from the record also deletes its key.
    STEPS.into_iter().filter(|step| step.0 != "key delete")
}

pub(crate) fn step(name: &str) -> Step {
    *STEPS.iter().find(|step| step.0 == name).expect("a step")
}

const STEPS: [Step; 9] = [
    Step("read", |it| RequestKind::of(it) == RequestKind::KvRead),
    Step("watch", |it| RequestKind::of(it) == RequestKind::KvWatch),
    Step("session create", steps::creates_session),
    Step("enter", steps::enters),
    Step("record create", steps::creates_record),
    Step("claim", steps::claims),
    Step("withdraw", steps::withdraws),
    Step("key delete", steps::deletes_key),
    Step("session destroy", steps::destroys_session),
];

/// A request's name, and how to recognize it.
#[derive(Clone, Copy)]
pub(crate) struct Step(pub(crate) &'static str, Is);

impl Step {
    pub(crate) fn aim(self, rule: Rule) -> Rule {
        let rule = rule.matching(self.1);
        // Nobody needs to read before it enters, and a holder's poll may last a minute.
        if self.is_write() {
            rule
        } else {
            rule.optional()
        }
    }

    pub(crate) fn is_write(self) -> bool {
        !matches!(self.0, "read" | "watch")
    }

    /// Whether it is part of the release.
    pub(crate) fn is_release(self) -> bool {
        matches!(self.0, "withdraw" | "key delete" | "session destroy")
    }
}
