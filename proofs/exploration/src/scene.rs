//! A scene: who contends for how many slots, and what can go wrong.

use core::fmt::Write as _;
use core::time::Duration;

/// One scene.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The scene's name.
    pub name: String,
    /// The kind of contest.
    pub contest: Contest,
    /// How many slots the semaphore has.
    pub limit: u32,
    /// How many callers each participant has. Each wants one slot.
    pub callers: Vec<usize>,
    /// Whose sessions the contenders use.
    pub sessions: Sessions,
    /// How often each caller acquires and releases.
    pub rounds: u8,
    /// Whether callers come at any time, or all at the start.
    pub arrivals: Arrivals,
    /// In which orders messages arrive.
    pub messages: Messages,
    /// Whether callers may give up while they wait.
    pub cancels: bool,
    /// How many changes of a value leaders may ask for in one run.
    pub changes: u8,
    /// Whether each participant asks for one slot more than the one before it. The limit changes
    /// when nobody holds.
    pub is_rolling: bool,
    /// The content of Consul at the start.
    pub furniture: Furniture,
    /// The possible faults.
    pub faults: Vec<Fault>,
    /// The most faults in one run.
    pub budget: u8,
    /// Time only stops at multiples of this. A timer between two multiples fires at the later one.
    pub tick: Duration,
}

/// In a client, what was given up arrives within this time or not at all. The core relies on this
/// where no index can settle the matter, and gives the measurements.
pub const LATEST: Duration = Duration::from_secs(25);

/// The kind of contest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contest {
    /// The slots of a semaphore.
    Semaphore,
    /// The leadership of an election.
    Election,
}

/// Whose sessions contenders use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sessions {
    /// Each has its own.
    Own,
    /// Each is a member of a client, on a session that a neighbour uses, too: from the start, and for
    /// longer than the contender's callers.
    Shared,
    /// The same, but the neighbour comes and goes at any time.
    SharedForATime,
}

/// When callers come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// All at the start.
    Together,
    /// Each at any time.
    AtAnyTime,
}

/// In which orders messages arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Messages {
    /// Requests and answers, in every order.
    Each,
    /// Requests in every order, and their answers at once. Exceptions are requests with a fault,
    /// and blocking queries that have to wait. This has far fewer states.
    RoundTrips,
}

/// The content of Consul at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Furniture {
    /// Nothing.
    Nothing,
    /// A contender key at the head of the queue. Its session lives for ever and never claims. In an
    /// election, somebody who leads as Go's `api.Lock` does, and resigns at some time.
    Stranger,
    /// A record, or an election's key, that can't be understood.
    Garbage,
}

/// A possible fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A request's connection breaks. Its sender learns that the outcome is unknown. The request is
    /// lost, or arrives at any later time.
    Cut,
    /// A request is applied, and its answer is replaced by a failure.
    LoseAnswer,
    /// A request or an answer takes any time. The sender's timeout may end first.
    Delay,
    /// A request arrives a second time, at any later time.
    Repeat,
    /// A participant ends suddenly. What it sent may still arrive.
    Crash,
    /// A participant does nothing for any time.
    Pause,
    /// An operator destroys a session.
    Destroy,
    /// A participant is frozen for any time, and so is its server. Consul removes that server from
    /// the catalog, and all sessions of the participant end.
    LoseServer,
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 8] = [
        Self::Cut,
        Self::LoseAnswer,
        Self::Delay,
        Self::Repeat,
        Self::Crash,
        Self::Pause,
        Self::Destroy,
        Self::LoseServer,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::LoseAnswer => "lost-answer",
            Self::Delay => "delay",
            Self::Repeat => "repeat",
            Self::Crash => "crash",
            Self::Pause => "pause",
            Self::Destroy => "destroy",
            Self::LoseServer => "lost-server",
        }
    }
}

impl Scene {
    /// Participants with this many callers each, who come at any time and acquire once. Nothing
    /// goes wrong.
    pub fn new(limit: u32, callers: &[usize]) -> Self {
        let callers = callers.to_vec();
        let words: Vec<_> = callers.iter().map(ToString::to_string).collect();
        Self {
            name: format!("limit {limit}, callers {}", words.join("+")),
            contest: Contest::Semaphore,
            limit,
            callers,
            sessions: Sessions::Own,
            rounds: 1,
            arrivals: Arrivals::AtAnyTime,
            messages: Messages::Each,
            cancels: false,
            changes: 0,
            is_rolling: false,
            furniture: Furniture::Nothing,
            faults: Vec::new(),
            budget: 0,
            tick: Duration::from_millis(500),
        }
    }

    /// Candidates in an election with this many callers each, who come at any time and lead once.
    /// Nothing goes wrong.
    pub fn election(callers: &[usize]) -> Self {
        let scene = Self::new(1, callers);
        Self {
            name: scene
                .name
                .replace("limit 1, callers", "election, candidates"),
            contest: Contest::Election,
            ..scene
        }
    }

    /// The same scene with up to `budget` of these faults.
    #[must_use]
    pub fn with_faults(mut self, budget: u8, faults: &[Fault]) -> Self {
        self.budget = budget;
        self.faults = faults.to_vec();
        self
    }

    /// The same scene, in which each contender is a member of a client. Its session lives on between
    /// its turns: a neighbour holds something else with it from the start, and gives that back at any
    /// time after the contender's callers are done. What was given up arrives within
    /// [`LATEST`] or not at all.
    #[must_use]
    pub fn in_clients(mut self) -> Self {
        self.sessions = Sessions::Shared;
        self.name.push_str(", in clients");
        self
    }

    /// As [`Self::in_clients`], but the neighbour is part of the scene: it comes at any time, holds
    /// something else with the same session, and goes at any time.
    #[must_use]
    pub fn beside_neighbours(mut self) -> Self {
        self.sessions = Sessions::SharedForATime;
        self.name.push_str(", beside neighbours");
        self
    }

    /// The same scene, in which callers may give up.
    #[must_use]
    pub fn with_cancels(mut self) -> Self {
        self.cancels = true;
        self.name.push_str(", cancels");
        self
    }

    /// The same scene, in which leaders may ask for this many changes of their value.
    #[must_use]
    pub fn with_changes(mut self, changes: u8) -> Self {
        self.changes = changes;
        let plural = if changes == 1 { "" } else { "s" };
        let _ = write!(self.name, ", {changes} change{plural}");
        self
    }

    /// The same scene as a rolling deploy: each participant asks for one slot more than the one
    /// before it. Each writes its limit when nobody holds, and follows the record's limit
    /// otherwise.
    #[must_use]
    pub fn rolling(mut self) -> Self {
        self.is_rolling = true;
        self.name.push_str(", rolling");
        self
    }

    /// The limit that the participant at this position asks for.
    pub(crate) fn limit_of(&self, at: usize) -> u32 {
        let more = if self.is_rolling { at } else { 0 };
        self.limit + u32::try_from(more).unwrap_or(u32::MAX)
    }

    /// The same scene with this many acquisitions per caller.
    #[must_use]
    pub fn with_rounds(mut self, rounds: u8) -> Self {
        self.rounds = rounds;
        let _ = write!(self.name, ", {rounds} rounds");
        self
    }

    /// The same scene, in which all callers come at the start.
    #[must_use]
    pub fn together(mut self) -> Self {
        self.arrivals = Arrivals::Together;
        self.name.push_str(", together");
        self
    }

    /// The same scene, in which answers come at once.
    #[must_use]
    pub fn in_round_trips(mut self) -> Self {
        self.messages = Messages::RoundTrips;
        self.name.push_str(", round trips");
        self
    }

    /// The same scene with this content in Consul.
    #[must_use]
    pub fn with(mut self, furniture: Furniture) -> Self {
        self.furniture = furniture;
        self.name.push_str(match furniture {
            Furniture::Nothing => "",
            Furniture::Stranger => ", stranger",
            Furniture::Garbage => ", garbage",
        });
        self
    }

    /// The possible faults in words.
    pub fn faults_in_words(&self) -> String {
        if self.budget == 0 {
            return "none".into();
        }
        let names: Vec<_> = self.faults.iter().map(|fault| fault.name()).collect();
        format!("{} of {}", self.budget, names.join(" "))
    }

    pub(crate) fn is_in_clients(&self) -> bool {
        self.sessions != Sessions::Own
    }

    pub(crate) fn has_free_neighbours(&self) -> bool {
        self.sessions == Sessions::SharedForATime
    }

    pub(crate) fn may(&self, fault: Fault) -> bool {
        self.budget > 0 && self.faults.contains(&fault)
    }

    /// Whether a hold may be lost although no session was destroyed. That is possible if renewals
    /// may be delayed for longer than a lease.
    pub(crate) fn may_lose_leases(&self) -> bool {
        [Fault::Pause, Fault::LoseServer, Fault::Delay]
            .iter()
            .any(|it| self.may(*it))
    }
}
