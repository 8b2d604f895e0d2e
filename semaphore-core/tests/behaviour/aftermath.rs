//! What holds when everything that went wrong is over.

use transport_mock::{MockConsul, RequestKind, Rule};

use crate::support::*;

/// A slot can be had at once, and then nothing of anybody is left.
#[track_caller]
pub(crate) fn assert_recovered(world: &MockConsul, limit: u32) {
    assert_eq!(world.pending_rules(), 0, "a fault was never met");
    world.clear_faults();
    // An orphaned session dies by its TTL, and so may a holder that could not be withdrawn.
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

/// Each request of an uncontended acquisition and release, by name, in their order.
pub(crate) const STEPS: [Step; 9] = [
    Step("read", |rule| rule.kind(RequestKind::KvRead)),
    Step("watch", |rule| rule.kind(RequestKind::KvWatch)),
    Step("session create", |rule| {
        rule.kind(RequestKind::SessionCreate)
    }),
    Step("contender acquire", |rule| {
        rule.kind(RequestKind::KvAcquire)
    }),
    Step("record create", |rule| {
        rule.kind(RequestKind::KvCas).target(".lock?cas=0&")
    }),
    Step("claim", |rule| record_write(rule, true)),
    Step("withdraw", |rule| record_write(rule, false)),
    Step("key delete", |rule| rule.kind(RequestKind::KvDelete)),
    Step("session destroy", |rule| {
        rule.kind(RequestKind::SessionDestroy)
    }),
];

/// One request's name, and how faults are aimed at it.
#[derive(Clone, Copy)]
pub(crate) struct Step(pub(crate) &'static str, fn(Rule) -> Rule);

impl Step {
    pub(crate) fn aim(self, rule: Rule) -> Rule {
        self.1(rule)
    }

    pub(crate) fn is_write(self) -> bool {
        !matches!(self.0, "read" | "watch")
    }

    /// Whether it belongs to the way out.
    pub(crate) fn is_release(self) -> bool {
        matches!(self.0, "withdraw" | "key delete" | "session destroy")
    }
}

fn record_write(rule: Rule, admits: bool) -> Rule {
    rule.kind(RequestKind::KvCas).matching(move |request| {
        let body = String::from_utf8_lossy(request.body());
        !request.target().contains("cas=0&") && body.contains(":true") == admits
    })
}
