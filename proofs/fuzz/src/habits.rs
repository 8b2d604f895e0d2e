//! A Consul that repeats an odd answer for each kind of request. It comes after some time. It is
//! honest, always mangled in the same way, always the same invention, a failure, or missing.

use std::collections::BTreeMap;
use std::time::Duration;

use semaphore_core::sans_io::{Instant, Machine as _, Request, RequestId, Response};
use transport_mock::RequestKind;
use transport_mock::consul::{Consul, Exchange};

use crate::choices::Choices;
use crate::habit::Habit;
use crate::subject::{Subject, Told};

/// The answers to each kind of request. Other requests are answered honestly as soon as possible.
pub(crate) struct Habits(BTreeMap<RequestKind, (Option<Duration>, Habit)>);

impl Habits {
    pub(crate) fn new<'k>(
        kinds: impl Iterator<Item = &'k RequestKind>,
        choices: &mut Choices<'_>,
    ) -> Self {
        let habit = |kind: &RequestKind| {
            let after = choices.pick(&[Some(1), Some(5), Some(50), Some(1_000), None]);
            let after = after.map(Duration::from_millis);
            (*kind, (after, Habit::new(choices)))
        };
        Self(kinds.map(habit).collect())
    }
}

/// A machine with such a Consul.
pub(crate) struct Paced<S> {
    now: Instant,
    consul: Consul,
    subject: S,
    told: Told,
    habits: Habits,
    /// The answers that will be delivered, with their times.
    pending: BTreeMap<(Instant, RequestId), (Request, Response)>,
    /// The requests that Consul itself has not answered.
    parked: BTreeMap<Exchange, (RequestId, Request)>,
}

/// More requests than any limit allows.
const ENOUGH: u64 = 3_000;

/// Answers take some time, since a rate only has a meaning if time passes.
const SHORTEST: Duration = Duration::from_millis(1);

impl<S: Subject> Paced<S> {
    pub(crate) fn new(now: Instant, subject: S, habits: Habits) -> Self {
        Self {
            now,
            consul: Consul::new(1),
            subject,
            told: Told::default(),
            habits,
            pending: BTreeMap::new(),
            parked: BTreeMap::new(),
        }
    }

    /// Others write something.
    pub(crate) fn disturb(&mut self, request: &Request) {
        self.consul.submit(self.now, request);
    }

    /// Runs for this long. Returns how many requests of each class were sent.
    pub(crate) fn follow<C: Ord>(
        &mut self,
        time: Duration,
        class: impl Fn(&Request) -> C,
    ) -> BTreeMap<C, u64> {
        let end = self.now + time;
        let mut sent = BTreeMap::new();
        while self.now < end && sent.values().sum::<u64>() < ENOUGH {
            self.send(|request| *sent.entry(class(request)).or_default() += 1);
            if self.answer() {
                continue;
            }
            let due = [
                self.subject.machine().poll_timeout(),
                self.consul.poll_timeout(),
                self.pending.keys().next().map(|(at, _)| *at),
            ];
            let Some(due) = due.into_iter().flatten().min() else {
                break;
            };
            self.now = self.now.max(due);
            self.consul.handle_timeout(self.now);
        }
        sent
    }

    /// Sends everything that can be sent now.
    fn send(&mut self, mut count: impl FnMut(&Request)) {
        self.subject.machine_mut().handle_timeout(self.now);
        while let Some(transmit) = self.subject.machine_mut().poll_transmit(self.now) {
            count(&transmit.request);
            self.subject.check(self.now, &transmit.request);
            let exchange = self.consul.submit(self.now, &transmit.request);
            self.parked
                .insert(exchange, (transmit.id, transmit.request));
        }
        while self.subject.machine_mut().poll_event().is_some() {}
        while let Some((exchange, response)) = self.consul.poll_answer() {
            let Some((id, request)) = self.parked.remove(&exchange) else {
                continue;
            };
            let habit = self.habits.0.get(&RequestKind::of(&request));
            let after = habit.map_or(Some(SHORTEST), |(after, _)| *after);
            let at = self.now + after.unwrap_or(request.timeout());
            self.pending.insert((at, id), (request, response));
        }
        while let Some(id) = self.subject.machine_mut().poll_abort() {
            self.pending.retain(|(_, pending), _| *pending != id);
            self.parked.retain(|_, (parked, _)| *parked != id);
        }
        let pending = self.pending.values().map(|(request, _)| request);
        let parked = self.parked.values().map(|(_, request)| request);
        self.told.check_open::<S>(pending.chain(parked));
    }

    /// Delivers the first answer that is due. Returns whether there was one.
    fn answer(&mut self) -> bool {
        let Some(entry) = self.pending.first_entry() else {
            return false;
        };
        if entry.key().0 > self.now {
            return false;
        }
        let ((_, id), (request, honest)) = entry.remove_entry();
        let result = match self.habits.0.get_mut(&RequestKind::of(&request)) {
            Some((_, habit)) => habit.answer(honest),
            None => Ok(honest),
        };
        if let Ok(response) = &result {
            self.told.show(&request, response);
            self.subject.show(&request, response);
        }
        let machine = self.subject.machine_mut();
        machine.handle_response(self.now, id, result);
        true
    }
}
