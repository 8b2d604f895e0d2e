//! A Consul that repeats the same odd answers, for a participant with waiting callers.
//!
//! Input: the callers, and then the repeated answer to each kind of request: see `Habits`. The
//! participant runs for some virtual seconds and must stay below its limit (L3).

use std::time::Duration;

use semaphore_core::Prefix;
use semaphore_core::sans_io::{Instant, Method, Request, Settings};
use transport_mock::RequestKind;

use crate::choices::Choices;
use crate::habits::{Habits, Paced};
use crate::machine::Contender;
use crate::subject::{Subject as _, Wait};
use crate::{PREFIX, mangle};

/// Plays the input.
pub fn run(input: &[u8]) {
    let mut choices = Choices::new(input);
    let prefix = Prefix::new(PREFIX).expect("a prefix");
    let limit = choices.pick(&LIMITS);
    let settings = Settings::new(prefix, limit)
        .expect("a limit")
        .with_limit_adopted(choices.flag());
    let mut contender = Contender::new(settings, 1);
    let start = Instant::from_origin(Duration::from_secs(1));
    for _ in 0..=choices.below(6) {
        contender.ask(start, 1, Wait::Forever).expect("accepted");
    }
    let habits = Habits::new(KINDS.iter(), &mut choices);
    let mut run = Paced::new(start, contender, habits);
    // Sometimes others hold a slot.
    if choices.flag() {
        let target = format!("/v1/kv/{PREFIX}/.lock");
        let request = Request::new(Method::Put, target);
        run.disturb(&request.with_body(mangle::record(&mut choices)));
    }
    let sent = run.follow(FOR, class);
    let count = |class| sent.get(&class).copied().unwrap_or_default();
    let seconds = FOR.as_secs();
    let (reads, keys) = (count(Class::Read), count(Class::Key));
    let (cleanups, others) = (count(Class::Cleanup), count(Class::Other));
    assert!(
        reads <= READS_AT_ONCE + READS_PER_SECOND * seconds + cleanups + others,
        "{reads} reads beside {cleanups} cleanups and {others} others"
    );
    assert!(
        others <= OTHERS_AT_ONCE + OTHERS_PER_SECOND * seconds,
        "{others} requests that are neither reads nor cleanups"
    );
    assert!(
        keys <= INQUESTS_AT_ONCE + INQUESTS_PER_SECOND * seconds,
        "{keys} keys"
    );
    assert!(
        cleanups <= CLEANUPS_AT_ONCE + CLEANUPS_PER_SECOND * seconds,
        "{cleanups} cleanups"
    );
}

/// How long a participant runs.
const FOR: Duration = Duration::from_secs(4);

/// The limit of reads. One for each write comes in addition.
const READS_AT_ONCE: u64 = 60;
const READS_PER_SECOND: u64 = 100;

/// All other requests wait longer after each failure.
const OTHERS_AT_ONCE: u64 = 100;
const OTHERS_PER_SECOND: u64 = 60;

/// If a server does not remove something, the clean-up is repeated beside all later ones until its
/// TTL has passed.
const CLEANUPS_AT_ONCE: u64 = 200;
const CLEANUPS_PER_SECOND: u64 = 200;

/// A holder that seems dead is asked about once per list. Without an answer, the waits grow.
const INQUESTS_AT_ONCE: u64 = 100;
const INQUESTS_PER_SECOND: u64 = 100;

const KINDS: &[RequestKind] = &[
    RequestKind::KvRead,
    RequestKind::KvWatch,
    RequestKind::SessionCreate,
    RequestKind::SessionRenew,
    RequestKind::KvCas,
    RequestKind::SessionDestroy,
    RequestKind::KvDelete,
    RequestKind::Txn,
];

const LIMITS: [u32; 3] = [1, 2, 5];

/// The requests of a participant, by their limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// Reads of the prefix or the record.
    Read,
    /// Reads of the key of a single holder.
    Key,
    /// Clean-ups of keys and sessions.
    Cleanup,
    Other,
}

fn class(request: &Request) -> Class {
    match RequestKind::of(request) {
        RequestKind::KvRead | RequestKind::KvWatch if is_list(request) => Class::Read,
        RequestKind::KvRead => Class::Key,
        RequestKind::SessionDestroy | RequestKind::KvDelete => Class::Cleanup,
        RequestKind::KvCas if request.method() == Method::Delete => Class::Cleanup,
        _ => Class::Other,
    }
}

fn is_list(request: &Request) -> bool {
    request.target().contains("?recurse")
}
