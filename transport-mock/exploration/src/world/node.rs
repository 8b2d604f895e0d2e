//! A participant and its callers.

use std::fmt::Write as _;

use semaphore_core::{AcquireId, Error, Event, Instant, Participant, Prefix, RequestId, Settings};

use super::agent::PREFIX;
use super::participant::{Shown, number};
use crate::canon::{Token, tokens};
use crate::scene::Scene;

#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) name: char,
    /// None when it has crashed.
    pub(crate) participant: Option<Participant>,
    pub(crate) callers: Vec<Caller>,
    pub(crate) is_paused: bool,
    shown: Shown,
}

/// Somebody who wants a slot.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) step: Step,
    pub(crate) acquire: Option<AcquireId>,
    pub(crate) rounds_left: u8,
    /// The sessions of its hold.
    pub(crate) sessions: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Away,
    Waits,
    Holds,
    /// It was told that its hold is lost.
    Lost,
    /// It has given its hold back.
    Releases,
    Done,
}

impl Node {
    pub(crate) fn new(at: usize, scene: &Scene) -> Result<Self, Error> {
        let settings = Settings::new(Prefix::new(PREFIX)?, scene.limit)?;
        let settings = settings.with_encoding(scene.encoding);
        let settings = if scene.is_crowd {
            settings.with_crowd(0)
        } else {
            settings
        };
        let caller = Caller {
            step: Step::Away,
            acquire: None,
            rounds_left: scene.rounds,
            sessions: Vec::new(),
        };
        let mut node = Self {
            name: char::from(b'A' + u8::try_from(at).unwrap_or(25)),
            participant: Some(Participant::new(settings, SEED)),
            callers: vec![caller; scene.callers[at]],
            is_paused: false,
            shown: Shown::default(),
        };
        node.show();
        Ok(node)
    }

    /// What the participant does next is drawn from one seed, whatever it has done before.
    pub(crate) fn call<T>(&mut self, call: impl FnOnce(&mut Participant) -> T) -> Option<T> {
        let participant = self.participant.as_mut()?;
        participant.reseed(SEED);
        Some(call(participant))
    }

    pub(crate) fn is_running(&self) -> bool {
        self.participant.is_some() && !self.is_paused
    }

    pub(crate) fn believes(&self, now: Instant, caller: usize) -> bool {
        let acquire = self.callers[caller].acquire;
        let held = |participant: &Participant| {
            acquire.is_some_and(|acquire| participant.is_held(now, acquire))
        };
        self.participant.as_ref().is_some_and(held)
    }

    /// Whether all its callers are served and gone, as far as it knows.
    pub(crate) fn is_done(&self) -> bool {
        self.callers.iter().all(|caller| caller.step == Step::Done)
            && self.participant.as_ref().is_none_or(Participant::is_idle)
    }

    pub(crate) fn caller_of(&self, event: &Event) -> Option<usize> {
        let (Event::Granted { acquire, .. }
        | Event::NotAvailable { acquire }
        | Event::Failed { acquire, .. }
        | Event::Lost { acquire, .. }
        | Event::Released { acquire, .. }) = event
        else {
            return None;
        };
        self.callers
            .iter()
            .position(|caller| caller.acquire == Some(*acquire))
    }

    pub(crate) fn name_of(&self, caller: usize) -> String {
        format!("{}{}", self.name, caller + 1)
    }

    pub(crate) fn tokens(&self) -> &[Token] {
        &self.shown.tokens
    }

    /// Which part of the participant waits for an answer.
    pub(crate) fn request(&self, id: RequestId) -> &[Token] {
        let id = number(id);
        let mut waiting = self.shown.waiting.iter();
        let found = waiting.find(|(known, _)| Some(*known) == id);
        found.map_or(&[], |(_, tokens)| tokens)
    }

    /// To be called when a step is over that changed it.
    pub(crate) fn show(&mut self) {
        let mut callers = String::new();
        for caller in &self.callers {
            // What a caller has had is of no more interest.
            let acquire = caller.acquire.filter(|_| caller.step != Step::Done);
            let _ = write!(
                callers,
                "{:?} {acquire:?} {} {:?};",
                caller.step, caller.rounds_left, caller.sessions
            );
        }
        let _ = write!(callers, "{}", self.is_paused);
        let text = match &self.participant {
            Some(participant) if !self.is_done() => format!("{participant:?}"),
            // Nothing comes of it any more.
            Some(_) => "done".to_owned(),
            None => String::new(),
        };
        self.shown = Shown::new(&text);
        self.shown.tokens.extend(tokens(&callers));
    }
}

impl Caller {
    /// It has come to the end of an acquisition.
    pub(crate) fn end(&mut self) {
        self.rounds_left -= 1;
        self.step = if self.rounds_left == 0 {
            Step::Done
        } else {
            Step::Away
        };
        self.acquire = None;
        self.sessions.clear();
    }
}

const SEED: u64 = 1;
