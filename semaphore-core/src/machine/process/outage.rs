//! Whether Consul serves the requests of a process, and if not, since when and why.
//!
//! ```text
//!             a request fails                     it has lasted for a second
//!  Serving ──────────────────▶ Failing since … ─────────────────────────────▶ Failing, which is told
//!     ▲                               │                                               │
//!     └── what has failed is served ──┴───────────────────────────────────────────────┘ which is told, too
//! ```
//! All machines of a process ask the same Consul, so they have one outage together, however many
//! they are. Each says how its requests [ended](RequestEnd), and their owner keeps the outage.
//!
//! One reset, or an agent that refuses for some milliseconds, is no outage. Failures of reads and of
//! writes are kept apart: an agent that serves reads but no writes neither recovers nor fails again
//! with each answer.

use core::time::Duration;
use std::collections::VecDeque;

use crate::error::RequestError;
use crate::machine::notice::Notice;
use crate::machine::process::service::Service;
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

/// After a failure without any later request an outage is over: nobody asks any more. What is left
/// behind is tried again within a minute (`candidacy::departure`).
const UNASKED: Duration = Duration::from_secs(90);

/// How one request of a machine ended.
#[derive(Clone, Debug)]
pub struct RequestEnd {
    at: Instant,
    purpose: Purpose,
    /// If it failed transiently: since when it had no answer, and why.
    failure: Option<(Instant, RequestError)>,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Read,
    Poll,
    Write,
}

impl Purpose {
    pub(in crate::machine) fn of(service: Service, polls: bool) -> Self {
        match service {
            _ if polls => Self::Poll,
            Service::Reads => Self::Read,
            _ => Self::Write,
        }
    }

    fn forgotten(self) -> Duration {
        match self {
            Self::Poll => POLL_FORGOTTEN,
            Self::Read | Self::Write => FORGOTTEN,
        }
    }
}

impl RequestEnd {
    /// Consul served it.
    pub(crate) fn served(at: Instant, purpose: Purpose) -> Self {
        let failure = None;
        Self {
            at,
            purpose,
            failure,
        }
    }

    /// It failed transiently, and had no answer since `since`.
    pub(crate) fn failed(
        at: Instant,
        purpose: Purpose,
        since: Instant,
        cause: RequestError,
    ) -> Self {
        let failure = Some((since, cause));
        Self {
            at,
            purpose,
            failure,
        }
    }

    /// Why it failed.
    pub(crate) fn failure(&self) -> Option<&RequestError> {
        self.failure.as_ref().map(|(_, cause)| cause)
    }
}

/// The outage of a process, if there is one.
#[derive(Default)]
pub(crate) struct Outage {
    failing: Option<Failing>,
    /// When a read and a write were last served. What was sent before, and fails later, is of an
    /// outage that was over by then.
    read_at: Option<Instant>,
    write_at: Option<Instant>,
    news: VecDeque<Notice>,
}

struct Failing {
    since: Instant,
    /// When a read and a write last failed, if they were not served since.
    read: Option<(Instant, Purpose)>,
    write: Option<(Instant, Purpose)>,
    last_at: Instant,
    cause: RequestError,
    word: Word,
}

/// Whether an outage was reported.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Untold,
    Told,
}

impl Outage {
    /// Hears how a request ended.
    pub(crate) fn hear(&mut self, end: &RequestEnd) {
        self.let_time_pass(end.at);
        let served = match end.purpose {
            Purpose::Read | Purpose::Poll => &mut self.read_at,
            Purpose::Write => &mut self.write_at,
        };
        match &end.failure {
            Some((since, _)) if served.is_some_and(|at| *since < at) => {}
            Some((since, cause)) => self.failed(end.at, end.purpose, *since, cause),
            None => {
                *served = Some(end.at);
                self.served(end.at, end.purpose);
            }
        }
    }

    fn failed(&mut self, now: Instant, purpose: Purpose, since: Instant, cause: &RequestError) {
        let failing = self.failing.get_or_insert_with(|| Failing {
            since,
            read: None,
            write: None,
            last_at: now,
            cause: cause.clone(),
            word: Word::Untold,
        });
        *failing.last_of(purpose) = Some((now, purpose));
        failing.cause = cause.clone();
        self.goes_on(now);
    }

    /// Somebody still waits for what has failed, and nothing was served meanwhile.
    pub(crate) fn goes_on(&mut self, now: Instant) {
        let Some(failing) = &mut self.failing else {
            return;
        };
        failing.last_at = now;
        if failing.word == Word::Untold && now.saturating_since(failing.since) >= BRIEF {
            failing.word = Word::Told;
            self.news.push_back(Notice::Retrying {
                since: failing.since,
                cause: failing.cause.clone(),
            });
        }
    }

    fn served(&mut self, now: Instant, purpose: Purpose) {
        let Some(failing) = &mut self.failing else {
            return;
        };
        failing.last_at = now;
        *failing.last_of(purpose) = None;
        for last in [&mut failing.read, &mut failing.write] {
            *last = last.filter(|(at, purpose)| now.saturating_since(*at) < purpose.forgotten());
        }
        if failing.read.is_none() && failing.write.is_none() {
            let after = now.saturating_since(failing.since);
            self.end(Notice::Recovered { after });
        }
    }

    /// Lets time pass: an outage ends if nobody asks any more.
    pub(crate) fn let_time_pass(&mut self, now: Instant) {
        if let Some(failing) = &self.failing
            && self.timeout().is_some_and(|at| at <= now)
        {
            let after = failing.last_at.saturating_since(failing.since);
            self.end(Notice::Unasked { after });
        }
    }

    /// When [`Self::let_time_pass`] is due.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        Some(self.failing.as_ref()?.last_at + UNASKED)
    }

    fn end(&mut self, notice: Notice) {
        if self.failing.take().is_some_and(|it| it.word == Word::Told) {
            self.news.push_back(notice);
        }
    }

    /// What Consul does not serve now.
    pub(crate) fn trouble(&self, now: Instant) -> Option<Trouble> {
        let failing = self.failing.as_ref()?;
        let is_over = self.timeout().is_some_and(|at| at <= now);
        (!is_over).then(|| Trouble {
            lasts: now.saturating_since(failing.since),
            cause: failing.cause.clone(),
        })
    }

    pub(crate) fn poll(&mut self) -> Option<Notice> {
        self.news.pop_front()
    }
}

impl Failing {
    fn last_of(&mut self, purpose: Purpose) -> &mut Option<(Instant, Purpose)> {
        match purpose {
            Purpose::Read | Purpose::Poll => &mut self.read,
            Purpose::Write => &mut self.write,
        }
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
            Notice::Unasked { after } => Some(format!("unasked after {after:?}")),
            _ => None,
        });
        news.collect()
    }

    fn fail(outage: &mut Outage, now: u64, since: u64, purpose: Purpose) {
        let error = TransportError::new(TransportErrorKind::NotSent);
        let error = RequestError::Transport(error);
        outage.hear(&RequestEnd::failed(at(now), purpose, at(since), error));
    }

    #[test]
    fn a_request_of_an_outage_that_is_over_does_not_begin_it_again() {
        let mut outage = Outage::default();
        fail(&mut outage, 3_000, 0, Purpose::Write);
        serve(&mut outage, 4_000, Purpose::Write);
        fail(&mut outage, 5_000, 2_000, Purpose::Write);
        assert!(outage.trouble(at(5_000)).is_none());
        fail(&mut outage, 8_000, 5_000, Purpose::Write);
        assert!(outage.trouble(at(8_000)).is_some());
    }

    fn serve(outage: &mut Outage, now: u64, purpose: Purpose) {
        outage.hear(&RequestEnd::served(at(now), purpose));
    }

    #[test]
    fn a_brief_failure_is_no_outage() {
        let mut outage = Outage::default();
        fail(&mut outage, 0, 0, Purpose::Read);
        fail(&mut outage, 999, 998, Purpose::Read);
        assert_eq!(outage.trouble(at(1_000)).unwrap().lasts.as_secs(), 1);
        serve(&mut outage, 1_100, Purpose::Read);
        assert_eq!(told(&mut outage), [""; 0]);
        assert!(outage.trouble(at(1_100)).is_none());
    }

    #[test]
    fn an_outage_is_told_once_and_so_is_its_end() {
        let mut outage = Outage::default();
        for now in [0, 500, 1_000, 4_000, 60_000] {
            fail(&mut outage, now, now, Purpose::Read);
        }
        serve(&mut outage, 61_000, Purpose::Read);
        serve(&mut outage, 62_000, Purpose::Read);
        let texts = told(&mut outage);
        assert_eq!(texts, ["retrying since 0.000s", "recovered after 61s"]);
    }

    #[test]
    fn an_answer_that_never_came_counts_from_its_request_on() {
        let mut outage = Outage::default();
        fail(&mut outage, 5_000, 1_000, Purpose::Write);
        assert_eq!(told(&mut outage), ["retrying since 1.000s"]);
    }

    #[test]
    fn a_poll_that_is_held_open_does_not_keep_an_outage_going() {
        let mut outage = Outage::default();
        fail(&mut outage, 3_000, 0, Purpose::Write);
        fail(&mut outage, 3_000, 3_000, Purpose::Poll);
        for now in 4..10 {
            serve(&mut outage, now * 1_000, Purpose::Write);
        }
        let texts = told(&mut outage);
        assert_eq!(texts, ["retrying since 0.000s", "recovered after 9s"]);
    }

    #[test]
    fn reads_that_are_served_end_no_outage_of_writes() {
        let mut outage = Outage::default();
        for now in 0..10 {
            fail(&mut outage, now * 1_000, now * 1_000, Purpose::Write);
            serve(&mut outage, now * 1_000 + 500, Purpose::Read);
        }
        assert_eq!(told(&mut outage), ["retrying since 0.000s"]);
        serve(&mut outage, 38_000, Purpose::Read);
        assert_eq!(told(&mut outage), [""; 0]);
        serve(&mut outage, 39_000, Purpose::Read);
        assert_eq!(told(&mut outage), ["recovered after 39s"]);
    }

    #[test]
    fn an_outage_after_which_nobody_asks_ends_with_its_last_failure() {
        let mut outage = Outage::default();
        for now in [0, 1_500] {
            fail(&mut outage, now, now, Purpose::Read);
        }
        let due = outage.timeout().unwrap();
        assert!(outage.trouble(due).is_none(), "the clock ends it");
        outage.let_time_pass(due);
        assert_eq!(outage.timeout(), None);
        let texts = told(&mut outage);
        assert_eq!(texts, ["retrying since 0.000s", "unasked after 1.5s"]);
        fail(&mut outage, 3_600_000, 3_600_000, Purpose::Read);
        let trouble = outage.trouble(at(3_600_500)).unwrap();
        assert_eq!(trouble.lasts.as_millis(), 500);
    }
}
