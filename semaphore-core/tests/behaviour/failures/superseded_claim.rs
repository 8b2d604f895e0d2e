//! A claim got no answer and was replaced by another one, but it is applied all the same. The
//! contender that it admits has a slot that no caller waits for, and gives it back (invariant L2).

use std::collections::BTreeMap;

use semaphore_core::sans_io::Machine as _;
use semaphore_core::sans_io::{
    CommandId, Event, Instant, Participant, Record, Request, RequestId, Response,
};
use transport_mock::consul::{Consul, Entry, Exchange};

use crate::support::steps::record_write;
use crate::support::*;

/// One participant and its Consul, with the test in between.
struct Bench {
    now: Instant,
    participant: Participant,
    consul: Consul,
    asked: BTreeMap<Exchange, RequestId>,
    granted: Vec<CommandId>,
}

impl Bench {
    fn new(limit: u32) -> Self {
        Self {
            now: Instant::from_origin(secs(1)),
            participant: Participant::new(settings(PREFIX, limit), 1),
            consul: Consul::new(1),
            asked: BTreeMap::new(),
            granted: Vec::new(),
        }
    }

    fn acquire(&mut self, permits: u32) -> CommandId {
        let acquire = self.participant.acquire(self.now, permits, None);
        acquire.expect("accepted")
    }

    /// Runs everything that happens now, and then moves to the next due time. A request for which
    /// `is_lost` is true does not arrive; an agent without a leader answers it.
    fn step(&mut self, mut is_lost: impl FnMut(&mut Consul, &Request) -> bool) {
        loop {
            self.participant.handle_timeout(self.now);
            while let Some(transmit) = self.participant.poll_transmit(self.now) {
                if is_lost(&mut self.consul, &transmit.request) {
                    let answer = Ok(Response::new(500, "No cluster leader"));
                    self.participant
                        .handle_response(self.now, transmit.id, answer);
                } else {
                    let exchange = self.consul.submit(self.now, &transmit.request);
                    self.asked.insert(exchange, transmit.id);
                }
            }
            while let Some(event) = self.participant.poll_event() {
                if let Event::Granted {
                    command: acquire, ..
                } = event
                {
                    self.granted.push(acquire);
                }
            }
            let Some((exchange, response)) = self.consul.poll_answer() else {
                break;
            };
            if let Some(id) = self.asked.remove(&exchange) {
                self.participant.handle_response(self.now, id, Ok(response));
            }
        }
        let due = [self.participant.poll_timeout(), self.consul.poll_timeout()];
        self.now = due.into_iter().flatten().min().unwrap_or(self.now);
        self.consul.handle_timeout(self.now);
    }

    fn run_while(&mut self, go_on: impl Fn(&Self) -> bool) {
        let end = self.now + secs(120);
        while go_on(self) {
            assert!(self.now < end, "{:#?}", self.participant);
            self.step(|_, _| false);
        }
    }

    #[track_caller]
    fn assert_nothing_is_left(&mut self) {
        self.run_while(|bench| !bench.participant.is_idle());
        assert_eq!(self.holders(), [""; 0]);
        assert_eq!(self.consul.sessions().count(), 0);
        let keys: Vec<_> = self.consul.entries("").map(Entry::key).collect();
        assert_eq!(keys, [format!("{PREFIX}/.lock")]);
    }

    fn holders(&self) -> Vec<String> {
        let entry = self.consul.entry(&format!("{PREFIX}/.lock"));
        entry.map_or_else(Vec::new, |entry| holders_of(entry.value()))
    }
}

fn holders_of(value: &[u8]) -> Vec<String> {
    let record = Record::decode(value, 0).expect("a record");
    record.holders().map(str::to_owned).collect()
}

/// The contenders that a claim names.
fn claimed(request: &Request) -> Option<Vec<String>> {
    let holders = record_write(request)?.holders();
    Some(holders).filter(|it| !it.is_empty())
}

/// Two callers wait for two slots. The second one comes while the claim for the first is under way.
/// That claim is lost, its session's lease ends, and another session claims instead, from the same
/// index. Only then is the lost claim applied.
fn with_a_superseded_claim(permits: [u32; 2]) -> (Bench, [CommandId; 2]) {
    let mut bench = Bench::new(2);
    let first = bench.acquire(permits[0]);
    let mut second = None;
    let mut lost: Option<(String, Request)> = None;
    let mut is_superseded = false;
    while !is_superseded {
        if lost.is_some() && second.is_none() {
            second = Some(bench.acquire(permits[1]));
        }
        let now = bench.now;
        bench.step(|consul, request| match (claimed(request), &lost) {
            _ if is_superseded => false,
            (Some(sessions), None) => {
                let [session] = sessions.try_into().expect("the first alone");
                lost = Some((session, request.clone()));
                true
            }
            (Some(sessions), Some((first, _))) if sessions.contains(first) => true,
            (Some(_), Some((_, lost))) => {
                consul.submit(now, lost);
                is_superseded = true;
                false
            }
            (None, Some((first, _))) => request.target().contains(&format!("/renew/{first}")),
            (None, None) => false,
        });
    }
    let admitted = lost.map(|(session, _)| session);
    assert_eq!(bench.holders(), Vec::from_iter(admitted));
    (bench, [first, second.expect("it waits")])
}

// Goes with the machine that needs it: later a claim names its key's index, so one that was superseded is refused.
#[cfg(not(semaphore_next))]
#[test]
fn whom_a_superseded_claim_has_admitted_keeps_no_slot_from_others() {
    let (mut bench, [first, second]) = with_a_superseded_claim([1, 2]);
    let end = bench.now + secs(60);
    bench.run_while(|bench| bench.now < end);
    assert_eq!(bench.granted, [first], "the second needs both slots");
    assert_eq!(bench.holders().len(), 1);
    bench.participant.release(bench.now, first);
    bench.run_while(|bench| bench.granted.len() < 2);
    bench.participant.release(bench.now, second);
    bench.assert_nothing_is_left();
}

// Goes with the machine that needs it: later a claim names its key's index, so one that was superseded is refused.
#[cfg(not(semaphore_next))]
#[test]
fn whom_a_superseded_claim_has_admitted_keeps_no_slot_from_our_own() {
    let (mut bench, acquires) = with_a_superseded_claim([1, 1]);
    bench.run_while(|bench| bench.granted.len() < 2);
    assert_eq!(bench.granted, acquires);
    for acquire in acquires {
        assert!(bench.participant.is_held(bench.now, acquire));
        bench.participant.release(bench.now, acquire);
    }
    bench.assert_nothing_is_left();
}

// Goes with the machine that needs it: later a claim names its key's index, so one that was superseded is refused.
#[cfg(not(semaphore_next))]
#[test]
fn whom_a_superseded_claim_has_admitted_leaves_when_nobody_waits_any_more() {
    let (mut bench, acquires) = with_a_superseded_claim([1, 1]);
    for acquire in acquires {
        bench.participant.cancel(bench.now, acquire);
    }
    bench.assert_nothing_is_left();
}
