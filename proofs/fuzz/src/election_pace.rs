//! A Consul that repeats the same odd answers, for a candidate with waiting callers, or for a
//! follower.
//!
//! Input: which of the two, then the repeated answer to each kind of request: see `Habits`. It runs
//! for some virtual seconds and has to stay below its limit (L3).

use std::time::Duration;

use semaphore_core::sans_io::{Instant, Method, Request, SessionOptions};
use transport_mock::RequestKind;

use crate::choices::Choices;
use crate::election::Campaigner;
use crate::follow::Watcher;
use crate::habits::{Habits, Paced};
use crate::mangle;
use crate::stranger::KEY;
use crate::subject::{Subject, Wait};

/// Plays the input.
pub fn run(input: &[u8]) {
    let mut choices = Choices::new(input);
    let start = Instant::from_origin(Duration::from_secs(1));
    if choices.once_in(4) {
        // The oracle checks each request.
        follow(Watcher::new(1), start, &mut choices);
        return;
    }
    let mut campaigner = Campaigner::new(SessionOptions::new(), b"node-1", 1);
    for _ in 0..=choices.below(6) {
        campaigner.ask(start, 1, Wait::Forever).expect("accepted");
    }
    let sent = follow(campaigner, start, &mut choices);
    let seconds = FOR.as_secs();
    let Sent {
        reads,
        writes,
        others,
    } = sent;
    assert!(
        reads <= READS_AT_ONCE + READS_PER_SECOND * seconds + writes,
        "{reads} reads beside {writes} writes"
    );
    assert!(
        writes <= WRITES_AT_ONCE + WRITES_PER_SECOND * seconds,
        "{writes} writes"
    );
    assert!(
        others <= OTHERS_AT_ONCE + OTHERS_PER_SECOND * seconds,
        "{others} requests about sessions"
    );
}

/// How long it runs.
const FOR: Duration = Duration::from_secs(8);

/// The limit of polls. Reads after writes and failures come in addition.
const READS_AT_ONCE: u64 = 70;
const READS_PER_SECOND: u64 = 100;

/// Two attempts per second. In addition one for each acquisition by others, which two polls show,
/// and the writes at the end of a candidacy.
const WRITES_AT_ONCE: u64 = 20 + READS_AT_ONCE / 2;
const WRITES_PER_SECOND: u64 = 4 + READS_PER_SECOND / 2;

/// Requests that create, read, renew and destroy sessions.
const OTHERS_AT_ONCE: u64 = 40;
const OTHERS_PER_SECOND: u64 = 10;

const KINDS: &[RequestKind] = &[
    RequestKind::KvRead,
    RequestKind::KvWatch,
    RequestKind::SessionCreate,
    RequestKind::SessionRenew,
    RequestKind::SessionDestroy,
    RequestKind::KvAcquire,
    RequestKind::KvRelease,
    RequestKind::Txn,
];

/// How many requests of each kind were sent.
struct Sent {
    reads: u64,
    writes: u64,
    others: u64,
}

fn follow<S: Subject>(subject: S, start: Instant, choices: &mut Choices<'_>) -> Sent {
    let habits = Habits::new(KINDS.iter(), choices);
    let mut run = Paced::new(start, subject, habits);
    // Somebody leads already, or has written other data there.
    if choices.flag() {
        let put = Request::new(Method::Put, format!("/v1/kv/{KEY}"));
        run.disturb(&put.with_body(mangle::record(choices)));
    }
    let sent = run.follow(FOR, RequestKind::of);
    let count = |kinds: &[RequestKind]| kinds.iter().filter_map(|kind| sent.get(kind)).sum();
    Sent {
        reads: count(&[RequestKind::KvRead, RequestKind::KvWatch]),
        writes: count(&[
            RequestKind::KvAcquire,
            RequestKind::KvRelease,
            RequestKind::Txn,
        ]),
        others: count(&KINDS[2..6]),
    }
}
