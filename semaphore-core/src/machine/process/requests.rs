//! A machine's requests under way by their ids, which answers are no longer needed, and how similar
//! requests have fared. Every machine sends and receives through this module.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::api::{lacks_index, trouble};
use crate::defect::{Defect, is_on};
use crate::error::RequestError;
use crate::http::{Request, Response};
use crate::id::RequestId;
use crate::machine::contract::Transmit;
use crate::machine::process::latency::Latency;
use crate::machine::process::moment::Moment;
use crate::machine::process::outage::{Purpose, RequestEnd};
use crate::machine::process::service::{Service, Services};
use crate::machine::process::tenancy::orphans::Orphans;
use crate::time::Instant;
use crate::transport::{TransportError, TransportErrorKind};
use crate::work;

/// The part of a machine that sent a request.
pub(in crate::machine) trait Sender: Copy {
    /// Whether it polls: the duration of a poll says nothing about the speed of answers.
    fn polls(&self) -> bool;

    /// Whether it is a step of the protocol. Few of them are under way at a time. What keeps
    /// sessions does not count.
    fn is_step(&self) -> bool {
        true
    }
}

/// The requests of one machine with their senders.
#[derive(Clone, Debug)]
pub(in crate::machine) struct Requests<F> {
    next_id: u64,
    in_flight: BTreeMap<RequestId, InFlight<F>>,
    /// Which of them are steps, and how many are polls.
    steps: BTreeSet<RequestId>,
    polls: usize,
    aborts: VecDeque<RequestId>,
    services: Services,
    latency: Latency,
    orphans: Orphans,
    /// How long to wait for the answer to a short request.
    usual: Duration,
    /// How long a served request may be refused before that is reported.
    patience: Duration,
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct InFlight<F> {
    from: F,
    is_transaction: bool,
    sent_at: Instant,
    service: Service,
}

/// The outcome of a request.
#[derive(Clone, Debug)]
pub(in crate::machine) struct Received<'a, F> {
    pub(in crate::machine) from: F,
    pub(in crate::machine) sent_at: Instant,
    pub(in crate::machine) answer: Result<&'a Response, RequestError>,
}

impl<F: Sender> Requests<F> {
    /// `usual` is the wait for a short answer. `patience` is the time for which served requests may
    /// be refused.
    pub(in crate::machine) fn new(usual: Duration, patience: Duration) -> Self {
        Self {
            next_id: 0,
            in_flight: BTreeMap::new(),
            steps: BTreeSet::new(),
            polls: 0,
            aborts: VecDeque::new(),
            services: Services::default(),
            latency: Latency::default(),
            orphans: Orphans::default(),
            usual,
            patience,
        }
    }

    /// A number that is unique in this machine and higher than all before.
    pub(in crate::machine) fn number(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// The present moment in the order of what is sent and learned.
    pub(in crate::machine) fn moment(&self) -> Moment {
        Moment(self.next_id)
    }

    /// Whether recent answers were prompt.
    pub(in crate::machine) fn are_prompt(&self) -> bool {
        self.latency == Latency::Prompt
    }

    /// Sends a request.
    pub(in crate::machine) fn send(
        &mut self,
        now: Instant,
        from: F,
        service: Service,
        request: Request,
    ) -> Transmit {
        self.send_within(now, from, service, request, None)
    }

    /// Sends a request whose answer is waited for this long, or as long as is usual.
    pub(in crate::machine) fn send_within(
        &mut self,
        now: Instant,
        from: F,
        service: Service,
        request: Request,
        patience: Option<Duration>,
    ) -> Transmit {
        // A transaction that registers a node is not a step of a protocol.
        let is_transaction =
            service != Service::Sessions && request.target().starts_with("/v1/txn");
        let in_flight = InFlight {
            from,
            is_transaction,
            sent_at: now,
            service,
        };
        let id = RequestId(self.number());
        self.in_flight.insert(id, in_flight);
        self.polls += usize::from(from.polls());
        if from.is_step() {
            self.steps.insert(id);
        }
        let usual = self.latency.patience(self.usual);
        let request = request.answered_within(patience.unwrap_or(usual));
        Transmit { id, request }
    }

    /// Takes the outcome of a request, and how to treat it. `None` if nobody waits for it. Also
    /// returns how it ended, if that says whether Consul serves the process.
    pub(in crate::machine) fn receive<'a>(
        &mut self,
        now: Instant,
        id: RequestId,
        result: &'a Result<Response, TransportError>,
    ) -> Option<(Received<'a, F>, Option<RequestEnd>)> {
        let InFlight {
            from,
            is_transaction,
            sent_at,
            service,
        } = self.in_flight.remove(&id)?;
        self.steps.remove(&id);
        self.polls -= usize::from(from.polls());
        if !from.polls() {
            self.took(now.saturating_since(sent_at), result);
        }
        let answer = match result {
            Ok(response) => {
                let (services, patience) = (&mut self.services, self.patience);
                services.judge(now, service, response, is_transaction, patience)
            }
            Err(error) => Err(RequestError::Transport(error.clone())),
        };
        // A poll may have waited for long before it failed.
        let since = if from.polls() { now } else { sent_at };
        let failure = match &answer {
            // A gateway that drops the index breaks every poll, however well the rest works.
            Ok(response) => trouble(response).or_else(|| match service {
                Service::Reads | Service::Inquiries if !is_transaction => lacks_index(response),
                _ => None,
            }),
            Err(error) => Some(error.clone()),
        };
        let purpose = Purpose::of(service, from.polls());
        let end = match failure {
            None => Some(RequestEnd::served(now, purpose)),
            Some(error) if error.is_permanent() => None,
            Some(error) => Some(RequestEnd::failed(now, purpose, since, error)),
        };
        let received = Received {
            from,
            sent_at: if is_on(Defect::LeaseFromAnswer) {
                now
            } else {
                sent_at
            },
            answer,
        };
        Some((received, end))
    }

    /// The outcome of a short request, after this time.
    fn took(&mut self, time: Duration, result: &Result<Response, TransportError>) {
        match result {
            Ok(_) => self.latency.answered(time, self.usual),
            Err(error) if error.kind() == TransportErrorKind::Timeout => self.latency.timed_out(),
            Err(_) => {}
        }
    }

    /// Nobody needs anything any more: the next use of each service counts as the first.
    pub(in crate::machine) fn forget_services(&mut self) {
        self.services.forget();
    }

    /// Sessions that it may have created without knowing.
    pub(in crate::machine) fn orphans(&self) -> &Orphans {
        &self.orphans
    }

    pub(in crate::machine) fn orphans_mut(&mut self) -> &mut Orphans {
        &mut self.orphans
    }

    /// How many are under way, without polls.
    pub(in crate::machine) fn short(&self) -> usize {
        self.in_flight.len() - self.polls
    }

    /// How many of these are under way. It visits all of them.
    pub(in crate::machine) fn count(&self, is: impl Fn(F) -> bool) -> usize {
        work::passed(self.in_flight.len());
        self.in_flight.values().filter(|it| is(it.from)).count()
    }

    /// Whether a poll is under way that was sent before this request.
    pub(in crate::machine) fn is_polling_since_before(&self, id: RequestId) -> bool {
        let mut earlier = self.in_flight.range(..id);
        self.polls > 0 && earlier.any(|(_, it)| it.from.polls())
    }

    /// The answers to these are no longer needed.
    pub(in crate::machine) fn abort(&mut self, is: impl Fn(F) -> bool) {
        work::passed(self.in_flight.len());
        self.in_flight.retain(|id, it| {
            let is_stale = is(it.from);
            if is_stale {
                self.steps.remove(id);
                self.polls -= usize::from(it.from.polls());
                self.aborts.push_back(*id);
            }
            !is_stale
        });
    }

    pub(in crate::machine) fn poll_abort(&mut self) -> Option<RequestId> {
        self.aborts.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Method;
    use crate::machine::fixture::at;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum From {
        Watch,
        Other(char),
    }

    impl Sender for From {
        fn polls(&self) -> bool {
            *self == Self::Watch
        }
    }

    const S: Duration = Duration::from_secs(1);

    fn requests() -> Requests<From> {
        Requests::new(S * 3, S * 10)
    }

    fn send(requests: &mut Requests<From>, now: u64, from: From) -> Transmit {
        let request = Request::new(Method::Put, "/v1/txn");
        requests.send(at(now), from, Service::Keys, request)
    }

    #[test]
    fn numbers_rise_whatever_they_are_for() {
        let mut requests = requests();
        assert_eq!(requests.moment(), Moment::START);
        assert_eq!(requests.number(), 1);
        assert_eq!(send(&mut requests, 0, From::Other('a')).id, RequestId(2));
        assert_eq!(requests.number(), 3);
        assert_eq!(requests.moment(), Moment(3));
    }

    #[test]
    fn an_answer_counts_once_and_only_while_it_is_waited_for() {
        let mut requests = requests();
        let a = send(&mut requests, 1, From::Other('a')).id;
        let b = send(&mut requests, 2, From::Other('b')).id;
        let answer = Ok(Response::new(200, "{}"));
        let (received, _) = requests.receive(at(3), a, &answer).unwrap();
        assert_eq!((received.from, received.sent_at), (From::Other('a'), at(1)));
        assert!(requests.receive(at(3), a, &answer).is_none());
        requests.abort(|from| from == From::Other('b'));
        assert_eq!(requests.poll_abort(), Some(b));
        assert_eq!(requests.poll_abort(), None);
        assert!(requests.receive(at(3), b, &answer).is_none());
        assert_eq!(requests.short(), 0);
    }

    #[test]
    fn how_a_request_ended_comes_with_its_outcome() {
        let mut requests = requests();
        let mut ended = |result| {
            let id = send(&mut requests, 0, From::Other('a')).id;
            requests.receive(at(1), id, &result).unwrap().1
        };
        let served = ended(Ok(Response::new(200, "{}"))).expect("an end");
        assert!(served.failure().is_none());
        let silence = TransportError::new(TransportErrorKind::Timeout);
        let failed = ended(Err(silence)).expect("an end");
        assert!(failed.failure().is_some());
        // It serves those that it refuses, unless it has served them before.
        let refused = || Ok(Response::new(403, "Permission denied"));
        let failed = ended(refused()).expect("an end");
        assert!(failed.failure().is_some());
        let mut untried = Requests::new(S, S);
        let id = send(&mut untried, 0, From::Other('a')).id;
        let refused = refused();
        let (_, served) = untried.receive(at(1), id, &refused).unwrap();
        assert!(served.expect("an end").failure().is_none());
    }

    #[test]
    fn after_a_slow_answer_the_next_is_waited_for_longer_but_a_poll_is_none() {
        let mut requests = requests();
        let poll = send(&mut requests, 0, From::Watch);
        assert_eq!(poll.request.timeout(), S * 3);
        let answer = Ok(Response::new(200, "{}"));
        requests.receive(at(15_000), poll.id, &answer);
        let short = send(&mut requests, 15_000, From::Other('a'));
        assert_eq!(short.request.timeout(), S * 3);
        requests.receive(at(17_000), short.id, &answer);
        let next = send(&mut requests, 17_000, From::Other('a'));
        assert_eq!(next.request.timeout(), S * 6);
    }
}
