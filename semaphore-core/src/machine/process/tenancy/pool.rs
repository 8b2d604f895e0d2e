//! The sessions of one process, which its semaphores and its elections share.
//!
//! A process needs as many sessions as it wants slots in any one semaphore: its slots in different
//! semaphores use the same sessions. The same is true of elections, where each key is a place. Each
//! session is renewed once, however many use it.
//!
//! ```text
//!            place a    place b    place c
//! session 1    ●          ●          ●         each place has a session once at most: two contenders of one place
//! session 2    ●                     ●         would have the same contender key
//! session 3    ●
//! ```
//! - A machine gets the lowest session that is free at its place. So the last ones become unused,
//!   and end.
//! - An unused session is kept for a moment, since another turn may come, and then ended.
//! - A session that is gone takes all its users with it.
//! - A session that came back with something left on it is *retired*: nobody new uses it, and it
//!   ends with its last user. Its end removes what is left.
//! - It remembers a session's terms in an election: [`Past`](super::past::Past).
//! - If the only users of a session wait for what may come late, it ends, too: no key is tied to an
//!   ended session, so nothing comes any more.
//!
//! Sources: Consul's documentation of sessions (a session may hold any number of keys; its end frees or deletes them all).

mod agenda;
mod news;
mod shared;

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use self::agenda::{Agenda, Listed, SessionNo};
use self::news::AllNews;
use self::shared::{Shared, UseFor};
use crate::defect::{Defect, is_on};
use crate::http::Response;
use crate::id::RequestId;
use crate::machine::contract::Transmit;
use crate::machine::process::outage::RequestEnd;
use crate::machine::process::requests::{Received, Requests, Sender};
use crate::machine::process::service::Service;
use crate::machine::process::tenancy::confirmations::{Confirmations, Confirmed, QuestionNo, Tied};
use crate::machine::process::tenancy::loan::{
    Belief, Heard, LoanNews, LoanStep, LoanWish, Rest, Shown,
};
use crate::machine::process::tenancy::session::{Among, Session};
use crate::machine::process::tenancy::settings::SessionSettings;
use crate::machine::process::tenancy::tenant::{MemberNo, Place, Tenant, key_at};
use crate::time::Instant;
use crate::transport::TransportError;

/// Which sessions a member shares with others, and the place where it uses each of them once.
#[derive(Clone, Debug)]
pub struct Shares {
    /// How the sessions are created.
    pub(crate) settings: SessionSettings,
    pub(crate) place: Place,
}

#[derive(Clone, Debug)]
pub(in crate::machine) struct Pool {
    settings: SessionSettings,
    requests: Requests<From>,
    sessions: BTreeMap<SessionNo, Shared>,
    /// The number of the next session. Numbers are not reused: users of an ended session may know
    /// its number for a moment longer.
    next: SessionNo,
    lent: BTreeMap<Tenant, SessionNo>,
    places: BTreeMap<Place, Lent>,
    agenda: Agenda,
    confirmations: Confirmations<SessionNo>,
    news: AllNews,
    /// How long an unused session is kept.
    kept: Duration,
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
    /// Many sessions.
    Confirmation(QuestionNo),
}

impl Sender for From {
    fn polls(&self) -> bool {
        false
    }
}

/// How long an unused session is kept, unless the pool is closed.
const KEPT: Duration = Duration::from_secs(1);

/// The most requests under way, and the most that keep holds besides these.
const MOST_IN_FLIGHT: usize = 8;
const MOST_RENEWALS_IN_FLIGHT: usize = 24;

impl Pool {
    pub(in crate::machine) fn new(settings: SessionSettings, seed: u64) -> Self {
        Self {
            requests: Requests::new(settings.request_timeout(), settings.lease_time()),
            confirmations: Confirmations::new(&settings),
            settings,
            sessions: BTreeMap::new(),
            next: SessionNo::FIRST,
            lent: BTreeMap::new(),
            places: BTreeMap::new(),
            agenda: Agenda::new(),
            news: AllNews::default(),
            kept: KEPT,
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

    /// Nothing is kept for later turns any more.
    pub(in crate::machine) fn close(&mut self, now: Instant) {
        self.kept = Duration::ZERO;
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
        let Some(no) = self.lent.get(&tenant).copied() else {
            return;
        };
        if let LoanStep::Return { .. } = step {
            self.lent.remove(&tenant);
            self.freed(place, no);
        }
        let others = self.agenda.held();
        let Some(shared) = self.sessions.get_mut(&no) else {
            return;
        };
        match step {
            LoanStep::Lend => {}
            LoanStep::Hold => {
                shared.holders.insert(tenant);
                match shared.holders.len() {
                    1 => shared.session.hold(now, Among::of(others)),
                    held => {
                        tracing::debug!(name: "session-shared", held, "several holds stand on one session");
                    }
                }
            }
            LoanStep::LetGo => shared.let_go(tenant),
            LoanStep::Lived(sent_at) => shared.session.lived(sent_at),
            LoanStep::Leave => _ = shared.staying.remove(&tenant),
            LoanStep::Stay => shared.stay(tenant),
            LoanStep::Settle => _ = shared.settling.insert(tenant),
            LoanStep::Doubt => shared.session.doubt(now),
            LoanStep::Return { past, rest } => {
                shared.let_go(tenant);
                shared.tenants.remove(place);
                shared.staying.remove(&tenant);
                shared.settling.remove(&tenant);
                if rest == Rest::Key {
                    let others = shared.tenants.len();
                    tracing::debug!(name: "session-retired", others, "something may be left on a session");
                    shared.use_for = UseFor::Present;
                }
                if is_on(Defect::SessionDestroyedUnderOthers) {
                    shared.session.end();
                }
                shared.remember(place, past, rest);
            }
        }
        self.settle(now, no);
    }

    fn lend(&mut self, now: Instant, tenant: Tenant, place: &Place) {
        let lent = self.places.entry(Arc::clone(place)).or_insert(Lent {
            full_below: SessionNo::FIRST,
            sessions: 0,
        });
        let mut others = self.sessions.range(lent.full_below..);
        let free = others.find(|(_, it)| it.is_free_at(place, now));
        let no = free.map_or(self.next, |(no, _)| *no);
        self.next = self.next.max(SessionNo(no.0 + 1));
        lent.sessions += 1;
        lent.full_below = SessionNo(no.0 + 1);
        self.lent.insert(tenant, no);
        let new = || Shared::new(&self.settings);
        let shared = self.sessions.entry(no).or_insert_with(new);
        shared.tenants.insert(Arc::clone(place), tenant);
        shared.staying.insert(tenant);
        let mut shown = shared.shown();
        shown.past = shared.past_at(place);
        self.tell(tenant, shown, None);
        self.settle(now, no);
    }

    /// A session is free at the place again.
    fn freed(&mut self, place: &Place, no: SessionNo) {
        if let Some(lent) = self.places.get_mut(place) {
            lent.sessions = lent.sessions.saturating_sub(1);
            lent.full_below = lent.full_below.min(no);
            if lent.sessions == 0 {
                self.places.remove(place);
            }
        }
    }

    fn tell(&mut self, tenant: Tenant, shown: Shown, heard: Option<Heard>) {
        let loan = tenant.loan;
        let news = LoanNews {
            loan,
            shown,
            heard,
            seen: None,
        };
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
        if let Some(transmit) = self.transmit_confirmation(now) {
            return Some(transmit);
        }
        let no = self.next_due(now)?;
        let shared = self.sessions.get_mut(&no)?;
        if shared.session.wants_creation() {
            let ttl = self.settings.ttl();
            self.requests.orphans_mut().asked(now, ttl);
        }
        let (part, request) = shared.session.transmit(now, &self.settings)?;
        self.settle(now, no);
        Some(
            self.requests
                .send(now, From::Session(no, part), Service::Sessions, request),
        )
    }

    /// The session with the next request. Among those that keep holds, the one whose lease ends
    /// first.
    fn next_due(&mut self, now: Instant) -> Option<SessionNo> {
        let sessions = &self.sessions;
        let rank = |no| sessions.get(&no).map(|it: &Shared| it.listed.rank);
        self.agenda.look(now, rank);
        let is_held = |no: &SessionNo| sessions.get(no).is_some_and(Shared::is_held);
        let of_hold = |from: From| matches!(from, From::Session(no, _) if is_held(&no));
        let of_other = |from: From| matches!(from, From::Session(no, _) if !is_held(&no));
        if self.requests.count(of_hold) < MOST_RENEWALS_IN_FLIGHT
            && let Some(no) = self.agenda.most_urgent()
        {
            return Some(no);
        }
        if self.requests.count(of_other) >= MOST_IN_FLIGHT {
            return None;
        }
        let may_create = self.requests.orphans().may_create(now);
        self.agenda.next_other(may_create)
    }

    /// The question about many sessions, if it is due.
    fn transmit_confirmation(&mut self, now: Instant) -> Option<Transmit> {
        self.confirms_at().filter(|at| *at <= now)?;
        let waiting = self.agenda.unconfirmed().iter();
        let waiting = waiting.filter_map(|no| {
            let shared = self.sessions.get(no)?;
            let session = shared.session.id()?.clone();
            let key = key_at(shared.held_place()?, &session);
            Some(Tied {
                no: *no,
                session,
                key,
            })
        });
        let (no, request) = self.confirmations.ask(now, waiting, &self.settings.scope)?;
        let from = From::Confirmation(no);
        Some(self.requests.send(now, from, Service::Reads, request))
    }

    fn confirms_at(&self) -> Option<Instant> {
        let waiting = self.agenda.unconfirmed().len();
        self.confirmations.due_at(waiting)
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
        let (no, part) = match from {
            From::Session(no, part) => (no, part),
            From::Confirmation(no) => {
                let confirmed = self.confirmations.hear(now, no, answer, &mut self.rng);
                self.take_confirmed(now, sent_at, confirmed);
                return end;
            }
        };
        let Some(shared) = self.sessions.get_mut(&no) else {
            return end;
        };
        if shared.session.is_creation(part) {
            let ttl = self.settings.ttl();
            let orphans = self.requests.orphans_mut();
            orphans.answered(now, sent_at, answer.as_ref().copied(), ttl);
        }
        let belief = Belief::of(shared.is_held());
        let (settings, rng) = (&self.settings, &mut self.rng);
        shared
            .session
            .handle(now, part, answer, belief, settings, rng);
        let took = now.saturating_since(sent_at);
        let heard = match result {
            Ok(_) => Heard::Answer(took),
            Err(_) => Heard::Silence(took),
        };
        self.settle_after(now, no, Some(heard));
        end
    }

    fn take_confirmed(&mut self, now: Instant, sent_at: Instant, confirmed: Confirmed<SessionNo>) {
        let (numbers, change): (Vec<_>, fn(&mut Session, Instant, Instant)) = match confirmed {
            Confirmed::All(numbers) => (numbers, |it, _, sent_at| it.lived(sent_at)),
            Confirmed::Without(numbers) => (numbers, |it, now, _| it.doubt(now)),
            Confirmed::Nothing => return,
        };
        for no in numbers {
            if let Some(shared) = self.sessions.get_mut(&no) {
                change(&mut shared.session, now, sent_at);
            }
            self.settle(now, no);
        }
    }

    pub(in crate::machine) fn poll_timeout(&self) -> Option<Instant> {
        let due = self.agenda.due_from(self.timed_at);
        let ends = self.agenda.ends();
        let creation = self.requests.orphans().timeout();
        let later = creation.into_iter().chain(self.confirms_at());
        let later = later.filter(|at| *at > self.timed_at);
        later.chain(due).chain(ends).min()
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
        self.settle_after(now, no, None);
    }

    /// The same, after something was learned about the agent.
    fn settle_after(&mut self, now: Instant, no: SessionNo, heard: Option<Heard>) {
        let Some(shared) = self.sessions.get_mut(&no) else {
            return;
        };
        // An ended session has no id any more, so these news come first.
        let news = if shared.session.has_ended() {
            Vec::new()
        } else {
            shared.news(heard.is_some())
        };
        shared.end_unless_used(now, self.kept, &self.settings);
        let is_over = shared.session.has_ended() && !shared.session.is_being_created();
        let after = if is_over {
            Listed::default()
        } else {
            shared.agenda()
        };
        let before = core::mem::replace(&mut shared.listed, after);
        self.agenda.update(no, before, after);
        for (tenant, shown) in news {
            self.tell(tenant, shown, heard);
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
