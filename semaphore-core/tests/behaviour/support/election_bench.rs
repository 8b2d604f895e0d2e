//! A candidate without its driver, whose answers a test may keep back.

use std::collections::BTreeMap;

use semaphore_core::sans_io::Machine as _;
use semaphore_core::sans_io::{
    Candidate, CommandId, ElectionSettings, Event, Instant, Request, RequestId, Response, Term,
};
use semaphore_core::{LockKey, Lost};
use transport_mock::RequestKind;
use transport_mock::consul::{Consul, Exchange};

use crate::support::election::*;
use crate::support::steps::line;
use crate::support::*;

/// One candidate and its Consul. The test may keep answers back.
pub(crate) struct Bench {
    pub(crate) now: Instant,
    pub(crate) candidate: Candidate,
    pub(crate) consul: Consul,
    pub(crate) asked: BTreeMap<Exchange, (RequestId, RequestKind)>,
    pub(crate) keeps: fn(RequestKind) -> bool,
    pub(crate) kept: Vec<(RequestId, Response)>,
    pub(crate) events: Vec<Event<Term>>,
    pub(crate) sent: Vec<String>,
}

impl Bench {
    pub(crate) fn new(seed: u64) -> Self {
        let settings = ElectionSettings::new(LockKey::new(KEY).expect("a key"));
        Self {
            now: Instant::from_origin(secs(1)),
            candidate: Candidate::new(settings, seed),
            consul: Consul::new(seed),
            asked: BTreeMap::new(),
            keeps: |_| false,
            kept: Vec::new(),
            events: Vec::new(),
            sent: Vec::new(),
        }
    }

    /// A leader, one second after its election.
    pub(crate) fn leading() -> (Self, CommandId) {
        let mut bench = Self::new(1);
        let campaign = bench.candidate.campaign(bench.now, None).expect("accepted");
        bench.run_for(1_000);
        assert!(bench.candidate.is_held(bench.now, campaign));
        (bench, campaign)
    }

    /// Runs everything that can happen now.
    pub(crate) fn turn(&mut self) {
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

    pub(crate) fn submit(&mut self, id: RequestId, request: &Request) {
        self.sent.push(format!("{} {}", self.now, line(request)));
        let exchange = self.consul.submit(self.now, request);
        let kind = RequestKind::of(request);
        self.asked.insert(exchange, (id, kind));
    }

    /// Returns the number of steps.
    pub(crate) fn run_for(&mut self, time: u64) -> usize {
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

    pub(crate) fn write(&mut self, request: &Request) {
        self.consul.submit(self.now, request);
    }

    pub(crate) fn losses(&self) -> Vec<&Lost> {
        let losses = self.events.iter().filter_map(|event| match event {
            Event::Lost { reason, .. } => Some(reason),
            _ => None,
        });
        losses.collect()
    }
}
