//! Sees the requests of all hosts.

use std::sync::{Arc, Mutex, PoisonError};

use semaphore_core::sans_io::Request;
use transport_mock::{Fault, MockConsul, RequestKind, Rule};

use crate::support::steps::Is;

/// Every request that was sent since [`Spy::on`], in order.
#[derive(Clone)]
pub(crate) struct Spy(Arc<Mutex<Vec<Request>>>);

impl Spy {
    /// Watches all requests and lets them pass. Call it before injecting other rules, since only
    /// the first rule sees everything.
    pub(crate) fn on(world: &MockConsul) -> Self {
        Self::with(world, Rule::new(Fault::Refuse))
    }

    /// As [`Spy::on`], for one host.
    pub(crate) fn on_host(world: &MockConsul, host: &str) -> Self {
        Self::with(world, Rule::new(Fault::Refuse).host(host))
    }

    fn with(world: &MockConsul, rule: Rule) -> Self {
        let spy = Self(Arc::default());
        let seen = spy.clone();
        let note = move |request: &Request| {
            seen.lock().push(request.clone());
            false
        };
        world.inject(rule.matching(note).optional());
        spy
    }

    /// How many such requests are sent without a fault. So a fault that skips fewer of them meets
    /// one.
    pub(crate) fn undisturbed(
        seed: u64,
        is: impl Fn(&Request) -> bool,
        scene: impl FnOnce(&MockConsul),
    ) -> u64 {
        let world = MockConsul::new(seed);
        let spy = Self::on(&world);
        scene(&world);
        spy.lock().iter().filter(|request| is(request)).count() as u64
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.lock().clone()
    }

    /// The requests of this kind so far.
    pub(crate) fn of(&self, kind: RequestKind) -> Vec<Request> {
        let mut requests = self.requests();
        requests.retain(|request| RequestKind::of(request) == kind);
        requests
    }

    /// How many requests so far match.
    pub(crate) fn count(&self, is: Is) -> usize {
        self.lock().iter().filter(|request| is(request)).count()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Request>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bodies of requests, as JSON.
pub(crate) fn json(request: &Request) -> serde_json::Value {
    serde_json::from_slice(request.body()).expect("a JSON body")
}
