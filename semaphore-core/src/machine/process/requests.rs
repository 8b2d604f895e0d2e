//! What is under way: a machine's requests by their ids, which answers are of no more use, and how others like them
//! have fared.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use crate::http::Response;
use crate::id::RequestId;
use crate::machine::process::latency::Latency;
use crate::machine::process::moment::Moment;
use crate::machine::process::service::Services;
use crate::machine::process::tenancy::orphans::Orphans;
use crate::transport::{TransportError, TransportErrorKind};

/// The requests of one machine, each with what it was for.
#[derive(Clone, Debug)]
pub(in crate::machine) struct Requests<T> {
    next_id: u64,
    in_flight: BTreeMap<RequestId, T>,
    aborts: VecDeque<RequestId>,
    services: Services,
    latency: Latency,
    orphans: Orphans,
}

impl<T> Requests<T> {
    pub(in crate::machine) fn new() -> Self {
        Self {
            next_id: 0,
            in_flight: BTreeMap::new(),
            aborts: VecDeque::new(),
            services: Services::default(),
            latency: Latency::default(),
            orphans: Orphans::default(),
        }
    }

    /// A number that nothing else of this machine has, and that is higher than any before.
    pub(in crate::machine) fn number(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// The present, in the order of what is sent and learned.
    pub(in crate::machine) fn moment(&self) -> Moment {
        Moment(self.next_id)
    }

    /// A request goes out.
    pub(in crate::machine) fn sent(&mut self, what: T) -> RequestId {
        let id = RequestId(self.number());
        self.in_flight.insert(id, what);
        id
    }

    /// Something came back for a request: what it was for; none where nobody waits for it any more.
    pub(in crate::machine) fn ended(&mut self, id: RequestId) -> Option<T> {
        self.in_flight.remove(&id)
    }

    /// How requests like these have fared.
    pub(in crate::machine) fn services(&mut self) -> &mut Services {
        &mut self.services
    }

    /// The sessions that it may have made without knowing.
    pub(in crate::machine) fn orphans(&self) -> &Orphans {
        &self.orphans
    }

    pub(in crate::machine) fn orphans_mut(&mut self) -> &mut Orphans {
        &mut self.orphans
    }

    /// How long the answer to a short request is waited for, `usual`ly so long.
    pub(in crate::machine) fn patience(&self, usual: Duration) -> Duration {
        self.latency.patience(usual)
    }

    /// What came back for a short request, after so long.
    pub(in crate::machine) fn took(
        &mut self,
        time: Duration,
        result: &Result<Response, TransportError>,
        usual: Duration,
    ) {
        match result {
            Ok(_) => self.latency.answered(time, usual),
            Err(error) if error.kind() == TransportErrorKind::Timeout => self.latency.timed_out(),
            Err(_) => {}
        }
    }

    pub(in crate::machine) fn under_way(&self) -> impl ExactSizeIterator<Item = &T> {
        self.in_flight.values()
    }

    /// The answers to these are of no more use.
    pub(in crate::machine) fn abort(&mut self, is: impl Fn(&T) -> bool) {
        let stale = self.in_flight.extract_if(.., |_, what| is(what));
        self.aborts.extend(stale.map(|(id, _)| id));
    }

    pub(in crate::machine) fn poll_abort(&mut self) -> Option<RequestId> {
        self.aborts.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_rise_whatever_they_are_for() {
        let mut requests = Requests::new();
        assert_eq!(requests.moment(), Moment::START);
        assert_eq!(requests.number(), 1);
        assert_eq!(requests.sent('a'), RequestId(2));
        assert_eq!(requests.number(), 3);
        assert_eq!(requests.moment(), Moment(3));
    }

    #[test]
    fn an_answer_counts_once_and_only_while_it_is_waited_for() {
        let mut requests = Requests::new();
        let (a, b) = (requests.sent('a'), requests.sent('b'));
        assert_eq!(requests.ended(a), Some('a'));
        assert_eq!(requests.ended(a), None);
        requests.abort(|what| *what == 'b');
        assert_eq!(requests.poll_abort(), Some(b));
        assert_eq!(requests.poll_abort(), None);
        assert_eq!(requests.ended(b), None);
        assert_eq!(requests.under_way().len(), 0);
    }
}
