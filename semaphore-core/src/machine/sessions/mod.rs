//! The sessions of one process's semaphores or elections, and the proofs that they live.
//!
//! A process needs as many sessions as it wants slots in any one semaphore: its slots in different
//! semaphores use the same sessions. The same is true of elections, where each key is a place. Each
//! session is renewed once, however many use it. A semaphore that shares its sessions with nobody has
//! its own pool.
//!
//! ```text
//!            place a    place b    place c
//! session 1    ●          ●          ●         each place has a session once at most: two contenders of one place
//! session 2    ●                     ●         would have the same contender key
//! session 3    ●
//! ```
//! - A contender gets the lowest session that is free at its place. So the last ones become unused,
//!   and end.
//! - An unused session is kept as long as a turn may begin with it without a renewal, and then ended.
//! - A session that is gone takes all its users with it.
//! - A session that came back with something left on it is *retired*: nobody new uses it, and it
//!   ends with its last user. Its end removes what is left.
//!
//! | file | says |
//! |---|---|
//! | `session` | the life of one: created, renewed, ended |
//! | `shared` | its users, and how long it is useful |
//! | `agenda` | which one needs something next |
//! | `retry` | how often is asked again while nothing is answered |
//! | `proofs` | reads of holders' keys, with the majority's confirmation: which are due, and under way |
//! | `proving` | whom they are about, and what their answers say |
//! | `lone` | the pool of a machine that shares its sessions with nobody |
//! | `terms` | what it had in elections |
//! | `news` | what users have not been told yet |
//!
//! Sources: docs/PROTOCOL.md, rules 11 and 12; Consul's documentation of sessions (a session may
//! hold any number of keys; its end frees or deletes them all).

mod agenda;
pub(in crate::machine) mod lone;
mod news;
mod proofs;
mod proving;
mod retry;
mod session;
mod shared;
mod terms;

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use self::agenda::{Agenda, Listed, SessionNo};
use self::news::AllNews;
use self::proofs::Proofs;
use self::shared::{Shared, Stance};
use crate::api::CreateSession;
use crate::defect::{Defect, is_on};
use crate::error::RequestError;
use crate::http::Response;
use crate::id::RequestId;
use crate::machine::contract::Transmit;
use crate::machine::process::outage::RequestEnd;
use crate::machine::process::requests::{Received, Requests, Sender};
use crate::machine::process::service::Service;
use crate::machine::process::tenancy::loan::{LoanNews, LoanStep, LoanWish, Rest, Seen, Shown};
use crate::machine::process::tenancy::settings::SessionSettings;
use crate::machine::process::tenancy::tenant::{MemberNo, Place, Tenant};
use crate::time::Instant;
use crate::transport::TransportError;

#[derive(Clone, Debug)]
pub(in crate::machine) struct Pool {
    settings: SessionSettings,
    requests: Requests<From>,
    sessions: BTreeMap<SessionNo, Shared>,
    /// The number of the next session. Numbers are not reused: users of an ended session may know
    /// its number for a moment longer.
    next: SessionNo,
    lent: BTreeMap<Tenant, (SessionNo, Place)>,
    places: BTreeMap<Place, Lent>,
    /// With how many sessions somebody holds.
    held: usize,
    agenda: Agenda,
    proofs: Proofs,
    news: AllNews,
    /// How long the last answer took.
    took: Duration,
    /// Nobody comes any more.
    is_closed: bool,
    timed_at: Instant,
    rng: fastrand::Rng,
}

/// The sessions at a place.
#[derive(Clone, Copy, Debug)]
struct Lent {
    /// No session below this one is free there.
    full_below: SessionNo,
    sessions: usize,
}

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// A session, with the request's number there.
    Session(SessionNo, u32),
    /// A proof, with its number.
    Proof(u32),
}

impl Sender for From {
    fn polls(&self) -> bool {
        false
    }
}

/// The most requests under way: an agent serves 200 connections from one address (docs/CONSUL.md,
/// "Limits and timeouts").
const MOST_UNDER_WAY: usize = 64;

/// The most sessions that are created and destroyed at once.
const MOST_OTHERS: usize = 8;

impl Pool {
    pub(in crate::machine) fn new(settings: SessionSettings, seed: u64) -> Self {
        Self {
            requests: Requests::new(settings.request_timeout(), settings.lease_time()),
            proofs: Proofs::new(&settings),
            settings,
            sessions: BTreeMap::new(),
            next: SessionNo::FIRST,
            lent: BTreeMap::new(),
            places: BTreeMap::new(),
            held: 0,
            agenda: Agenda::default(),
            news: AllNews::default(),
            took: Duration::ZERO,
            is_closed: false,
            timed_at: Instant::ORIGIN,
            rng: fastrand::Rng::with_seed(seed),
        }
    }

    pub(in crate::machine) fn reseed(&mut self, seed: u64) {
        self.rng.seed(seed);
    }

    pub(in crate::machine) fn settings(&self) -> &SessionSettings {
        &self.settings
    }

    /// Whether it has no session, as far as is known.
    pub(in crate::machine) fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Whether it has only sessions that could not be ended so far.
    pub(in crate::machine) fn is_held_up(&self) -> bool {
        self.sessions.values().all(Shared::is_held_up)
    }

    /// Nothing is kept for later turns any more.
    pub(in crate::machine) fn close(&mut self, now: Instant) {
        self.is_closed = true;
        for no in self.agenda.ending() {
            self.settle(now, no);
        }
    }

    /// Takes a member's wish.
    pub(in crate::machine) fn handle_wish(
        &mut self,
        now: Instant,
        member: MemberNo,
        place: &Place,
        wish: &LoanWish,
    ) {
        let LoanWish { loan, step } = *wish;
        let tenant = Tenant { member, loan };
        if step == LoanStep::Lend {
            self.lend(now, tenant, place);
            return;
        }
        let Some((no, place)) = self.lent.get(&tenant).cloned() else {
            return;
        };
        if let LoanStep::Return { .. } = step {
            self.take_back(no, tenant, &place);
        }
        let Some(shared) = self.sessions.get_mut(&no) else {
            return;
        };
        let was_held = shared.is_held();
        let mut ended = None;
        match step {
            LoanStep::Hold => {
                if self.held == 0 {
                    self.proofs.begin(now);
                }
                if was_held {
                    let held = shared.holders().count() + 1;
                    tracing::debug!(name: "session-shared", held, "several holds stand on one session");
                }
                shared.stand(tenant, Some(Stance::Holds));
            }
            LoanStep::LetGo if shared.stance(tenant) == Some(Stance::Holds) => {
                shared.stand(tenant, Some(Stance::Waits));
            }
            LoanStep::Lend | LoanStep::LetGo => {}
            LoanStep::Lived(sent_at) => shared.session.lived(sent_at),
            LoanStep::Leave => shared.stand(tenant, Some(Stance::Leaves)),
            LoanStep::Stay => {
                shared.stand(tenant, Some(Stance::Waits));
                ended = shared.session.is_ending().then(|| shared.ended());
            }
            LoanStep::Settle => {
                shared.is_retired = true;
                shared.stand(tenant, Some(Stance::Settles));
            }
            LoanStep::Doubt => shared.session.doubt(),
            LoanStep::Return { past, rest } => {
                shared.part_with(&place, tenant);
                shared.terms.remember(&place, past, rest);
                shared.is_retired |= shared.terms.is_full();
                if rest == Rest::Key {
                    let others = shared.users().count();
                    tracing::debug!(name: "session-retired", others, "something may be left on a session");
                    shared.is_retired = true;
                }
                if is_on(Defect::SessionDestroyedUnderOthers) {
                    shared.session.end();
                }
            }
        }
        let is_held = shared.is_held();
        self.held = self.held + usize::from(is_held) - usize::from(was_held);
        if let Some(ended) = ended {
            self.tell(tenant, ended, None);
        }
        self.settle(now, no);
    }

    fn lend(&mut self, now: Instant, tenant: Tenant, place: &Place) {
        let place = Arc::clone(place);
        let lent = self.places.entry(Arc::clone(&place)).or_insert(Lent {
            full_below: SessionNo::FIRST,
            sessions: 0,
        });
        let mut others = self.sessions.range(lent.full_below..);
        let free = others.find(|(_, it)| it.is_free_at(&place, now));
        let no = free.map_or(self.next, |(no, _)| *no);
        self.next = self.next.max(SessionNo(no.0 + 1));
        lent.sessions += 1;
        lent.full_below = SessionNo(no.0 + 1);
        self.lent.insert(tenant, (no, Arc::clone(&place)));
        let (settings, rng) = (&self.settings, &mut self.rng);
        let new = || Shared::new(settings, rng);
        let shared = self.sessions.entry(no).or_insert_with(new);
        let mut shown = shared.shown();
        shown.past = shared.terms.at(&place);
        shared.lend(place, tenant);
        self.tell(tenant, shown, None);
        self.settle(now, no);
    }

    /// A session is free at the place again.
    fn take_back(&mut self, no: SessionNo, tenant: Tenant, place: &Place) {
        self.lent.remove(&tenant);
        if let Some(lent) = self.places.get_mut(place) {
            lent.sessions = lent.sessions.saturating_sub(1);
            lent.full_below = lent.full_below.min(no);
            if lent.sessions == 0 {
                self.places.remove(place);
            }
        }
    }

    fn tell(&mut self, tenant: Tenant, shown: Shown, seen: Option<Seen>) {
        let loan = tenant.loan;
        let news = LoanNews { loan, shown, seen };
        self.news.add(tenant, news);
    }

    /// The next news for a member.
    pub(in crate::machine) fn poll_news(&mut self) -> Option<(MemberNo, LoanNews)> {
        self.news.poll()
    }

    /// Whether there are news for a member.
    pub(in crate::machine) fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    pub(in crate::machine) fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        if self.requests.short() >= MOST_UNDER_WAY {
            return None;
        }
        if let Some((no, request)) = self.next_proof(now) {
            // If nobody holds, no lease says how long an answer may take.
            let patience = (self.held > 0).then(|| {
                let left = self.proofs.left(now, &self.settings);
                retry::waits_for(left, self.took, &self.settings)
            });
            let (from, requests) = (From::Proof(no), &mut self.requests);
            return Some(requests.send_within(now, from, Service::Reads, request, patience));
        }
        let no = self.next_due(now)?;
        let shared = self.sessions.get_mut(&no)?;
        if shared.session.wants_creation() {
            let ttl = self.settings.ttl();
            self.requests.orphans_mut().asked(now, ttl);
        }
        let patience = shared.waits_for(now, self.took, &self.settings);
        let (part, request) = shared
            .session
            .transmit(now, &self.settings, &mut self.rng)?;
        if shared.is_held() && self.proofs.goes_with_renewal(now) {
            self.begin_round(now);
        }
        self.settle(now, no);
        let from = From::Session(no, part);
        let requests = &mut self.requests;
        Some(requests.send_within(now, from, Service::Sessions, request, patience))
    }

    /// The session whose request comes next. Those that live come before new ones.
    fn next_due(&self, now: Instant) -> Option<SessionNo> {
        let is_due = |(at, no): (Instant, SessionNo)| (at <= now).then_some(no);
        if let Some(no) = self.agenda.request().and_then(is_due) {
            return Some(no);
        }
        if !self.has_room_for_others() {
            return None;
        }
        let destruction = self.agenda.destruction().and_then(is_due);
        let creation = || self.agenda.creation().and_then(is_due);
        let may_create = self.requests.orphans().may_create(now);
        destruction.or_else(|| creation().filter(|_| may_create))
    }

    /// Whether one more session may be created or destroyed at once.
    fn has_room_for_others(&self) -> bool {
        let is_other = |from| match from {
            From::Session(no, _) => self
                .sessions
                .get(&no)
                .is_some_and(|it| it.session.id().is_none() || it.session.is_ending()),
            From::Proof(_) => false,
        };
        self.requests.count(is_other) < MOST_OTHERS
    }

    pub(in crate::machine) fn poll_abort(&mut self) -> Option<RequestId> {
        self.requests.poll_abort()
    }

    /// Takes the outcome of a request. Returns how it ended.
    pub(in crate::machine) fn handle_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: &Result<Response, TransportError>,
    ) -> Option<RequestEnd> {
        let (received, end) = self.requests.receive(now, id, result)?;
        let Received {
            from,
            sent_at,
            answer,
            ..
        } = received;
        if answer.is_ok() {
            self.took = now.saturating_since(sent_at);
        }
        let (no, part) = match from {
            From::Session(no, part) => (no, part),
            From::Proof(no) => {
                self.take_proof(now, (no, sent_at), answer);
                return end;
            }
        };
        let answer = answer.and_then(|answer| {
            if self.is_double(no, part, answer) {
                return Err(RequestError::garbled("the id of another session of ours"));
            }
            Ok(answer)
        });
        let Some(shared) = self.sessions.get_mut(&no) else {
            return end;
        };
        if shared.session.is_creation(part) {
            let ttl = self.settings.ttl();
            let orphans = self.requests.orphans_mut();
            orphans.answered(now, sent_at, answer.as_ref().copied(), ttl);
        }
        let (settings, rng) = (&self.settings, &mut self.rng);
        let part = (part, sent_at);
        shared.session.handle(now, part, answer, settings, rng);
        self.settle(now, no);
        end
    }

    /// Whether a creation is told an id that another session has: two contenders would have one key.
    fn is_double(&self, no: SessionNo, part: u32, answer: &Response) -> bool {
        let shared = self.sessions.get(&no);
        let created = shared
            .filter(|it| it.session.is_creation(part))
            .and_then(|_| CreateSession::parse(answer).ok());
        created.is_some_and(|id| {
            self.sessions
                .values()
                .any(|it| it.session.id() == Some(&id))
        })
    }

    pub(in crate::machine) fn poll_timeout(&self) -> Option<Instant> {
        if self.requests.short() >= MOST_UNDER_WAY {
            return self.agenda.end();
        }
        let rests = self.requests.orphans().timeout();
        let rests = rests.filter(|at| *at > self.timed_at);
        let creation = self.agenda.creation().map(|(at, _)| at);
        let creation = creation.max(creation.and(rests));
        let destruction = self.agenda.destruction().map(|(at, _)| at);
        let others = [creation, destruction].into_iter().flatten();
        let others = others.min().filter(|_| self.has_room_for_others());
        let request = self.agenda.request().map(|(at, _)| at);
        let proof = (self.held > 0).then(|| self.proofs.due_at(&self.settings));
        let unknown = self.unknown().map(|_| self.proofs.asks_at(&self.settings));
        let all = [others, request, proof, unknown, self.agenda.end()];
        all.into_iter().flatten().min()
    }

    pub(in crate::machine) fn handle_timeout(&mut self, now: Instant) {
        self.timed_at = self.timed_at.max(now);
        for no in self.agenda.ended(now) {
            self.settle(now, no);
        }
        if self.sessions.is_empty() {
            self.requests.forget_services();
        }
    }

    /// Draws the conclusions from a change of this session.
    fn settle(&mut self, now: Instant, no: SessionNo) {
        let Some(shared) = self.sessions.get_mut(&no) else {
            return;
        };
        if shared.users().next().is_none() {
            shared.session.is_unused();
        }
        // An ended session has no id any more, so these news come first.
        let news = shared.news();
        shared.end_unless_used(now, self.is_closed);
        let is_over = shared.session.has_ended();
        let after = if is_over {
            Listed::default()
        } else {
            shared.agenda(self.held, &self.settings)
        };
        let before = core::mem::replace(&mut shared.listed, after);
        self.agenda.update(no, before, after);
        for (tenant, shown) in news {
            self.tell(tenant, shown, None);
        }
        if is_over && let Some(shared) = self.sessions.remove(&no) {
            let is_of_it = |from| matches!(from, From::Session(of, _) if of == no);
            self.requests.abort(is_of_it);
            for (tenant, shown) in shared.last_news() {
                self.tell(tenant, shown, None);
            }
        }
    }
}
