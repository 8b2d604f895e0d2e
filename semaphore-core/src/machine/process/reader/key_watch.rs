//! The long poll of one key: what it shows, kept up to date by blocking queries that the leader
//! confirms.
//!
//! ```text
//!           start()                     answered or failed
//!   Idle ────────────▶ Waiting ◀──────────────────────────── Polling
//!    ▲                  │ └──── due, within the budget ────────▲ │
//!    └── pause() ───────┘                                        │
//!    └──────────────── answered or failed after pause() ─────────┘
//! ```
//! Where a poll goes on from is [`Cursor`]'s; after a failure it starts anew. One that is under way
//! when nothing is to be watched any more is left to its end: closed in the middle, it would still
//! count among the 200 connections that an agent allows.

use core::time::Duration;

use crate::api::ReadKey;
use crate::http::{Request, longest_wait};
use crate::id::Index;
use crate::machine::process::reader::backoff::Backoff;
use crate::machine::process::reader::budget::Budget;
use crate::machine::process::reader::cursor::Cursor;
use crate::machine::process::tenancy::settings::SessionSettings;
use crate::time::Instant;

#[derive(Clone, Debug)]
pub(in crate::machine) struct KeyWatch {
    state: State,
    is_paused: bool,
    cursor: Cursor,
    budget: Budget,
    backoff: Backoff,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Waiting { until: Instant },
    Polling,
}

impl KeyWatch {
    pub(in crate::machine) fn new(settings: &SessionSettings) -> Self {
        Self {
            state: State::Idle,
            is_paused: true,
            cursor: Cursor::new(),
            budget: Budget::new(INTERVAL, BURST),
            backoff: Backoff::new(Duration::from_millis(100), settings.retry_cap()),
        }
    }

    /// Watches from now on. Says whether a plain read comes first, which is answered at once.
    pub(in crate::machine) fn start(&mut self) -> bool {
        self.is_paused = false;
        if self.state == State::Idle {
            self.cursor.restart();
            self.state = State::Waiting {
                until: Instant::ORIGIN,
            };
        }
        self.state != State::Polling
    }

    /// Polls no more.
    pub(in crate::machine) fn pause(&mut self) {
        self.is_paused = true;
        if self.state != State::Polling {
            self.state = State::Idle;
        }
    }

    pub(in crate::machine) fn timeout(&self) -> Option<Instant> {
        match self.state {
            State::Waiting { until } => Some(until.max(self.budget.ready_at())),
            State::Idle | State::Polling => None,
        }
    }

    pub(in crate::machine) fn transmit(
        &mut self,
        now: Instant,
        key: &str,
        settings: &SessionSettings,
    ) -> Option<Request> {
        if self.timeout().is_none_or(|due| due > now) {
            return None;
        }
        self.budget.take(now);
        self.state = State::Polling;
        self.cursor.sent(now);
        let wait = Some((self.cursor.index(), WAIT)).filter(|_| !self.cursor.is_at_start());
        let read = ReadKey {
            key,
            wait,
            consistent: true,
        };
        let held_open = wait.map_or(Duration::ZERO, |(_, wait)| longest_wait(wait));
        let timeout = held_open + settings.request_timeout();
        Some(read.request(&settings.scope).with_timeout(timeout))
    }

    pub(in crate::machine) fn answered(&mut self, now: Instant, index: Index) {
        self.backoff.reset();
        self.cursor.answered(now, index, WAIT);
        self.proceed(now);
    }

    pub(in crate::machine) fn failed(&mut self, now: Instant, rng: &mut fastrand::Rng) {
        let wait = self.backoff.next(rng);
        // A plain read tells at once where Consul is now, also when indexes went backwards meanwhile.
        self.cursor.restart();
        self.proceed(now + wait);
    }

    fn proceed(&mut self, until: Instant) {
        self.state = if self.is_paused {
            State::Idle
        } else {
            State::Waiting { until }
        };
    }
}

/// The ceiling of polls (invariant L3): ten a second in the long run, 20 at once.
const INTERVAL: Duration = Duration::from_millis(100);
const BURST: u32 = 20;

/// How long the server may hold a poll open without a change.
const WAIT: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use crate::input::SessionOptions;
    use crate::machine::process::reader::key_watch::*;

    fn settings() -> SessionSettings {
        SessionSettings::new(SessionOptions::default())
    }

    fn at(secs: u64) -> Instant {
        Instant::from_origin(Duration::from_secs(secs))
    }

    fn poll(watch: &mut KeyWatch, now: Instant) -> Option<String> {
        watch
            .transmit(now, "leader", &settings())
            .map(|request| request.target().to_owned())
    }

    #[test]
    fn it_starts_with_a_plain_read_and_goes_on_from_its_index() {
        let mut watch = KeyWatch::new(&settings());
        assert_eq!(poll(&mut watch, at(1)), None);
        assert!(watch.start());
        assert_eq!(poll(&mut watch, at(1)).unwrap(), "/v1/kv/leader?consistent");
        assert_eq!(poll(&mut watch, at(1)), None, "one poll at a time");
        watch.answered(at(1), Index(7));
        let next = poll(&mut watch, at(1)).unwrap();
        assert_eq!(next, "/v1/kv/leader?index=7&wait=15s&consistent");
    }

    #[test]
    fn an_index_that_goes_backwards_or_stands_still_too_early_starts_again() {
        for (index, after, again) in [(6, 15, true), (7, 14, true), (7, 15, false), (8, 0, false)] {
            let mut watch = KeyWatch::new(&settings());
            watch.start();
            poll(&mut watch, at(1));
            watch.answered(at(1), Index(7));
            poll(&mut watch, at(1));
            watch.answered(at(1 + after), Index(index));
            let next = poll(&mut watch, at(1 + after)).unwrap();
            assert_eq!(!next.contains("index"), again, "{index} after {after} s");
        }
    }

    #[test]
    fn a_poll_under_way_serves_whoever_starts_again() {
        let mut watch = KeyWatch::new(&settings());
        watch.start();
        poll(&mut watch, at(1));
        watch.pause();
        assert!(!watch.start());
        watch.pause();
        watch.answered(at(2), Index(7));
        assert_eq!(watch.timeout(), None);
        assert!(watch.start(), "with a plain read");
    }

    #[test]
    fn failures_and_a_storm_of_changes_are_paced() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut watch = KeyWatch::new(&settings());
        watch.start();
        poll(&mut watch, at(1));
        watch.failed(at(1), &mut rng);
        assert!(watch.timeout().unwrap() > at(1));
        let mut polls = 0;
        for millis in 2_000..12_000 {
            let now = Instant::from_origin(Duration::from_millis(millis));
            if poll(&mut watch, now).is_some() {
                polls += 1;
                watch.answered(now, Index(millis));
            }
        }
        assert!((100..=121).contains(&polls), "{polls}");
    }
}
