//! Whether Consul serves the requests, and if not, since when and why.
//!
//! ```text
//!             a request fails                     it has lasted for a second
//!  Serving ──────────────────▶ Failing since … ─────────────────────────────▶ Failing, which is told
//!     ▲                               │                                               │
//!     └── what has failed is served ──┴───────────────────────────────────────────────┘ which is told, too
//! ```
//! One reset, or an agent that refuses for some milliseconds, is no outage. Failures are counted by
//! the purpose of the request: an agent that serves reads but no writes neither recovers nor fails
//! again with each answer.

use core::fmt;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use crate::error::RequestError;
use crate::machine::notice::Notice;
use crate::machine::process::service::Service;
use crate::machine::process::tenancy::loan::{Heard, LoanNews};
use crate::machine::status::Trouble;
use crate::time::Instant;

/// How long a failure lasts before it is reported as an outage.
const BRIEF: Duration = Duration::from_secs(1);

/// A failure that is this old does not prolong an outage while other requests are served: nobody
/// may need that service any more.
const FORGOTTEN: Duration = Duration::from_secs(30);

/// The same for a poll. The next poll may be held open for long before it shows success. A failing
/// poll fails again sooner, since pauses between attempts are at most five seconds.
const POLL_FORGOTTEN: Duration = Duration::from_secs(6);

#[derive(Clone, Default)]
pub(in crate::machine) struct Outage {
    failing: Option<Failing>,
    news: VecDeque<Notice>,
}

/// No request depends on it, so it does not distinguish states.
impl fmt::Debug for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Outage")
    }
}

#[derive(Clone)]
struct Failing {
    since: Instant,
    /// When each of these last failed, and whether it was a poll.
    services: BTreeMap<Service, (Instant, Kind)>,
    cause: RequestError,
    word: Word,
}

/// Whether an outage was reported.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Untold,
    Told,
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::machine) enum Kind {
    Short,
    Poll,
}

impl Outage {
    /// A request for this service has failed transiently. It had no answer since `since`.
    pub(in crate::machine) fn failed(
        &mut self,
        now: Instant,
        since: Instant,
        (service, kind): (Service, Kind),
        cause: &RequestError,
    ) {
        self.news.push_back(Notice::RequestFailed {
            error: cause.clone(),
        });
        let failing = self.failing.get_or_insert_with(|| Failing {
            since,
            services: BTreeMap::new(),
            cause: cause.clone(),
            word: Word::Untold,
        });
        failing.services.insert(service, (now, kind));
        failing.cause = cause.clone();
        self.goes_on(now);
    }

    /// Nothing was served meanwhile.
    pub(in crate::machine) fn goes_on(&mut self, now: Instant) {
        if let Some(failing) = &mut self.failing
            && failing.word == Word::Untold
            && now.saturating_since(failing.since) >= BRIEF
        {
            failing.word = Word::Told;
            self.news.push_back(Notice::Retrying {
                since: failing.since,
                cause: failing.cause.clone(),
            });
        }
    }

    /// A request for this service was served.
    pub(in crate::machine) fn served(&mut self, now: Instant, service: Service) {
        let Some(failing) = &mut self.failing else {
            return;
        };
        failing.services.remove(&service);
        failing.services.retain(|_, (at, kind)| {
            let forgotten = match kind {
                Kind::Short => FORGOTTEN,
                Kind::Poll => POLL_FORGOTTEN,
            };
            now.saturating_since(*at) < forgotten
        });
        if failing.services.is_empty() {
            let after = now.saturating_since(failing.since);
            if failing.word == Word::Told {
                self.news.push_back(Notice::Recovered { after });
            }
            self.failing = None;
        }
    }

    /// News of a shared session.
    pub(in crate::machine) fn hear_of_session(&mut self, now: Instant, news: &LoanNews) {
        let Some(Heard::Answer(took) | Heard::Silence(took)) = news.heard else {
            return;
        };
        match &news.shown.failure {
            Some(error) if error.is_permanent() => {}
            Some(error) => {
                let service = (Service::Sessions, Kind::Short);
                self.failed(now, now - took, service, error);
            }
            None => self.served(now, Service::Sessions),
        }
    }

    /// What Consul does not serve now.
    pub(in crate::machine) fn trouble(&self, now: Instant) -> Option<Trouble> {
        let failing = self.failing.as_ref()?;
        Some(Trouble {
            lasts: now.saturating_since(failing.since),
            cause: failing.cause.clone(),
        })
    }

    pub(in crate::machine) fn poll(&mut self) -> Option<Notice> {
        self.news.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::fixture::at;
    use crate::transport::{TransportError, TransportErrorKind};

    fn told(outage: &mut Outage) -> Vec<String> {
        let news = std::iter::from_fn(|| outage.poll());
        let news = news.filter_map(|it| match it {
            Notice::Retrying { since, .. } => Some(format!("retrying since {since}")),
            Notice::Recovered { after } => Some(format!("recovered after {after:?}")),
            _ => None,
        });
        news.collect()
    }

    fn fail(outage: &mut Outage, now: u64, since: u64, service: Service) {
        let error = TransportError::new(TransportErrorKind::NotSent);
        let error = RequestError::Transport(error);
        outage.failed(at(now), at(since), (service, Kind::Short), &error);
    }

    #[test]
    fn a_brief_failure_is_no_outage() {
        let mut outage = Outage::default();
        fail(&mut outage, 0, 0, Service::Reads);
        fail(&mut outage, 999, 998, Service::Reads);
        assert_eq!(outage.trouble(at(1_000)).unwrap().lasts.as_secs(), 1);
        outage.served(at(1_100), Service::Reads);
        assert_eq!(told(&mut outage), [""; 0]);
        assert!(outage.trouble(at(1_100)).is_none());
    }

    #[test]
    fn an_outage_is_told_once_and_so_is_its_end() {
        let mut outage = Outage::default();
        for now in [0, 500, 1_000, 4_000, 60_000] {
            fail(&mut outage, now, now, Service::Reads);
        }
        outage.served(at(61_000), Service::Reads);
        outage.served(at(62_000), Service::Reads);
        let texts = told(&mut outage);
        assert_eq!(texts, ["retrying since 0.000s", "recovered after 61s"]);
    }

    #[test]
    fn an_answer_that_never_came_counts_from_its_request_on() {
        let mut outage = Outage::default();
        fail(&mut outage, 5_000, 1_000, Service::Sessions);
        assert_eq!(told(&mut outage), ["retrying since 1.000s"]);
    }

    #[test]
    fn a_poll_that_is_held_open_does_not_keep_an_outage_going() {
        let mut outage = Outage::default();
        let error = RequestError::Transport(TransportError::new(TransportErrorKind::Unknown));
        fail(&mut outage, 3_000, 0, Service::Sessions);
        outage.failed(at(3_000), at(3_000), (Service::Reads, Kind::Poll), &error);
        for now in 4..10 {
            outage.served(at(now * 1_000), Service::Sessions);
        }
        let texts = told(&mut outage);
        assert_eq!(texts, ["retrying since 0.000s", "recovered after 9s"]);
    }

    #[test]
    fn reads_that_are_served_end_no_outage_of_writes() {
        let mut outage = Outage::default();
        for now in 0..10 {
            fail(&mut outage, now * 1_000, now * 1_000, Service::Records);
            outage.served(at(now * 1_000 + 500), Service::Reads);
        }
        assert_eq!(told(&mut outage), ["retrying since 0.000s"]);
        outage.served(at(38_000), Service::Reads);
        assert_eq!(told(&mut outage), [""; 0]);
        outage.served(at(39_000), Service::Reads);
        assert_eq!(told(&mut outage), ["recovered after 39s"]);
    }
}
