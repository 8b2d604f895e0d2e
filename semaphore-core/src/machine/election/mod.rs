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
//! The files: this one has the commands and the state, [`answers`] takes what comes back, [`terms`] says
//! who leads. The states are drawn in [`candidacy`]: each campaign has a session of its own, made for it and
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
//! long run, two attempts a second and one more for each acquisition by somebody else, and one read
//! after each write whose answer does not tell what became of it.

mod answers;
mod candidacy;
mod driven;
mod event;
mod settings;
mod shown;
mod terms;
mod write;

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use self::candidacy::{Candidacy, Part};
use crate::error::{Error, Lost, RequestError};
use crate::id::{CampaignId, ChangeId, RequestId};
use crate::input::Value;
use crate::machine::callers::queue::{Patience, Queue, Ticket};
use crate::machine::contract::Transmit;
use crate::machine::process::encoding::Encoding;
use crate::machine::process::reader::backoff::Backoff;
use crate::machine::process::reader::key_watch::KeyWatch;
use crate::machine::process::requests::Requests;
use crate::time::Instant;

pub use candidacy::Term;
pub use event::ElectionEvent;
pub use settings::ElectionSettings;

/// One process's part in one election: a sans-IO machine. Any order of polls is correct, and
/// spurious calls do nothing.
#[derive(Clone, Debug)]
pub struct Candidate {
    settings: ElectionSettings,
    rng: fastrand::Rng,
    requests: Requests<Sent>,
    watch: KeyWatch,
    queue: Queue<CampaignId>,
    candidacy: Option<Candidacy>,
    /// Whose the candidacy is, once it was elected.
    leader: Option<CampaignId>,
    /// Those who were elected and have not given it back.
    holds: BTreeMap<CampaignId, Hold>,
    /// The values to show, first things first.
    changes: VecDeque<Change>,
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
            requests: Requests::new(),
            queue: Queue::default(),
            candidacy: None,
            leader: None,
            holds: BTreeMap::new(),
            changes: VecDeque::new(),
            events: VecDeque::new(),
            respawn_at: None,
            failure: None,
            closed: false,
            timed_at: Instant::ORIGIN,
            settings,
        }
    }

    /// Draws its jitter from this seed from now on, as
    /// [`Participant::reseed`](crate::Participant::reseed) does.
    pub fn reseed(&mut self, seed: u64) {
        self.rng.seed(seed);
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
        let id = ChangeId(self.requests.number());
        // Whoever is about to leave is the leader still, until nothing is left.
        if self.leads(campaign) {
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
        self.requests.poll_abort()
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
        let id = self.requests.sent(sent);
        Some(Transmit { id, request })
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
        let campaign = CampaignId(self.requests.number());
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
}
