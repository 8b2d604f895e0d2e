//! The machines of one process, and the sessions that they share.
//!
//! ```text
//!  member ── what it wants ──▶ pool          each member is a separate machine: it sends, waits and
//!  member ◀── what is known ── pool          decides on its own, and knows nothing of the others
//! ```
//! It is itself driven like one of them. An event costs what it concerns: a member is looked at when it was told something, when its
//! time has come, or when one of its answers has.
//!
//! A renewal concerns everyone who stands on the session, which may be ten thousand. So [`Household::handle_timeout`] looks at a few
//! at a time and is to be called again, and no renewal waits until all of them have been looked at.

use core::iter;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::http::{Priority, Response};
use crate::id::RequestId;
use crate::machine::contract::{Machine, Transmit};
use crate::machine::process::reader::check::{Check, CheckNews, Stance};
use crate::machine::process::reader::checks::{Checks, Whom};
use crate::machine::process::tenancy::loan::{LoanNews, LoanWish};
use crate::machine::process::tenancy::pool::{Pool, Shares};
use crate::machine::process::tenancy::settings::SessionSettings;
use crate::machine::process::tenancy::tenant::{MemberNo, Place};
use crate::time::Instant;
use crate::transport::TransportError;

/// What a household needs of a member: a [`Machine`] without what it grants.
pub trait Member {
    /// Does all that is due at `now`, and says what follows.
    fn attend(&mut self, now: Instant) -> Report;
    /// Takes what came for it.
    fn handle(&mut self, now: Instant, news: News<'_>);
}

/// What follows from what a member has done.
#[derive(Clone, Debug, Default)]
pub struct Report {
    transmits: Vec<Transmit>,
    aborts: Vec<RequestId>,
    wishes: Vec<LoanWish>,
    check: Option<Check>,
    timeout: Option<Instant>,
}

/// What comes for a member.
#[derive(Debug)]
pub enum News<'a> {
    /// What came back for a separate request.
    Response(RequestId, Result<Response, TransportError>),
    /// What is known of a session that was lent to it.
    Loan(&'a LoanNews),
    /// What was read for it.
    Check(CheckNews),
}

impl Report {
    /// What is to be sent.
    pub(crate) fn transmits(&self) -> &[Transmit] {
        &self.transmits
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

    fn handle(&mut self, now: Instant, news: News<'_>) {
        match news {
            News::Response(id, result) => self.handle_response(now, id, result),
            News::Loan(news) => self.handle_loan(now, news),
            News::Check(news) => self.handle_check(now, news),
        }
    }
}

/// How a household reaches a member, which may be somebody else's, too.
pub trait Reach {
    /// Works on the member. Whether the member is needed any longer.
    fn reach(&mut self, work: &mut dyn FnMut(&mut dyn Member)) -> bool;
}

/// Whose a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A member's.
    Member(MemberNo),
    /// Of the sessions that are shared; one number for each way in which they are made.
    Sessions(usize),
    /// Of what is read for many holders at once; the same numbers.
    Checks(usize),
    /// Of what is read for many waiters at once; the same numbers.
    Waits(usize),
}

/// How many holders and how many waiters poll on their own, unless it is told otherwise.
const MOST_POLLS: usize = 16;

/// So many members are looked at in one go, and so many are told something. Each takes some microseconds; where there is no optimizer or
/// little of a processor, a millisecond.
const MOST_AT_ONCE: usize = 64;

/// The machines of one process.
#[derive(Clone, Debug)]
pub struct Household<R> {
    members: BTreeMap<MemberNo, Resident<R>>,
    commons: Vec<Common>,
    /// How many holders and how many waiters poll on their own.
    most_polls: usize,
    /// Who has something to do, or to say.
    ready: BTreeSet<MemberNo>,
    /// Who was looked at last: where there are many, those after it are next, so that nobody is left out.
    attended: MemberNo,
    /// When time passed last.
    timed_at: Instant,
    timers: BTreeSet<(Instant, MemberNo)>,
    traffic: Traffic,
    rng: fastrand::Rng,
}

/// What those share whose sessions are made in the same way.
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

/// So many short requests of members are under way: somewhat more than a transport has connections for them. Where thousands want
/// something at once, the others wait here, where it costs nothing, and the time for an answer begins when they are sent.
const MOST_UNDER_WAY: usize = 64;

/// The requests of all, each with a separate number.
#[derive(Clone, Debug, Default)]
struct Traffic {
    next_id: u64,
    sent: BTreeMap<RequestId, (Origin, RequestId)>,
    ids: BTreeMap<(Origin, RequestId), RequestId>,
    transmits: VecDeque<(Origin, Transmit)>,
    /// Those of members that wait until others are answered, and their order.
    waiting: BTreeMap<RequestId, (Origin, Transmit)>,
    next: BTreeSet<(Priority, RequestId)>,
    /// The others of members, but polls and what keeps holds.
    under_way: BTreeSet<RequestId>,
    aborts: VecDeque<RequestId>,
}

impl<R: Reach> Household<R> {
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

    /// So many members that only hold poll on their own. If there are more, none of them does: a transaction asks for up to 64 of
    /// them at once, four times within the TTL of their sessions. As many that wait poll on their own; those beyond are
    /// asked for once a second. 16, unless it is told otherwise.
    #[must_use]
    pub fn with_own_polls(self, most: usize) -> Self {
        Self {
            most_polls: most,
            ..self
        }
    }

    /// A member comes, under a number that no other has had. What it shares is made as [`Shares`] says; nothing, for one that
    /// makes its own sessions.
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

    /// No sessions are kept for another turn any more.
    pub fn close(&mut self, now: Instant) {
        for common in &mut self.commons {
            common.pool.close(now);
        }
    }

    /// Whether it has no member, and no session is left, as far as it can know.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.has_no_sessions()
    }

    /// Whether no session is left that was shared, as far as it can know.
    pub fn has_no_sessions(&self) -> bool {
        self.commons.iter().all(|it| it.pool.is_empty())
    }

    /// The members, in the order in which they came.
    pub fn members_mut(&mut self) -> impl Iterator<Item = (MemberNo, &mut R)> {
        let all = self.members.iter_mut();
        all.map(|(no, resident)| (*no, &mut resident.reach))
    }

    /// How this member is reached.
    pub fn member(&self, no: MemberNo) -> Option<&R> {
        self.members.get(&no).map(|resident| &resident.reach)
    }

    /// Does what is due at `now`. What is to be sent then is told by [`Self::poll_transmit`]. Where more is left to do than should be
    /// done in one go, [`Self::poll_timeout`] says that this is due again.
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

    /// The next request to send, and whose it is.
    pub fn poll_transmit(&mut self) -> Option<(Origin, Transmit)> {
        self.traffic.poll()
    }

    /// A request whose answer is of no more use.
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

    /// Takes what came back for a request.
    pub fn handle_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: Result<Response, TransportError>,
    ) {
        let Some((origin, id)) = self.traffic.receive(id) else {
            return;
        };
        match origin {
            Origin::Sessions(at) => {
                if let Some(common) = self.commons.get_mut(at) {
                    common.pool.handle_response(now, id, &result);
                }
            }
            Origin::Checks(at) => {
                if let Some(common) = self.commons.get_mut(at) {
                    common.checks.handle_response(now, id, &result);
                }
            }
            Origin::Waits(at) => {
                if let Some(common) = self.commons.get_mut(at) {
                    common.waits.handle_response(now, id, &result);
                }
            }
            Origin::Member(no) => self.bring(now, no, News::Response(id, result)),
        }
    }

    /// Brings a member what came for it.
    fn bring(&mut self, now: Instant, no: MemberNo, news: News<'_>) {
        if let Some(resident) = self.members.get_mut(&no) {
            let mut news = Some(news);
            resident.reach.reach(&mut |member| {
                if let Some(news) = news.take() {
                    member.handle(now, news);
                }
            });
            self.ready.insert(no);
        }
    }

    /// Who is looked at next: the first, which may give back what another one wants, or in turn where not all can be looked at in one go.
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

    /// Looks after one member.
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

    /// A member goes, and what it has under way is of no more use.
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

    /// Tells the members what has become of their sessions, some of them if there are many, and what was read for them.
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
