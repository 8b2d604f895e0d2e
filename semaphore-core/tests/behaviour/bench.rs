//! A participant without its driver, and the Consul it talks to.

use std::collections::BTreeMap;
use std::time::Duration;

use semaphore_core::{
    AcquireId, Event, Instant, Participant, Prefix, Request, RequestId, Response, Settings,
};
use transport_mock::consul::{Consul, Exchange};

use crate::support::*;

/// One participant and the Consul it talks to, with nothing between them but the test.
pub(crate) struct Bench {
    pub(crate) now: Instant,
    pub(crate) participant: Participant,
    pub(crate) consul: Consul,
    pub(crate) asked: BTreeMap<Exchange, RequestId>,
    pub(crate) answers: Vec<(RequestId, Response)>,
    pub(crate) events: Vec<Event>,
    pub(crate) sent: Vec<String>,
}

impl Bench {
    pub(crate) fn new(seed: u64, limit: u32) -> Self {
        let settings = Settings::new(Prefix::new(PREFIX).expect("a prefix"), limit);
        Self {
            now: Instant::from_origin(secs(1)),
            participant: Participant::new(settings.expect("a limit"), seed),
            consul: Consul::new(seed),
            asked: BTreeMap::new(),
            answers: Vec::new(),
            events: Vec::new(),
            sent: Vec::new(),
        }
    }

    pub(crate) fn acquire(&mut self) -> AcquireId {
        self.participant
            .acquire(self.now, 1, None)
            .expect("accepted")
    }

    /// Everything that can happen now, in the driver's order.
    pub(crate) fn turn(&mut self) {
        loop {
            self.participant.handle_timeout(self.now);
            let mut busy = self.transmit();
            while let Some(id) = self.participant.poll_abort() {
                self.abort(id);
            }
            while let Some(event) = self.participant.poll_event() {
                self.events.push(event);
            }
            self.collect();
            for (id, response) in std::mem::take(&mut self.answers) {
                self.participant.handle_response(self.now, id, Ok(response));
                busy = true;
            }
            if !busy {
                return;
            }
        }
    }

    /// To the next thing that is due, but not beyond `end`. Says whether there was one.
    pub(crate) fn step(&mut self, end: Instant) -> bool {
        let due = [self.participant.poll_timeout(), self.consul.poll_timeout()]
            .into_iter()
            .flatten()
            .min();
        let at = due.unwrap_or(end).min(end);
        assert!(at > self.now || at == end, "due at {at}, which is handled");
        self.now = self.now.max(at);
        self.consul.handle_timeout(self.now);
        self.turn();
        due.is_some_and(|due| due < end)
    }

    /// Runs until `end`, and says in how many steps.
    pub(crate) fn run_until(&mut self, end: Instant) -> usize {
        self.turn();
        let mut steps = 0;
        while self.step(end) {
            steps += 1;
        }
        steps
    }

    pub(crate) fn run_for(&mut self, duration: Duration) -> usize {
        self.run_until(self.now + duration)
    }

    pub(crate) fn transmit(&mut self) -> bool {
        let mut any = false;
        while let Some(transmit) = self.participant.poll_transmit(self.now) {
            self.submit(transmit.id, &transmit.request);
            any = true;
        }
        any
    }

    pub(crate) fn submit(&mut self, id: RequestId, request: &Request) {
        self.sent.push(format!(
            "{} {} {}",
            self.now,
            request.method(),
            request.target()
        ));
        let exchange = self.consul.submit(self.now, request);
        self.asked.insert(exchange, id);
    }

    pub(crate) fn abort(&mut self, id: RequestId) {
        self.asked.retain(|_, asked| *asked != id);
    }

    pub(crate) fn collect(&mut self) {
        while let Some((exchange, response)) = self.consul.poll_answer() {
            if let Some(id) = self.asked.remove(&exchange) {
                self.answers.push((id, response));
            }
        }
    }

    pub(crate) fn is_granted(&self, acquire: AcquireId) -> bool {
        self.events.iter().any(
            |event| matches!(event, Event::Granted { acquire: granted, .. } if *granted == acquire),
        )
    }

    pub(crate) fn released(&self, acquire: AcquireId) -> usize {
        self.events
            .iter()
            .filter(|event| matches!(event, Event::Released { acquire: released, result: Ok(()) } if *released == acquire))
            .count()
    }

    #[track_caller]
    pub(crate) fn assert_nothing_left(&self) {
        let prefix = Prefix::new(PREFIX).expect("a prefix");
        assert_eq!(self.consul.sessions().count(), 0);
        let keys: Vec<_> = self
            .consul
            .entries("")
            .map(transport_mock::consul::Entry::key)
            .filter(|key| *key != prefix.lock_key())
            .collect();
        assert_eq!(keys, [""; 0]);
        let lock = self.consul.entry(&prefix.lock_key());
        let holders = lock.map(|entry| {
            let record = semaphore_core::Record::decode(entry.value(), entry.flags());
            record.expect("a record").holders().count()
        });
        assert_eq!(holders.unwrap_or(0), 0);
        assert!(self.participant.is_idle());
        assert_eq!(self.participant.poll_timeout(), None);
    }
}
