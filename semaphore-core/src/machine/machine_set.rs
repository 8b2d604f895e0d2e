//! The machines of one process, and the sessions that they share.
//!
//! ```text
//!  member ── what it wants ──▶ pool          each member is a separate machine: it sends, waits and
//!  member ◀── what is known ── pool          decides on its own, and knows nothing of the others
//! ```
//! The set is driven like a machine. An event only costs work for those it concerns: a member
//! is looked at when it was told something, when its time has come, or when one of its requests was
//! answered.
//!
//! A renewal concerns all users of the session, maybe ten thousand. So
//! [`MachineSet::handle_timeout`] looks at a few at a time and must be called again. No renewal
//! waits until all were looked at.

use core::iter;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::http::{Priority, Response};
use crate::id::RequestId;
use crate::machine::contract::{Machine, Transmit};
use crate::machine::process::outage::RequestEnd;
use crate::machine::process::reader::check::{Check, CheckNews, Stance};
use crate::machine::process::reader::checks::{Checks, Whom};
use crate::machine::process::tenancy::loan::{LoanNews, LoanWish};
use crate::machine::process::tenancy::settings::SessionSettings;
use crate::machine::process::tenancy::tenant::Shares;
use crate::machine::process::tenancy::tenant::{MemberNo, Place};
use crate::machine::sessions::Pool;
use crate::time::Instant;
use crate::transport::TransportError;

/// The part of a [`Machine`] that a set needs: everything but the grants.
pub trait Member {
    /// Does everything that is due at `now`, and returns what follows.
    fn attend(&mut self, now: Instant) -> Report;
    /// Takes news. After a response it returns how the request ended.
    #[doc(hidden)]
    fn handle(&mut self, now: Instant, news: News<'_>) -> Option<RequestEnd>;
}

/// What follows from a member's work.
#[derive(Clone, Debug, Default)]
pub struct Report {
    transmits: Vec<Transmit>,
    aborts: Vec<RequestId>,
    wishes: Vec<LoanWish>,
    check: Option<Check>,
    timeout: Option<Instant>,
}

/// News for a member.
#[derive(Debug)]
pub enum News<'a> {
    /// The outcome of its own request.
    Response(RequestId, Result<Response, TransportError>),
    /// News of a session that was lent to it.
    Loan(&'a LoanNews),
    /// What was read for it.
    Check(CheckNews),
}

impl Report {
    /// The report of a member that only reads.
    pub(crate) fn of_reader(
        transmit: Option<Transmit>,
        check: Option<Check>,
        timeout: Option<Instant>,
    ) -> Self {
        Self {
            transmits: transmit.into_iter().collect(),
            check,
            timeout,
            ..Self::default()
        }
    }
}

impl<M: Machine> Member for M {
    fn attend(&mut self, now: Instant) -> Report {
        self.handle_timeout(now);
        Report {
            transmits: iter::from_fn(|| self.poll_transmit(now)).collect(),
            aborts: iter::from_fn(|| self.poll_abort()).collect(),
            wishes: iter::from_fn(|| self.poll_wish()).collect(),
            check: self.check(),
            timeout: self.poll_timeout(),
        }
    }

    fn handle(&mut self, now: Instant, news: News<'_>) -> Option<RequestEnd> {
        match news {
            News::Response(id, result) => return self.hear_response(now, id, result),
            News::Loan(news) => self.handle_loan(now, news),
            News::Check(news) => self.handle_check(now, news),
        }
        None
    }
}

/// Gives a set access to a member, which may have another owner.
pub trait Reach {
    /// Works on the member. Returns whether it is still needed.
    fn reach(&mut self, work: &mut dyn FnMut(&mut dyn Member)) -> bool;
}

/// The sender of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A member.
    Member(MemberNo),
    /// Shared sessions. Sessions with equal settings have one number.
    Sessions(usize),
    /// Reads for many holders at once, with the same numbers.
    Checks(usize),
    /// Reads for many waiters at once, with the same numbers.
    Waits(usize),
}

/// How many holders and how many waiters poll separately by default.
const MOST_POLLS: usize = 16;

/// The most members that one call looks at, and the most that it tells something. Each takes some
/// microseconds, or a millisecond without an optimizer or on a slow processor.
const MOST_AT_ONCE: usize = 64;

/// The machines of one process.
#[derive(Clone, Debug)]
pub struct MachineSet<R> {
    members: BTreeMap<MemberNo, Resident<R>>,
    commons: Vec<Common>,
    /// How many holders and how many waiters poll separately.
    most_polls: usize,
    /// Members with something to do or to say.
    ready: BTreeSet<MemberNo>,
    /// The last member that was looked at. If there are many, those after it are next, so that
    /// nobody is left out.
    attended: MemberNo,
    /// When time last passed.
    timed_at: Instant,
    timers: BTreeSet<(Instant, MemberNo)>,
    traffic: Traffic,
    rng: fastrand::Rng,
}

/// What members with equal session settings share.
#[derive(Clone, Debug)]
struct Common {
    pool: Pool,
    checks: Checks,
    waits: Checks,
}

/// A member, and what it shares.
#[derive(Clone, Debug)]
struct Resident<R> {
    reach: R,
    shares: Option<(usize, Place)>,
    timer: Option<Instant>,
}

/// The most short requests of members under way, somewhat more than a transport has connections
/// for. If thousands want something at once, the others wait here at no cost, and their timeouts
/// begin when they are sent.
const MOST_UNDER_WAY: usize = 64;

/// The requests of all, each with a separate number.
#[derive(Clone, Debug, Default)]
struct Traffic {
    next_id: u64,
    sent: BTreeMap<RequestId, (Origin, RequestId)>,
    ids: BTreeMap<(Origin, RequestId), RequestId>,
    transmits: VecDeque<(Origin, Transmit)>,
    /// Members' requests that wait for others' answers, with their order.
    waiting: BTreeMap<RequestId, (Origin, Transmit)>,
    next: BTreeSet<(Priority, RequestId)>,
    /// Members' requests under way, without polls and what keeps holds.
    under_way: BTreeSet<RequestId>,
    aborts: VecDeque<RequestId>,
}

impl<R: Reach> MachineSet<R> {
    /// Without members. `seed` decides the jitter of what is shared.
    pub fn new(seed: u64) -> Self {
        Self {
            members: BTreeMap::new(),
            commons: Vec::new(),
            most_polls: MOST_POLLS,
            ready: BTreeSet::new(),
            attended: MemberNo(0),
            timed_at: Instant::ORIGIN,
            timers: BTreeSet::new(),
            traffic: Traffic::default(),
            rng: fastrand::Rng::with_seed(seed),
        }
    }

    /// Sets how many waiting members poll separately; the others are checked once a second. The same
    /// number of leaders may poll. If there are more, none does: a transaction checks up to 64 of
    /// them at once, four times within the TTL of their sessions. The default is 16.
    #[must_use]
    pub fn with_own_polls(self, most: usize) -> Self {
        Self {
            most_polls: most,
            ..self
        }
    }

    /// Uses this seed for the jitter of what is shared from now on, as `Participant::reseed` does.
    #[doc(hidden)]
    pub fn reseed(&mut self, seed: u64) {
        for common in &mut self.commons {
            common.pool.reseed(seed);
            common.checks.reseed(seed);
            common.waits.reseed(seed);
        }
    }

    /// Adds a member. Its number must be new. What it shares is created as [`Shares`] says; `None`
    /// for one with its own sessions.
    pub fn join(&mut self, no: MemberNo, reach: R, shares: Option<Shares>) {
        let shares = shares.map(|Shares { settings, place }| (self.common(settings), place));
        let resident = Resident {
            reach,
            shares,
            timer: None,
        };
        self.members.insert(no, resident);
        self.ready.insert(no);
    }

    fn common(&mut self, settings: SessionSettings) -> usize {
        let mut known = self.commons.iter();
        let known = known.position(|it| *it.pool.settings() == settings);
        known.unwrap_or_else(|| {
            let mut look_after =
                |whom| Checks::new(&settings, whom, self.most_polls, self.rng.u64(..));
            let (checks, waits) = (look_after(Whom::Holders), look_after(Whom::Waiters));
            let pool = Pool::new(settings, self.rng.u64(..));
            let common = Common {
                pool,
                checks,
                waits,
            };
            self.commons.push(common);
            self.commons.len() - 1
        })
    }

    /// A member was told something.
    pub fn wake(&mut self, no: MemberNo) {
        self.ready.insert(no);
    }

    /// Keeps no more sessions for later turns.
    pub fn close(&mut self, now: Instant) {
        for common in &mut self.commons {
            common.pool.close(now);
        }
    }

    /// Whether there is no member and no session, as far as is known.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.has_no_sessions()
    }

    /// Whether no shared session is left, as far as is known.
    pub fn has_no_sessions(&self) -> bool {
        self.commons.iter().all(|it| it.pool.is_empty())
    }

    /// Whether only shared sessions are left that could not be ended so far.
    pub(crate) fn has_only_held_up(&self) -> bool {
        self.commons.iter().all(|it| it.pool.is_held_up())
    }

    /// The members, in the order in which they came.
    pub fn members_mut(&mut self) -> impl Iterator<Item = (MemberNo, &mut R)> {
        let all = self.members.iter_mut();
        all.map(|(no, resident)| (*no, &mut resident.reach))
    }

    /// The access to this member.
    pub fn member(&self, no: MemberNo) -> Option<&R> {
        self.members.get(&no).map(|resident| &resident.reach)
    }

    /// Does what is due at `now`. [`Self::poll_transmit`] has the resulting requests. If more is
    /// left than one call should do, [`Self::poll_timeout`] says that it is due again.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.timed_at = self.timed_at.max(now);
        while let Some((_, no)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.pop_first();
            if let Some(resident) = self.members.get_mut(&no) {
                resident.timer = None;
            }
            self.ready.insert(no);
        }
        for common in &mut self.commons {
            common.pool.handle_timeout(now);
        }
        let mut told = 0;
        for _ in 0..MOST_AT_ONCE {
            self.spread_news(now, &mut told);
            let Some(no) = self.next_ready() else {
                break;
            };
            self.attend(now, no);
        }
        for (at, common) in self.commons.iter_mut().enumerate() {
            let Common {
                pool,
                checks,
                waits,
            } = common;
            while let Some(transmit) = pool.poll_transmit(now) {
                self.traffic.send(Origin::Sessions(at), transmit);
            }
            while let Some(id) = pool.poll_abort() {
                self.traffic.abort(Origin::Sessions(at), id);
            }
            while let Some(transmit) = checks.poll_transmit(now) {
                self.traffic.send(Origin::Checks(at), transmit);
            }
            while let Some(transmit) = waits.poll_transmit(now) {
                self.traffic.send(Origin::Waits(at), transmit);
            }
        }
    }

    /// The next request to send, and its sender.
    pub fn poll_transmit(&mut self) -> Option<(Origin, Transmit)> {
        self.traffic.poll()
    }

    /// A request whose answer is no longer needed.
    pub fn poll_abort(&mut self) -> Option<RequestId> {
        self.traffic.aborts.pop_front()
    }

    /// When [`Self::handle_timeout`] must be called next, if nothing else happens before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let has_news = |it: &Common| it.pool.has_news();
        if !self.ready.is_empty() || self.commons.iter().any(has_news) {
            return Some(self.timed_at);
        }
        let members = self.timers.first().map(|(at, _)| *at);
        let pools = self.commons.iter().filter_map(|it| it.pool.poll_timeout());
        let checks = self.commons.iter();
        let checks = checks.flat_map(|it| [&it.checks, &it.waits]);
        let checks = checks.filter_map(Checks::poll_timeout);
        members.into_iter().chain(pools).chain(checks).min()
    }

    /// Takes the outcome of a request.
    pub fn handle_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: Result<Response, TransportError>,
    ) {
        self.hear_response(now, id, result);
    }

    /// The same. Returns how the request ended, and whose it was.
    pub(crate) fn hear_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: Result<Response, TransportError>,
    ) -> Option<(Origin, RequestEnd)> {
        let (origin, id) = self.traffic.receive(id)?;
        let commons = &mut self.commons;
        let end = match origin {
            Origin::Sessions(at) => {
                let pool = &mut commons.get_mut(at)?.pool;
                pool.handle_response(now, id, &result)
            }
            Origin::Checks(at) => {
                let checks = &mut commons.get_mut(at)?.checks;
                checks.handle_response(now, id, &result)
            }
            Origin::Waits(at) => {
                let waits = &mut commons.get_mut(at)?.waits;
                waits.handle_response(now, id, &result)
            }
            Origin::Member(no) => self.bring(now, no, News::Response(id, result)),
        };
        Some((origin, end?))
    }

    /// Gives news to a member. After a response it returns how the request ended.
    fn bring(&mut self, now: Instant, no: MemberNo, news: News<'_>) -> Option<RequestEnd> {
        let resident = self.members.get_mut(&no)?;
        let (mut news, mut end) = (Some(news), None);
        resident.reach.reach(&mut |member| {
            if let Some(news) = news.take() {
                end = member.handle(now, news);
            }
        });
        self.ready.insert(no);
        end
    }

    /// The next member to look at: the first one, since it may give back what another one wants, or
    /// in turn if one call can't look at all.
    fn next_ready(&mut self) -> Option<MemberNo> {
        let after = if self.ready.len() > MOST_AT_ONCE {
            self.attended.0.saturating_add(1)
        } else {
            0
        };
        let next = self.ready.range(MemberNo(after)..).next();
        let next = next.or(self.ready.first());
        let no = next.copied()?;
        self.ready.remove(&no);
        self.attended = no;
        Some(no)
    }

    /// Looks at one member.
    fn attend(&mut self, now: Instant, no: MemberNo) {
        let Some(resident) = self.members.get_mut(&no) else {
            return;
        };
        let mut report = Report::default();
        let reach = &mut resident.reach;
        let is_needed = reach.reach(&mut |member| report = member.attend(now));
        for transmit in report.transmits {
            self.traffic.send(Origin::Member(no), transmit);
        }
        for id in report.aborts {
            self.traffic.abort(Origin::Member(no), id);
        }
        if let Some(before) = resident.timer {
            self.timers.remove(&(before, no));
        }
        resident.timer = report.timeout;
        self.timers.extend(report.timeout.map(|at| (at, no)));
        if let Some((common, place)) = &resident.shares
            && let Some(common) = self.commons.get_mut(*common)
        {
            let Common {
                pool,
                checks,
                waits,
            } = common;
            for wish in &report.wishes {
                pool.handle_wish(now, no, place, wish);
            }
            let holds = |check: &Check| check.stance == Stance::Holds;
            let (held, waiting) = match report.check {
                Some(check) if holds(&check) => (Some(check), None),
                check => (None, check),
            };
            checks.offer(no, held);
            waits.offer(no, waiting);
        }
        if !is_needed {
            self.part_with(no);
        }
    }

    /// Removes a member. The answers to its requests are no longer needed.
    fn part_with(&mut self, no: MemberNo) {
        if let Some(resident) = self.members.remove(&no) {
            if let Some(at) = resident.timer {
                self.timers.remove(&(at, no));
            }
            let common = resident.shares.map(|(common, _)| common);
            if let Some(common) = common.and_then(|at| self.commons.get_mut(at)) {
                common.checks.part_with(no);
                common.waits.part_with(no);
            }
        }
        self.traffic.abort_all(Origin::Member(no));
    }

    /// Tells members about their sessions, a part of them if there are many, and about what was
    /// read for them.
    fn spread_news(&mut self, now: Instant, told: &mut usize) {
        for at in 0..self.commons.len() {
            while *told < MOST_AT_ONCE
                && let Some((no, news)) =
                    self.commons.get_mut(at).and_then(|it| it.pool.poll_news())
            {
                *told += 1;
                self.bring(now, no, News::Loan(&news));
            }
            let news = |it: &mut Common| [it.checks.take_news(), it.waits.take_news()];
            let checks = self.commons.get_mut(at).map(news);
            for (no, news) in checks.into_iter().flatten().flatten() {
                self.bring(now, no, News::Check(news));
            }
        }
    }
}

impl Traffic {
    fn send(&mut self, origin: Origin, transmit: Transmit) {
        self.next_id += 1;
        let id = RequestId(self.next_id);
        let Transmit { id: own, request } = transmit;
        self.sent.insert(id, (origin, own));
        self.ids.insert((origin, own), id);
        let priority = request.priority();
        let is_short = matches!(origin, Origin::Member(_)) && !request.is_long_poll();
        let counts = is_short && priority != Priority::Renewal;
        let transmit = (origin, Transmit { id, request });
        if counts && (!self.next.is_empty() || self.under_way.len() >= MOST_UNDER_WAY) {
            self.next.insert((priority, id));
            self.waiting.insert(id, transmit);
            return;
        }
        if counts {
            self.under_way.insert(id);
        }
        self.transmits.push_back(transmit);
    }

    fn poll(&mut self) -> Option<(Origin, Transmit)> {
        if let Some(transmit) = self.transmits.pop_front() {
            return Some(transmit);
        }
        if self.under_way.len() >= MOST_UNDER_WAY {
            return None;
        }
        let (_, id) = self.next.pop_first()?;
        self.under_way.insert(id);
        self.waiting.remove(&id)
    }

    fn abort(&mut self, origin: Origin, own: RequestId) {
        if let Some(id) = self.ids.remove(&(origin, own)) {
            self.sent.remove(&id);
            self.under_way.remove(&id);
            match self.waiting.remove(&id) {
                Some((_, unsent)) => _ = self.next.remove(&(unsent.request.priority(), id)),
                None => self.aborts.push_back(id),
            }
        }
    }

    fn abort_all(&mut self, origin: Origin) {
        let all = (origin, RequestId(0))..=(origin, RequestId(u64::MAX));
        let own: Vec<_> = self.ids.range(all).map(|((_, own), _)| *own).collect();
        for own in own {
            self.abort(origin, own);
        }
    }

    fn receive(&mut self, id: RequestId) -> Option<(Origin, RequestId)> {
        let (origin, own) = self.sent.remove(&id)?;
        self.under_way.remove(&id);
        self.ids.remove(&(origin, own));
        Some((origin, own))
    }
}
