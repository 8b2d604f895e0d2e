//! The long poll: what a participant knows of its prefix, kept up to date by blocking queries.
//!
//! ```text
//!           start()                     answered or failed
//!   Idle ────────────▶ Waiting ◀──────────────────────────── Polling
//!    ▲                  │ └──── due, within the budget ────────▲ │
//!    └── pause() ───────┘                                        │
//!    └──────────────── answered or failed after pause() ─────────┘
//! ```
//! A poll that is under way when nothing is to be watched any more is left to its end: an agent counts
//! a connection that was closed in the middle of a poll until that poll would have ended, and allows a
//! client 200.
//!
//! The rules of the index are Consul's, see [`Cursor`]. Once indexes went backwards, a server that lags
//! behind can't be told by its index any more: from then on polls ask for the leader's word.

use core::time::Duration;

use crate::api::{ListKeys, ReadKey};
use crate::defect::{Defect, is_on};
use crate::http::{Request, longest_wait};
use crate::id::{Index, SessionId};
use crate::machine::process::reader::backoff::Backoff;
use crate::machine::process::reader::budget::{Budget, READ_BURST, READ_INTERVAL};
use crate::machine::process::reader::cursor::{Cursor, Progress};
use crate::machine::semaphore::refresh::Refresh;
use crate::machine::semaphore::settings::Settings;
use crate::time::Instant;

#[derive(Clone, Debug)]
pub(in crate::machine) struct Watch {
    state: State,
    is_paused: bool,
    cursor: Cursor,
    /// Whether polls ask for the leader's word.
    asks_leader: bool,
    /// From when on a poll is wanted; at present none is.
    wanted_from: Option<Instant>,
    /// What the next poll is for, and what the one under way, or the last, is for.
    focus: Focus,
    polled: Focus,
    budget: Budget,
    backoff: Backoff,
    /// Whether a request got no answer since the last one to a poll: the poll under way may be dead too.
    is_suspect: bool,
    /// A read beside the poll.
    refresh: Refresh,
    /// How long the last short request took.
    round_trip: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Waiting {
        until: Instant,
    },
    /// Whether the leader confirms itself for the answer.
    Polling {
        is_confirmed: bool,
    },
}

impl Watch {
    pub(in crate::machine) fn new(settings: &Settings) -> Self {
        Self {
            state: State::Idle,
            is_paused: true,
            cursor: Cursor::new(),
            asks_leader: false,
            wanted_from: Some(Instant::ORIGIN),
            focus: Focus::Prefix,
            polled: Focus::Prefix,
            budget: Budget::new(READ_INTERVAL, READ_BURST),
            backoff: Backoff::new(Duration::from_millis(100), settings.retry_cap()),
            is_suspect: false,
            refresh: Refresh::new(settings),
            round_trip: Duration::ZERO,
        }
    }

    /// Watches from now on.
    pub(in crate::machine) fn start(&mut self) -> Start {
        let was_paused = core::mem::replace(&mut self.is_paused, false);
        match self.state {
            State::Idle => {
                self.cursor.restart();
                self.asks_leader = false;
                self.state = State::Waiting {
                    until: Instant::ORIGIN,
                };
                Start::Anew
            }
            State::Polling { .. } if was_paused => Start::Resumed,
            State::Polling { .. } | State::Waiting { .. } => Start::Running,
        }
    }

    /// From when on the next poll is wanted, if it is at all. One that is under way goes on.
    pub(in crate::machine) fn want_from(&mut self, from: Option<Instant>) {
        self.wanted_from = from;
    }

    /// Lets the next poll be a plain read, unless one is under way. Says whether it will be.
    pub(in crate::machine) fn start_over(&mut self) -> bool {
        if !self.is_polling() {
            self.cursor.restart();
        }
        !self.is_polling()
    }

    /// What a poll would tell up to this index is known from elsewhere.
    pub(in crate::machine) fn skip_to(&mut self, index: Index) {
        if !self.is_polling() {
            self.cursor.skip_to(index);
        }
    }

    pub(in crate::machine) fn is_polling(&self) -> bool {
        matches!(self.state, State::Polling { .. })
    }

    /// Since when a plain read of the prefix is under way, which is answered at once.
    pub(in crate::machine) fn reads_since(&self) -> Option<Instant> {
        let is_reading =
            self.is_polling() && self.polled == Focus::Prefix && self.cursor.is_at_start();
        is_reading.then_some(self.cursor.sent_at())
    }

    /// What polls are for from now on.
    pub(in crate::machine) fn look_at(&mut self, focus: Focus) {
        self.focus = focus;
    }

    /// What the poll under way, or the last, is for.
    pub(in crate::machine) fn polled(&self) -> &Focus {
        &self.polled
    }

    /// Whether the poll under way is for the next ahead alone.
    pub(in crate::machine) fn is_looking_ahead(&self) -> bool {
        self.is_polling() && matches!(self.polled, Focus::Ahead { .. })
    }

    /// Whether the poll under way is for one key, and that is not what matters any more.
    pub(in crate::machine) fn is_misled(&self) -> bool {
        self.is_looking_ahead() && self.polled.ahead() != self.focus.ahead()
    }

    /// Whether the answer to the poll under way comes before its time.
    pub(in crate::machine) fn is_early(&self, now: Instant) -> bool {
        now.saturating_since(self.cursor.sent_at()) < self.polled.wait()
    }

    /// A poll of one key was answered.
    pub(in crate::machine) fn key_answered(&mut self, now: Instant) {
        self.backoff.reset();
        self.proceed(now);
    }

    /// From the next poll on asks for the leader's word, until it starts anew.
    pub(in crate::machine) fn ask_leader(&mut self) {
        self.asks_leader = true;
    }

    pub(in crate::machine) fn asks_leader(&self) -> bool {
        self.asks_leader
    }

    /// Whether the leader confirms itself for the answer to the poll under way.
    pub(in crate::machine) fn is_polling_leader(&self) -> bool {
        self.state == State::Polling { is_confirmed: true }
    }

    /// Gives the poll under way up, for a plain read, unless it has only just begun. Says whether
    /// it did.
    pub(in crate::machine) fn restart(&mut self, now: Instant) -> bool {
        let age = now.saturating_since(self.cursor.sent_at());
        let is_due = self.is_polling() && age >= LEAST_POLL;
        if is_due {
            self.cursor.restart();
            self.proceed(Instant::ORIGIN);
        }
        is_due
    }

    /// Polls no more.
    pub(in crate::machine) fn pause(&mut self) {
        self.is_paused = true;
        if !self.is_polling() {
            self.state = State::Idle;
        }
    }

    /// The whole prefix is read beside the poll, confirmed by the leader: a long poll would only answer at the next
    /// change, or its answers contradict each other.
    pub(super) fn refresh(&mut self, now: Instant) {
        self.refresh.want(now);
    }

    pub(super) fn stop_refresh(&mut self) {
        self.refresh.stop();
    }

    /// Whether a read beside the poll is wanted and not yet sent.
    pub(super) fn is_refresh_wanted(&self) -> bool {
        self.refresh.timeout().is_some()
    }

    /// When the read that is wanted is due: under the same ceiling as polls.
    pub(super) fn refresh_timeout(&self) -> Option<Instant> {
        let wanted = self.refresh.timeout();
        wanted.map(|at| at.max(self.budget.ready_at()))
    }

    pub(super) fn transmit_refresh(
        &mut self,
        now: Instant,
        settings: &Settings,
    ) -> Option<Request> {
        if self.budget.ready_at() > now {
            return None;
        }
        let request = self.refresh.transmit(now, settings)?;
        self.budget.take(now);
        Some(request)
    }

    pub(super) fn refreshed(&mut self) {
        self.refresh.answered();
    }

    pub(super) fn refresh_failed(&mut self, now: Instant, rng: &mut fastrand::Rng) {
        self.refresh.failed(now, rng);
    }

    /// A request has ended. When requests are answered again after some were not, the poll that was under way
    /// meanwhile may be dead, and would be missed only when its time is over: says whether it is given up.
    pub(super) fn judge(&mut self, now: Instant, is_poll: bool, is_answered: bool) -> bool {
        match (is_poll, is_answered) {
            (true, _) => self.is_suspect = false,
            (false, false) => self.is_suspect = true,
            (false, true) => {
                self.is_suspect &= self.is_polling();
                if self.is_suspect && self.restart(now) {
                    self.is_suspect = false;
                    return true;
                }
            }
        }
        false
    }

    /// A short request was answered after so long.
    pub(super) fn took(&mut self, round_trip: Duration) {
        self.round_trip = round_trip;
    }

    pub(super) fn round_trip(&self) -> Duration {
        self.round_trip
    }

    /// One more read is within the ceiling: a write of ours has caused it.
    pub(in crate::machine) fn credit(&mut self) {
        self.budget.credit();
    }

    pub(in crate::machine) fn timeout(&self) -> Option<Instant> {
        match self.state {
            State::Waiting { until } => {
                let from = self.wanted_from?;
                Some(until.max(from).max(self.budget.ready_at()))
            }
            State::Polling { .. } if self.is_misled() => Some(self.cursor.sent_at() + LEAST_POLL),
            State::Idle | State::Polling { .. } => None,
        }
    }

    pub(in crate::machine) fn transmit(
        &mut self,
        now: Instant,
        settings: &Settings,
    ) -> Option<Request> {
        if self.is_polling() || self.timeout().is_none_or(|due| due > now) {
            return None;
        }
        self.budget.take(now);
        let consistent = self.asks_leader;
        self.state = State::Polling {
            is_confirmed: consistent,
        };
        self.cursor.sent(now);
        self.polled.clone_from(&self.focus);
        let wait = match self.focus {
            Focus::Prefix => {
                Some((self.cursor.index(), WAIT)).filter(|_| !self.cursor.is_at_start())
            }
            Focus::Record { index } | Focus::Ahead { index, .. } => {
                Some((index, self.focus.wait())).filter(|(_, wait)| !wait.is_zero())
            }
        };
        let request = match self.focus.key(settings) {
            None => ListKeys {
                prefix: &settings.prefix,
                wait,
                consistent,
            }
            .request(settings.scope()),
            Some(key) => ReadKey {
                key: &key,
                wait,
                consistent,
            }
            .request(settings.scope()),
        };
        let held_open = wait.map_or(Duration::ZERO, |(_, wait)| longest_wait(wait));
        Some(request.with_timeout(held_open + settings.request_timeout()))
    }

    /// Says whether the answer goes on from the one before it. If not, a snapshot may have been
    /// restored between the two.
    pub(in crate::machine) fn answered(&mut self, now: Instant, index: Index) -> bool {
        self.backoff.reset();
        let progress = self.cursor.answered(now, index, WAIT);
        self.proceed(now);
        progress != Progress::Anew
    }

    pub(in crate::machine) fn failed(&mut self, now: Instant, rng: &mut fastrand::Rng) {
        let wait = self.backoff.next(rng);
        if is_on(Defect::WatchStoppedAfterTransient) {
            return;
        }
        self.proceed(now + wait);
    }

    fn proceed(&mut self, until: Instant) {
        if self.is_polling() {
            self.state = if self.is_paused {
                State::Idle
            } else {
                State::Waiting { until }
            };
        }
    }
}

/// What a poll is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::machine) enum Focus {
    /// Everything below the prefix.
    Prefix,
    /// The record, beyond this index.
    Record { index: Index },
    /// The key of whoever is next ahead in the queue, beyond this index. Behind many others the
    /// poll lasts longer, so that what they ask for while nothing happens stays bounded.
    Ahead {
        session: SessionId,
        index: Index,
        wait: Duration,
    },
}

impl Focus {
    /// The one key that it is for.
    fn key(&self, settings: &Settings) -> Option<String> {
        match self {
            Self::Prefix => None,
            Self::Record { .. } => Some(settings.prefix.lock_key()),
            Self::Ahead { session, .. } => Some(settings.prefix.contender_key(session)),
        }
    }

    fn ahead(&self) -> Option<&SessionId> {
        match self {
            Self::Ahead { session, .. } => Some(session),
            Self::Prefix | Self::Record { .. } => None,
        }
    }

    fn wait(&self) -> Duration {
        match self {
            Self::Prefix => WAIT,
            // A record without an index is read at once.
            Self::Record { index: Index::ZERO } => Duration::ZERO,
            Self::Record { .. } => RECORD_WAIT,
            Self::Ahead { wait, .. } => *wait,
        }
    }
}

/// How a watch starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::machine) enum Start {
    /// With a plain read, which is answered at once.
    Anew,
    /// With the poll that was still under way.
    Resumed,
    /// It was running already.
    Running,
}

/// How long the server may hold a poll open without a change.
const WAIT: Duration = Duration::from_secs(15);

/// The same, of the record alone. A holder that dies changes nothing of the record: whoever waits for
/// its slot reads the prefix when this time is over.
const RECORD_WAIT: Duration = Duration::from_secs(5);

/// How long a poll lasts at least before it is given up: then no more than a few of those that an
/// agent goes on counting are ours.
const LEAST_POLL: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use crate::Prefix;
    use crate::machine::semaphore::watch::*;

    fn settings() -> Settings {
        Settings::new(Prefix::new("jobs").unwrap(), 1).unwrap()
    }

    fn poll(watch: &mut Watch, now: Instant) -> Option<String> {
        watch
            .transmit(now, &settings())
            .map(|request| request.target().to_owned())
    }

    #[test]
    fn it_starts_with_a_plain_read_and_goes_on_from_its_index() {
        let now = Instant::from_origin(Duration::from_secs(1));
        let mut watch = Watch::new(&settings());
        assert_eq!(poll(&mut watch, now), None);
        watch.start();
        assert_eq!(poll(&mut watch, now).unwrap(), "/v1/kv/jobs/?recurse");
        assert_eq!(poll(&mut watch, now), None, "one poll at a time");
        watch.answered(now, Index(7));
        assert_eq!(
            poll(&mut watch, now).unwrap(),
            "/v1/kv/jobs/?recurse&index=7&wait=15s"
        );
    }

    #[test]
    fn an_index_that_went_backwards_or_is_zero_starts_again() {
        for reset in [0, 6] {
            let now = Instant::from_origin(Duration::from_secs(1));
            let mut watch = Watch::new(&settings());
            watch.start();
            for index in [7, reset] {
                poll(&mut watch, now).unwrap();
                watch.answered(now, Index(index));
            }
            assert_eq!(poll(&mut watch, now).unwrap(), "/v1/kv/jobs/?recurse");
        }
    }

    #[test]
    fn an_answer_before_its_time_with_nothing_new_starts_again() {
        let now = Instant::from_origin(Duration::from_secs(1));
        let mut watch = Watch::new(&settings());
        watch.start();
        poll(&mut watch, now).unwrap();
        watch.answered(now, Index(7));
        poll(&mut watch, now).unwrap();
        let late = now + WAIT;
        watch.answered(late, Index(7));
        assert!(poll(&mut watch, late).unwrap().contains("index=7"));
        watch.answered(late + WAIT / 2, Index(7));
        let target = poll(&mut watch, late + WAIT / 2).unwrap();
        assert_eq!(target, "/v1/kv/jobs/?recurse");
    }

    #[test]
    fn a_plain_read_does_not_go_on_from_the_answer_before_it() {
        let now = Instant::from_origin(Duration::from_secs(1));
        let mut watch = Watch::new(&settings());
        watch.start();
        let mut answer = |index| {
            poll(&mut watch, now).unwrap();
            watch.answered(now, Index(index))
        };
        assert!(!answer(7), "the first");
        assert!(answer(8));
        assert!(answer(8), "before its time with nothing new");
        assert!(!answer(8), "what is read then");
        assert!(answer(6), "backwards");
        assert!(!answer(6), "what is read then");
    }

    #[test]
    fn answers_without_end_are_read_at_the_ceiling_only() {
        let start = Instant::from_origin(Duration::from_secs(1));
        let mut watch = Watch::new(&settings());
        watch.start();
        let mut now = start;
        let mut reads = 0;
        while now < start + Duration::from_secs(10) {
            if poll(&mut watch, now).is_some() {
                reads += 1;
                watch.answered(now, Index(reads));
            } else {
                now = watch.timeout().unwrap();
            }
        }
        assert_eq!(reads, 1_050 - 1);
    }

    #[test]
    fn a_poll_under_way_is_left_to_its_end_and_may_be_taken_up_again() {
        let now = Instant::from_origin(Duration::from_secs(1));
        let mut watch = Watch::new(&settings());
        assert_eq!(watch.start(), Start::Anew);
        assert_eq!(watch.start(), Start::Running);
        poll(&mut watch, now).unwrap();
        watch.pause();
        assert_eq!(watch.start(), Start::Resumed);
        watch.answered(now, Index(7));
        assert!(poll(&mut watch, now).unwrap().contains("index=7"));
        watch.pause();
        watch.answered(now, Index(8));
        assert_eq!(poll(&mut watch, now), None);
        assert_eq!(watch.start(), Start::Anew);
    }

    #[test]
    fn polls_ask_the_leader_once_they_are_told_to_and_until_the_watch_starts_anew() {
        let now = Instant::from_origin(Duration::from_secs(1));
        let mut watch = Watch::new(&settings());
        watch.start();
        poll(&mut watch, now).unwrap();
        watch.ask_leader();
        assert!(!watch.is_polling_leader(), "the one under way does not");
        watch.answered(now, Index(7));
        let target = poll(&mut watch, now).unwrap();
        assert!(target.contains("index=7") && target.contains("consistent"));
        assert!(watch.is_polling_leader());
        watch.answered(now, Index(8));
        assert!(!watch.is_polling_leader());
        watch.pause();
        assert_eq!(watch.start(), Start::Anew);
        assert!(!watch.asks_leader());
        assert_eq!(poll(&mut watch, now).unwrap(), "/v1/kv/jobs/?recurse");
    }

    #[test]
    fn a_failure_is_followed_by_a_wait() {
        let now = Instant::from_origin(Duration::from_secs(1));
        let mut rng = fastrand::Rng::with_seed(1);
        let mut watch = Watch::new(&settings());
        watch.start();
        poll(&mut watch, now).unwrap();
        watch.failed(now, &mut rng);
        assert_eq!(poll(&mut watch, now), None);
        let due = watch.timeout().unwrap();
        assert!(due > now);
        assert!(poll(&mut watch, due).is_some());
    }

    #[test]
    fn the_server_may_take_its_time_and_its_jitter() {
        let now = Instant::from_origin(Duration::from_secs(1));
        let mut watch = Watch::new(&settings());
        watch.start();
        poll(&mut watch, now).unwrap();
        watch.answered(now, Index(7));
        let request = watch.transmit(now, &settings()).unwrap();
        assert!(request.is_long_poll());
        assert!(request.timeout() > Duration::from_secs(15) * 17 / 16);
    }

    #[test]
    fn a_poll_is_given_up_for_a_plain_read_unless_it_has_only_just_begun() {
        let now = Instant::from_origin(Duration::from_secs(1));
        let mut watch = Watch::new(&settings());
        watch.start();
        poll(&mut watch, now).unwrap();
        watch.answered(now, Index(7));
        assert!(!watch.is_polling());
        assert!(!watch.restart(now + LEAST_POLL), "there is none");
        poll(&mut watch, now).unwrap();
        assert!(watch.is_polling());
        assert!(!watch.restart(now + LEAST_POLL - Duration::from_nanos(1)));
        assert!(watch.restart(now + LEAST_POLL));
        let target = poll(&mut watch, now + LEAST_POLL).unwrap();
        assert_eq!(target, "/v1/kv/jobs/?recurse");
    }

    #[test]
    fn a_poll_of_one_that_is_not_the_next_ahead_any_more_is_to_be_given_up() {
        let ahead = |digit: &str| Focus::Ahead {
            session: SessionId::new("11111111-1111-4111-8111-111111111111".replace('1', digit))
                .unwrap(),
            index: Index(7),
            wait: Duration::from_secs(10),
        };
        let now = Instant::from_origin(Duration::from_secs(1));
        let mut watch = Watch::new(&settings());
        watch.start();
        watch.look_at(ahead("2"));
        let target = poll(&mut watch, now).unwrap();
        assert!(target.contains("22222222"), "{target}");
        assert!(watch.is_looking_ahead() && !watch.is_misled());
        assert_eq!(watch.timeout(), None);
        for focus in [ahead("3"), Focus::Prefix] {
            watch.look_at(focus);
            assert!(watch.is_misled());
            assert_eq!(watch.timeout(), Some(now + LEAST_POLL));
        }
        assert!(watch.is_early(now + Duration::from_secs(10) - Duration::from_nanos(1)));
        assert!(
            !watch.is_early(now + Duration::from_secs(10)),
            "in its time"
        );
        watch.key_answered(now);
        assert!(!watch.is_looking_ahead() && !watch.is_misled());
    }

    #[test]
    fn what_is_known_from_elsewhere_is_not_polled_for_and_a_poll_under_way_is_let_be() {
        let now = Instant::from_origin(Duration::from_secs(1));
        let mut watch = Watch::new(&settings());
        watch.start();
        poll(&mut watch, now).unwrap();
        assert_eq!(watch.reads_since(), Some(now));
        watch.answered(now, Index(7));
        assert_eq!(watch.reads_since(), None);
        watch.skip_to(Index(9));
        let target = poll(&mut watch, now).unwrap();
        assert!(target.contains("index=9"), "{target}");
        assert_eq!(watch.reads_since(), None, "it is no plain read");
        assert!(!watch.start_over(), "one is under way");
        watch.skip_to(Index(20));
        watch.answered(now, Index(10));
        let target = poll(&mut watch, now).unwrap();
        assert!(target.contains("index=10"), "{target}");
        watch.answered(now, Index(11));
        assert!(watch.start_over());
        assert_eq!(poll(&mut watch, now).unwrap(), "/v1/kv/jobs/?recurse");
    }

    #[test]
    fn a_write_of_ours_allows_one_more_read() {
        let now = Instant::from_origin(Duration::from_secs(1));
        let mut watch = Watch::new(&settings());
        watch.start();
        for index in 1..=u64::from(READ_BURST) {
            poll(&mut watch, now).unwrap();
            watch.answered(now, Index(index));
        }
        assert_eq!(poll(&mut watch, now), None);
        watch.credit();
        assert!(poll(&mut watch, now).is_some());
    }

    #[test]
    fn reads_beside_the_poll_are_under_its_ceiling() {
        let now = Instant::from_origin(Duration::from_secs(1));
        let mut watch = Watch::new(&settings());
        watch.start();
        for _ in 0..READ_BURST {
            watch.refresh(now);
            let read = watch.transmit_refresh(now, &settings()).unwrap();
            assert_eq!(read.target(), "/v1/kv/jobs/?recurse&consistent");
            watch.refreshed();
        }
        watch.refresh(now);
        assert!(watch.transmit_refresh(now, &settings()).is_none());
        assert_eq!(watch.refresh_timeout(), Some(now + READ_INTERVAL));
        assert_eq!(poll(&mut watch, now), None);
    }

    #[test]
    fn a_poll_during_which_others_got_no_answer_is_given_up_when_they_do_again() {
        let now = Instant::from_origin(Duration::from_secs(1));
        let mut watch = Watch::new(&settings());
        watch.start();
        poll(&mut watch, now).unwrap();
        let later = now + LEAST_POLL;
        assert!(!watch.judge(later, false, true), "nothing was lost");
        assert!(!watch.judge(later, false, false));
        assert!(watch.judge(later, false, true));
        assert!(!watch.judge(later, false, true), "once");
    }
}
