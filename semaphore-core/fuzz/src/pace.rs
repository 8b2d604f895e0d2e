//! A Consul that goes on giving the same odd answers, to a participant whose callers wait.
//!
//! Input: the callers, then for each kind of request how it is answered, again and again: after how
//! long, and honestly, mangled in the same way, with the same invention, with a failure, or never.
//! The participant is followed for some virtual seconds and has to stay under its ceiling (L3).

use std::collections::BTreeMap;
use std::time::Duration;

use semaphore_core::{
    Encoding, Instant, Method, Participant, Prefix, Request, RequestId, Response, Settings,
};
use transport_mock::RequestKind;
use transport_mock::consul::{Consul, Exchange};

use crate::choices::Choices;
use crate::habit::Habit;
use crate::machine::MOST_OPEN;
use crate::oracle::Oracle;
use crate::{PREFIX, mangle};

/// Plays the input.
pub fn run(input: &[u8]) {
    let mut choices = Choices::new(input);
    let prefix = Prefix::new(PREFIX).expect("a prefix");
    let (limit, encoding) = choices.pick(&LIMITS);
    let settings = Settings::new(prefix, limit)
        .expect("a limit")
        .with_encoding(encoding)
        .with_limit_adopted(choices.flag());
    let mut participant = Participant::new(settings, 1);
    let start = Instant::from_origin(Duration::from_secs(1));
    for _ in 0..=choices.below(6) {
        participant.acquire(start, 1, None).expect("accepted");
    }
    let is_of_transactions = encoding == Encoding::Transactions;
    let habits = KINDS
        .iter()
        .filter(|kind| is_of_transactions || **kind != RequestKind::Txn)
        .map(|kind| {
            let after = choices.pick(&[Some(1), Some(5), Some(50), Some(1_000), None]);
            let after = after.map(Duration::from_millis);
            (*kind, (after, Habit::new(&mut choices)))
        })
        .collect();
    let mut run = Run {
        now: start,
        consul: Consul::new(1),
        participant,
        oracle: Oracle::new(None),
        habits,
        pending: BTreeMap::new(),
        parked: BTreeMap::new(),
        reads: 0,
        inquests: 0,
        cleanups: 0,
        others: 0,
    };
    // Something for others to hold, once in a while.
    if choices.flag() {
        let target = format!("/v1/kv/{PREFIX}/.lock");
        let request = Request::new(Method::Put, target);
        let request = request.with_body(mangle::record(&mut choices));
        run.consul.submit(start, &request);
    }
    run.follow(start + FOR);
    let seconds = FOR.as_secs();
    let (reads, cleanups, others) = (run.reads, run.cleanups, run.others);
    assert!(
        reads <= READS_AT_ONCE + READS_PER_SECOND * seconds + cleanups + others,
        "{reads} reads beside {cleanups} cleanups and {others} others"
    );
    assert!(
        others <= OTHERS_AT_ONCE + OTHERS_PER_SECOND * seconds,
        "{others} requests that are neither reads nor cleanups"
    );
    assert!(
        run.inquests <= INQUESTS_AT_ONCE + INQUESTS_PER_SECOND * seconds,
        "{} inquests",
        run.inquests
    );
    assert!(
        cleanups <= CLEANUPS_AT_ONCE + CLEANUPS_PER_SECOND * seconds,
        "{cleanups} cleanups"
    );
}

/// How long a participant is followed.
const FOR: Duration = Duration::from_secs(4);

/// The ceiling of reads, beside one for each write.
const READS_AT_ONCE: u64 = 60;
const READS_PER_SECOND: u64 = 100;

/// What else is sent waits longer after each failure.
const OTHERS_AT_ONCE: u64 = 100;
const OTHERS_PER_SECOND: u64 = 60;

/// What a server does not let go of is tried again beside all that comes later, until its TTL is over.
const CLEANUPS_AT_ONCE: u64 = 200;
const CLEANUPS_PER_SECOND: u64 = 200;

/// Who seems dead is asked for once for each list, and with growing waits while there is no answer.
const INQUESTS_AT_ONCE: u64 = 100;
const INQUESTS_PER_SECOND: u64 = 100;

/// More than any of these allows.
const ENOUGH: u64 = 3_000;

/// Answers take some time: a rate has a meaning only where time passes.
const SHORTEST: Duration = Duration::from_millis(1);

const KINDS: &[RequestKind] = &[
    RequestKind::KvRead,
    RequestKind::KvWatch,
    RequestKind::SessionCreate,
    RequestKind::SessionRenew,
    RequestKind::KvCas,
    RequestKind::KvAcquire,
    RequestKind::SessionDestroy,
    RequestKind::KvDelete,
    RequestKind::Txn,
];

/// With each encoding.
const LIMITS: [(u32, Encoding); 6] = [
    (1, Encoding::Requests),
    (2, Encoding::Requests),
    (5, Encoding::Requests),
    (1, Encoding::Transactions),
    (2, Encoding::Transactions),
    (5, Encoding::Transactions),
];

struct Run {
    now: Instant,
    consul: Consul,
    participant: Participant,
    oracle: Oracle,
    habits: BTreeMap<RequestKind, (Option<Duration>, Habit)>,
    /// When which answer is delivered, if it comes at all.
    pending: BTreeMap<(Instant, RequestId), (Request, Response)>,
    /// What Consul itself has not answered.
    parked: BTreeMap<Exchange, (RequestId, Request)>,
    reads: u64,
    /// Reads of the key of a single holder.
    inquests: u64,
    /// Of keys and sessions.
    cleanups: u64,
    others: u64,
}

impl Run {
    fn follow(&mut self, end: Instant) {
        while self.now < end && self.reads + self.inquests + self.cleanups + self.others < ENOUGH {
            if self.turn() {
                continue;
            }
            let due = [
                self.participant.poll_timeout(),
                self.consul.poll_timeout(),
                self.pending.keys().next().map(|(at, _)| *at),
            ];
            let Some(due) = due.into_iter().flatten().min() else {
                return;
            };
            self.now = self.now.max(due);
            self.consul.handle_timeout(self.now);
        }
    }

    /// Everything that can be done now, up to the first answer. Says whether there was one.
    fn turn(&mut self) -> bool {
        self.participant.handle_timeout(self.now);
        while let Some(transmit) = self.participant.poll_transmit(self.now) {
            match RequestKind::of(&transmit.request) {
                RequestKind::KvRead | RequestKind::KvWatch if is_list(&transmit.request) => {
                    self.reads += 1;
                }
                RequestKind::KvRead => self.inquests += 1,
                RequestKind::SessionDestroy | RequestKind::KvDelete => self.cleanups += 1,
                RequestKind::KvCas if transmit.request.method() == Method::Delete => {
                    self.cleanups += 1;
                }
                _ => self.others += 1,
            }
            self.oracle.check_participant(&transmit.request);
            let exchange = self.consul.submit(self.now, &transmit.request);
            self.parked
                .insert(exchange, (transmit.id, transmit.request));
        }
        while self.participant.poll_event().is_some() {}
        while let Some((exchange, response)) = self.consul.poll_answer() {
            let Some((id, request)) = self.parked.remove(&exchange) else {
                continue;
            };
            let habit = self.habits.get(&RequestKind::of(&request));
            let after = habit.map_or(Some(SHORTEST), |(after, _)| *after);
            let at = self.now + after.unwrap_or(request.timeout());
            self.pending.insert((at, id), (request, response));
        }
        while let Some(id) = self.participant.poll_abort() {
            self.pending.retain(|(_, pending), _| *pending != id);
            self.parked.retain(|_, (parked, _)| *parked != id);
        }
        let open = self.pending.len() + self.parked.len();
        assert!(open <= MOST_OPEN, "{open} open");
        let Some(entry) = self.pending.first_entry() else {
            return false;
        };
        if entry.key().0 > self.now {
            return false;
        }
        let ((_, id), (request, honest)) = entry.remove_entry();
        let result = match self.habits.get_mut(&RequestKind::of(&request)) {
            Some((_, habit)) => habit.answer(honest),
            None => Ok(honest),
        };
        if let Ok(response) = &result {
            self.oracle.show(&request, response);
        }
        self.participant.handle_response(self.now, id, result);
        true
    }
}

fn is_list(request: &Request) -> bool {
    request.target().contains("?recurse")
}
