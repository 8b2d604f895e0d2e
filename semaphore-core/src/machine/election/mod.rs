//! Leader election as the guide describes it: whoever acquires the key leads.
//!
//! A [`Candidate`] is one process's part in the election for one key: a sans-IO machine with the
//! contract of a [`Participant`](crate::Participant). Local callers queue; one at a time leads.
//!
//! ```text
//! campaign · try_campaign · set_value · resign · cancel · close      commands
//! poll_transmit                           what to send
//! handle_response                         what came back, in any order, late or twice
//! poll_timeout, handle_timeout            when to call again
//! poll_event                              what happened
//! poll_abort                              which answers are of no more use
//! ```
//! The states are drawn in [`candidacy`]: each campaign has a session of its own, made for it and
//! destroyed after it. The key stays, with its last value and without a session: that is how Consul
//! leaves it, and how its `LockIndex` goes on counting the terms.
//!
//! # What a term is known by
//! - The *fencing token* is the key's `ModifyIndex` as the leader first saw it. Each acquisition is a
//!   write with a higher index than all before it, also when the key was deleted in between or
//!   overwritten without `acquire`, so the token rises with every change of leader. (Only a restored
//!   snapshot brings indexes back.)
//! - The *sequencer* is `(key, LockIndex, session)`, for whoever checks it against Consul. `LockIndex`
//!   rises by one with every acquisition by another session, and starts anew with the key.
//!
//! # What it costs
//! A leader or a candidate that waits holds one long poll open, which the leader of the cluster
//! confirms, and renews its session three times per TTL. The ceiling (L3): ten polls a second in the
//! long run, two attempts a second, and one read after each write whose answer does not tell what
//! became of it.

mod candidacy;
mod settings;
mod shown;
mod write;

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use self::candidacy::{Candidacy, CandidacyEvent, Part};
use self::shown::Shown;
use super::backoff::Backoff;
use super::driven::{CommandNo, Machine, Outcome};
use super::encoding::Encoding;
use super::key_watch::KeyWatch;
use super::order::Moment;
use super::participant::Transmit;
use super::queue::{Patience, Queue, Ticket};
use crate::api::ReadKey;
use crate::error::{Error, Lost, RequestError};
use crate::http::Response;
use crate::id::{CampaignId, ChangeId, RequestId};
use crate::input::Value;
use crate::time::Instant;
use crate::transport::TransportError;

pub use candidacy::Term;
pub use settings::ElectionSettings;

/// One process's part in one election: a sans-IO machine. Any order of polls is correct, and
/// spurious calls do nothing.
#[derive(Clone, Debug)]
pub struct Candidate {
    settings: ElectionSettings,
    rng: fastrand::Rng,
    next_id: u64,
    watch: KeyWatch,
    queue: Queue<CampaignId>,
    candidacy: Option<Candidacy>,
    /// Whose the candidacy is, once it was elected.
    leader: Option<CampaignId>,
    /// Those who were elected and have not given it back.
    holds: BTreeMap<CampaignId, Hold>,
    /// The values to show, first things first.
    changes: VecDeque<Change>,
    in_flight: BTreeMap<RequestId, Sent>,
    aborts: VecDeque<RequestId>,
    events: VecDeque<ElectionEvent>,
    /// No new candidacy before this time.
    respawn_at: Option<Instant>,
    respawn: Backoff,
    /// The last failure since the last success.
    failure: Option<RequestError>,
    closed: bool,
    /// When [`Self::handle_timeout`] was called last.
    timed_at: Instant,
}

/// What a caller learns of an election.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ElectionEvent {
    /// The campaign led to a leadership.
    Elected {
        /// Whose.
        campaign: CampaignId,
        /// With what.
        term: Term,
    },
    /// An instant try found another leader, or a lock delay.
    NotAvailable {
        /// Whose.
        campaign: CampaignId,
    },
    /// The campaign ended without a leadership. What it left in Consul is being cleaned up, until
    /// [`Candidate::is_idle`].
    Failed {
        /// Whose.
        campaign: CampaignId,
        /// Why.
        error: Error,
    },
    /// The leadership is over.
    Lost {
        /// Whose.
        campaign: CampaignId,
        /// Why.
        reason: Lost,
    },
    /// The key shows the value, or never will.
    ValueSet {
        /// Which change it was.
        change: ChangeId,
        /// Why it does not, where it does not.
        result: Result<(), Error>,
    },
    /// The leadership was given back. Nothing of it is left in Consul but the key with its value, or
    /// nothing more can be done about it.
    Resigned {
        /// Whose.
        campaign: CampaignId,
        /// The first failure on the way, where there was one that mattered. Then the session's TTL
        /// cleans up.
        result: Result<(), Error>,
    },
}

/// A campaign that was elected and is not given back yet.
#[derive(Clone, Debug)]
struct Hold {
    lost: Option<Lost>,
    owner: Owner,
    /// Whether nothing of it is left.
    is_over: bool,
}

/// Whether somebody still has the leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// Its caller has it.
    Present,
    /// Its caller gave it back and wants to know the end.
    Resigned,
}

#[derive(Clone, Debug)]
struct Change {
    id: ChangeId,
    value: Vec<u8>,
}

/// What was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Poll,
    Candidacy(Part, Encoding),
}

impl Candidate {
    /// A candidate that does nothing yet. `seed` decides its jitter: give each another one, and a
    /// fixed one to repeat a run.
    pub fn new(settings: ElectionSettings, seed: u64) -> Self {
        let cap = settings.session.retry_cap();
        Self {
            watch: KeyWatch::new(&settings.session),
            respawn: Backoff::new(Duration::from_millis(100), cap),
            rng: fastrand::Rng::with_seed(seed),
            next_id: 0,
            queue: Queue::default(),
            candidacy: None,
            leader: None,
            holds: BTreeMap::new(),
            changes: VecDeque::new(),
            in_flight: BTreeMap::new(),
            aborts: VecDeque::new(),
            events: VecDeque::new(),
            respawn_at: None,
            failure: None,
            closed: false,
            timed_at: Instant::ORIGIN,
            settings,
        }
    }

    /// What it was told.
    pub fn settings(&self) -> &ElectionSettings {
        &self.settings
    }

    /// Waits until it leads, until `deadline` if there is one. Local campaigns lead in turn.
    ///
    /// # Errors
    /// [`Error::Closed`] after [`Self::close`]. Nothing is sent then.
    pub fn campaign(
        &mut self,
        now: Instant,
        deadline: Option<Instant>,
    ) -> Result<CampaignId, Error> {
        self.enqueue(now, deadline.map_or(Patience::Unlimited, Patience::Until))
    }

    /// Leads if nobody does now. Answered by [`ElectionEvent::NotAvailable`] when somebody does, also a
    /// local one, or waits already, and during a lock delay.
    ///
    /// # Errors
    /// As [`Self::campaign`].
    pub fn try_campaign(&mut self, now: Instant) -> Result<CampaignId, Error> {
        self.enqueue(now, Patience::None)
    }

    /// Changes what the key shows, for as long as this leadership lasts. Answered by
    /// [`ElectionEvent::ValueSet`]. It is written through `acquire` only, one change after the other.
    pub fn set_value(&mut self, now: Instant, campaign: CampaignId, value: &Value) -> ChangeId {
        let id = ChangeId(self.fresh_id());
        if self.leader == Some(campaign) {
            let value = value.as_bytes().to_vec();
            self.changes.push_back(Change { id, value });
            if self.changes.len() == 1 {
                self.begin_change();
            }
        } else {
            let lost = self.holds.get(&campaign).and_then(|hold| hold.lost.clone());
            let result = Err(lost.map_or(Error::Closed, Error::Lost));
            let change = id;
            self.events
                .push_back(ElectionEvent::ValueSet { change, result });
        }
        self.settle(now);
        id
    }

    /// Gives the leadership back. Answered by [`ElectionEvent::Resigned`]; belief ends at once. Repeating
    /// it is harmless.
    pub fn resign(&mut self, now: Instant, campaign: CampaignId) {
        if let Some(hold) = self.holds.get_mut(&campaign) {
            hold.owner = Owner::Resigned;
            self.step_down(now, campaign, None);
        } else {
            let result = Ok(());
            self.events
                .push_back(ElectionEvent::Resigned { campaign, result });
        }
        self.settle(now);
    }

    /// Gives a campaign up, at whatever point it is. No event follows; what it has left in Consul
    /// is cleaned up. A leadership that it has led to is given back.
    pub fn cancel(&mut self, now: Instant, campaign: CampaignId) {
        self.queue.remove(campaign);
        if self.holds.remove(&campaign).is_some() {
            self.step_down(now, campaign, None);
        }
        self.settle(now);
    }

    /// Takes no more campaigns and fails those that wait. Whoever leads does so until the resignation.
    pub fn close(&mut self, now: Instant) {
        self.closed = true;
        self.fail_waiting(&Error::Closed);
        self.settle(now);
    }

    /// Whether nobody campaigns or leads, and nothing of this candidate but the key is left in Consul,
    /// as far as it can know. It sends nothing then.
    pub fn is_idle(&self) -> bool {
        self.candidacy.is_none() && self.queue.is_empty()
    }

    /// Whether the campaign's caller may act as the leader: it was elected, has not resigned, has not
    /// lost it, and its lease holds at `now`. No I/O, so it is right after any pause of the process.
    pub fn is_leader(&self, now: Instant, campaign: CampaignId) -> bool {
        let is_before = |deadline| now < deadline;
        self.leads(campaign) && self.deadline(campaign).is_none_or(is_before)
    }

    /// When belief in the leadership ends unless a renewal succeeds before; none when it has ended.
    pub fn deadline(&self, campaign: CampaignId) -> Option<Instant> {
        let candidacy = self.candidacy.as_ref()?;
        self.leads(campaign).then(|| candidacy.deadline()).flatten()
    }

    /// A request whose answer is of no more use. Dropping it frees its connection; answering it
    /// all the same is harmless.
    pub fn poll_abort(&mut self) -> Option<RequestId> {
        self.aborts.pop_front()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<ElectionEvent> {
        self.events.pop_front()
    }

    /// The next request to send at `now`, if there is one.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        let settings = &self.settings;
        let of_candidacy = self
            .candidacy
            .as_mut()
            .and_then(|it| it.transmit(now, settings));
        let (sent, request) = if let Some((part, request)) = of_candidacy {
            (Sent::Candidacy(part, Encoding::of(&request)), request)
        } else {
            let key = settings.key.as_str();
            let poll = self.watch.transmit(now, key, &settings.session)?;
            (Sent::Poll, poll)
        };
        let id = RequestId(self.fresh_id());
        self.in_flight.insert(id, sent);
        Some(Transmit { id, request })
    }

    /// Takes what came back for a request: its answer, or why there is none. An answer to a
    /// request that is unknown, superseded or answered already changes nothing.
    #[expect(clippy::needless_pass_by_value, reason = "an answer is handed over")]
    pub fn handle_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: Result<Response, TransportError>,
    ) {
        let Some(sent) = self.in_flight.remove(&id) else {
            return;
        };
        // What comes after the lease brings no belief back that has ended.
        self.let_time_pass(now);
        let answer = result
            .as_ref()
            .map_err(|error| RequestError::Transport(error.clone()));
        let event = match sent {
            Sent::Poll => self.handle_poll(now, id, answer),
            Sent::Candidacy(part, encoding) => {
                let is_refused = |response: &Response| Encoding::is_refused(response);
                if encoding == Encoding::Transactions && result.as_ref().is_ok_and(is_refused) {
                    self.do_without_transactions();
                    None
                } else {
                    self.handle_part(now, id, part, answer)
                }
            }
        };
        self.note();
        self.handle_event(now, event);
        self.settle(now);
    }

    /// When [`Self::handle_timeout`] must be called next, if nothing else happens before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let candidacy = self.candidacy.as_ref();
        [
            self.watch.timeout(),
            candidacy.and_then(|it| it.timeout(self.timed_at)),
            self.queue.timeout(),
            self.respawn_at,
        ]
        .into_iter()
        .flatten()
        // What was due by then has been done, or waits for an answer to make room.
        .filter(|at| *at > self.timed_at)
        .min()
    }

    /// Lets time pass.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.timed_at = self.timed_at.max(now);
        for ticket in self.queue.drain_expired(now) {
            self.events.push_back(ElectionEvent::Failed {
                campaign: ticket.id,
                error: Error::Timeout {
                    waited: now.saturating_since(ticket.since),
                    last_failure: self.failure.clone(),
                },
            });
        }
        self.let_time_pass(now);
        self.settle(now);
    }

    fn enqueue(&mut self, now: Instant, patience: Patience) -> Result<CampaignId, Error> {
        if self.closed {
            return Err(Error::Closed);
        }
        let campaign = CampaignId(self.fresh_id());
        let is_behind = self.leader.is_some() || !self.queue.is_empty();
        if patience == Patience::None && is_behind {
            self.events
                .push_back(ElectionEvent::NotAvailable { campaign });
        } else {
            self.queue.push(Ticket {
                id: campaign,
                permits: 1,
                since: now,
                patience,
            });
        }
        self.settle(now);
        Ok(campaign)
    }

    fn leads(&self, campaign: CampaignId) -> bool {
        let is_leading = self.candidacy.as_ref().is_some_and(Candidacy::is_leading);
        is_leading && self.leader == Some(campaign)
    }

    fn let_time_pass(&mut self, now: Instant) {
        let event = self
            .candidacy
            .as_mut()
            .and_then(|candidacy| candidacy.handle_timeout(now));
        self.handle_event(now, event);
    }

    fn handle_poll(
        &mut self,
        now: Instant,
        id: RequestId,
        answer: Result<&Response, RequestError>,
    ) -> Option<CandidacyEvent> {
        let shown = answer.and_then(|response| {
            let (index, found) = ReadKey::parse_at(response)?;
            Ok((index, found.as_ref().map(Shown::new).transpose()?))
        });
        match shown {
            Ok((index, shown)) => {
                self.watch.answered(now, index);
                let candidacy = self.candidacy.as_mut()?;
                candidacy.watched(now, shown, Moment::of(id), &self.settings)
            }
            Err(error) => {
                self.watch.failed(now, &mut self.rng);
                self.candidacy.as_mut()?.fail(error)
            }
        }
    }

    fn handle_part(
        &mut self,
        now: Instant,
        id: RequestId,
        part: Part,
        answer: Result<&Response, RequestError>,
    ) -> Option<CandidacyEvent> {
        let moments = (Moment(self.next_id), Moment::of(id));
        let (settings, rng) = (&self.settings, &mut self.rng);
        let candidacy = self.candidacy.as_mut()?;
        candidacy.handle(now, moments, part, answer, settings, rng)
    }

    /// The agent refuses transactions: the guide's requests do the same.
    fn do_without_transactions(&mut self) {
        self.settings.encoding = Encoding::Requests;
        if let Some(candidacy) = &mut self.candidacy {
            candidacy.take_back();
        }
    }

    /// Remembers the last failure, for those whose time runs out. An instant try does not wait for
    /// the next attempt.
    fn note(&mut self) {
        let Some(candidacy) = &self.candidacy else {
            return;
        };
        self.failure = candidacy.failure().cloned();
        if let Some(error) = &self.failure {
            for ticket in self.queue.drain_tries() {
                self.events.push_back(ElectionEvent::Failed {
                    campaign: ticket.id,
                    error: Error::Request(error.clone()),
                });
            }
        }
    }

    fn handle_event(&mut self, now: Instant, event: Option<CandidacyEvent>) {
        match event {
            None => {}
            Some(CandidacyEvent::Elected(term)) => self.elect(term),
            Some(CandidacyEvent::NotAvailable) => {
                for ticket in self.queue.drain_tries() {
                    let campaign = ticket.id;
                    self.events
                        .push_back(ElectionEvent::NotAvailable { campaign });
                }
            }
            Some(CandidacyEvent::Lost(reason)) => {
                if let Some(campaign) = self.leader {
                    self.lose(now, campaign, reason);
                }
            }
            Some(CandidacyEvent::SessionGone) => {
                self.respawn_at = Some(now + self.respawn.next(&mut self.rng));
                self.leave(now);
            }
            Some(CandidacyEvent::Refused(error)) => {
                self.fail_waiting(&error);
                self.leave(now);
            }
            Some(CandidacyEvent::ValueRefused(error)) => {
                if let Some(candidacy) = &mut self.candidacy {
                    candidacy.keep_value();
                }
                self.end_change(Err(Error::Request(error)));
            }
        }
    }

    /// The first in the queue leads. If nobody waits any more, the candidacy is left at once.
    fn elect(&mut self, term: Term) {
        self.respawn.reset();
        let Some(campaign) = self.queue.head().map(|ticket| ticket.id) else {
            return;
        };
        self.queue.remove(campaign);
        self.leader = Some(campaign);
        let hold = Hold {
            lost: None,
            owner: Owner::Present,
            is_over: false,
        };
        self.holds.insert(campaign, hold);
        self.events
            .push_back(ElectionEvent::Elected { campaign, term });
    }

    fn lose(&mut self, now: Instant, campaign: CampaignId, reason: Lost) {
        if let Some(hold) = self.holds.get_mut(&campaign) {
            hold.lost = Some(reason.clone());
        }
        self.step_down(now, campaign, Some(&reason));
        self.respawn_at = Some(now + self.respawn.next(&mut self.rng));
        self.events
            .push_back(ElectionEvent::Lost { campaign, reason });
    }

    /// The campaign leads no more, if it did.
    fn step_down(&mut self, now: Instant, campaign: CampaignId, lost: Option<&Lost>) {
        if self.leader != Some(campaign) {
            return;
        }
        self.leave(now);
        for change in core::mem::take(&mut self.changes) {
            let result = Err(lost.cloned().map_or(Error::Closed, Error::Lost));
            let change = change.id;
            self.events
                .push_back(ElectionEvent::ValueSet { change, result });
        }
        // A resignation waits for the candidacy's end; a loss is over for whoever comes next.
        if lost.is_some() {
            self.leader = None;
        }
    }

    fn leave(&mut self, now: Instant) {
        if let Some(candidacy) = &mut self.candidacy {
            candidacy.leave(now, &self.settings);
        }
    }

    fn fail_waiting(&mut self, error: &Error) {
        for ticket in self.queue.drain() {
            self.events.push_back(ElectionEvent::Failed {
                campaign: ticket.id,
                error: error.clone(),
            });
        }
    }

    /// Does what needs no request.
    fn settle(&mut self, now: Instant) {
        let wanted = !self.queue.is_empty();
        let campaigns = |it: &Candidacy| it.is_campaigning() || it.is_leading();
        if !wanted && self.leader.is_none() && self.candidacy.as_ref().is_some_and(campaigns) {
            self.leave(now);
        }
        if self.candidacy.as_ref().is_some_and(Candidacy::is_gone) {
            self.bury();
        }
        if self.candidacy.is_none() && wanted && self.respawn_at.is_none_or(|at| at <= now) {
            self.respawn_at = None;
            let is_blind = !self.watch.start();
            let moment = Moment(self.next_id);
            self.candidacy = Some(Candidacy::new(&self.settings, moment, is_blind));
        }
        if !wanted && self.candidacy.is_none() {
            self.respawn_at = None;
        }
        if !self.candidacy.as_ref().is_some_and(campaigns) {
            self.watch.pause();
        }
        self.tell_resigned();
        self.end_shown_changes();
    }

    /// Nothing of the candidacy is left.
    fn bury(&mut self) {
        let failure = self
            .candidacy
            .take()
            .and_then(|it| it.leave_failure().cloned());
        let of_candidacy = self.in_flight.extract_if(.., |_, sent| *sent != Sent::Poll);
        self.aborts.extend(of_candidacy.map(|(id, _)| id));
        // One at a time leads: whatever was lost was lost with this one, or before.
        for hold in self.holds.values_mut() {
            hold.is_over |= hold.lost.is_some();
        }
        if let Some(campaign) = self.leader.take()
            && let Some(hold) = self.holds.remove(&campaign)
            && hold.owner == Owner::Resigned
        {
            let result = failure.map_or(Ok(()), |error| Err(Error::Request(error)));
            self.events
                .push_back(ElectionEvent::Resigned { campaign, result });
        }
    }

    /// Whoever resigns from what was lost is told when nothing of it is left.
    fn tell_resigned(&mut self) {
        let over = self
            .holds
            .extract_if(.., |_, it| it.owner == Owner::Resigned && it.is_over);
        for (campaign, hold) in over {
            let result = hold.lost.map_or(Ok(()), |reason| Err(Error::Lost(reason)));
            self.events
                .push_back(ElectionEvent::Resigned { campaign, result });
        }
    }

    fn begin_change(&mut self) {
        if let (Some(change), Some(candidacy)) = (self.changes.front(), &mut self.candidacy) {
            candidacy.set_value(change.value.clone());
        }
    }

    fn end_change(&mut self, result: Result<(), Error>) {
        if let Some(change) = self.changes.pop_front() {
            let change = change.id;
            self.events
                .push_back(ElectionEvent::ValueSet { change, result });
            self.begin_change();
        }
    }

    fn end_shown_changes(&mut self) {
        while !self.changes.is_empty()
            && let Some(candidacy) = &self.candidacy
            && candidacy.is_leading()
            && candidacy.is_value_set()
        {
            self.end_change(Ok(()));
        }
    }

    fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}

impl From<CampaignId> for CommandNo {
    fn from(campaign: CampaignId) -> Self {
        Self(campaign.0)
    }
}

impl From<ChangeId> for CommandNo {
    fn from(change: ChangeId) -> Self {
        Self(change.0)
    }
}

impl From<CommandNo> for CampaignId {
    fn from(command: CommandNo) -> Self {
        Self(command.0)
    }
}

impl Machine for Candidate {
    type Grant = Term;

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        self.poll_transmit(now)
    }

    fn poll_abort(&mut self) -> Option<RequestId> {
        self.poll_abort()
    }

    fn handle_response(
        &mut self,
        now: Instant,
        id: RequestId,
        result: Result<Response, TransportError>,
    ) {
        self.handle_response(now, id, result);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.handle_timeout(now);
    }

    fn poll_outcome(&mut self) -> Option<Outcome<Term>> {
        Some(match self.poll_event()? {
            ElectionEvent::Elected { campaign, term } => Outcome::Granted(campaign.into(), term),
            ElectionEvent::NotAvailable { campaign } => Outcome::NotAvailable(campaign.into()),
            ElectionEvent::Failed { campaign, error } => Outcome::Failed(campaign.into(), error),
            ElectionEvent::Lost { campaign, reason } => Outcome::Lost(campaign.into(), reason),
            ElectionEvent::ValueSet { change, result } => Outcome::Done(change.into(), result),
            ElectionEvent::Resigned { campaign, result } => Outcome::Done(campaign.into(), result),
        })
    }

    fn close(&mut self, now: Instant) {
        self.close(now);
    }

    fn is_idle(&self) -> bool {
        self.is_idle()
    }

    fn cancel(&mut self, now: Instant, command: CommandNo) {
        self.cancel(now, command.into());
    }

    fn release(&mut self, now: Instant, command: CommandNo) {
        self.resign(now, command.into());
    }

    fn is_held(&self, now: Instant, command: CommandNo) -> bool {
        self.is_leader(now, command.into())
    }

    fn deadline(&self, command: CommandNo) -> Option<Instant> {
        self.deadline(command.into())
    }
}
