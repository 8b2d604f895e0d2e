//! The machine of an election without its driver: any order of calls is right, none is needed twice,
//! and answers that come late say nothing about what happened since.

use std::collections::BTreeMap;

use semaphore_core::{
    CampaignId, Candidate, ElectionEvent, ElectionSettings, Instant, LockKey, Lost, Request,
    RequestId, Response,
};
use transport_mock::RequestKind;
use transport_mock::consul::{Consul, Exchange};

use crate::election_support::*;
use crate::steps::line;
use crate::support::*;

/// One candidate and the Consul that it talks to. The test may keep answers back.
struct Bench {
    now: Instant,
    candidate: Candidate,
    consul: Consul,
    asked: BTreeMap<Exchange, (RequestId, RequestKind)>,
    keeps: fn(RequestKind) -> bool,
    kept: Vec<(RequestId, Response)>,
    events: Vec<ElectionEvent>,
    sent: Vec<String>,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let settings = ElectionSettings::new(LockKey::new(KEY).expect("a key"));
        Self {
            now: Instant::from_origin(secs(1)),
            candidate: Candidate::new(settings.with_encoding(crate::ENCODING), seed),
            consul: Consul::new(seed),
            asked: BTreeMap::new(),
            keeps: |_| false,
            kept: Vec::new(),
            events: Vec::new(),
            sent: Vec::new(),
        }
    }

    /// A leader, one second after its election.
    fn leading() -> (Self, CampaignId) {
        let mut bench = Self::new(1);
        let campaign = bench.candidate.campaign(bench.now, None).expect("accepted");
        bench.run_for(1_000);
        assert!(bench.candidate.is_leader(bench.now, campaign));
        (bench, campaign)
    }

    /// Everything that can happen now.
    fn turn(&mut self) {
        loop {
            self.candidate.handle_timeout(self.now);
            let mut is_busy = false;
            while let Some(transmit) = self.candidate.poll_transmit(self.now) {
                is_busy = true;
                self.submit(transmit.id, &transmit.request);
            }
            while self.candidate.poll_abort().is_some() {}
            self.events
                .extend(std::iter::from_fn(|| self.candidate.poll_event()));
            while let Some((exchange, response)) = self.consul.poll_answer() {
                let Some((id, kind)) = self.asked.remove(&exchange) else {
                    continue;
                };
                if (self.keeps)(kind) {
                    self.kept.push((id, response));
                } else {
                    is_busy = true;
                    self.candidate.handle_response(self.now, id, Ok(response));
                }
            }
            if !is_busy {
                return;
            }
        }
    }

    fn submit(&mut self, id: RequestId, request: &Request) {
        self.sent.push(format!("{} {}", self.now, line(request)));
        let exchange = self.consul.submit(self.now, request);
        let kind = RequestKind::of(request);
        self.asked.insert(exchange, (id, kind));
    }

    /// Says in how many steps.
    fn run_for(&mut self, time: u64) -> usize {
        let end = self.now + millis(time);
        let mut steps = 0;
        self.turn();
        loop {
            let due = [self.candidate.poll_timeout(), self.consul.poll_timeout()];
            let Some(at) = due.into_iter().flatten().min().filter(|at| *at < end) else {
                self.now = end;
                self.consul.handle_timeout(end);
                self.turn();
                return steps;
            };
            assert!(at > self.now, "due at {at}, which is handled");
            self.now = at;
            self.consul.handle_timeout(at);
            self.turn();
            steps += 1;
        }
    }

    fn write(&mut self, request: &Request) {
        self.consul.submit(self.now, request);
    }

    fn losses(&self) -> Vec<&Lost> {
        let losses = self.events.iter().filter_map(|event| match event {
            ElectionEvent::Lost { reason, .. } => Some(reason),
            _ => None,
        });
        losses.collect()
    }
}

#[test]
fn it_starts_with_nothing_to_do() {
    let mut bench = Bench::new(1);
    assert!(bench.candidate.is_idle());
    assert_eq!(bench.candidate.poll_timeout(), None);
    assert!(bench.candidate.poll_transmit(bench.now).is_none());
    assert!(bench.candidate.poll_event().is_none());
    assert!(bench.candidate.poll_abort().is_none());
    assert_eq!(bench.run_for(600_000), 0);
}

#[test]
fn a_loop_of_a_few_lines_campaigns_leads_and_resigns() {
    let (mut bench, campaign) = Bench::leading();
    bench.run_for(600_000);
    assert!(bench.candidate.is_leader(bench.now, campaign));
    bench.candidate.resign(bench.now, campaign);
    let believes = bench.candidate.is_leader(bench.now, campaign);
    assert!(!believes, "belief ends at once");
    bench.run_for(1_000);
    let last = bench.events.last().expect("events");
    let resigned = matches!(last, ElectionEvent::Resigned { result: Ok(()), .. });
    assert!(resigned, "{last:?}");
    assert!(bench.candidate.is_idle());
    assert_eq!(bench.consul.sessions().count(), 0);
}

#[test]
fn the_same_inputs_give_the_same_outputs() {
    let transcript = || {
        let (mut bench, campaign) = Bench::leading();
        bench.run_for(30_000);
        bench.candidate.resign(bench.now, campaign);
        bench.run_for(30_000);
        (bench.sent, format!("{:?}", bench.events))
    };
    assert_eq!(transcript(), transcript());
}

#[test]
fn spurious_calls_do_nothing() {
    let (mut bench, campaign) = Bench::leading();
    let before = bench.sent.len();
    for _ in 0..10 {
        bench.candidate.handle_timeout(bench.now);
        bench.candidate.handle_timeout(Instant::from_origin(secs(0)));
        assert!(bench.candidate.poll_transmit(bench.now).is_none());
    }
    assert_eq!(bench.sent.len(), before);
    assert!(bench.candidate.is_leader(bench.now, campaign));
}

#[test]
fn a_leader_that_waits_for_nothing_costs_one_poll_and_three_renewals_per_ttl() {
    let (mut bench, _) = Bench::leading();
    let before = bench.sent.len();
    bench.run_for(150_000);
    let sent = &bench.sent[before..];
    let renewals = sent.iter().filter(|it| it.contains("/renew/")).count();
    assert!((29..=31).contains(&renewals), "{renewals}");
    assert!(sent.len() <= 31 + 11, "{sent:#?}");
}

/// A poll that was asked before the election may be answered after it, by what was true before.
#[test]
fn what_was_asked_before_the_election_does_not_end_the_term() {
    let mut bench = Bench::new(1);
    bench.keeps = |kind| kind == RequestKind::KvWatch;
    let campaign = bench.candidate.campaign(bench.now, None).expect("accepted");
    bench.run_for(100);
    assert!(bench.candidate.is_leader(bench.now, campaign));
    let (id, _) = bench.kept.remove(0);
    let nothing = Response::new(404, "").with_header("X-Consul-Index", "1");
    bench.candidate.handle_response(bench.now, id, Ok(nothing));
    assert!(bench.candidate.is_leader(bench.now, campaign));
    bench.keeps = |_| false;
    bench.run_for(60_000);
    assert!(bench.candidate.is_leader(bench.now, campaign));
    assert!(bench.losses().is_empty());
}

/// The same, when it is true again: it is looked at anew, not waited out.
#[test]
fn what_was_asked_before_the_election_and_is_true_ends_the_term() {
    let mut bench = Bench::new(1);
    bench.keeps = |kind| kind == RequestKind::KvWatch;
    let campaign = bench.candidate.campaign(bench.now, None).expect("accepted");
    bench.run_for(100);
    assert!(bench.candidate.is_leader(bench.now, campaign));
    let delete = Request::new(semaphore_core::Method::Delete, format!("/v1/kv/{KEY}"));
    bench.write(&delete);
    bench.turn();
    let (id, _) = bench.kept.remove(0);
    bench.keeps = |_| false;
    let nothing = Response::new(404, "").with_header("X-Consul-Index", "1");
    bench.candidate.handle_response(bench.now, id, Ok(nothing));
    bench.run_for(1);
    assert!(!bench.candidate.is_leader(bench.now, campaign));
    let losses = bench.losses();
    assert!(matches!(losses[..], [Lost::KeyDeleted { .. }]), "{losses:?}");
}

#[test]
fn an_acquisition_that_is_answered_when_the_lease_is_over_elects_nobody() {
    let mut bench = Bench::new(1);
    bench.keeps = |kind| {
        kind == crate::election_unknown::acquisition() || kind == RequestKind::KvWatch
    };
    let campaign = bench.candidate.campaign(bench.now, None).expect("accepted");
    bench.run_for(100);
    let is_acquisition = |request: &&String| request.contains("acquire=") || request.contains("txn");
    assert_eq!(bench.sent.iter().filter(is_acquisition).count(), 1);
    // The process is paused for longer than the lease: then all answers come at once.
    bench.now = bench.now + secs(14);
    for (id, answer) in std::mem::take(&mut bench.kept) {
        bench.candidate.handle_response(bench.now, id, Ok(answer));
        assert!(!bench.candidate.is_leader(bench.now, campaign));
    }
    assert!(bench.candidate.poll_event().is_none());
    // It gives back what it has, and begins anew.
    bench.keeps = |_| false;
    bench.run_for(1_000);
    assert!(bench.candidate.is_leader(bench.now, campaign));
}
