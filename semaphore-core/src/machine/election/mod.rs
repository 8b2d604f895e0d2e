//! Leader election as the guide describes it: the owner of the key leads.
//!
//! A [`Candidate`] is one process's part in the election of one key: a sans-IO machine with the
//! contract of a [`Participant`](crate::sans_io::Participant). Local callers queue, and one at a
//! time leads.
//!
//! ```text
//! campaign · try_campaign · set_value · resign · cancel · close      commands
//! poll_transmit                           what to send
//! handle_response                         what came back, in any order, late or twice
//! poll_timeout, handle_timeout            when to call again
//! poll_event                              what happened
//! poll_abort                              which answers are of no more use
//! ```
//! The files: this one has the commands and the state, [`terms`] handles answers and decides who
//! leads, [`watch`] decides who looks at the key, and [`candidacy`] has the drawing of the states.
//! Each campaign uses a session of a pool, which keeps it for a moment afterwards. The elections of a
//! [`Client`](crate::Client) share one pool. The key stays, with its last value
//! and without a session: so Consul leaves it, and so its `LockIndex` keeps counting the terms.
//!
//! # On a session that lives on
//! The end of a session makes everything harmless that was written in its name: Consul ties no key
//! to an ended session, and unties the keys of one that ends. But a session that others use can't
//! be ended for one election. So:
//!
//! - *Each write is fenced.* Attempts, changes of the value and resignations are transactions whose
//!   first operation checks that the key is as it was seen. Each write moves the key's index, so no
//!   copy of an earlier one is applied after it.
//! - *A given-up attempt may come* as long as the key stays as it was seen (`process::late`). The
//!   candidacy keeps watching the key (*Settling*), and gives it back if the attempt comes. It
//!   leaves the session when the index has moved or, if it does not move, after the longest time in
//!   which such attempts were ever seen to come. Meanwhile another campaign of the same candidate
//!   may use the session. If nothing else uses the session, the pool ends it, which settles the
//!   matter.
//! - *If that is not enough, the session is retired* (`machine::sessions`): nobody new uses it, and it
//!   ends with its last user. That is so if only time has settled an attempt, if the way out was
//!   refused, or if the key had to be released without a fence: somebody has given it a value that
//!   is too large for a transaction.
//! - *An answer from before the session was lent* may show the session as the leader's: another
//!   candidate of the process led with it, and has given the key back. It is not believed, and the
//!   key is read again.
//! - *Each term has a unique name.* `LockIndex` grows with each acquisition, even by the same
//!   session. It starts again after the key was deleted. So the pool remembers each session's last
//!   term at each key. If terms are counted again at a key, the session is no longer lent there.
//!
//! None of this ends another term. What the users of a session share is its end, and the lock delay
//! after it; a resignation has no lock delay.
//!
//! # What a term is known by
//! - The *fencing token* is the key's `ModifyIndex` when the leader first saw its term. Each
//!   acquisition is a write with a higher index than all before, even if the key was deleted or
//!   overwritten without `acquire` in between. So the token grows with every change of leader.
//!   (Only a restored snapshot takes indexes back.)
//! - The *sequencer* is `(key, LockIndex, session)`, for a resource that checks it with Consul.
//!   `LockIndex` grows by one with every acquisition of a key without a session, and starts again
//!   with a new key.
//!
//! # What it costs
//! A leader or waiting candidate holds one long poll open, which the cluster's leader confirms, or
//! the process checks its key together with others. The limit (L3): a hundred
//! polls a second in the long run, two attempts a second plus one for each acquisition by somebody
//! else, and one read after each write with an unknown outcome.

mod between;
mod candidacy;
mod settings;
mod term;
mod terms;
mod watch;
mod write;

use std::collections::VecDeque;

use self::between::Between;
use self::candidacy::{Candidacy, Part};
use self::watch::KeyWatch;
use crate::api::ReadKey;
use crate::error::{Error, Holder, Refusal, Seen, shown_value};
use crate::http::{Request, Response};
use crate::id::{CommandId, RequestId};
use crate::input::Value;
use crate::leader::Leader;
use crate::machine::callers::{Caller, Callers, Patience, Ticket};
use crate::machine::contract::{Event, Machine, Transmit};
use crate::machine::notice::Notice;
use crate::machine::process::outage::RequestEnd;
use crate::machine::process::reader::check::{Check, CheckNews};
use crate::machine::process::requests::{Requests, Sender};
use crate::machine::process::service::Service;
use crate::machine::process::tenancy::loan::{LoanNews, LoanWish};
use crate::machine::status::{FirstWaiter, Status};
use crate::subject::Subject;
use crate::time::Instant;
use crate::transport::TransportError;

pub use candidacy::Term;
pub use settings::ElectionSettings;

/// One process's part in one election: a sans-IO machine. Polls may come in any order, and
/// superfluous calls do nothing.
#[derive(Clone, Debug)]
pub struct Candidate {
    settings: ElectionSettings,
    rng: fastrand::Rng,
    requests: Requests<From>,
    watch: KeyWatch,
    callers: Callers<Term, Leading>,
    candidacy: Option<Candidacy>,
    /// The campaign that was elected with the candidacy.
    leader: Option<CommandId>,
    /// The values to show, in order.
    changes: VecDeque<Change>,
    between: Between,
    /// When [`Self::handle_timeout`] was last called.
    timed_at: Instant,
}

/// What is left of an elected campaign in Consul.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leading {
    Something,
    Nothing,
}

#[derive(Clone, Debug)]
struct Change {
    id: CommandId,
    value: Value,
}

/// The part of a candidate that sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    Watch,
    Candidacy(Part),
}

impl Sender for From {
    fn polls(&self) -> bool {
        *self == Self::Watch
    }
}

impl Candidate {
    /// An idle candidate. `seed` decides its jitter: use a different seed for each, and a fixed one
    /// to repeat a run.
    pub fn new(settings: ElectionSettings, seed: u64) -> Self {
        Self {
            watch: KeyWatch::new(&settings),
            between: Between::new(&settings, seed),
            rng: fastrand::Rng::with_seed(seed),
            requests: Requests::new(
                settings.session.request_timeout(),
                settings.session.lease_time(),
            ),
            callers: Callers::new(),
            candidacy: None,
            leader: None,
            changes: VecDeque::new(),
            timed_at: Instant::ORIGIN,
            settings,
        }
    }

    /// Uses this seed for its jitter from now on, as `Participant::reseed` does.
    #[doc(hidden)]
    pub fn reseed(&mut self, seed: u64) {
        self.rng.seed(seed);
        if let Some(lone) = &mut self.between.lone {
            lone.reseed(seed);
        }
    }

    /// Its settings.
    pub fn settings(&self) -> &ElectionSettings {
        &self.settings
    }

    /// Waits until it leads, or until `deadline` if there is one. Local campaigns lead in turn.
    ///
    /// # Errors
    /// [`Error::Closed`] after [`Self::close`]. Then nothing is sent.
    pub fn campaign(
        &mut self,
        now: Instant,
        deadline: Option<Instant>,
    ) -> Result<CommandId, Error> {
        self.enqueue(now, deadline.map_or(Patience::Unlimited, Patience::Until))
    }

    /// Leads if nobody leads now. Answered by [`Event::NotAvailable`] if somebody leads, even
    /// locally, if somebody already waits, and during a lock delay.
    ///
    /// # Errors
    /// As [`Self::campaign`].
    pub fn try_campaign(&mut self, now: Instant) -> Result<CommandId, Error> {
        self.enqueue(now, Patience::None)
    }

    /// The campaign that leads, or has resigned and is not cleaned up yet.
    pub fn leading(&self) -> Option<CommandId> {
        self.leader
    }

    /// Who leads, as far as this candidate knows: by its last view of the key, while somebody
    /// campaigns or leads with it.
    pub fn known_leader(&self) -> Option<Leader> {
        self.candidacy.as_ref()?.leader(&self.settings.key)
    }

    /// Changes the value of the key, for this leadership and later ones of this candidate. Answered
    /// by [`Event::Done`]. It writes only with `acquire`, and one change after the other.
    pub fn set_value(&mut self, now: Instant, campaign: CommandId, value: &Value) -> CommandId {
        let id = CommandId(self.requests.number());
        // A leader that is about to leave leads until nothing is left.
        if self.leads(campaign) {
            let value = value.clone();
            self.changes.push_back(Change { id, value });
            if self.changes.len() == 1 {
                self.begin_change();
            }
        } else {
            let lost = self.callers.hold(campaign).and_then(|it| it.lost.clone());
            let result = Err(lost.map_or(Error::closed(), Error::Lost));
            let change = id;
            self.callers.done(change, result);
        }
        self.settle(now);
        id
    }

    fn enqueue(&mut self, now: Instant, patience: Patience) -> Result<CommandId, Error> {
        self.callers.ensure_open()?;
        let campaign = CommandId(self.requests.number());
        let is_behind = self.leader.is_some() || !self.callers.queue().is_empty();
        if patience == Patience::None && is_behind {
            self.callers.not_available(campaign, Refusal::OthersHere);
        } else {
            self.callers.enter(Ticket {
                id: campaign,
                permits: 1,
                since: now,
                patience,
            });
        }
        self.settle(now);
        Ok(campaign)
    }

    fn leads(&self, campaign: CommandId) -> bool {
        let is_leading = self.candidacy.as_ref().is_some_and(Candidacy::is_leading);
        is_leading && self.leader == Some(campaign)
    }

    /// The candidacy's next request, if one is due.
    fn transmit_candidacy(&mut self, now: Instant) -> Option<(Part, Request)> {
        let candidacy = self.candidacy.as_mut()?;
        if self.callers.queue().is_empty() && candidacy.rests(now) {
            return None;
        }
        candidacy.transmit(now, &self.settings)
    }

    /// The next poll of the key, if it is due.
    fn poll(&mut self, now: Instant) -> Option<Request> {
        self.poll_due().filter(|due| *due <= now)?;
        let wait = self.watch.poller.send(now);
        let settings = &self.settings;
        let read = ReadKey {
            key: settings.key.as_str(),
            wait,
            consistent: true,
        };
        Some(read.request(settings.scope()))
    }

    /// When the key is polled next. It is not while the process looks at it.
    fn poll_due(&self) -> Option<Instant> {
        let shares = self.settings.session.shares_sessions();
        let candidacy = self.candidacy.as_ref().filter(|_| shares);
        // The answer to an attempt tells more than a poll.
        if candidacy.is_some_and(Candidacy::is_attempting) {
            return None;
        }
        let in_sight = candidacy.filter(|it| it.is_in_sight());
        let instead = in_sight.and_then(|it| it.wanted_check(&self.settings));
        self.watch.due(instead.as_ref())
    }

    /// When its candidacy has something to do.
    fn candidacy_due(&self) -> impl Iterator<Item = Instant> {
        let nobody_waits = self.callers.queue().is_empty();
        let candidacy = self.candidacy.iter();
        candidacy.flat_map(move |it| {
            let rest = it.rests_until().filter(|_| nobody_waits);
            let all = it.timers(self.timed_at).into_iter().flatten();
            all.map(move |due| rest.map_or(due, |rest| due.max(rest)))
        })
    }

    /// Until when a leader believes that it leads.
    fn held_until(&self) -> Option<(CommandId, Instant)> {
        let campaign = self.leader?;
        Some((campaign, self.deadline(campaign)?))
    }

    /// Tells observers if the lease was extended.
    fn note_renewal(&mut self, now: Instant, held: Option<(CommandId, Instant)>) {
        if let (Some((_, before)), Some((campaign, until))) = (held, self.held_until())
            && before < until
        {
            let notices = self.callers.notices_mut();
            notices.renewed(now, campaign, before, until);
        }
    }

    /// The candidacy's wishes for sessions outlive it.
    fn collect_wishes(&mut self) {
        if let Some(candidacy) = &mut self.candidacy {
            while let Some(step) = candidacy.poll_wish() {
                self.between.wish(step);
            }
        }
    }

    /// Hands its wishes to its own pool, and takes the pool's news.
    fn exchange(&mut self, now: Instant) -> bool {
        self.collect_wishes();
        let all = self.between.exchange(now);
        for news in &all {
            self.take_loan(now, news);
        }
        !all.is_empty()
    }

    /// When observers are warned of the lease's end.
    fn warns_at(&self) -> Option<Instant> {
        let warning = self.settings.session.warning();
        let held = self.held_until();
        let held = held.filter(|_| self.callers.notices().is_heard());
        held.map(|(_, until)| until - warning)
    }

    fn let_time_pass(&mut self, now: Instant) {
        let moment = self.requests.moment();
        let event = self
            .candidacy
            .as_mut()
            .and_then(|candidacy| candidacy.handle_timeout(now, moment));
        self.handle_event(now, event);
    }
}

/// Holding means leading: the key shows the term, and the lease is valid.
impl Machine for Candidate {
    type Grant = Term;

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        if let Some(lone) = &mut self.between.lone
            && let Some(transmit) = lone.poll_transmit(now, || self.requests.number())
        {
            return Some(transmit);
        }
        let (from, request) = match self.transmit_candidacy(now) {
            Some((part, request)) => (From::Candidacy(part), request),
            None => (From::Watch, self.poll(now)?),
        };
        let service = match from {
            From::Candidacy(Part::Write) => Service::Records,
            From::Candidacy(Part::Read) | From::Watch => Service::Reads,
        };
        Some(self.requests.send(now, from, service, request))
    }

    fn poll_abort(&mut self) -> Option<RequestId> {
        let lone = self
            .between
            .lone
            .as_mut()
            .and_then(|lone| lone.poll_abort());
        lone.or_else(|| self.requests.poll_abort())
    }

    fn handle_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: Result<Response, TransportError>,
    ) {
        self.hear_response(now, id, result);
    }

    fn hear_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: Result<Response, TransportError>,
    ) -> Option<RequestEnd> {
        // A late renewal must not bring back a belief that has ended.
        self.let_time_pass(now);
        if let Some(lone) = &mut self.between.lone
            && let Some(end) = lone.handle_response(now, id, &result)
        {
            self.settle(now);
            return end;
        }
        let (received, end) = self.requests.receive(now, id, &result)?;
        let held = self.held_until();
        let event = self.handle_answer(now, id, received);
        self.note(now);
        self.handle_event(now, event);
        self.note_renewal(now, held);
        self.settle(now);
        end
    }

    fn listen(&mut self, listens: bool) {
        self.callers.notices_mut().listen(listens);
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.callers.poll_notice()
    }

    fn status(&self, now: Instant) -> Status {
        let is_held = |campaign| self.is_held(now, campaign);
        let head = self.callers.queue().head();
        Status {
            held: u32::from(self.leader.is_some_and(is_held)),
            waiting: self.callers.queue().len(),
            first_waiter: head.map(|head| FirstWaiter {
                waited: now.saturating_since(head.since),
                ahead: None,
            }),
            trouble: None,
            renewed: self.callers.notices().renewed_before(now),
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let own = [
            self.callers.queue().timeout(),
            self.between.respawn.timeout(),
            self.poll_due(),
            self.warns_at(),
            self.between
                .lone
                .as_ref()
                .and_then(|lone| lone.poll_timeout()),
        ];
        let all = own.into_iter().flatten().chain(self.candidacy_due());
        // What was already due has been done, or waits for an answer.
        all.filter(|at| *at > self.timed_at).min()
    }

    fn given_back_at_shutdown(&self) -> Option<CommandId> {
        self.leader
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.timed_at = self.timed_at.max(now);
        if let Some(lone) = &mut self.between.lone {
            lone.handle_timeout(now);
        }
        for ticket in self.callers.take_expired(now) {
            if let Some(error) = self.conflict() {
                self.callers.failed(now, &ticket, error);
                continue;
            }
            let last_failure = self.callers.failure().cloned();
            let candidacy = self.candidacy.as_ref();
            let shown = candidacy.and_then(Candidacy::shown);
            let leader = shown.and_then(|it| {
                let value = shown_value(&it.value);
                Some(Holder::new(it.session.as_ref()?.as_str(), value.as_deref()))
            });
            let seen = shown.map(|_| Seen {
                holders: leader.into_iter().collect(),
                limit: None,
                ahead: None,
            });
            self.callers.timed_out(now, &ticket, last_failure, seen);
        }
        self.let_time_pass(now);
        if self.warns_at().is_some_and(|at| at <= now)
            && let Some((campaign, until)) = self.held_until()
        {
            self.callers.notices_mut().ends_soon(now, campaign, until);
        }
        self.settle(now);
    }

    fn subject(&self, agent: Option<String>) -> Subject {
        Subject::of_election(self.settings.key.as_str(), agent)
    }

    fn poll_wish(&mut self) -> Option<LoanWish> {
        self.collect_wishes();
        self.between.poll_wish()
    }

    fn handle_loan(&mut self, now: Instant, news: &LoanNews) {
        self.let_time_pass(now);
        self.take_loan(now, news);
        self.settle(now);
    }

    fn check(&self) -> Option<Check> {
        let candidacy = self.candidacy.as_ref()?;
        let shares = self.settings.session.shares_sessions();
        shares.then(|| candidacy.wanted_check(&self.settings))?
    }

    fn handle_check(&mut self, now: Instant, news: CheckNews) {
        self.take_check(now, news);
    }

    fn poll_event(&mut self) -> Option<Event<Term>> {
        self.callers.poll_event()
    }

    fn close(&mut self, now: Instant) {
        self.callers.close();
        self.fail_waiting(now, now, &Error::closed());
        if let Some(lone) = &mut self.between.lone {
            lone.close(now);
        }
        self.settle(now);
    }

    fn is_idle(&self) -> bool {
        let has_sessions = self
            .between
            .lone
            .as_ref()
            .is_some_and(|lone| !lone.is_empty());
        self.candidacy.is_none() && self.callers.queue().is_empty() && !has_sessions
    }

    fn is_quiet(&self) -> bool {
        let is_left_alone = match &self.candidacy {
            Some(candidacy) => candidacy.is_held_up(),
            None => self
                .between
                .lone
                .as_ref()
                .is_none_or(|lone| lone.is_held_up()),
        };
        is_left_alone && self.callers.queue().is_empty()
    }

    fn cancel(&mut self, now: Instant, command: CommandId) {
        self.callers.give_up(now, command);
        if self.callers.forget(command).is_some() {
            self.callers.notices_mut().released(now, command);
            self.step_down(now, command, None);
        }
        self.settle(now);
    }

    fn release(&mut self, now: Instant, command: CommandId) {
        // The clock ends the belief, no matter who looks first.
        self.let_time_pass(now);
        match self.callers.hold(command).map(|it| it.lost.clone()) {
            None => self.callers.done(command, Ok(())),
            Some(None) => {
                self.callers.give_back(now, command, Caller::Released);
                self.step_down(now, command, None);
            }
            // There is nothing to wait for: the cleanup of a loss goes on behind.
            Some(Some(lost)) => {
                self.callers.forget(command);
                self.callers.done(command, Err(Error::Lost(lost)));
            }
        }
        self.settle(now);
    }

    fn is_held(&self, now: Instant, command: CommandId) -> bool {
        let is_before = |deadline| now < deadline;
        self.leads(command) && self.deadline(command).is_none_or(is_before)
    }

    fn deadline(&self, command: CommandId) -> Option<Instant> {
        let candidacy = self.candidacy.as_ref()?;
        self.leads(command).then(|| candidacy.deadline()).flatten()
    }
}
