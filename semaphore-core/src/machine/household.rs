//! The machines of one process, and the sessions that they share.
//!
//! ```text
//!  member ── what it wants ──▶ pool          each member is a machine of its own: it sends, waits and
//!  member ◀── what is known ── pool          decides by itself, and knows nothing of the others
//! ```
//! It is itself driven like one of them. An event costs what it concerns: a member is looked at when it was told something, when its
//! time has come, or when one of its answers has.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::http::Response;
use crate::id::RequestId;
use crate::machine::contract::{Machine, Transmit};
use crate::machine::process::tenancy::loan::{LoanNews, LoanWish};
use crate::machine::process::tenancy::pool::{MemberNo, Place, Pool, Shares};
use crate::machine::process::tenancy::settings::SessionSettings;
use crate::time::Instant;
use crate::transport::TransportError;

/// What a household needs of a member: a [`Machine`] without what it grants.
pub trait Member {
    /// The next request to send.
    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit>;
    /// The next request whose answer is of no more use.
    fn poll_abort(&mut self) -> Option<RequestId>;
    /// What came back.
    fn handle_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: Result<Response, TransportError>,
    );
    /// When to call again.
    fn poll_timeout(&self) -> Option<Instant>;
    /// Lets time pass.
    fn handle_timeout(&mut self, now: Instant);
    /// What it wants of the sessions that it shares.
    fn poll_wish(&mut self) -> Option<LoanWish>;
    /// What is known of a session that was lent to it.
    fn handle_loan(&mut self, now: Instant, news: &LoanNews);
}

impl<M: Machine> Member for M {
    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        Machine::poll_transmit(self, now)
    }

    fn poll_abort(&mut self) -> Option<RequestId> {
        Machine::poll_abort(self)
    }

    fn handle_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: Result<Response, TransportError>,
    ) {
        Machine::handle_response(self, now, id, result);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Machine::poll_timeout(self)
    }

    fn handle_timeout(&mut self, now: Instant) {
        Machine::handle_timeout(self, now);
    }

    fn poll_wish(&mut self) -> Option<LoanWish> {
        Machine::poll_wish(self)
    }

    fn handle_loan(&mut self, now: Instant, news: &LoanNews) {
        Machine::handle_loan(self, now, news);
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
}

/// The machines of one process.
#[derive(Clone, Debug)]
pub struct Household<R> {
    members: BTreeMap<MemberNo, Resident<R>>,
    pools: Vec<Pool>,
    /// Who has something to do, or to say.
    ready: BTreeSet<MemberNo>,
    timers: BTreeSet<(Instant, MemberNo)>,
    traffic: Traffic,
    rng: fastrand::Rng,
}

/// A member, and what it shares.
#[derive(Clone, Debug)]
struct Resident<R> {
    reach: R,
    shares: Option<(usize, Place)>,
    timer: Option<Instant>,
}

/// The requests of all, each with a number of its own.
#[derive(Clone, Debug, Default)]
struct Traffic {
    next_id: u64,
    sent: BTreeMap<RequestId, (Origin, RequestId)>,
    ids: BTreeMap<(Origin, RequestId), RequestId>,
    transmits: VecDeque<(Origin, Transmit)>,
    aborts: VecDeque<RequestId>,
}

impl<R: Reach> Household<R> {
    /// Without members. `seed` decides the jitter of what is shared.
    pub fn new(seed: u64) -> Self {
        Self {
            members: BTreeMap::new(),
            pools: Vec::new(),
            ready: BTreeSet::new(),
            timers: BTreeSet::new(),
            traffic: Traffic::default(),
            rng: fastrand::Rng::with_seed(seed),
        }
    }

    /// A member comes, under a number that no other has had. What it shares is made as [`Shares`] says; nothing, for one that
    /// makes its own sessions.
    pub fn join(&mut self, no: MemberNo, reach: R, shares: Option<Shares>) {
        let shares = shares.map(|Shares { settings, place }| (self.pool(settings), place));
        let resident = Resident {
            reach,
            shares,
            timer: None,
        };
        self.members.insert(no, resident);
        self.ready.insert(no);
    }

    fn pool(&mut self, settings: SessionSettings) -> usize {
        let known = self.pools.iter().position(|it| *it.settings() == settings);
        known.unwrap_or_else(|| {
            self.pools.push(Pool::new(settings, self.rng.u64(..)));
            self.pools.len() - 1
        })
    }

    /// A member was told something.
    pub fn wake(&mut self, no: MemberNo) {
        self.ready.insert(no);
    }

    /// No sessions are kept for another turn any more.
    pub fn close(&mut self, now: Instant) {
        for pool in &mut self.pools {
            pool.close(now);
        }
    }

    /// Whether it has no member, and no session is left, as far as it can know.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.has_no_sessions()
    }

    /// Whether no session is left that was shared, as far as it can know.
    pub fn has_no_sessions(&self) -> bool {
        self.pools.iter().all(Pool::is_empty)
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

    /// Does all that is due at `now`. What is to be sent then is told by [`Self::poll_transmit`].
    pub fn handle_timeout(&mut self, now: Instant) {
        let last = MemberNo(u64::MAX);
        let due = self.timers.range(..=(now, last)).map(|(_, no)| *no);
        self.ready.extend(due);
        for pool in &mut self.pools {
            pool.handle_timeout(now);
        }
        loop {
            self.spread_news(now);
            let Some(no) = self.ready.pop_first() else {
                break;
            };
            self.attend(now, no);
        }
        for (at, pool) in self.pools.iter_mut().enumerate() {
            while let Some(transmit) = pool.poll_transmit(now) {
                self.traffic.send(Origin::Sessions(at), transmit);
            }
            while let Some(id) = pool.poll_abort() {
                self.traffic.abort(Origin::Sessions(at), id);
            }
        }
    }

    /// The next request to send, and whose it is.
    pub fn poll_transmit(&mut self) -> Option<(Origin, Transmit)> {
        self.traffic.transmits.pop_front()
    }

    /// A request whose answer is of no more use.
    pub fn poll_abort(&mut self) -> Option<RequestId> {
        self.traffic.aborts.pop_front()
    }

    /// When [`Self::handle_timeout`] must be called next, if nothing else happens before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let members = self.timers.first().map(|(at, _)| *at);
        let pools = self.pools.iter().filter_map(Pool::poll_timeout);
        members.into_iter().chain(pools).min()
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
                if let Some(pool) = self.pools.get_mut(at) {
                    pool.handle_response(now, id, &result);
                }
            }
            Origin::Member(no) => {
                let mut result = Some(result);
                if let Some(resident) = self.members.get_mut(&no) {
                    resident.reach.reach(&mut |member| {
                        if let Some(result) = result.take() {
                            member.handle_response(now, id, result);
                        }
                    });
                    self.ready.insert(no);
                }
            }
        }
    }

    /// Looks after one member.
    fn attend(&mut self, now: Instant, no: MemberNo) {
        let Some(resident) = self.members.get_mut(&no) else {
            return;
        };
        let traffic = &mut self.traffic;
        let mut wishes = Vec::new();
        let mut timer = None;
        let is_needed = resident.reach.reach(&mut |member| {
            member.handle_timeout(now);
            while let Some(transmit) = member.poll_transmit(now) {
                traffic.send(Origin::Member(no), transmit);
            }
            while let Some(id) = member.poll_abort() {
                traffic.abort(Origin::Member(no), id);
            }
            while let Some(wish) = member.poll_wish() {
                wishes.push(wish);
            }
            timer = member.poll_timeout();
        });
        if let Some(before) = resident.timer {
            self.timers.remove(&(before, no));
        }
        resident.timer = timer;
        self.timers.extend(timer.map(|at| (at, no)));
        if let Some((pool, place)) = &resident.shares
            && let Some(pool) = self.pools.get_mut(*pool)
        {
            for wish in &wishes {
                pool.handle_wish(now, no, place, wish);
            }
        }
        if !is_needed {
            self.part_with(no);
        }
    }

    /// A member goes, and what it has under way is of no more use.
    fn part_with(&mut self, no: MemberNo) {
        if let Some(resident) = self.members.remove(&no)
            && let Some(at) = resident.timer
        {
            self.timers.remove(&(at, no));
        }
        self.traffic.abort_all(Origin::Member(no));
    }

    /// Tells the members what has become of their sessions.
    fn spread_news(&mut self, now: Instant) {
        for pool in &mut self.pools {
            while let Some((no, news)) = pool.poll_news() {
                if let Some(resident) = self.members.get_mut(&no) {
                    resident
                        .reach
                        .reach(&mut |member| member.handle_loan(now, &news));
                    self.ready.insert(no);
                }
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
        self.transmits.push_back((origin, Transmit { id, request }));
    }

    fn abort(&mut self, origin: Origin, own: RequestId) {
        if let Some(id) = self.ids.remove(&(origin, own)) {
            self.sent.remove(&id);
            self.aborts.push_back(id);
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
        self.ids.remove(&(origin, own));
        Some((origin, own))
    }
}
